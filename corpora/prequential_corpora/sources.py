"""From the name of a corpus on the command line to an open corpus: `open_corpus`.

A file is read in its place. All else becomes a temporary file.
"""

import os
import stat
import sys
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from prequential.errors import CorpusError
from prequential.files import common_mode, open_regular, possible_name
from prequential_corpora import is_data_set, is_path
from prequential_corpora.corpus import Corpus, Document, Documents, Kind, copied, read_chunks, reading, unicode_name
from prequential_corpora.rows import parse_options
from prequential_corpora.tree import is_saved, scan_tree


def open_corpus(spec: Any) -> Corpus:
    """The corpus that `spec` names.

    spec: a path object, which is always a path, a data set of the library `datasets`, or a name:
        PATH            a file, read in its place; or a folder, as the stream of `tree.py`; one of `save_to_disk` is a data set
        -               standard input
        sample:NAME     a text of the package
        hf:...          a data set of the Hugging Face hub, or a folder of `save_to_disk`: `data_sets.py`
        shards:...      a folder of Parquet files, JSON lines or compressed text, as a stream: `shards.py`
        git:REPO?...    with since=, what later commits added, as documents new/PATH and added/PATH; otherwise the files of a
                        commit; options: since, until (HEAD), languages (Python,Rust): `git_window.py`
    Write a path that looks like another form as ./- or ./hf:x. Raises CorpusError if the corpus is missing, unreadable or not of
    these kinds, OutputError if a temporary file cannot be written.
    """
    if is_data_set(spec):
        from prequential_corpora.data_sets import open_given

        return open_given(spec)
    if isinstance(spec, str):
        if spec == "-":
            data = copied(read_chunks(sys.stdin.buffer, "standard input"))
            return Corpus("stdin", "-", data, [Document("-", 0, len(data))], mode=_stdin_mode())
        if spec.startswith("sample:"):
            return _open_file(sample_path(spec.removeprefix("sample:")), kind="sample")
        if spec.startswith("hf:"):
            from prequential_corpora.data_sets import open_named

            return open_named(spec.removeprefix("hf:"))
        if spec.startswith("shards:"):
            from prequential_corpora.shards import open_shards  # imports pyarrow, which takes a quarter of a second

            return open_shards(spec.removeprefix("shards:"))
        if spec.startswith("git:"):
            return _open_git(*_git_options(spec))
    path = Path(spec)
    if stat.S_ISDIR(_status(path).st_mode):
        return _open_tree(path)
    return _open_file(path, kind="file")


def corpus_mode(spec: str | os.PathLike[str]) -> int:
    """The permissions of all files of the corpus `spec`, as `Corpus.mode`; of a model or a run, too. Raises CorpusError."""
    if spec == "-":
        return _stdin_mode()
    path = Path(spec)
    if isinstance(spec, str) and not is_path(spec):
        if spec.startswith("git:"):
            return _git_mode(_git_options(spec)[0])
        path = Path(spec.partition(":")[2].partition("?")[0])
        if not path.exists():  # of the hub, or a sample
            return 0o777
    mode = _status(path).st_mode
    return scan_tree(path).mode if stat.S_ISDIR(mode) else mode & 0o777 | 0o600


def _status(path: Path) -> os.stat_result:
    with reading(path), possible_name(path):
        return path.stat()


def _open_file(path: Path, kind: Kind) -> Corpus:
    remedy = "to read from a pipe, pass - as the corpus"
    with reading(path):
        if not path.is_file():  # opening a pipe would block, and a device may be endless
            raise CorpusError(f"{str(path)!r} is neither a file nor a folder; {remedy}")
        with open_regular(path) as file:  # refuses an unreadable file now and not in the middle of a run
            status = os.fstat(file.fileno())
            is_short = status.st_size <= 1 << 12
            if is_short and len(file.read(status.st_size + 1)) != status.st_size:  # made up, as those of /proc and /sys
                raise CorpusError(f"{str(path)!r} has a false length; {remedy}")
    name, mode = unicode_name(path.name), status.st_mode & 0o777 | 0o600
    if kind == "sample":
        name, mode = path.stem, 0o777
    return Corpus(kind, name, path, [Document(name, 0, status.st_size)], {}, mode, file_n_bytes=status.st_size)


def _stdin_mode() -> int:
    """The permissions of the file that standard input is redirected from."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # replaced by an object without a descriptor
        return 0o777
    return mode & 0o777 | 0o600 if stat.S_ISREG(mode) else 0o777


def _open_tree(folder: Path) -> Corpus:
    if is_saved(folder):
        from prequential_corpora.data_sets import DataSetOptions, open_saved

        return replace(open_saved(folder, DataSetOptions()), skipped=sorted(os.listdir(folder)))  # noqa: PTH208
    tree = scan_tree(folder)
    places, name = Documents(header=tree.header()), unicode_name(folder.absolute().name)
    data = copied(places.stream(tree.contents()))
    origin = {"n_files": len(tree.files), "n_skipped": len(tree.skipped)}
    return Corpus("tree", name, data, places, origin, tree.mode, tree.skipped)


class GitOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: str | None = None
    until: str = "HEAD"
    languages: str | None = None


def _open_git(repository: str, options: GitOptions) -> Corpus:
    from prequential_corpora.git_rules import Rules
    from prequential_corpora.git_window import open_documents, read_tree, read_window

    since, until = options.since, options.until
    rules = Rules(languages=tuple(options.languages.split(",")) if options.languages else None)
    read = read_tree(repository, until, rules) if since is None else read_window(repository, since, until, rules)
    return open_documents(read, _git_mode(repository))


def _git_options(spec: str) -> tuple[str, GitOptions]:
    """The repository and the options of `git:REPO?since=...`. Raises CorpusError for an unknown option."""
    repository, _, query = spec.removeprefix("git:").partition("?")
    return unquote(repository, errors="surrogateescape"), parse_options(query, GitOptions)


def _git_mode(repository: str) -> int:
    """The permissions that the repository, its folder `.git` and the folder of its objects have in common."""
    from prequential_corpora.git_repository import find_repository

    root = find_repository(repository)
    return common_mode(root.path, root.objects, root.objects.parent)


# ---- the bundled sample


def sample_path(name: str) -> Path:
    """The file of one sample. Raises CorpusError for an unknown name; the message lists all names.

    Examples:
        >>> import prequential
        >>> len(prequential.sample_path("christmas_carol").read_bytes())
        158515
    """
    with as_file(files("prequential_corpora") / "samples") as folder:  # its README.md states origins and licences
        paths = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    if name not in paths:
        raise CorpusError(f"there is no sample {name!r}; choose from {', '.join(paths)}")
    return paths[name]
