"""The offsets of many documents: the rows of a data set or of shards, possibly hundreds of millions."""

import os
import tempfile
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.chunks import unwritable
from prequential.corpora.corpus import Document

IN_MEMORY = 1 << 16  # offsets kept in memory; more are in a mapped temporary file without a name


class RowDocuments(Sequence[Document]):
    """Documents named by their number from 0, each followed by a separator. 8 bytes each, on disk if there are many."""

    def __init__(self, separator_n_bytes: int, spool_dir: str | os.PathLike[str] | None = None) -> None:
        """spool_dir: the folder of the temporary file. None: the system's temporary folder."""
        self._separator_n_bytes, self._spool_dir = separator_n_bytes, spool_dir
        self._starts: NDArray[np.int64] = np.zeros(IN_MEMORY, np.int64)  # of each document, then of the next one
        self._n = 0
        self.n_bytes = 0  # of all documents so far, including separators

    def append(self, n_bytes: int) -> None:
        """Adds a document of `n_bytes` bytes. Raises OutputError if the temporary file cannot be made."""
        self._n += 1
        self.n_bytes += n_bytes + self._separator_n_bytes
        if self._n == len(self._starts):
            more = _on_disk(2 * self._n, self._spool_dir)
            more[: self._n] = self._starts
            self._starts = more
        self._starts[self._n] = self.n_bytes

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> list[Document]: ...
    def __getitem__(self, index: int | slice) -> Document | list[Document]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._n))]
        row = range(self._n)[index]
        start, next_start = self._starts[row : row + 2].tolist()
        return Document(str(row), start, next_start - start - self._separator_n_bytes)


def _on_disk(n: int, folder: str | os.PathLike[str] | None) -> NDArray[np.int64]:
    """(n,) int64 zeros, in a file that is deleted with the array. Allocates the disk at once; a full disk would crash later."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="prequential-") as file:
            file.truncate(8 * n)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 8 * n)
            return np.memmap(file, np.int64, shape=(n,))
    except OSError as error:
        raise unwritable(folder, error) from error
