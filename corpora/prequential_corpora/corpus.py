"""A corpus: a sequence of bytes in one file or in a stream, and its origin. A length that changes while it is open is refused."""

import hashlib
import mmap
import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, NamedTuple, Protocol, Self, overload

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError, OutputError
from prequential.files import open_regular, reading, temporary_folder

CHUNK_N_BYTES = 1 << 20
# Follows each document if a stream contains several. The lengths define where a document ends, so binary documents are safe.
DOCUMENT_END = b"\0"
SMALL_N_BYTES = 64 << 20  # a copy of at most so many bytes is in memory, a longer one in a temporary file

Chunks = Iterator[bytes]
Kind = Literal["file", "stdin", "tree", "dataset", "shards", "sample", "git"]


def read_chunks(stream: IO[bytes], what: str | PathLike[str]) -> Iterator[bytes]:
    """The rest of `stream` in chunks of at most 1 MiB, none of them empty. Raises CorpusError; its message names `what`."""
    while True:
        with reading(what):
            chunk = stream.read(CHUNK_N_BYTES)
        if not chunk:
            return
        yield chunk


def changed(path: str | PathLike[str], before: int, now: int) -> CorpusError:
    """The error for a file that had `before` bytes and has `now` bytes, or at least so many."""
    return CorpusError(
        f"{str(path)!r} changed while it was open: it had {before} bytes and now has {now}; "
        "if another program still writes it, copy it first"
    )


def read_file(path: Path, n_bytes: int, *, follow_links: bool = True) -> Iterator[bytes]:
    """The file in chunks of at most 1 MiB. Raises CorpusError if it cannot be read, and at its end if it has not n_bytes."""
    n_read = 0
    with reading(path), open_regular(path, follow_links=follow_links) as stream:
        for chunk in read_chunks(stream, path):
            n_read += len(chunk)
            if n_read > n_bytes:  # it may grow for ever
                break
            yield chunk
    if n_read != n_bytes:
        raise changed(path, n_bytes, n_read)


def spool(chunks: Iterable[bytes]) -> IO[bytes]:
    """A temporary file with the bytes of `chunks`, complete and flushed. It is deleted when it is closed. Raises OutputError."""
    with spooling():
        file = tempfile.NamedTemporaryFile(dir=temporary_folder(), prefix="prequential-", suffix=".spool")  # noqa: SIM115
    try:
        for chunk in chunks:
            with spooling():
                file.write(chunk)
        with spooling():
            file.flush()
    except BaseException:
        with suppress(OSError):  # on a full disk the rest cannot be flushed
            file.close()
        raise
    return file


@contextmanager
def spooling() -> Iterator[None]:
    """Turns an OSError of the body, which makes a temporary file, into OutputError with the system's reason."""
    try:
        yield
    except OSError as error:
        remedy = "choose another folder for temporary files (TMPDIR)"
        raise OutputError(f"cannot spool to {temporary_folder()!r}: {error.strerror or error}; {remedy}") from error


class Document(NamedTuple):
    """One document of a corpus: bytes `offset` to `offset + n_bytes` of the stream."""

    name: str
    offset: int
    n_bytes: int


class Symbols(Protocol):
    """A sequence of bytes that supports slices without a step, such as an (n,) uint8 array."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]: ...


class FileSymbols:
    """The first n_bytes of a file of whole_n_bytes, read slice by slice. Raises CorpusError if its length has changed."""

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
            data = file.read(n)
        if len(data) != n or self._n_bytes == self._whole_n_bytes < now:
            raise changed(self._path, self._whole_n_bytes, now)
        return np.frombuffer(data, np.uint8)


def unicode_name(name: str | bytes) -> str:
    r"""A file name as valid Unicode, for records. Bytes that are not UTF-8 become \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def beginning(documents: Sequence[Document], n_bytes: int) -> list[Document]:
    """The documents within the first n_bytes of the stream. The last one may be cut."""
    return [d._replace(n_bytes=min(d.n_bytes, n_bytes - d.offset)) for d in documents if d.offset < n_bytes]


@dataclass(frozen=True, kw_only=True)
class Corpus(AbstractContextManager["Corpus"]):
    """Bytes in one file and their origin. As a context manager it deletes its temporary file, if it has one.

    name: for users; valid Unicode. path: the file with the bytes; n_bytes: its length when it was opened.
    documents: in stream order, not overlapping. A plain file is one document.
    commits: for the documents of a git window, the id and the date of the commit that brought each.
    origin: JSON values that only this kind has (revision, number of files and others).
    mode: the permissions that all its files have. Outputs that contain the bytes get no others.
    skipped: names in a folder that the stream does not hold.
    spool: the temporary file at `path`, if it is one.
    """

    kind: Kind
    name: str
    path: Path
    n_bytes: int
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None]
    mode: int = 0o777
    skipped: Sequence[str] = ()
    commits: Sequence[tuple[str, str]] = ()
    spool: IO[bytes] | None = field(default=None, repr=False)

    def describe(self) -> dict[str, str | int | None]:
        """The origin of the bytes as JSON values, for records and archive headers. Does not read the bytes."""
        return {"kind": self.kind, "name": self.name, **self.origin}

    @cached_property
    def blake2b(self) -> str:
        """BLAKE2b digest of the bytes, 32 bytes in hexadecimal. The first call reads them all. Raises CorpusError."""
        digest = hashlib.blake2b(digest_size=32)
        for chunk in self._chunks(self.n_bytes):
            digest.update(chunk)
        return digest.hexdigest()

    def bytes(self, limit_bytes: int | None = None) -> NDArray[np.uint8]:
        """The bytes, or the first limit_bytes of them: (n,) uint8, read-only. The array may outlive the corpus.

        It is a copy: in memory up to SMALL_N_BYTES, otherwise in a temporary file, which is mapped. The file of a user is never
        mapped: a process that reads a mapped file dies by a signal if another one truncates it. Raises CorpusError if the file
        cannot be read or if its length has changed, OutputError if the disk is full.
        """
        n = self._length(limit_bytes)
        if self.spool is not None:
            return mapped(self.spool, n)
        if n <= SMALL_N_BYTES:
            return np.frombuffer(b"".join(self._chunks(n)), np.uint8)
        with spool(self._chunks(n)) as copy:
            return mapped(copy, n)

    def symbols(self, limit_bytes: int | None = None) -> Symbols:
        """The bytes, or the first limit_bytes, for reading from front to back, as `compress` does. They do not stay in memory."""
        return FileSymbols(self.path, self._length(limit_bytes), self.n_bytes)

    def _length(self, limit_bytes: int | None) -> int:
        return self.n_bytes if limit_bytes is None else min(limit_bytes, self.n_bytes)

    def _chunks(self, n_bytes: int) -> Chunks:
        """The first n_bytes in chunks. Raises CorpusError."""
        symbols = self.symbols(n_bytes)
        for start in range(0, max(n_bytes, 1), CHUNK_N_BYTES):  # an empty file is looked at, too: it may have grown
            yield symbols[start : start + CHUNK_N_BYTES].tobytes()

    def close(self) -> None:
        """Deletes the temporary file, if the corpus has one. May be called again."""
        if self.spool is not None:
            self.spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def mapped(file: IO[bytes], n_bytes: int) -> NDArray[np.uint8]:
    """(n_bytes,) uint8, read-only, mapped from a temporary file that holds them. It stays valid when the file is deleted."""
    if n_bytes == 0:  # mmap refuses an empty file
        return np.frombuffer(b"", np.uint8)
    return np.frombuffer(mmap.mmap(file.fileno(), n_bytes, access=mmap.ACCESS_READ), np.uint8)


def spooled(
    chunks: Iterable[bytes],
    kind: Kind,
    name: str,
    *,
    mode: int = 0o777,
    documents: Sequence[Document] | None = None,
    commits: Sequence[tuple[str, str]] = (),
) -> Corpus:
    """A corpus of a temporary file with the bytes of `chunks`. documents, commits: may grow until then. Raises OutputError."""
    file = spool(chunks)
    return Corpus(
        kind=kind,
        name=name,
        path=Path(file.name),
        n_bytes=file.tell(),
        documents=[Document(name, 0, file.tell())] if documents is None else documents,
        origin={},
        mode=mode,
        commits=commits,
        spool=file,
    )


class RowDocuments(Sequence[Document]):
    """Documents named by their number from 0, each followed by a separator. 8 bytes each."""

    def __init__(self, separator: bytes = DOCUMENT_END) -> None:
        self._separator = separator
        self._starts = array("q", [0])  # of each document, then of the next one

    def stream(self, documents: Iterable[Iterable[bytes]]) -> Chunks:
        """The parts of each document, then the separator. Adds the document."""
        for parts in documents:
            end = self._starts[-1]
            for part in parts:
                yield part
                end += len(part)
            yield self._separator
            self._starts.append(end + len(self._separator))

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> list[Document]: ...
    def __getitem__(self, index: int | slice) -> Document | list[Document]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        start, next_start = self._starts[row : row + 2]
        return Document(str(row), start, next_start - start - len(self._separator))
