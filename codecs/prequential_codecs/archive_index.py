"""End of an archive: end mark, index of the blocks, checksum, end magic.

All of it follows from the blocks, so a reader that has read them builds it again and compares the bytes. A program that has
not read the blocks finds the length of the index in the last twelve bytes, and from there every block.
"""

import zlib

from prequential_codecs.archive_block import END_MARK
from prequential_codecs.byte_source import CHECKSUM_BYTES, varint

END_MAGIC = b"\x1aPQ\n"
LENGTH_BYTES = 4
TRAILER_BYTES = LENGTH_BYTES + CHECKSUM_BYTES + len(END_MAGIC)


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
        body += len(body).to_bytes(LENGTH_BYTES, "little")
        return body + zlib.crc32(body, checksum).to_bytes(CHECKSUM_BYTES, "little") + END_MAGIC
