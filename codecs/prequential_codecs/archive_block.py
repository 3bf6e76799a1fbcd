"""Blocks of an archive: consecutive pieces of the original, each coded or stored raw; the sizes that a head may declare; its end.

The end is a mark, an index of the blocks, a checksum and an end magic. All of it follows from the blocks, so a reader that has
read them builds it again and compares the bytes. A program that has not read the blocks finds the length of the index in the
last twelve bytes, and from there every block.
"""

import zlib
from dataclasses import dataclass
from enum import IntEnum

from prequential.errors import CorruptArchiveError
from prequential_codecs.byte_source import CHECKSUM_BYTES, ByteSource, varint

STATE_DIGEST_BYTES = 8
MAX_BLOCK_BYTES = 1 << 26  # of the original, and so of the payload
MAX_BLOCK_SYMBOLS = 1 << 26
MAX_CODED_EXCESS_BYTES = 16  # a larger block is stored raw; the coder's flush needs some room
END_MARK = 0  # in place of the kind of a next block
END_MAGIC = b"\x1aPQ\n"
LENGTH_BYTES = 4
TRAILER_BYTES = LENGTH_BYTES + CHECKSUM_BYTES + len(END_MAGIC)


class BlockKind(IntEnum):
    """How a payload holds its piece of the original."""

    RAW = 1
    CODED = 2


@dataclass(frozen=True, kw_only=True)
class BlockHead:
    """A block without its payload.

    n_bytes: length of the piece of the original, >= 1. n_symbols: symbols it was split into.
    payload_bytes: length of the payload.
    state_digest: 8 bytes that identify the learner's state after the block; the container does not interpret them.
    """

    kind: BlockKind
    n_bytes: int
    n_symbols: int
    payload_bytes: int
    state_digest: bytes

    def __post_init__(self) -> None:
        """Refuses sizes that no writer declares, before anything of that size is read."""
        if not 1 <= self.n_bytes <= MAX_BLOCK_BYTES:
            raise CorruptArchiveError(f"{self.n_bytes} original bytes are outside 1..{MAX_BLOCK_BYTES}")
        if not 0 <= self.n_symbols <= MAX_BLOCK_SYMBOLS:
            raise CorruptArchiveError(f"{self.n_symbols} symbols are outside 0..{MAX_BLOCK_SYMBOLS}")
        if self.kind == BlockKind.RAW and self.payload_bytes != self.n_bytes:
            raise CorruptArchiveError(f"{self.payload_bytes} raw bytes cannot hold {self.n_bytes} original bytes")
        if not 0 <= self.payload_bytes <= self.n_bytes + MAX_CODED_EXCESS_BYTES:
            raise CorruptArchiveError(
                f"{self.payload_bytes} coded bytes are too many for {self.n_bytes} original bytes"
            )
        if len(self.state_digest) != STATE_DIGEST_BYTES:
            raise CorruptArchiveError(f"a state digest of {len(self.state_digest)} bytes, not {STATE_DIGEST_BYTES}")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of the original as it is stored; fields as in `BlockHead`."""

    kind: BlockKind
    n_bytes: int
    n_symbols: int
    state_digest: bytes
    payload: bytes

    @property
    def head(self) -> BlockHead:
        """The block without its payload. Raises CorruptArchiveError if its sizes are not allowed."""
        return BlockHead(
            kind=self.kind,
            n_bytes=self.n_bytes,
            n_symbols=self.n_symbols,
            payload_bytes=len(self.payload),
            state_digest=self.state_digest,
        )


def pack_head(head: BlockHead) -> bytes:
    """A block's bytes before its payload: 9 bytes and three integers, typically 18."""
    sizes = varint(head.n_bytes) + varint(head.n_symbols) + varint(head.payload_bytes)
    return bytes([head.kind]) + sizes + head.state_digest


def read_kind(source: ByteSource) -> BlockKind | None:
    """The kind of the next block, or None at the end mark. Raises CorruptArchiveError."""
    kind = source.take(1)[0]
    if kind == END_MARK:
        return None
    try:
        return BlockKind(kind)
    except ValueError:
        raise CorruptArchiveError(f"block kind {kind} is unknown") from None


def read_head(source: ByteSource, kind: BlockKind) -> BlockHead:
    """The head of a block, after `read_kind` has read its kind. Raises CorruptArchiveError."""
    n_bytes, n_symbols, payload_bytes = source.take_varint(), source.take_varint(), source.take_varint()
    return BlockHead(
        kind=kind,
        n_bytes=n_bytes,
        n_symbols=n_symbols,
        payload_bytes=payload_bytes,
        state_digest=source.take(STATE_DIGEST_BYTES),
    )


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
