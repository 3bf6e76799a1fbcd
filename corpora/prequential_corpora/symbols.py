"""Reading a corpus from front to back: slices of its bytes, in memory that does not depend on its length.

An encoder needs only the length, for the archive's header, and then each block once.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential.files import open_regular
from prequential_corpora.chunks import CHUNK_N_BYTES, changed, reading


class Symbols(Protocol):
    """A sequence of bytes that supports slices without a step, such as an (n,) uint8 array."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]: ...


class FileSymbols:
    """The first n_bytes of a file of whole_n_bytes. Each slice reads its bytes.

    Raises CorpusError if the file cannot be read or is shorter; and if it is longer, unless only its beginning is wanted.
    """

    def __init__(self, path: Path, n_bytes: int, whole_n_bytes: int) -> None:
        self._path, self._n_bytes, self._whole_n_bytes = path, n_bytes, whole_n_bytes

    def __len__(self) -> int:
        return self._n_bytes

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]:
        start, stop, _ = where.indices(self._n_bytes)
        n = max(0, stop - start)
        with reading(self._path), open_regular(self._path) as file:
            now = os.fstat(file.fileno()).st_size
            file.seek(start)
            found = file.read(n)
            if stop == self._whole_n_bytes and file.read(1):
                now = max(now, stop + 1)
        is_longer = self._n_bytes == self._whole_n_bytes < now
        if len(found) != n or is_longer:
            raise changed(self._path, self._whole_n_bytes, now)
        return np.frombuffer(found, np.uint8)


class StreamSymbols:
    """The n_bytes of a stream. `read` starts the stream; it is called again if a slice begins before the end of the last one.

    The slice with the last byte raises CorpusError if more bytes follow, or if the digest of all bytes is not `blake2b`, 32 bytes
    in hexadecimal; None for the beginning of a stream, whose digest is not known. Memory: the slice, and one chunk of `read`.
    """

    def __init__(self, read: Callable[[], Iterator[bytes]], n_bytes: int, blake2b: str | None) -> None:
        self._read, self._n_bytes, self._expected = read, n_bytes, blake2b
        self._begin()

    def __len__(self) -> int:
        return self._n_bytes

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]:
        start, stop, _ = where.indices(self._n_bytes)
        if start < self._position:
            self._begin()
        while self._position < start:  # a resumed run skips bytes
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
        is_complete = self._expected is not None and self._position == self._n_bytes
        if is_complete and (self._digest.hexdigest() != self._expected or self._rest or any(self._chunks)):
            raise self._changed()
        return bytes(taken)

    def _changed(self) -> CorpusError:
        return CorpusError(
            "the corpus changed while it was read: its bytes differ from those of the first pass; start again"
        )
