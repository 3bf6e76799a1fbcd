"""What a training run has cost so far: rows counted once and rows counted apart, the curve, and which rows each step used.

All sums are of integers, so their order does not matter: two ranks give what one gives, and a resumed run what a whole one gives.
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.evaluation.curves import Curve
from prequential.recording.rows import MASK, chained

MAX_POINTS = 1 << 16  # of the curve; beyond it every second one is dropped
COUNTS = ("n_rows", "n_tokens", "n_bytes", "units")
MIN_SEEN = 8  # samples; fewer say nothing
MAX_SEEN = 0.02  # share of new targets in text that was seen, beyond which the sum is not the code length of the data
UNITS_PER_NAT = 1 / (math.log(2.0) * UNIT_BITS)


@dataclass
class Totals:
    """Sums up to a step. new, repeated: (rows, tokens, bytes, units of 2**-22 bits) of rows seen first and of rows seen again.

    rows: the sum of the mixed hashes of the new rows, of their targets alone. order: a chained digest of the rows of each step.
    points: (bytes, units) counted at the end of steps, every `stride` of them. steps: those that are in the sums. all_rows_kept:
    every row was looked up among all earlier ones. impossible: rows that are in no sum, by reason (account.IMPOSSIBLE).
    n_grams, n_grams_seen: sampled grams of new rows, and those that an earlier row had.
    """

    new: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    repeated: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    rows: int = 0
    order: str = hashlib.blake2b(digest_size=32).hexdigest()
    steps: int = 0
    all_rows_kept: bool = True
    points: list[tuple[int, int]] = field(default_factory=list)
    stride: int = 1
    counts_repeats: bool = False
    impossible: dict[str, int] = field(default_factory=lambda: {"n_outside": 0, "n_not_finite": 0, "n_negative": 0})
    n_grams: int = 0
    n_grams_seen: int = 0

    def add_step(self, sums: np.ndarray, new_rows: int, hashes: np.ndarray) -> None:
        """The next step. sums (2, 4): of new and of repeated rows. new_rows: the sum for `rows`. hashes (n,): of all."""
        for total, part in ((self.new, sums[0]), (self.repeated, sums[1])):
            total[:] = [a + int(b) for a, b in zip(total, part, strict=True)]
        self.rows = (self.rows + new_rows) & MASK
        self.order = chained(self.order, int(hashes.sum(dtype=np.uint64)), len(hashes))
        self.steps += 1
        if self.steps % self.stride == 0:
            self.mark()
        if len(self.points) > MAX_POINTS:
            self.stride *= 2
            self.points = self.points[1::2]

    def mark(self) -> None:
        """A point of the curve, where bytes were added; bits without bytes belong to the last one."""
        point = (self.counted[2], self.counted[3])
        if self.points and self.points[-1][0] == point[0]:
            self.points.pop()
        if point[0]:
            self.points.append(point)

    @property
    def counted(self) -> list[int]:
        """The four sums of what counts: new rows, or all of them."""
        return [a + b for a, b in zip(self.new, self.repeated, strict=True)] if self.counts_repeats else self.new

    @property
    def code_bits(self) -> float:
        """The code length of what counts."""
        return self.counted[3] * UNIT_BITS

    def not_of_the_data(self) -> list[str]:
        """Why the sum is not the code length of the data; nothing, if nothing is known against it.

        Of data with half of MAX_SEEN, a run reaches MIN_SEEN and MAX_SEEN by chance in one of 20 cases, or fewer.
        """
        if self.n_grams_seen < max(MIN_SEEN, MAX_SEEN * self.n_grams):
            return []
        return [
            f"{self.n_grams_seen / self.n_grams:.1%} of the new targets lie in text that an earlier row had (random crops, rows "
            "packed anew): unless the data repeat themselves, this is not the code length of the data"
        ]

    def rows_digest(self) -> str:
        """A digest of the new rows, in whichever order they came."""
        rows = self.rows.to_bytes(8, "little") + self.new[0].to_bytes(8, "little")
        return hashlib.blake2b(rows, digest_size=32).hexdigest()

    def curve(self) -> Curve:
        """Cumulative bits at the ends of steps; the last point is the end."""
        self.mark()
        n_bytes, units = np.array(self.points, np.float64).T
        return Curve(n_bytes=n_bytes.astype(np.int64), bits=units * UNIT_BITS)


def sums_record(sums: list[int]) -> dict[str, Any]:
    """Sums by their names in the record; units become bits."""
    *counts, units = sums
    return dict(zip(COUNTS, counts, strict=False)) | {"code_bits": units * UNIT_BITS}
