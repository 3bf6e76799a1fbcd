"""What each byte of a corpus cost, under the learner and under each of its parts: the finest record there is of a run.

Costs are kept as whole units of 2**-22 bits, 4 bytes each, in a file: memory does not grow with the corpus, and a run that is
interrupted can go on with what it had. Sums of them are exact, so that every table and curve made of them adds up to the
ledger's ideal bits to the last unit.
"""

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.bit_coder import UNIT_BITS
from prequential.errors import CheckpointError
from prequential.files import own_file

MODEL, GPT, MIXER = "model", "gpt", "mixer"  # the learner as it codes; its GPT alone; its context mixer alone


def mapped(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """An array that lies in a file: an empty one, which is filled up with zeros, or one that holds just such an array already.

    Raises CheckpointError for any other, which stays as it is: it is of another run.
    """
    n_bytes = dtype.itemsize * math.prod(shape)
    if (found := os.fstat(file.fileno()).st_size) not in (0, n_bytes):
        raise CheckpointError(
            f"another run left {found:,} bytes where this one keeps {n_bytes:,}: was it of other bytes?"
        )
    file.truncate(n_bytes)
    return np.memmap(file, dtype, mode="r+", shape=shape)


class Trace:
    """The ideal code length of each of n bytes under each of P parts, filled from the first byte to the last."""

    def __init__(self, parts: Sequence[str], n_bytes: int, path: Path | None = None) -> None:
        """path: the file, which may be there already; else it has no name."""
        self.parts, self.n_bytes = tuple(parts), n_bytes
        shape = (len(self.parts), max(n_bytes, 1))
        with own_file(path) if path else tempfile.TemporaryFile(prefix="prequential-") as file:
            self._units = mapped(file, np.dtype(np.uint32), shape)
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
