"""A corpus: a sequence of bytes in one file or in a stream (streamed.py), and the origin of these bytes.

No function here reads a corpus into memory. `symbols()` reads the parts that are requested, `bytes()` maps the file, and the
digest reads it in chunks. So the memory does not depend on the file's length. The file must not change while the corpus is open;
a changed length is refused.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.chunks import read_chunks, reading
from prequential.corpora.symbols import FileSymbols, Symbols
from prequential.errors import CorpusError

Kind = Literal["file", "stdin", "tree", "dataset", "shards", "sample", "git"]


class Document(NamedTuple):
    """One document of a corpus: bytes `offset` to `offset + n_bytes` of the stream."""

    name: str
    offset: int
    n_bytes: int


def beginning(documents: Sequence[Document], n_bytes: int) -> list[Document]:
    """The documents within the first n_bytes of the stream. The last one may be cut."""
    return [d._replace(n_bytes=min(d.n_bytes, n_bytes - d.offset)) for d in documents if d.offset < n_bytes]


@dataclass(frozen=True, kw_only=True)
class Corpus(AbstractContextManager["Corpus"]):
    """Bytes in one file and their origin. As a context manager it deletes its temporary file, if it has one.

    kind: the source of the bytes.
    name: the name of the corpus for users; valid Unicode without surrogates.
    path: the file with the bytes.
    n_bytes: length of that file when the corpus was opened.
    documents: in stream order, not overlapping. A plain file is one document.
    origin: JSON values that only this kind has (revision, number of files and others).
    """

    kind: Kind
    name: str
    path: Path
    n_bytes: int
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None]
    spool: IO[bytes] | None = field(default=None, repr=False)

    def describe(self) -> dict[str, str | int | None]:
        """The origin of the bytes as JSON values, for records and archive headers. Does not read the bytes."""
        return {"kind": self.kind, "name": self.name, **self.origin}

    @cached_property
    def blake2b(self) -> str:
        """BLAKE2b digest of the bytes, 32 bytes in hexadecimal. The first call reads the file in chunks.

        Raises CorpusError if the file cannot be read or if its length has changed.
        """
        digest, n_bytes = hashlib.blake2b(digest_size=32), 0
        with reading(self.path), self.path.open("rb") as stream:
            for chunk in read_chunks(stream, self.path):
                digest.update(chunk)
                n_bytes += len(chunk)
        if n_bytes != self.n_bytes:
            raise _changed(self.path, self.n_bytes, n_bytes)
        return digest.hexdigest()

    def bytes(self) -> NDArray[np.uint8]:
        """(n_bytes,) uint8, read-only, mapped from the file. Raises CorpusError if the file's length has changed.

        The array may outlive the corpus: on POSIX systems a mapping survives the deletion of its file.
        """
        return mapped(self.path, self.n_bytes)

    def symbols(self) -> Symbols:
        """The bytes for reading from front to back, as `compress` does. They do not stay in memory."""
        return FileSymbols(self.path, self.n_bytes)

    def close(self) -> None:
        """Deletes the temporary file, if the corpus has one. May be called again."""
        if self.spool is not None:
            self.spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def mapped(path: Path, n_bytes: int) -> NDArray[np.uint8]:
    """(n_bytes,) uint8, read-only, mapped from the file. Raises CorpusError if the file has another length."""
    with reading(path):
        found = path.stat().st_size
    if found != n_bytes:
        raise _changed(path, n_bytes, found)
    if n_bytes == 0:  # mmap refuses an empty file
        return np.frombuffer(b"", dtype=np.uint8)
    with reading(path):
        return np.memmap(path, dtype=np.uint8, mode="r", shape=(n_bytes,))


def _changed(path: Path, before: int, now: int) -> CorpusError:
    return CorpusError(f"{str(path)!r} changed while it was open: it had {before} bytes and now has {now}")
