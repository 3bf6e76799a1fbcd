"""The .pq archive, version 1: a container that knows nothing about models. docs/FORMAT.md specifies its bytes.

It is written and read from front to back, also through pipes. It contains no pickle, so reading an archive runs no code. All of
its end follows from the blocks: a reader builds it again and compares the bytes.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, BinaryIO

from prequential.errors import CorruptArchiveError
from prequential.files import open_regular
from prequential_codecs.archive_header import Header, pack_header, read_header
from prequential_codecs.byte_source import CHECKSUM_BYTES, ByteSource, varint

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

STATE_DIGEST_BYTES = 8
MAX_BLOCK_BYTES = 1 << 26  # of the original, and so of the payload
MAX_BLOCK_SYMBOLS = 1 << 26
MAX_CODED_EXCESS_BYTES = 16  # a larger block is stored raw; the coder's flush needs some room
END_MARK = 0  # in place of the kind of a next block
END_MAGIC = b"\x1aPQ\n"


class BlockKind(IntEnum):
    """How a payload holds its piece of the original."""

    RAW = 1
    CODED = 2


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of the original as it is stored: n_bytes >= 1, split into n_symbols.

    state_digest: 8 bytes that identify the learner's state after the block; the container does not interpret them. payload: of
    payload_bytes bytes; empty in a summary.
    """

    kind: BlockKind
    n_bytes: int
    n_symbols: int
    payload_bytes: int
    state_digest: bytes
    payload: bytes = b""

    def __post_init__(self) -> None:
        """Refuses sizes that no writer declares, before anything of that size is read."""
        if not 1 <= self.n_bytes <= MAX_BLOCK_BYTES:
            raise CorruptArchiveError(f"{self.n_bytes} original bytes are outside 1..{MAX_BLOCK_BYTES}")
        if not 0 <= self.n_symbols <= MAX_BLOCK_SYMBOLS:
            raise CorruptArchiveError(f"{self.n_symbols} symbols are outside 0..{MAX_BLOCK_SYMBOLS}")
        if self.kind == BlockKind.RAW and self.payload_bytes != self.n_bytes:
            raise CorruptArchiveError(f"{self.payload_bytes} raw bytes cannot hold {self.n_bytes} original bytes")
        if not 0 <= self.payload_bytes <= self.n_bytes + MAX_CODED_EXCESS_BYTES:
            raise CorruptArchiveError(f"{self.payload_bytes} coded bytes are too many for {self.n_bytes} original ones")


class Index:
    """The lengths of all blocks, about six bytes for each."""

    def __init__(self) -> None:
        self.n_blocks = 0
        self._entries = bytearray()

    def add(self, record_bytes: int, n_bytes: int) -> None:
        """Appends a block: its length in the archive, including head and checksum, and its length in the original. In bytes."""
        self.n_blocks += 1
        self._entries += varint(record_bytes) + varint(n_bytes)

    def pack_end(self, checksum: int) -> bytes:
        """The archive's bytes after the last block. checksum: the chained checksum up to the end of that block."""
        body = bytes([END_MARK]) + varint(self.n_blocks) + bytes(self._entries)
        body += len(body).to_bytes(4, "little")
        return body + zlib.crc32(body, checksum).to_bytes(CHECKSUM_BYTES, "little") + END_MAGIC


class ArchiveWriter:
    """Writes the header at once, then each complete block; `close` completes the archive. Leaves the sink open."""

    def __init__(self, sink: "SupportsWrite[bytes]", header: Header, *, after: "ArchiveReader | None" = None) -> None:
        """after: a reader of the existing contents of `sink`, stopped after a block. The writer continues after that block."""
        self._sink = sink
        self._header = header
        self.n_bytes_written = 0
        if after is not None:
            self._index, self._checksum = after.index, after.source.checksum
            self.header_bytes, self.n_bytes_covered = after.header_bytes, after.n_bytes_covered
            self.n_bytes_written = after.source.n_bytes_taken
            return
        packed = pack_header(header)
        self._index, self._checksum = Index(), int.from_bytes(packed[-CHECKSUM_BYTES:], "little")
        self.header_bytes, self.n_bytes_covered = len(packed), 0
        self._write(packed)

    def write_block(self, block: Block) -> None:
        """Appends the next piece of the original. Raises CorruptArchiveError for a block that no reader would accept."""
        if self.n_bytes_covered + block.n_bytes > self._header.n_bytes:
            raise CorruptArchiveError(f"blocks cover more than the {self._header.n_bytes} bytes of the original")
        sizes = varint(block.n_bytes) + varint(block.n_symbols) + varint(block.payload_bytes)
        record = bytes([block.kind]) + sizes + block.state_digest + block.payload
        self._checksum = zlib.crc32(record, self._checksum)
        self._write(record + self._checksum.to_bytes(CHECKSUM_BYTES, "little"))
        self._index.add(len(record) + CHECKSUM_BYTES, block.n_bytes)
        self.n_bytes_covered += block.n_bytes

    def close(self) -> None:
        """Writes index and end. Raises CorruptArchiveError if the blocks do not cover the complete original."""
        if self.n_bytes_covered != self._header.n_bytes:
            raise CorruptArchiveError(f"blocks cover {self.n_bytes_covered} of {self._header.n_bytes} original bytes")
        self._write(self._index.pack_end(self._checksum))

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self.n_bytes_written += len(data)


class ArchiveReader:
    """Reads the header at once; `blocks` reads the rest. source: binary stream, not necessarily seekable.

    Memory: one block, about six bytes for every earlier block, and at most 1 MiB more than the stream has delivered.
    Counters of the blocks read so far, in bytes: `n_bytes_covered` of the original; `source.n_bytes_taken` of the archive.
    Raises UnsupportedVersionError, CorruptArchiveError.
    """

    def __init__(self, source: BinaryIO) -> None:
        self.source, self.index = ByteSource(source), Index()
        self.n_bytes_covered = 0
        try:
            self.header: Header = read_header(self.source)
        except CorruptArchiveError as error:
            raise CorruptArchiveError(f"header: {error}") from error
        self.header_bytes: int = self.source.n_bytes_taken

    def blocks(self) -> Iterator[Block]:
        """Every block in order, each verified first. Ends only after a complete archive. Can be iterated once.

        Raises CorruptArchiveError after the intact blocks. Its message names the damaged block and its range of the original.
        """
        yield from iter(self._next_block, None)

    def _next_block(self) -> Block | None:
        start = self.n_bytes_covered
        where, source = f"block {self.index.n_blocks} (original bytes from {start})", self.source
        record_start, checksum = source.n_bytes_taken, source.checksum
        try:
            if (kind := source.take(1)[0]) == END_MARK:
                where, covered = "end of the archive", self.n_bytes_covered
                if covered != self.header.n_bytes:
                    raise CorruptArchiveError(f"blocks cover {covered} of {self.header.n_bytes} original bytes")
                expected = self.index.pack_end(checksum)  # it follows from the blocks
                if source.take(len(expected) - 1) != expected[1:]:
                    raise CorruptArchiveError("the index or its checksum does not match the blocks")
                source.check_end()
                return None
            if kind not in list(BlockKind):
                raise CorruptArchiveError(f"block kind {kind} is unknown")
            sizes: dict[str, Any] = {name: source.take_varint() for name in ("n_bytes", "n_symbols", "payload_bytes")}
            block = Block(kind=BlockKind(kind), **sizes, state_digest=source.take(STATE_DIGEST_BYTES))
            where = f"block {self.index.n_blocks} (original bytes {start}-{start + block.n_bytes})"
            if start + block.n_bytes > self.header.n_bytes:
                raise CorruptArchiveError(f"exceeds the {self.header.n_bytes} bytes of the original")
            block = replace(block, payload=source.take(block.payload_bytes))
            source.check_checksum()
        except CorruptArchiveError as error:
            raise CorruptArchiveError(f"{where}: {error}") from error
        self.index.add(source.n_bytes_taken - record_start, block.n_bytes)
        self.n_bytes_covered += block.n_bytes
        return block


@dataclass(frozen=True, kw_only=True)
class ArchiveSummary:
    """Header, blocks without their payloads, and sizes of an archive."""

    header: Header
    blocks: tuple[Block, ...]
    header_bytes: int
    archive_bytes: int

    @property
    def payload_bytes(self) -> int:
        return sum(block.payload_bytes for block in self.blocks)


def summarise(path: str | os.PathLike[str], *, may_end_early: bool = False) -> ArchiveSummary:
    """What the archive at `path` holds, or of a beginning if may_end_early. Raises OSError and as ArchiveReader."""
    blocks = []
    with open_regular(path) as file:
        reader = ArchiveReader(file)
        try:
            for block in reader.blocks():
                blocks.append(replace(block, payload=b""))
        except CorruptArchiveError as error:
            if not (may_end_early and str(error).endswith("ends early")):
                raise
        return ArchiveSummary(
            header=reader.header,
            blocks=tuple(blocks),
            header_bytes=reader.header_bytes,
            archive_bytes=file.seek(0, os.SEEK_END),
        )
