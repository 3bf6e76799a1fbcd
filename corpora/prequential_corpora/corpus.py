"""A corpus: a sequence of bytes in one file or in a stream, and its origin. A length that changes while it is open is refused."""

import mmap
import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError, OutputError
from prequential.files import open_regular, reading, temporary_folder

CHUNK_N_BYTES = 1 << 20
# Follows each document if a stream contains several. The lengths define where a document ends, so binary documents are safe.
DOCUMENT_END = b"\0"
SMALL_N_BYTES = 64 << 20  # a copy of at most so many bytes is in memory, a longer one in a temporary file

Chunks = Iterator[bytes]
NamedParts = tuple[str | None, Iterable[bytes]]  # a document
Kind = Literal["file", "stdin", "tree", "dataset", "shards", "sample", "git"]


def read_chunks(stream: IO[bytes], what: str | PathLike[str]) -> Iterator[bytes]:
    """The rest of `stream` in chunks of at most 1 MiB, none of them empty. Raises CorpusError; its message names `what`."""
    with reading(what):
        while chunk := stream.read(CHUNK_N_BYTES):
            yield chunk


def read_file(path: Path, n_bytes: int, limit_bytes: int | None = None, *, follow_links: bool = True) -> Chunks:
    """The file, or its first limit_bytes, in chunks of at most 1 MiB. Raises CorpusError, also if it has not n_bytes."""
    end, n_read = n_bytes if limit_bytes is None else min(limit_bytes, n_bytes), 0
    with reading(path), open_regular(path, follow_links=follow_links) as stream:
        while chunk := stream.read(min(CHUNK_N_BYTES, end - n_read)):
            n_read += len(chunk)
            yield chunk
        now = os.fstat(stream.fileno()).st_size
    if n_read != end or end == n_bytes < now:
        before = f"{str(path)!r} changed while it was open: it had {n_bytes} bytes and now has {now}"
        raise CorpusError(f"{before}; if another program still writes it, copy it first")


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


def unicode_name(name: str | bytes) -> str:
    r"""A file name as valid Unicode, for records. Bytes that are not UTF-8 become \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def beginning(documents: Sequence[Document], n_bytes: int) -> list[Document]:
    """The documents within the first n_bytes of the stream. The last one may be cut."""
    return [d._replace(n_bytes=min(d.n_bytes, n_bytes - d.offset)) for d in documents if d.offset < n_bytes]


@dataclass(frozen=True)
class Corpus:
    """Bytes and their origin.

    name: for users; valid Unicode. data: a copy of the bytes, or the path of a file that had file_n_bytes when it was opened.
    documents: in stream order, not overlapping. A plain file is one document.
    origin: JSON values that only this kind has (revision, number of files and others).
    mode: the permissions that all its files have. Outputs that contain the bytes get no others.
    skipped: names in a folder that the stream does not hold.
    commits: for the documents of a git window, the id and the date of the commit that brought each.
    """

    kind: Kind
    name: str
    data: NDArray[np.uint8] | Path = field(repr=False)
    documents: Sequence[Document]
    origin: Mapping[str, str | int | None] = field(default_factory=dict)
    mode: int = 0o777
    skipped: Sequence[str] = ()
    commits: Sequence[tuple[str, str]] = ()
    file_n_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        return self.file_n_bytes if isinstance(self.data, Path) else len(self.data)

    def describe(self) -> dict[str, str | int | None]:
        """The origin of the bytes as JSON values, for records and archive headers. Does not read the bytes."""
        return {"kind": self.kind, "name": self.name, **self.origin}

    def bytes(self, limit_bytes: int | None = None) -> NDArray[np.uint8]:
        """The bytes, or the first limit_bytes of them: (n,) uint8, read-only.

        Those of a file are copied: into memory up to SMALL_N_BYTES, otherwise into a temporary file, which is mapped. The file of
        a user is never mapped: a process that reads a mapped file dies by a signal if another one truncates it. Raises
        CorpusError if the file cannot be read or if its length has changed, OutputError if the disk is full.
        """
        n = self.n_bytes if limit_bytes is None else min(limit_bytes, self.n_bytes)
        if not isinstance(self.data, Path):
            return self.data[:n]
        chunks = read_file(self.data, self.n_bytes, limit_bytes=n)
        return np.frombuffer(b"".join(chunks), np.uint8) if n <= SMALL_N_BYTES else copied(chunks)


def copied(chunks: Iterable[bytes]) -> NDArray[np.uint8]:
    """(n,) uint8, read-only: the bytes of `chunks`, mapped from a temporary file without a name. Raises OutputError."""
    with spool(chunks) as file:
        n_bytes = file.tell()
        if n_bytes == 0:  # mmap refuses an empty file
            return np.frombuffer(b"", np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), n_bytes, access=mmap.ACCESS_READ), np.uint8)


class Documents(Sequence[Document]):
    """Documents after a header, each followed by a separator. One without a name is called by its number from 0: 8 bytes each."""

    def __init__(self, separator: bytes = DOCUMENT_END, header: bytes = b"") -> None:
        self._separator, self._header, self._names = separator, header, list[str]()
        self._starts = array("q", [len(header)])  # of each document, then of the next one

    def stream(self, documents: Iterable[NamedParts]) -> Chunks:
        """The header, and the parts of each document, then the separator. Adds the documents; all have names, or none."""
        yield self._header
        for name, parts in documents:
            end = self._starts[-1]
            for part in parts:
                yield part
                end += len(part)
            yield self._separator
            self._starts.append(end + len(self._separator))
            self._names += () if name is None else (name,)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        start, next_start = self._starts[row : row + 2]
        name = self._names[row] if self._names else str(row)
        return Document(name, start, next_start - start - len(self._separator))
