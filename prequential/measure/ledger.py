"""Where every bit of an archive went. The one place for bits per byte, coder overhead, and bits against nats.

The prequential description length of a corpus is the length of its archive: header, payload and container, nothing left
out. The ideal code length, the sum of -log2 p over the coded symbols, is what the learner alone accounts for.
"""

import math
from dataclasses import dataclass

from prequential.online.coding import Progress

NATS_PER_BIT = math.log(2.0)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Totals of a finished archive, in bytes unless the name says bits.

    n_bytes: of the original, >= 1. code_bits: ideal code length under the learner's frequencies, raw blocks included.
    """

    n_bytes: int
    archive_bytes: int
    header_bytes: int
    payload_bytes: int
    n_blocks: int
    n_raw_blocks: int
    code_bits: float

    @classmethod
    def from_progress(cls, done: Progress) -> "Ledger":
        """The ledger of the last Progress that `online.coding.compress` yields."""
        return cls(
            n_bytes=done.n_bytes,
            archive_bytes=done.archive_bytes,
            header_bytes=done.header_bytes,
            payload_bytes=done.payload_bytes,
            n_blocks=done.n_blocks,
            n_raw_blocks=done.n_raw_blocks,
            code_bits=done.code_bits,
        )

    @property
    def container_bytes(self) -> int:
        """Block heads, checksums, index and end: all that is neither header nor payload."""
        return self.archive_bytes - self.header_bytes - self.payload_bytes

    @property
    def archive_bits(self) -> int:
        """The prequential description length: what the decoder needs, to the last bit."""
        return 8 * self.archive_bytes

    @property
    def bits_per_byte(self) -> float:
        """Of the whole archive; infinite for an empty original, which still has a header."""
        return bits_per_byte(self.archive_bytes, self.n_bytes)

    @property
    def code_bits_per_byte(self) -> float:
        """Of the ideal code length: the learner's cumulative log loss in bits, per byte of the original."""
        return self.code_bits / self.n_bytes if self.n_bytes else 0.0

    @property
    def code_nats_per_byte(self) -> float:
        """The same in nats, the unit of a cross-entropy loss."""
        return self.code_bits_per_byte * NATS_PER_BIT

    @property
    def coder_overhead_ppm(self) -> float:
        """Payload against ideal code length, in millionths; negative where raw blocks were the shorter form."""
        return (8 * self.payload_bytes / self.code_bits - 1.0) * 1e6 if self.code_bits else 0.0


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> float:
    """Bits spent on each byte of the original; infinite for an empty one."""
    return 8 * compressed_bytes / n_bytes if n_bytes else math.inf
