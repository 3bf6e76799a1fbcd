"""A corpus that is read again from its source for each pass. It needs a temporary file only for random access."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.chunks import spool
from prequential.corpora.corpus import Corpus, Document, mapped
from prequential.corpora.symbols import StreamSymbols

ReadChunks = Callable[[], Iterator[bytes]]  # each call reads the corpus from its first byte


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
    spool_dir: as in `open_corpus`. resources: closed when the corpus is closed.
    """

    read: ReadChunks = field(repr=False)
    digest: str
    spool_dir: str | PathLike[str] | None = None
    resources: ExitStack = field(default_factory=ExitStack, repr=False)

    @property
    def blake2b(self) -> str:
        """As in Corpus, from the first pass."""
        return self.digest

    def symbols(self) -> StreamSymbols:
        """As in Corpus. Writes nothing to a disk."""
        return StreamSymbols(self.read, self.n_bytes, self.digest)

    def bytes(self) -> NDArray[np.uint8]:
        """As in Corpus. The first call writes a temporary file of n_bytes. Raises OutputError if the disk is full."""
        return mapped(Path(self._spooled.name), self.n_bytes)

    def close(self) -> None:
        """As in Corpus."""
        self.resources.close()

    @cached_property
    def _spooled(self) -> BinaryIO:
        return cast(BinaryIO, self.resources.enter_context(spool(self.read(), self.spool_dir, self.n_bytes)))
