"""A corpus that is read again from its source for each pass. It needs a temporary file only for random access, and for the
offsets of many documents: the rows of a data set or of shards, possibly hundreds of millions.
"""

import hashlib
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential.files import temporary_folder
from prequential_corpora.chunks import CHUNK_N_BYTES, unwritable
from prequential_corpora.corpus import Chunks, Corpus, Document, mapped

IN_MEMORY = 1 << 16  # offsets kept in memory; earlier ones are in a temporary file without a name

ReadChunks = Callable[[], Chunks]  # each call reads the corpus from its first byte


class FirstPass(NamedTuple):
    """The result of a first pass, as in `StreamedCorpus`."""

    n_bytes: int
    digest: str
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None]


class StreamSymbols:
    """The n_bytes of a stream. `read` starts the stream; it is called again if a slice begins before the end of the last one.

    The slice with the last byte raises CorpusError if more bytes follow, or if the digest of all bytes is not `blake2b` (None for
    the beginning of a stream, whose digest is not known). Memory: the slice, and one chunk of `read`.
    """

    def __init__(self, read: ReadChunks, n_bytes: int, blake2b: str | None) -> None:
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


@dataclass(frozen=True, kw_only=True)
class StreamedCorpus(Corpus):
    """A corpus without a file of its bytes; `path` is the source. digest: BLAKE2b of all bytes, in hexadecimal."""

    read: ReadChunks = field(repr=False)
    digest: str
    resources: ExitStack = field(default_factory=ExitStack, repr=False)  # closed with the corpus

    @property
    def blake2b(self) -> str:
        return self.digest

    def symbols(self, limit_bytes: int | None = None) -> StreamSymbols:
        n = self._length(limit_bytes)
        return StreamSymbols(self.read, n, self.digest if n == self.n_bytes else None)

    def close(self) -> None:
        self.resources.close()

    def _chunks(self, n_bytes: int) -> Chunks:
        symbols = self.symbols(n_bytes)
        for start in range(0, n_bytes, CHUNK_N_BYTES):
            yield symbols[start : start + CHUNK_N_BYTES].tobytes()


class RowDocuments(Sequence[Document]):
    """Documents named by their number from 0, each followed by a separator. 8 bytes each, on disk if there are many."""

    def __init__(self, separator_n_bytes: int) -> None:
        self._separator_n_bytes = separator_n_bytes
        self._file: BinaryIO | None = None
        self._on_disk: NDArray[np.int64] = np.zeros(0, np.int64)  # starts of the first documents, mapped
        self._in_memory: NDArray[np.int64] = np.zeros(IN_MEMORY, np.int64)  # of the others, then of the next one
        self._n = 0
        self.n_bytes = 0  # of all documents so far, including separators

    def append(self, n_bytes: int) -> None:
        """Raises OutputError if the temporary file cannot be written."""
        self._n += 1
        self.n_bytes += n_bytes + self._separator_n_bytes
        if self._n - len(self._on_disk) == IN_MEMORY:
            self._write()
        self._in_memory[self._n - len(self._on_disk)] = self.n_bytes

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
        start, next_start = self._start(row), self._start(row + 1)
        return Document(str(row), start, next_start - start - self._separator_n_bytes)

    def _start(self, row: int) -> int:
        n = len(self._on_disk)
        return int(self._on_disk[row] if row < n else self._in_memory[row - n])

    def _write(self) -> None:
        """Moves the starts in memory to the file. They are written and then mapped: writing to mapped memory is a signal, and not
        an error, if the disk is full."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=temporary_folder(), prefix="prequential-", buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            data = self._in_memory.data.cast("B")
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise unwritable(error) from error
        self._on_disk = mapped(self._file, 8 * self._n).view(np.int64)
