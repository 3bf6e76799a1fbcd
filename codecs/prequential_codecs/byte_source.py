"""Safe reading of a binary stream: exact sizes, variable-length integers, chained checksums.

It never seeks, so pipes work. It never allocates more than CHUNK_BYTES beyond the bytes that the stream has delivered, whatever
size a hostile archive declares.
"""

import zlib
from typing import BinaryIO

from prequential.errors import CorruptArchiveError

CHUNK_BYTES = 1 << 20
CHECKSUM_BYTES = 4
_MAX_VARINT_BYTES = 9  # 63 bits: every value fits a signed 64-bit integer


class ByteSource:
    """Reads from `source`. `checksum` is the CRC-32 of all bytes taken so far, except stored checksums.

    Stored checksums are not part of the chain. The CRC-32 of data followed by their own CRC-32 is always the same value, so it
    would break the chain after every record. Every method that reads raises CorruptArchiveError if the stream ends early.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.checksum, self.n_bytes_taken = source, 0, 0

    def take(self, n_bytes: int) -> bytes:
        """The next `n_bytes` bytes, exactly."""
        data = bytearray()
        while len(data) < n_bytes:
            chunk = self._source.read(min(n_bytes - len(data), CHUNK_BYTES))
            if not chunk:
                raise CorruptArchiveError("the archive ends early")
            data += chunk
        self.checksum = zlib.crc32(data, self.checksum)
        self.n_bytes_taken += n_bytes
        return bytes(data)

    def take_varint(self) -> int:
        """The next variable-length integer, 0..2**63-1. It must be in its shortest form, as `varint` writes it."""
        value = 0
        for position in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                if byte == 0 and position > 0:
                    raise CorruptArchiveError("an integer is not in its shortest form")
                return value
        raise CorruptArchiveError("an integer exceeds 63 bits")

    def check_checksum(self) -> None:
        """Reads the stored CRC-32 and compares it with that of the bytes taken so far."""
        expected = self.checksum
        stored = int.from_bytes(self.take(CHECKSUM_BYTES), "little")
        self.checksum = expected
        if stored != expected:
            raise CorruptArchiveError("checksum mismatch")

    def check_end(self) -> None:
        """Raises CorruptArchiveError if the stream contains more bytes."""
        if self._source.read(1):
            raise CorruptArchiveError("bytes follow the end of the archive")


def varint(value: int) -> bytes:
    """LEB128 form of 0 <= value < 2**63: 7 bits per byte, lowest first, the top bit set in all bytes except the last."""
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{value} does not fit a 63-bit variable-length integer")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
