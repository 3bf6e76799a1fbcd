"""End of an archive: end mark, index of the blocks, checksum, end magic.

All of it follows from the blocks, so a reader that has seen them rebuilds it and compares bytes. A program that has not
seen them finds its length in the last twelve bytes, and every block from there.
"""

import zlib

from prequential.codecs.archive_block import END_MARK
from prequential.codecs.byte_source import CHECKSUM_BYTES, varint

END_MAGIC = b"\x1aPQ\n"
LENGTH_BYTES = 4
TRAILER_BYTES = LENGTH_BYTES + CHECKSUM_BYTES + len(END_MAGIC)


class Index:
    """Grows with the blocks, about six bytes for each."""

    def __init__(self) -> None:
        self.n_blocks = 0
        self._entries = bytearray()

    def add(self, record_bytes: int, n_bytes: int) -> None:
        """Append a block: its length in the archive, head and checksum included, and in the original."""
        self.n_blocks += 1
        self._entries += varint(record_bytes) + varint(n_bytes)

    def pack_end(self, checksum: int) -> bytes:
        """The archive's bytes after its last block, given the chained checksum up to there."""
        body = bytes([END_MARK]) + varint(self.n_blocks) + bytes(self._entries)
        body += len(body).to_bytes(LENGTH_BYTES, "little")
        return body + zlib.crc32(body, checksum).to_bytes(CHECKSUM_BYTES, "little") + END_MAGIC
