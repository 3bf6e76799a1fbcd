"""A corpus from front to back: stretches of its bytes as they are asked for, in memory that does not depend on its length.

An encoder needs nothing else: the length, which the archive's header states, and then block after block, each once. A mapped
file would do, too, but the pages of it that were read count as the process's own memory until the system takes them back.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.chunks import CHUNK_N_BYTES, reading
from prequential.errors import CorpusError


class Symbols(Protocol):
    """n bytes, of which slices without a step can be had; an (n,) uint8 array is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]: ...


class FileSymbols:
    """The first n_bytes of a file, read where they are asked for. Raises CorpusError where it cannot be read or is shorter."""

    def __init__(self, path: Path, n_bytes: int) -> None:
        self._path, self._n_bytes = path, n_bytes

    def __len__(self) -> int:
        return self._n_bytes

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]:
        start, stop, _ = where.indices(self._n_bytes)
        n = max(0, stop - start)
        with reading(self._path):
            found = np.fromfile(self._path, np.uint8, n, offset=start)
        if len(found) != n:
            raise CorpusError(f"{str(self._path)!r} changed while it was open: it ends before byte {stop}")
        return found


class StreamSymbols:
    """n_bytes of what `read` gives, which is called again whenever bytes before the last ones are asked for.

    Whoever has asked for the last byte has had the bytes of digest blake2b (32 bytes in hexadecimal), from the first on, or
    CorpusError is raised. Memory: what is asked for, and one chunk of `read`.
    """

    def __init__(self, read: Callable[[], Iterator[bytes]], n_bytes: int, blake2b: str) -> None:
        self._read, self._n_bytes, self._expected = read, n_bytes, blake2b
        self._begin()

    def __len__(self) -> int:
        return self._n_bytes

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]:
        start, stop, _ = where.indices(self._n_bytes)
        if start < self._position:
            self._begin()
        while self._position < start:  # as a run does that goes on after an interruption
            self._take(min(CHUNK_N_BYTES, start - self._position))
        return np.frombuffer(self._take(max(0, stop - start)), np.uint8)

    def _begin(self) -> None:
        self._chunks, self._rest, self._position = self._read(), memoryview(b""), 0
        self._digest = hashlib.blake2b(digest_size=32)

    def _take(self, n_bytes: int) -> bytes:
        taken = bytearray()
        while len(taken) < n_bytes:
            if not self._rest:
                self._rest = memoryview(next(filter(None, self._chunks), b""))
                if not self._rest:
                    raise self._changed()
            part = self._rest[: n_bytes - len(taken)]
            taken += part
            self._rest = self._rest[len(part) :]
        self._digest.update(taken)
        self._position += n_bytes
        if self._position == self._n_bytes and self._digest.hexdigest() != self._expected:
            raise self._changed()
        return bytes(taken)

    def _changed(self) -> CorpusError:
        return CorpusError("the corpus changed while it was read: its bytes are no longer those that were there first")
