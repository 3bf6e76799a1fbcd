"""What each byte of a corpus cost, under the learner and under each of its parts: the finest record there is of a run.

Costs are kept as whole units of 2**-22 bits, 4 bytes each, in a file: memory does not grow with the corpus, and a run that is
interrupted can go on with what it had.
Sums of them are exact, so that every table and curve made of them adds up to the ledger's ideal bits to the last unit.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prequential.exact.bit_coder import UNIT_BITS
from prequential.files import own_file

MODEL, GPT, MIXER = "model", "gpt", "mixer"  # the learner as it codes; its GPT alone; its context mixer alone


class Trace:
    """The ideal code length of each of n bytes under each of P parts, filled from the first byte to the last."""

    def __init__(self, parts: Sequence[str], n_bytes: int, path: Path | None = None) -> None:
        """path: the file, which may be there already; else it has no name."""
        self.parts, self.n_bytes = tuple(parts), n_bytes
        shape = (len(self.parts), max(n_bytes, 1))
        with own_file(path) if path else tempfile.TemporaryFile(prefix="prequential-") as file:
            file.truncate(4 * shape[0] * shape[1])
            self._units = np.memmap(file, np.uint32, mode="r+", shape=shape)
        self._n_filled = dict.fromkeys(self.parts, 0)

    def go_on(self, part: str, n_bytes: int) -> None:
        """The part's next bytes follow the first n_bytes, which the file has held since an earlier run."""
        self._n_filled[part] = n_bytes

    def sync(self) -> None:
        """What was appended is on the disk."""
        self._units.flush()

    def append(self, part: str, bits: NDArray[np.float64]) -> None:
        """The costs (n,) of the part's next bytes, in bits; whole units, below 2**10."""
        start = self._n_filled[part]
        self._units[self.parts.index(part), start : start + len(bits)] = bits / UNIT_BITS
        self._n_filled[part] = start + len(bits)

    def bits(self, part: str, where: slice = slice(None)) -> NDArray[np.float64]:
        """Costs of a stretch of bytes, (n,) float64, in bits. Sums below 2**31 bits are exact."""
        return np.multiply(self._units[self.parts.index(part), : self.n_bytes][where], UNIT_BITS, dtype=np.float64)

    def total_bits(self, part: str) -> float:
        """The cost of the whole, in bits."""
        return float(self.sums(part, np.array([self.n_bytes]))[0])

    def sums(self, part: str, ends: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cumulative costs (n,) at ascending positions `ends` (n,), 1 .. n_bytes each, in bits."""
        starts = np.concatenate(([0], ends[:-1]))
        units = self._units[self.parts.index(part)]
        steps = [int(units[a:b].sum(dtype=np.int64)) for a, b in zip(starts, ends, strict=True)]
        return np.multiply(np.cumsum(np.array(steps, np.int64)), UNIT_BITS, dtype=np.float64)
