"""Forges archives: any value in any field, with valid or invalid checksums and index.

A `Draft` holds the parts of an archive, and `Draft.sealed` assembles them. This code follows docs/FORMAT.md. It does not use the
program's writer, which refuses invalid values.
"""

import copy
import io
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import HEADER_DICTIONARY

START = b"\x8fPRQ\r\n\x1a\n\x01\x00"  # magic and version
END_MAGIC = b"\x1aPQ\n"
RAW, CODED = 1, 2


def leb128(value: int, n_bytes: int = 0) -> bytes:
    """A varint of any size. n_bytes: its least length, for forms that are not the shortest."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * (n_bytes - len(groups))
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def canonical(value: object) -> bytes:
    """JSON in the form of an archive's description."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def deflated(text: bytes) -> bytes:
    """Raw deflate with the preset dictionary."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, HEADER_DICTIONARY)
    return packer.compress(text) + packer.flush()


@dataclass
class Part:
    """A block. payload_bytes: the length that its head declares; None: the real length. damaged: stands in its place."""

    kind: int
    n_bytes: int
    n_symbols: int
    state_digest: bytes
    payload: bytes
    payload_bytes: int | None = None
    damaged: bytes | None = None

    def record(self) -> bytes:
        """The block without its checksum."""
        if self.damaged is not None:
            return self.damaged
        declared = len(self.payload) if self.payload_bytes is None else self.payload_bytes
        sizes = leb128(self.n_bytes) + leb128(self.n_symbols) + leb128(declared)
        return bytes([self.kind]) + sizes + self.state_digest + self.payload


@dataclass
class Draft:
    """The parts of an archive. A field that is None follows from the other fields; other values are written unchanged."""

    n_bytes: int
    blake2b: bytes
    text: bytes  # the description, inflated
    blocks: list[Part] = field(default_factory=list)
    start: bytes = START
    packed: bytes | None = None  # the description, deflated
    description_bytes: int | None = None
    has_end: bool = True
    n_blocks: int | None = None
    entries: list[tuple[int, int]] | None = None
    end_bytes: int | None = None
    end_magic: bytes = END_MAGIC
    tail: bytes = b""

    @classmethod
    def of(cls, archive: bytes) -> "Draft":
        """The parts of a valid archive."""
        reader = ArchiveReader(io.BytesIO(archive))
        header = reader.header
        blocks = [Part(int(b.kind), b.n_bytes, b.n_symbols, b.state_digest, b.payload) for b in reader.blocks()]
        text = canonical({"config": header.config, "corpus": header.corpus})
        return cls(header.n_bytes, header.blake2b, text, blocks)

    @property
    def description(self) -> Any:
        """The description's values. `described` makes another draft from changed ones."""
        return json.loads(self.text)

    def described(self, description: object) -> "Draft":
        """This draft with another description."""
        draft = copy.deepcopy(self)
        draft.text = canonical(description)
        return draft

    def header(self) -> bytes:
        """The archive up to its first block."""
        packed = deflated(self.text) if self.packed is None else self.packed
        declared = len(packed) if self.description_bytes is None else self.description_bytes
        out = self.start + leb128(self.n_bytes) + self.blake2b + leb128(declared) + packed
        return out + zlib.crc32(out).to_bytes(4, "little")

    def sealed(self) -> bytes:
        """The archive, with valid checksums."""
        out = self.header()
        checksum = int.from_bytes(out[-4:], "little")
        entries = []
        for block in self.blocks:
            record = block.record()
            checksum = zlib.crc32(record, checksum)
            out += record + checksum.to_bytes(4, "little")
            entries.append((len(record) + 4, block.n_bytes))
        if not self.has_end:
            return out + self.tail
        n_blocks = len(entries) if self.n_blocks is None else self.n_blocks
        entries = entries if self.entries is None else self.entries
        body = b"\0" + leb128(n_blocks) + b"".join(leb128(record) + leb128(n_bytes) for record, n_bytes in entries)
        body += (len(body) if self.end_bytes is None else self.end_bytes).to_bytes(4, "little")
        return out + body + zlib.crc32(body, checksum).to_bytes(4, "little") + self.end_magic + self.tail
