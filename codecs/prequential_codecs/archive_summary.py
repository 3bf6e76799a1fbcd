"""The contents of an archive: from the index at its end without reading a payload, or block by block if it is damaged.

`recover_blocks` saves what can be saved after the first damaged block (`decompress --keep-going`).
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from prequential.errors import CorruptArchiveError, OutputError
from prequential.files import open_regular, output_file
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_block import (
    END_MAGIC,
    END_MARK,
    LENGTH_BYTES,
    TRAILER_BYTES,
    BlockHead,
    BlockKind,
    read_head,
    read_kind,
)
from prequential_codecs.archive_header import Header, read_header
from prequential_codecs.byte_source import CHECKSUM_BYTES, ByteSource

MIN_RECORD_BYTES = 16  # kind, three lengths, digest, checksum


@dataclass(frozen=True, kw_only=True)
class ArchiveSummary:
    """Header, block heads and sizes of an archive. The payloads are not verified."""

    header: Header
    blocks: tuple[BlockHead, ...]
    header_bytes: int
    archive_bytes: int

    @property
    def payload_bytes(self) -> int:
        """Sum of all payloads, in bytes."""
        return sum(block.payload_bytes for block in self.blocks)

    @property
    def n_symbols(self) -> int:
        """Symbols coded in all blocks."""
        return sum(block.n_symbols for block in self.blocks)


@dataclass(frozen=True, kw_only=True)
class SurveyedBlock:
    """Bytes start to stop of the original, and the head of their block. head: None if the block is damaged."""

    number: int
    start: int
    stop: int
    offset: int  # of the record in the archive
    head: BlockHead | None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The blocks that can be found, in order, in an archive that may be incomplete or damaged.

    fault: the error at which a reader from front to back stops; None for a complete archive.
    ends_early: whether the fault is that the archive is cut off.
    n_bytes_held: length of the original in the intact blocks before the fault, in bytes.
    """

    header: Header
    blocks: tuple[SurveyedBlock, ...]
    archive_bytes: int
    fault: str | None
    ends_early: bool
    n_bytes_held: int
    header_bytes: int

    @property
    def summary(self) -> ArchiveSummary:
        """The summary of the intact blocks before the fault."""
        heads = tuple(block.head for block in self.blocks if block.head and block.stop <= self.n_bytes_held)
        return ArchiveSummary(
            header=self.header, blocks=heads, header_bytes=self.header_bytes, archive_bytes=self.archive_bytes
        )


def survey(path: str | os.PathLike[str]) -> Survey:
    """Every block of the archive at `path`, verified by its checksum. After damage too, if the index at the end is intact.

    Raises UnsupportedVersionError or CorruptArchiveError for a damaged header, OSError.
    """
    with open_regular(path) as file:
        reader = ArchiveReader(file)
        blocks, offset, fault = _blocks_before_fault(reader)
        archive_bytes, n_bytes_held = file.seek(0, os.SEEK_END), reader.n_bytes_covered
        if fault:
            with suppress(CorruptArchiveError):
                records = _read_index(file, reader.header_bytes, archive_bytes)
                blocks += _blocks_after_fault(file, records, len(blocks), offset, n_bytes_held)
    return Survey(
        header=reader.header,
        blocks=tuple(blocks),
        archive_bytes=archive_bytes,
        fault=fault,
        ends_early=fault is not None and fault.endswith("ends early"),
        n_bytes_held=n_bytes_held,
        header_bytes=reader.header_bytes,
    )


def _blocks_before_fault(reader: ArchiveReader) -> tuple[list[SurveyedBlock], int, str | None]:
    """The intact blocks, where the last of them ends in the archive, and the error after them; None at the archive's end."""
    blocks, offset = list[SurveyedBlock](), reader.header_bytes
    try:
        for number, block in enumerate(reader.blocks()):
            stop = reader.n_bytes_covered
            where = {"number": number, "start": stop - block.n_bytes, "stop": stop, "offset": offset}
            blocks.append(SurveyedBlock(**where, head=block.head))
            offset = reader.n_bytes_read
    except CorruptArchiveError as error:
        return blocks, offset, str(error)
    return blocks, offset, None


def _blocks_after_fault(
    file: BinaryIO, records: list[tuple[int, int]], first: int, offset: int, start: int
) -> Iterator[SurveyedBlock]:
    """The blocks from number `first` on, each verified alone: its checksum continues from the one stored before it."""
    for number in range(first, len(records)):
        record_bytes, n_bytes = records[number]
        head = None
        with suppress(CorruptArchiveError):
            file.seek(offset - CHECKSUM_BYTES)
            source = ByteSource(file, checksum=int.from_bytes(file.read(CHECKSUM_BYTES), "little"))
            kind = read_kind(source)
            if kind is not None:
                found = read_head(source, kind)
                size = source.n_bytes_taken + found.payload_bytes + CHECKSUM_BYTES
                if (size, found.n_bytes) == (record_bytes, n_bytes):
                    source.take(found.payload_bytes)
                    source.check_checksum()
                    head = found
        yield SurveyedBlock(number=number, start=start, stop=start + n_bytes, offset=offset, head=head)
        offset, start = offset + record_bytes, start + n_bytes


def read_payload(path: str | os.PathLike[str], block: SurveyedBlock) -> bytes:
    """The payload of an intact block."""
    with open_regular(path) as file:
        file.seek(block.offset)
        source = ByteSource(file)
        kind = read_kind(source)
        assert kind is not None
        return source.take(read_head(source, kind).payload_bytes)


def summarise(path: str | os.PathLike[str]) -> ArchiveSummary:
    """Header and block heads of the archive at `path`. Reads the header, the index and each block's head, but no payload.

    Header and index are verified by their checksums, block heads by the index and the file's length.
    Raises UnsupportedVersionError, CorruptArchiveError, OSError.
    """
    with open_regular(path) as file:
        archive_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        source = ByteSource(file)
        header = read_header(source)
        header_bytes = source.n_bytes_taken
        records = _read_index(file, header_bytes, archive_bytes)
        heads = []
        offset = header_bytes
        for number, (record_bytes, n_bytes) in enumerate(records):
            heads.append(_read_head_at(file, offset, number, record_bytes, n_bytes))
            offset += record_bytes
    if sum(head.n_bytes for head in heads) != header.n_bytes:
        raise CorruptArchiveError(f"the blocks do not cover the {header.n_bytes} bytes of the original")
    return ArchiveSummary(header=header, blocks=tuple(heads), header_bytes=header_bytes, archive_bytes=archive_bytes)


def _read_index(file: BinaryIO, header_bytes: int, archive_bytes: int) -> list[tuple[int, int]]:
    """(length in the archive, length in the original) of every block, in bytes. Their sum is checked against the file."""
    index_start, index_bytes = _find_index(file, header_bytes, archive_bytes)
    file.seek(index_start - CHECKSUM_BYTES)
    # The chain continues from the checksum of the last block, or of the header. Either is directly before the end mark.
    source = ByteSource(file, checksum=int.from_bytes(file.read(CHECKSUM_BYTES), "little"))
    if source.take(1)[0] != END_MARK:
        raise CorruptArchiveError("index: does not begin with the end mark")
    n_blocks = source.take_varint()
    if 2 * n_blocks > index_bytes:  # a block takes at least two bytes of the index: bounds the list before it is made
        raise CorruptArchiveError(f"index: {index_bytes} bytes cannot hold {n_blocks} blocks")
    if n_blocks * MIN_RECORD_BYTES > index_start - header_bytes:
        raise CorruptArchiveError(f"index: {n_blocks} blocks do not fit into the archive")
    records = [(source.take_varint(), source.take_varint()) for _ in range(n_blocks)]
    if any(length < MIN_RECORD_BYTES for length, _ in records):
        raise CorruptArchiveError("index: a block without a head")
    if source.n_bytes_taken != index_bytes or header_bytes + sum(length for length, _ in records) != index_start:
        raise CorruptArchiveError("index: does not fit the length of the archive")
    source.take(LENGTH_BYTES)
    source.check_checksum()
    return records


def _find_index(file: BinaryIO, header_bytes: int, archive_bytes: int) -> tuple[int, int]:
    """Where the index starts in the archive, and its length in bytes, from the last twelve bytes."""
    file.seek(max(archive_bytes - TRAILER_BYTES, header_bytes))
    trailer = file.read(TRAILER_BYTES)
    if len(trailer) < TRAILER_BYTES or not trailer.endswith(END_MAGIC):
        raise CorruptArchiveError("end of the archive: missing, or followed by other bytes")
    index_bytes = int.from_bytes(trailer[:LENGTH_BYTES], "little")
    index_start = archive_bytes - TRAILER_BYTES - index_bytes
    if index_start < header_bytes:
        raise CorruptArchiveError(f"index: {index_bytes} bytes do not fit into the archive")
    return index_start, index_bytes


def _read_head_at(file: BinaryIO, offset: int, number: int, record_bytes: int, n_bytes: int) -> BlockHead:
    file.seek(offset)
    source = ByteSource(file)
    try:
        kind = read_kind(source)
        if kind is None:
            raise CorruptArchiveError("the end mark is in its place")
        head = read_head(source, kind)
        if (source.n_bytes_taken + head.payload_bytes + CHECKSUM_BYTES, head.n_bytes) != (record_bytes, n_bytes):
            raise CorruptArchiveError("its sizes do not match the index")
    except CorruptArchiveError as error:
        raise CorruptArchiveError(f"block {number}: {error}") from error
    return head


def recover_blocks(path: str | os.PathLike[str], output: str, *, overwrite: bool = False) -> Iterator[str]:
    """Yields one line of text for each group of equal blocks after the first fault of the archive at `path`.

    Blocks that are stored raw and intact are saved as OUTPUT.from-START, where START is their offset in the original. A file of
    this name is replaced only if `overwrite`.
    Raises CorruptArchiveError, UnsupportedVersionError, OSError.
    """
    found = survey(path)
    if not found.fault:
        yield "all checksums are right: the damage is not in the file"
    for kind, group in itertools.groupby(found.blocks, key=lambda block: block.head and block.head.kind):
        blocks = list(group)
        if blocks[-1].stop <= found.n_bytes_held:
            continue
        if kind is None:
            yield f"{_place(blocks)} damaged"
        elif kind is BlockKind.CODED:
            yield f"{_place(blocks)} intact, but coded after the damaged data: lost unless the damage is repaired"
        else:
            yield from _save_raw_blocks(path, blocks, output, overwrite=overwrite)
    covered = found.blocks[-1].stop if found.blocks else 0
    if covered < found.header.n_bytes:
        yield f"original bytes {covered}-{found.header.n_bytes}: the archive ends before them, or its index is damaged too"


def _save_raw_blocks(
    path: str | os.PathLike[str], blocks: Sequence[SurveyedBlock], output: str, *, overwrite: bool
) -> Iterator[str]:
    def failure(block: SurveyedBlock) -> str:
        try:
            with output_file(f"{output}.from-{block.start}", overwrite=overwrite, like=path) as sink:
                sink.write(read_payload(path, block))
        except OutputError as error:
            return str(error)
        return ""

    for reason, group in itertools.groupby(blocks, key=failure):
        alike = list(group)
        first, last = alike[0], alike[-1]
        up_to = f" to {output}.from-{last.start}" if last is not first else ""
        result = f"not saved, because {reason}" if reason else f"saved as {output}.from-{first.start}{up_to}"
        yield f"{_place(alike)} stored raw and intact: {result}"


def _place(blocks: Sequence[SurveyedBlock]) -> str:
    first, last = blocks[0], blocks[-1]
    numbers = f"block {first.number}" if first is last else f"blocks {first.number}-{last.number}"
    return f"{numbers} (original bytes {first.start}-{last.stop})"
