"""What an archive holds, without its payloads: from the index at its end, or block by block if it is cut off."""

import os
from dataclasses import dataclass
from typing import Any, BinaryIO

from prequential.errors import CorruptArchiveError
from prequential.files import open_regular
from prequential.printable import printable
from prequential_codecs.archive import (
    END_MAGIC,
    END_MARK,
    LENGTH_BYTES,
    TRAILER_BYTES,
    ArchiveReader,
    BlockHead,
    read_head,
    read_kind,
)
from prequential_codecs.archive_header import Header, read_header
from prequential_codecs.byte_source import CHECKSUM_BYTES, ByteSource

MIN_RECORD_BYTES = 16  # kind, three lengths, digest, checksum
ROW = "{:>14}  {:>14}  {:>9}  {:>6}  {}  {}"
TITLES = ROW.format("archive bytes", "original bytes", "bits/byte", "blocks", "original", "archive")


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


def summarise(path: str | os.PathLike[str]) -> ArchiveSummary:
    """Header and block heads of the archive at `path`, verified by checksums, the index and the file's length. Reads no payload.

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


def summarise_beginning(path: str | os.PathLike[str]) -> ArchiveSummary:
    """The same of an archive that is cut off: of the blocks that it holds, which are verified. Raises as `summarise` does."""
    heads = []
    with open_regular(path) as file:
        reader = ArchiveReader(file)
        try:
            for block in reader.blocks():
                heads.append(block.head)
        except CorruptArchiveError as error:
            if not str(error).endswith("ends early"):
                raise
        archive_bytes = file.seek(0, os.SEEK_END)
    return ArchiveSummary(
        header=reader.header, blocks=tuple(heads), header_bytes=reader.header_bytes, archive_bytes=archive_bytes
    )


def archive_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Sizes, header and blocks of the archive at `path` as JSON values; of an incomplete archive, the blocks that it holds.

    Raises CorruptArchiveError, UnsupportedVersionError, OSError.
    """
    try:
        summary = summarise(path)
    except CorruptArchiveError:
        summary = summarise_beginning(path)
    return {
        "archive": os.fspath(path),
        "n_bytes_held": sum(head.n_bytes for head in summary.blocks),
        "archive_bytes": summary.archive_bytes,
        "header_bytes": summary.header_bytes,
        "payload_bytes": summary.payload_bytes,
        "n_bytes": summary.header.n_bytes,
        "blake2b": summary.header.blake2b.hex(),
        "corpus": summary.header.corpus,
        "config": summary.header.config,
        "blocks": [
            {
                "kind": head.kind.name.lower(),
                "n_bytes": head.n_bytes,
                "payload_bytes": head.payload_bytes,
                "state_digest": head.state_digest.hex(),
            }
            for head in summary.blocks
        ],
    }


def format_archive(record: dict[str, Any]) -> str:
    """The table row of an `archive_record`, below TITLES."""
    n_held = record["n_bytes_held"]
    rate = f"{8 * record['archive_bytes'] / n_held:.4f}" if n_held else "-"
    name = printable(record["archive"])
    if n_held < record["n_bytes"]:
        name += f" (incomplete: the first {n_held} bytes)"
    corpus = record["corpus"]
    original = " ".join(printable(str(corpus[key])) for key in ("kind", "name") if key in corpus) or "bytes"
    return ROW.format(record["archive_bytes"], record["n_bytes"], rate, len(record["blocks"]), original, name)
