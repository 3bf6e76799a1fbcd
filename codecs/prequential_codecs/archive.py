"""The .pq archive, version 1: a container that knows nothing about models. docs/FORMAT.md specifies its bytes.

It is written and read from front to back, also through pipes. Checksums are chained: each continues from the previous one. So
blocks cannot be swapped, repeated or moved between archives. The format contains no pickle, so reading an archive runs no code.
"""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from prequential.errors import CorruptArchiveError
from prequential_codecs.archive_block import Block, Index, pack_head, read_head, read_kind
from prequential_codecs.archive_header import Header, pack_header, read_header
from prequential_codecs.byte_source import CHECKSUM_BYTES, ByteSource

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class ArchiveWriter:
    """Writes the header at once, then each block when it is complete. `close` completes the archive.

    sink: buffered binary file, left open. Before `close`, `ArchiveReader` reads all blocks written so far and then refuses the
    missing end.
    Counters, in bytes: `header_bytes`; `payload_bytes` of all blocks; `n_bytes_written`, the archive so far;
    `n_bytes_covered`, the original so far.
    """

    def __init__(self, sink: "SupportsWrite[bytes]", header: Header, *, after: "ArchiveReader | None" = None) -> None:
        """after: a reader of the existing contents of `sink`, stopped after a block. The writer continues after that block."""
        self._sink = sink
        self._header = header
        self.n_bytes_written = 0
        if after is not None:
            self._index, self._checksum = after.index, after.checksum
            self.header_bytes, self.payload_bytes = after.header_bytes, after.payload_bytes
            self.n_bytes_covered, self.n_bytes_written = after.n_bytes_covered, after.n_bytes_read
            return
        packed = pack_header(header)
        self._index, self._checksum = Index(), int.from_bytes(packed[-CHECKSUM_BYTES:], "little")
        self.header_bytes, self.payload_bytes, self.n_bytes_covered = len(packed), 0, 0
        self._write(packed)

    def write_block(self, block: Block) -> None:
        """Appends the next piece of the original. Raises CorruptArchiveError for a block that no reader would accept."""
        head = block.head
        if self.n_bytes_covered + head.n_bytes > self._header.n_bytes:
            raise CorruptArchiveError(f"blocks cover more than the {self._header.n_bytes} bytes of the original")
        record = pack_head(head) + block.payload
        self._checksum = zlib.crc32(record, self._checksum)
        self._write(record + self._checksum.to_bytes(CHECKSUM_BYTES, "little"))
        self._index.add(len(record) + CHECKSUM_BYTES, head.n_bytes)
        self.payload_bytes += head.payload_bytes
        self.n_bytes_covered += head.n_bytes

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
    Counters of the blocks read so far, in bytes: `n_bytes_covered` of the original; `payload_bytes`; `n_bytes_read` of the
    archive.
    Raises UnsupportedVersionError, CorruptArchiveError.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = ByteSource(source)
        self.index = Index()
        self.n_bytes_covered = 0
        self.payload_bytes = 0
        try:
            self.header = read_header(self._source)
        except CorruptArchiveError as error:
            raise CorruptArchiveError(f"header: {error}") from error
        self.header_bytes = self._source.n_bytes_taken

    @property
    def n_bytes_read(self) -> int:
        """Bytes of the archive up to the end of the last block that was read."""
        return self._source.n_bytes_taken

    @property
    def checksum(self) -> int:
        """The chained checksum up to the end of the last block that was read."""
        return self._source.checksum

    def blocks(self) -> Iterator[Block]:
        """Every block in order, each verified first. Ends only after a complete archive. Can be iterated once.

        Raises CorruptArchiveError after the intact blocks. Its message names the damaged block and its range of the original.
        """
        while block := self._next_block():
            yield block

    def _next_block(self) -> Block | None:
        start = self.n_bytes_covered
        where = f"block {self.index.n_blocks} (original bytes from {start})"
        record_start, checksum = self._source.n_bytes_taken, self._source.checksum
        try:
            kind = read_kind(self._source)
            if kind is None:
                where = "end of the archive"
                self._check_end(checksum)
                return None
            head = read_head(self._source, kind)
            where = f"block {self.index.n_blocks} (original bytes {start}-{start + head.n_bytes})"
            if start + head.n_bytes > self.header.n_bytes:
                raise CorruptArchiveError(f"exceeds the {self.header.n_bytes} bytes of the original")
            payload = self._source.take(head.payload_bytes)
            self._source.check_checksum()
        except CorruptArchiveError as error:
            raise CorruptArchiveError(f"{where}: {error}") from error
        self.index.add(self._source.n_bytes_taken - record_start, head.n_bytes)
        self.n_bytes_covered += head.n_bytes
        self.payload_bytes += head.payload_bytes
        return Block(
            kind=kind, n_bytes=head.n_bytes, n_symbols=head.n_symbols, state_digest=head.state_digest, payload=payload
        )

    def _check_end(self, checksum: int) -> None:
        """Compares the bytes after the end mark with those that follow from the blocks and their `checksum`."""
        if self.n_bytes_covered != self.header.n_bytes:
            raise CorruptArchiveError(f"blocks cover {self.n_bytes_covered} of {self.header.n_bytes} original bytes")
        expected = self.index.pack_end(checksum)
        if self._source.take(len(expected) - 1) != expected[1:]:
            raise CorruptArchiveError("the index or its checksum does not match the blocks")
        self._source.check_end()
