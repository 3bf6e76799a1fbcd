"""The trace of a run: the cost of each byte, in whole units of 2**-22 bits, in a file, so that memory does not grow."""

import errno
import os
import tempfile
import weakref
from collections.abc import Sequence
from io import BytesIO, RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import CheckpointError
from prequential.files import open_own_file, reading, sync, temporary_folder, writing

CHUNK = 1 << 20  # values that are read at a time
MEMORY_BYTES = 64 << 20
NOT_SUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV}


class ArrayFile:
    """A one-dimensional array in a file. What was not written is zero. The file closes with the last reference.

    It is not mapped: a process that writes to a mapped file dies by a signal if the disk is full. Here that is an OutputError.
    """

    def __init__(self, dtype: DTypeLike, n: int, path: Path | None = None) -> None:
        """path: a file that may exist already; None: a temporary file. Reserves its space, if the file system can.

        Raises OutputError if the disk is full, and CheckpointError, without changing the file, if it has another size.
        """
        self._dtype, self._name = np.dtype(dtype), str(path or temporary_folder())
        with (
            writing(self._name),
            open_own_file(path) if path else tempfile.TemporaryFile(dir=self._name, prefix="prequential-") as file,
        ):
            _reserve(file.fileno(), self._dtype.itemsize * n)
            self._file: RawIOBase | BytesIO = os.fdopen(os.dup(file.fileno()), "r+b", buffering=0)
        weakref.finalize(self, self._file.close)

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Writes values (n,) from position `start` on. Raises OutputError."""
        data = values.astype(self._dtype).view(np.uint8).data
        with writing(self._name):
            self._file.seek(start * self._dtype.itemsize)
            while data:
                data = data[self._file.write(data) :]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The values (stop - start,) from `start` on. Raises CheckpointError if the file was cut, CorpusError if unreadable."""
        values = np.empty(stop - start, self._dtype)
        data = values.view(np.uint8).data
        with reading(self._name):
            self._file.seek(start * self._dtype.itemsize)
            while data:
                if not (n := self._file.readinto(data)):
                    raise CheckpointError(f"{self._name!r} became shorter while it was in use")
                data = data[n:]
        return values

    def sync(self) -> None:
        """Waits until everything that was written is stored on the disk. Raises OSError."""
        sync(self._file.fileno())

    def settle(self) -> None:
        """Nothing more is written: an array of at most MEMORY_BYTES moves to memory, so that results hold no open files."""
        if os.fstat(self._file.fileno()).st_size <= MEMORY_BYTES:
            self._file.seek(0)
            kept = BytesIO(self._file.read())
            self._file.close()
            self._file = kept


def _reserve(file: int, n_bytes: int) -> None:
    """Gives a new file its length, and reserves space for it, so that a full disk is an error before the work. Raises OSError."""
    if (size := os.fstat(file).st_size) == n_bytes:
        return
    if size:
        what = f"another run left a file of {size:,} bytes, but this run needs {n_bytes:,}"
        raise CheckpointError(f"{what}: start again without resume=True")
    os.truncate(file, n_bytes)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, n_bytes)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise


class Trace:
    """The ideal code length of each of n bytes under each part, filled from the first byte on. Raises what ArrayFile raises."""

    def __init__(self, parts: Sequence[str], n_bytes: int, path: Path | None = None) -> None:
        self.parts, self.n_bytes = tuple(parts), n_bytes
        self.file = ArrayFile(np.uint32, len(self.parts) * max(n_bytes, 1), path)
        self._n_filled = dict.fromkeys(self.parts, 0)

    def resume(self, part: str, n_bytes: int) -> None:
        """Continues the part after its first n_bytes, whose costs an earlier run has written."""
        self._n_filled[part] = n_bytes

    def append(self, part: str, bits: NDArray[np.float64]) -> None:
        """Appends the costs (n,) of the part's next bytes, in bits: whole units, each below 2**10 bits."""
        start = self._n_filled[part]
        if start + len(bits) > self.n_bytes:
            raise ValueError(f"{start + len(bits)} costs for {self.n_bytes} bytes")
        self.file.write(self._first(part) + start, bits / UNIT_BITS)
        self._n_filled[part] += len(bits)

    def bits(self, part: str, where: slice = slice(None)) -> NDArray[np.float64]:
        """The costs (n,) float64 of the bytes in `where`, a slice without a step, in bits. Sums are exact below 2**31 bits."""
        start, stop, _ = where.indices(self.n_bytes)
        return np.multiply(self._units(part, start, max(start, stop)), UNIT_BITS, dtype=np.float64)

    def total_bits(self, part: str) -> float:
        """The cost of all bytes, in bits."""
        return float(self.sums(part, np.array([self.n_bytes]))[0])

    def sums(self, part: str, ends: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cumulative costs (n,) in bits at the ascending positions `ends` (n,), each from 0 to n_bytes."""
        sums, total, n_bytes = np.zeros(len(ends), np.int64), 0, int(ends[-1])
        for start in range(0, n_bytes, CHUNK):
            stop = min(start + CHUNK, n_bytes)
            running = np.cumsum(self._units(part, start, stop), dtype=np.int64) + total
            first, last = np.searchsorted(ends, (start + 1, stop + 1))
            sums[first:last] = running[ends[first:last] - start - 1]
            total = running[-1]
        return np.multiply(sums, UNIT_BITS, dtype=np.float64)

    def _first(self, part: str) -> int:
        return self.parts.index(part) * max(self.n_bytes, 1)

    def _units(self, part: str, start: int, stop: int) -> NDArray[np.uint32]:
        return self.file.read(self._first(part) + start, self._first(part) + stop)
