"""Where every bit of an archive went. The one place for bits per byte, coder overhead, and bits against nats.

The prequential description length of a corpus is the length of its archive: header, payload and container, nothing left
out. The ideal code length, the sum of -log2 p over the coded symbols, is what the learner alone accounts for. What a receiver
needs besides, and what a choice among configurations or seeds is worth, stands below the archive, in the total cost.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

from prequential.measure.evaluation.decoder_source import decoder_zip_bytes
from prequential.online.coding import Progress

NATS_PER_BIT = math.log(2.0)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Totals of a finished archive, in bytes unless the name says bits.

    n_bytes: of the original, >= 1. code_bits: ideal code length under the learner's frequencies, raw blocks included; exact, a
    sum of whole units of 2**-22 bits. alphabet_bytes: of merges or tables, none for bytes. decoder_bytes: the zipped source of
    the decoder. pretrained_bytes: of weights that were there before the first byte, none for this learner. n_configs, n_seeds:
    how many were tried, of which this is the chosen one, as the user declares.
    """

    n_bytes: int
    archive_bytes: int
    header_bytes: int
    payload_bytes: int
    n_blocks: int
    n_raw_blocks: int
    code_bits: float
    alphabet_bytes: int = 0
    decoder_bytes: int = 0
    pretrained_bytes: int = 0
    n_configs: int = 1
    n_seeds: int = 1

    @classmethod
    def from_progress(cls, done: Progress) -> Self:
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

    def declaring(self, *, n_configs: int, n_seeds: int) -> Self:
        """The same with the decoder's source and the number of configurations and seeds that were tried, 1 or more each."""
        return replace(self, decoder_bytes=decoder_zip_bytes(), n_configs=n_configs, n_seeds=n_seeds)

    @property
    def container_bytes(self) -> int:
        """Block heads, checksums, index and end: all that is neither header, alphabet nor payload."""
        return self.archive_bytes - self.header_bytes - self.alphabet_bytes - self.payload_bytes

    @property
    def archive_bits(self) -> int:
        """The prequential description length: what the decoder needs, to the last bit."""
        return 8 * self.archive_bytes

    @property
    def coder_bits(self) -> float:
        """What the payload has beyond the ideal code length; negative where raw blocks were the shorter form."""
        return 8 * self.payload_bytes - self.code_bits

    @property
    def choice_bits(self) -> float:
        """What it takes to say which configuration and seed, of those that were tried."""
        return math.log2(self.n_configs) + math.log2(self.n_seeds)

    @property
    def total_bits(self) -> float:
        """The total cost: archive, decoder, pre-trained weights and choice."""
        return self.archive_bits + 8 * (self.decoder_bytes + self.pretrained_bytes) + self.choice_bits

    @property
    def benchmark_bytes(self) -> int:
        """The size that the Hutter prize and the Large Text Compression Benchmark rank by: archive and zipped decoder."""
        return self.archive_bytes + self.decoder_bytes + self.pretrained_bytes

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

    def entries(self) -> list[tuple[str, float]]:
        """What the total cost is made of, in bits, in order: the parts of the archive, then what stands beside it."""
        return [
            ("header", 8.0 * self.header_bytes),
            ("alphabet", 8.0 * self.alphabet_bytes),
            ("ideal code length", self.code_bits),
            ("coder overhead", self.coder_bits),
            ("container", 8.0 * self.container_bytes),
            ("decoder source, zipped", 8.0 * self.decoder_bytes),
            ("pre-trained weights", 8.0 * self.pretrained_bytes),
            (f"choice among {self.n_configs} configurations", math.log2(self.n_configs)),
            (f"choice among {self.n_seeds} seeds", math.log2(self.n_seeds)),
        ]


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> float:
    """Bits spent on each byte of the original; infinite for an empty one."""
    return 8 * compressed_bytes / n_bytes if n_bytes else math.inf
