"""A corpus that is read again from its source for each pass. It needs a temporary file only for random access."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from prequential_corpora.chunks import CHUNK_N_BYTES
from prequential_corpora.corpus import Chunks, Corpus, Document
from prequential_corpora.symbols import StreamSymbols

ReadChunks = Callable[[], Chunks]  # each call reads the corpus from its first byte


class Survey(NamedTuple):
    """The result of a first pass: length and BLAKE2b digest of the corpus, its documents, and its description."""

    n_bytes: int
    blake2b: str
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None]


@dataclass(frozen=True, kw_only=True)
class StreamedCorpus(Corpus):
    """A corpus without a file of its bytes; `path` is the source.

    read: reads the corpus in chunks; each call starts at the first byte. digest: BLAKE2b of all bytes, in hexadecimal.
    resources: closed when the corpus is closed.
    """

    read: ReadChunks = field(repr=False)
    digest: str
    resources: ExitStack = field(default_factory=ExitStack, repr=False)

    @property
    def blake2b(self) -> str:
        """As in Corpus, from the first pass."""
        return self.digest

    def symbols(self, limit_bytes: int | None = None) -> StreamSymbols:
        """As in Corpus. Writes nothing to a disk."""
        n = self._length(limit_bytes)
        return StreamSymbols(self.read, n, self.digest if n == self.n_bytes else None)

    def close(self) -> None:
        """As in Corpus."""
        self.resources.close()

    def _chunks(self, n_bytes: int) -> Chunks:
        """As in Corpus. Raises CorpusError if the bytes are not those of the first pass."""
        symbols = self.symbols(n_bytes)
        for start in range(0, n_bytes, CHUNK_N_BYTES):
            yield symbols[start : start + CHUNK_N_BYTES].tobytes()
