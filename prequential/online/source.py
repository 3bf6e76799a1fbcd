"""What is coded: the bytes, their digest, and where they came from. Every command opens its corpus here."""

import hashlib
import io
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import Header
from prequential_corpora import is_data_set, is_path, is_stream
from prequential_corpora.corpus import Document, Documents, NamedParts, beginning, copied
from prequential_corpora.rows import BadRowError, encoded
from prequential_corpora.sources import corpus_mode, open_corpus
from prequential_corpora.tree_restore import is_git

from prequential.errors import ConfigError, CorpusError
from prequential.files import PathLike

T = TypeVar("T")
Data: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]


class Column(Protocol):
    """A column of a data frame, such as a Series of pandas, whose values are documents."""

    def to_list(self) -> list[Any]: ...


class DataSet(Protocol):
    """A data set of the library `datasets`, or one with one split. The documents are its column `text`."""

    def select_columns(self, column_names: Any) -> Any: ...


# What functions take as a corpus. A str is always the name of a corpus, as on the command line, and never a text; a list, a
# column or an iterator holds documents, each a text or bytes, and never names.
CorpusLike: TypeAlias = Data | PathLike | IO[bytes] | Column | DataSet | Sequence[str | bytes] | Iterator[str | bytes]

MAX_NAMED = 10  # files in one message
MAX_NAME = 255  # letters of a file's name


@dataclass(frozen=True)
class Source:
    """A corpus, or the beginning of one, as bytes. symbols: (n,) uint8.

    origin: JSON values that identify it, {} for bytes in memory. whole_bytes: of the complete corpus. file: if it is one file.
    commits: of a window of a repository, id and date of the commit of each document; otherwise empty. mode: the permissions that
    all files of the corpus have: those of outputs that contain its bytes. skipped: names in a folder that are not in the bytes.
    """

    symbols: NDArray[np.uint8]
    origin: Mapping[str, str | int | None]
    documents: Sequence[Document]
    whole_bytes: int
    file: Path | None = None
    commits: Sequence[tuple[str, str]] = ()
    mode: int = 0o777
    skipped: Sequence[str] = ()

    @property
    def n_bytes(self) -> int:
        return len(self.symbols)

    def check_not_empty(self, purpose: str) -> None:
        """Raises CorpusError for a corpus without a byte, or a folder without files, of which only the list has bytes."""
        if not self.n_bytes or self.origin.get("n_files") == 0:
            name = f" {self.name!r}" if self.name else ""
            raise CorpusError(f"nothing to {purpose}: the corpus{name} is empty")

    def check_complete(self) -> None:
        """Raises CorpusError for a folder of which an archive would lose more than `.git`. Warns of that."""
        lost = [name for name in self.skipped if not is_git(os.fsencode(name).rpartition(b"/")[2])]
        if lost:
            names = ", ".join(map(repr, lost[:MAX_NAMED])) + " and others" * (len(lost) > MAX_NAMED)
            reason = "links that lead out of the folder, or no files; move them away first"
            if self.origin.get("kind") == "dataset":
                reason = "they are a data set, of whose texts hf:FOLDER makes an archive"
            raise CorpusError(f"an archive cannot hold {names}: {reason}")
        if self.skipped:
            logging.getLogger(__name__).warning(
                "%r is not in the archive: git's own files are left out", self.skipped[0]
            )

    @property
    def name(self) -> str:
        """What to call the corpus in records; "" for bytes in memory."""
        return str(self.origin.get("name", ""))

    @cached_property
    def blake2b(self) -> bytes:
        """BLAKE2b digest of the bytes, 32 bytes."""
        return digest_of(self.symbols)

    def describe(self) -> dict[str, Any]:
        """What records say of it."""
        sizes = {"n_bytes": self.n_bytes, "whole_bytes": self.whole_bytes}
        return {**self.origin, **sizes, "blake2b": self.blake2b.hex()}

    def header(self, config: Mapping[str, Any]) -> Header:
        """The header of an archive of these bytes. config: of the learner, as JSON values."""
        return Header(n_bytes=self.n_bytes, blake2b=self.blake2b, config=dict(config), corpus=dict(self.origin))


def mode_of(*sources: CorpusLike | None) -> int:
    """The permissions that all of them have: corpora, stored models, runs. Raises CorpusError for a missing corpus."""
    named = [corpus_mode(source) for source in sources if isinstance(source, str | os.PathLike)]
    return reduce(and_, named, 0o777)


def check_outside(output: PathLike, *sources: CorpusLike | None) -> None:
    """Raises ConfigError for an output within a folder that is read: the next run, or a resumed one, would read other bytes."""
    for source in (each for each in sources if isinstance(each, str | os.PathLike)):
        name = os.fspath(source)
        if isinstance(source, str) and not is_path(source):  # of `git:`, what is committed does not change
            name = "" if name.startswith("git:") else name.partition(":")[2].partition("?")[0]
        if name and Path(name).is_dir() and Path(output).resolve().is_relative_to(Path(name).resolve()):
            inside = f"{os.fspath(output)!r} lies in {os.fspath(source)!r}, which it would change"
            raise ConfigError(f"{inside}: choose a place outside, such as ../{Path(output).name}")


def drawn_order(n: int, seed: int) -> list[int]:
    """The numbers 0 to n - 1 in the order of their BLAKE2b digests with the seed as key: the same on every machine."""
    key = seed.to_bytes(8, "little")
    return sorted(range(n), key=lambda i: hashlib.blake2b(i.to_bytes(8, "little"), key=key, digest_size=16).digest())


def digest_of(symbols: NDArray[np.uint8]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(symbols).data, digest_size=32).digest()


def in_memory(source: T) -> T | Data | list[Any]:
    """The contents of an open file, or the documents of a column or a stream, which can be read again; bytes in one piece.

    Raises ConfigError for a file of text, CorpusError for one that cannot be read.
    """
    held: Any = source
    if is_data_set(source):
        return source
    if is_stream(source) or hasattr(source, "to_list"):
        return list(held if is_stream(source) else held.to_list())
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


def corpus_name(source: CorpusLike) -> str:
    """The name by which another process opens this corpus. Raises ConfigError for one without a name."""
    if not isinstance(source, str | os.PathLike) or source == "-":
        raise ConfigError("an executor's tasks open the corpus by its name: save it to a file first")
    name = os.fspath(source)
    return str(Path(name).absolute()) if name != source or is_path(name) else name


def _contents(values: Iterable[Any]) -> Iterator[NamedParts]:
    """The bytes of each document. Raises ConfigError for what is neither a text nor bytes, such as a missing value."""
    for i, value in enumerate(values):
        document = value.as_py() if hasattr(value, "as_py") else value  # of an Arrow array
        try:
            yield None, (encoded(document),)
        except BadRowError as error:
            raise ConfigError(f"document {i}: {error}") from error


def _check_meaning(source: Any) -> None:
    """Raises ConfigError for names of files where texts are expected, which would be misread."""
    is_list = isinstance(source, list | tuple) and len(source) > 0
    if is_list and all(
        isinstance(each, str) and 0 < len(each) <= MAX_NAME and os.path.lexists(each) for each in source
    ):
        hint = "give the name alone, or what the files hold"
        raise ConfigError(f"a list holds documents, and {source[0]!r} is the name of a file: {hint}")


def open_source(source: CorpusLike, limit_bytes: int | None = None) -> Source:
    """The corpus that `source` names (prequential_corpora/sources.py), or is: bytes, an open file, a data set, or documents.

    At most the first limit_bytes. Raises what `open_corpus` raises, and ConfigError if `source` cannot be a corpus.
    """
    held: Any = source if is_stream(source) else in_memory(source)
    _check_meaning(held)
    if is_data_set(held) or isinstance(held, str | os.PathLike):
        corpus = open_corpus(held)
        symbols = corpus.bytes(limit_bytes)
        is_whole = len(symbols) == corpus.n_bytes
        documents = corpus.documents if is_whole else beginning(corpus.documents, len(symbols))
        return Source(
            symbols=symbols,
            origin=corpus.describe(),
            documents=documents,
            whole_bytes=corpus.n_bytes,
            file=corpus.data if corpus.kind == "file" and isinstance(corpus.data, Path) else None,
            commits=corpus.commits[: len(documents)],
            mode=corpus.mode,
            skipped=corpus.skipped,
        )
    if isinstance(held, bytes | bytearray | memoryview | np.ndarray):
        whole = np.frombuffer(held, np.uint8)
        return Source(whole[:limit_bytes], {}, [], len(whole))
    places = Documents()
    symbols = copied(places.stream(_contents(held)))
    return Source(symbols[:limit_bytes], {}, beginning(places, len(symbols[:limit_bytes])), len(symbols))
