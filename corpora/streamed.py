"""A corpus that is read anew whenever its bytes are wanted, and takes disk only where they are wanted out of order."""

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

ReadChunks = Callable[[], Iterator[bytes]]  # the corpus from its first byte, new with each call


class Survey(NamedTuple):
    """What a first pass finds: length and BLAKE2b digest of the corpus, its documents, and its description."""

    n_bytes: int
    blake2b: str
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None]


@dataclass(frozen=True, kw_only=True)
class StreamedCorpus(Corpus):
    """See the module's text; `path` is what is read, and no file of the bytes.

    read: the corpus from its first byte, in chunks, new with each call. digest: BLAKE2b of all of it, in hexadecimal.
    spool_dir: as of `open_corpus`. resources: what is needed until it is closed, and closed with it.
    """

    read: ReadChunks = field(repr=False)
    digest: str
    spool_dir: str | PathLike[str] | None = None
    resources: ExitStack = field(default_factory=ExitStack, repr=False)

    @property
    def blake2b(self) -> str:
        """As of Corpus, known from the first pass."""
        return self.digest

    def symbols(self) -> StreamSymbols:
        """As of Corpus; nothing is written to a disk."""
        return StreamSymbols(self.read, self.n_bytes, self.digest)

    def bytes(self) -> NDArray[np.uint8]:
        """As of Corpus: from a temporary file of n_bytes, made at the first call. Raises OutputError where there is no room."""
        return mapped(Path(self._spooled.name), self.n_bytes)

    def close(self) -> None:
        """As of Corpus."""
        self.resources.close()

    @cached_property
    def _spooled(self) -> BinaryIO:
        return cast(BinaryIO, self.resources.enter_context(spool(self.read(), self.spool_dir, self.n_bytes)))
