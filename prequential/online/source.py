"""What is coded: the bytes, their digest, and where they came from. Every command opens its corpus here."""

import hashlib
import io
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import Header
from prequential_corpora import is_path
from prequential_corpora.corpus import CHUNK_N_BYTES, DOCUMENT_END, Corpus, Document, Symbols, beginning
from prequential_corpora.sources import corpus_mode, open_corpus
from prequential_corpora.tree_restore import is_git

from prequential.errors import ConfigError, CorpusError
from prequential.files import PathLike
from prequential.model.config import Config

T = TypeVar("T")
Data: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]


class Column(Protocol):
    """A column of a data frame, such as a Series of pandas, whose values are documents."""

    def to_list(self) -> list[Any]: ...


# What functions take as a corpus. A str is always the name of a corpus, as on the command line, and never a text; a list or a
# column holds documents, each a text or bytes, and never names.
CorpusLike: TypeAlias = Data | PathLike | IO[bytes] | Column | Sequence[str | bytes]

MAX_NAMED = 10  # files in one message
MAX_NAME = 255  # letters of a file's name


@dataclass(frozen=True)
class Source:
    """A corpus, or the beginning of one, as bytes. symbols: (n,) uint8, or an object that gives slices of it.

    origin: JSON values that identify it, {} for bytes in memory. whole_bytes: of the complete corpus. file: if it is one file.
    commits: of a window of a repository, id and date of the commit of each document; otherwise empty.
    """

    symbols: Symbols
    origin: Mapping[str, str | int | None]
    documents: Sequence[Document]
    whole_bytes: int
    file: Path | None = None
    commits: Sequence[tuple[str, str]] = ()
    _corpus: Corpus | None = None  # knows the digest of the complete corpus

    @property
    def n_bytes(self) -> int:
        return len(self.symbols)

    @property
    def mode(self) -> int:
        """The permissions that all files of the corpus have: those of outputs that contain its bytes."""
        return self._corpus.mode if self._corpus else 0o777

    def check_complete(self) -> None:
        """Raises CorpusError for a folder of which an archive would lose more than `.git`. Warns of that."""
        skipped = self._corpus.skipped if self._corpus else ()
        lost = [name for name in skipped if not is_git(os.fsencode(name).rpartition(b"/")[2])]
        if lost:
            names = ", ".join(map(repr, lost[:MAX_NAMED])) + " and others" * (len(lost) > MAX_NAMED)
            reason = "links that lead out of the folder, or no files; move them away first"
            raise CorpusError(f"an archive cannot hold {names}: {reason}")
        if skipped:
            logging.getLogger(__name__).warning("%r is not in the archive: git's own files are left out", skipped[0])

    @property
    def name(self) -> str:
        """What to call the corpus in records; "" for bytes in memory."""
        return str(self.origin.get("name", ""))

    @cached_property
    def blake2b(self) -> bytes:
        """BLAKE2b digest of the bytes, 32 bytes. Reads them once: those of the array if there is one, and not its file again."""
        if self._corpus is not None and self.n_bytes == self.whole_bytes and not isinstance(self.symbols, np.ndarray):
            return bytes.fromhex(self._corpus.blake2b)
        return digest_of(self.symbols)

    def header(self, learner: Config | Mapping[str, Any]) -> Header:
        """The header of an archive of these bytes. learner: a Config, or JSON values that name a learner that is not ours."""
        config = learner.to_dict() if isinstance(learner, Config) else dict(learner)
        return Header(n_bytes=self.n_bytes, blake2b=self.blake2b, config=config, corpus=dict(self.origin))


def mode_of(*sources: CorpusLike | None) -> int:
    """The permissions that all of them have: corpora, stored models, runs. Raises CorpusError for a missing corpus."""
    named = [corpus_mode(source) for source in sources if isinstance(source, str | os.PathLike)]
    return reduce(and_, named, 0o777)


class HashedSymbols:
    """Symbols for one reading from front to back, with the digest of what was read. A jump ahead reads the part between, too."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols, self._position, self._blake2b = symbols, 0, hashlib.blake2b(digest_size=32)

    def __len__(self) -> int:
        return len(self._symbols)

    def __getitem__(self, where: slice, /) -> NDArray[np.uint8]:
        start, stop, _ = where.indices(len(self))
        for at in range(self._position, start, CHUNK_N_BYTES):
            self[at : min(at + CHUNK_N_BYTES, start)]
        part = np.array(self._symbols[start:stop])  # a copy: what is hashed is what is coded
        self._blake2b.update(part.data)
        self._position += len(part)
        return part

    def check(self, expected: bytes, name: str) -> None:
        """Raises CorpusError unless all bytes have this digest, which was taken before the reading. Reads those that are left."""
        self[len(self) :]  # a run that resumes after the last block has read nothing
        if self._blake2b.digest() != expected:
            raise CorpusError(f"{name!r} changed while it was read: its bytes are not those of the header; start again")


def drawn_order(n: int, seed: int) -> list[int]:
    """The numbers 0 to n - 1 in the order of their BLAKE2b digests with the seed as key: the same on every machine."""
    key = seed.to_bytes(8, "little")
    return sorted(range(n), key=lambda i: hashlib.blake2b(i.to_bytes(8, "little"), key=key, digest_size=16).digest())


def digest_of(symbols: Symbols) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for start in range(0, len(symbols), CHUNK_N_BYTES):
        digest.update(np.ascontiguousarray(symbols[start : start + CHUNK_N_BYTES]).data)
    return digest.digest()


def in_memory(source: T) -> T | Data | list[Any]:
    """The contents of an open file, or the documents of a column, which can be read again; other bytes in one piece.

    Raises ConfigError for a file of text, CorpusError for one that cannot be read.
    """
    if hasattr(source, "to_list"):
        return list(source.to_list())
    held: Any = source
    if isinstance(source, np.ndarray | memoryview) and not memoryview(held).c_contiguous:
        return memoryview(held).tobytes()
    if not hasattr(source, "read"):
        return source
    try:
        data = None if isinstance(source, io.TextIOBase) else source.read()
    except (OSError, ValueError) as error:  # closed, or not open for reading
        raise CorpusError(f"the open file cannot be read: {error}") from error
    if not isinstance(data, bytes):
        raise ConfigError('the file is not open for bytes: open it with mode "rb", so that no byte is changed')
    return data


def _documents(values: Sequence[Any]) -> tuple[bytes, list[Document]]:
    """The documents one after another, each followed by DOCUMENT_END as those of shards; they are named by their numbers."""
    parts, documents, end = list[bytes](), list[Document](), 0
    for i, value in enumerate(values):
        if not isinstance(value, str | bytes | bytearray | memoryview):
            raise ConfigError(f"document {i} is of type {type(value).__name__}, but documents are texts or bytes")
        try:
            part = value.encode() if isinstance(value, str) else bytes(value)
        except UnicodeEncodeError as error:
            raise CorpusError(f"document {i} cannot be written as UTF-8: {error.reason}") from error
        documents.append(Document(str(i), end, len(part)))
        parts += [part, DOCUMENT_END]
        end += len(part) + len(DOCUMENT_END)
    return b"".join(parts), documents


def _check_meaning(source: Any) -> None:
    """Raises CorpusError for a text where a name is expected, ConfigError for names where texts are: both would be misread."""
    is_missing = isinstance(source, str) and is_path(source) and not os.path.lexists(source)
    if is_missing and (" " in source or len(source) > MAX_NAME):
        hint = "a str names a corpus; if it is the text itself, give text.encode()"
        raise CorpusError(f"{source[:40] + '...' * (len(source) > 40)!r} does not exist: {hint}")
    is_list = isinstance(source, list | tuple) and len(source) > 0
    if is_list and all(
        isinstance(each, str) and 0 < len(each) <= MAX_NAME and os.path.lexists(each) for each in source
    ):
        hint = "give the name alone, or what the files hold"
        raise ConfigError(f"a list holds documents, and {source[0]!r} is the name of a file: {hint}")


@contextmanager
def open_source(source: CorpusLike, limit_bytes: int | None = None, *, in_order: bool = False) -> Iterator[Source]:
    """The corpus that `source` names (prequential_corpora/sources.py), or is: bytes, an open file, a list or column of documents.

    At most the first limit_bytes. in_order: the caller reads from front to back, so `symbols` need not be an array. Raises what
    `open_corpus` raises, and ConfigError if `source` cannot be a corpus.
    """
    held: Any = in_memory(source)
    _check_meaning(held)
    if isinstance(held, str | os.PathLike):
        with open_corpus(held) as corpus:
            yield source_of(corpus, limit_bytes, in_order=in_order)
        return
    is_list = isinstance(held, Sequence) and not isinstance(held, bytes | bytearray | memoryview)
    data, documents = _documents(held) if is_list else (held, [])
    symbols = (whole := np.frombuffer(data, np.uint8))[:limit_bytes]
    yield Source(symbols, {}, beginning(documents, len(symbols)), len(whole))


def source_of(corpus: Corpus, limit_bytes: int | None = None, *, in_order: bool = False) -> Source:
    """An open corpus, or its beginning, as a Source; valid while the corpus is open."""
    symbols: Symbols = corpus.symbols(limit_bytes) if in_order else corpus.bytes(limit_bytes)
    complete = len(symbols) == corpus.n_bytes
    return Source(
        symbols=symbols,
        origin=corpus.describe(),
        documents=corpus.documents if complete else beginning(corpus.documents, len(symbols)),
        whole_bytes=corpus.n_bytes,
        file=corpus.path if corpus.kind == "file" and corpus.spool is None else None,
        commits=corpus.commits,
        _corpus=corpus,
    )
