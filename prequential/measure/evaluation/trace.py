"""The trace of a run: the cost of each byte under the learner, and under each of its parts.

Costs are whole units of 2**-22 bits, 4 bytes each, in a memory-mapped file. So memory does not grow with the corpus, and an
interrupted run can be resumed. Sums are exact: every table and curve adds up to the ideal code length in the ledger.
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
from prequential.files import open_regular_file

MODEL, GPT, MIXER = "model", "gpt", "mixer"  # the complete learner, its GPT alone, its context mixer alone


def map_array(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A memory-mapped array. The file either holds an array of this size, or is empty and then filled with zeros.

    Raises CheckpointError, and does not change the file, if it has another size.
    """
    n_bytes = dtype.itemsize * math.prod(shape)
    if (found := os.fstat(file.fileno()).st_size) not in (0, n_bytes):
        raise CheckpointError(
            f"another run left a file of {found:,} bytes, but this run needs {n_bytes:,}: start again without --resume"
        )
    file.truncate(n_bytes)
    return np.memmap(file, dtype, mode="r+", shape=shape)


class Trace:
    """The ideal code length of each of n bytes under each of P parts. It is filled from the first byte to the last."""

    def __init__(self, parts: Sequence[str], n_bytes: int, path: Path | None = None) -> None:
        """path: the file of the trace, which may exist already; None: a temporary file.

        Raises CheckpointError if the file exists and has another size.
        """
        self.parts, self.n_bytes = tuple(parts), n_bytes
        shape = (len(self.parts), max(n_bytes, 1))
        with open_regular_file(path) if path else tempfile.TemporaryFile(prefix="prequential-") as file:
            self._units = map_array(file, np.dtype(np.uint32), shape)
        self._n_filled = dict.fromkeys(self.parts, 0)

    def resume(self, part: str, n_bytes: int) -> None:
        """Continues the part after its first n_bytes, whose costs are in the file from an earlier run."""
        self._n_filled[part] = n_bytes

    def sync(self) -> None:
        """Writes everything that was appended to the disk."""
        self._units.flush()

    def append(self, part: str, bits: NDArray[np.float64]) -> None:
        """Appends the costs (n,) of the part's next bytes, in bits: whole units, each below 2**10 bits."""
        start = self._n_filled[part]
        self._units[self.parts.index(part), start : start + len(bits)] = bits / UNIT_BITS
        self._n_filled[part] = start + len(bits)

    def bits(self, part: str, where: slice = slice(None)) -> NDArray[np.float64]:
        """The costs (n,) float64 of the bytes in `where`, in bits. Their sums are exact below 2**31 bits."""
        return np.multiply(self._units[self.parts.index(part), : self.n_bytes][where], UNIT_BITS, dtype=np.float64)

    def total_bits(self, part: str) -> float:
        """The cost of all bytes, in bits."""
        return float(self.sums(part, np.array([self.n_bytes]))[0])

    def sums(self, part: str, ends: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cumulative costs (n,) in bits at the ascending positions `ends` (n,), each from 1 to n_bytes."""
        starts = np.concatenate(([0], ends[:-1]))
        units = self._units[self.parts.index(part)]
        steps = [int(units[a:b].sum(dtype=np.int64)) for a, b in zip(starts, ends, strict=True)]
        return np.multiply(np.cumsum(np.array(steps, np.int64)), UNIT_BITS, dtype=np.float64)
