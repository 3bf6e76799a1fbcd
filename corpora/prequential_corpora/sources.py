"""From the name of a corpus on the command line to an open corpus: `open_corpus`.

Files, data sets and shards are read from front to back, again for each pass. Only for random access they are copied. Standard
input, folders and git histories always become a temporary file.
"""

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from prequential.errors import CorpusError
from prequential.files import common_mode, open_regular, possible_name
from prequential_corpora.corpus import Corpus, Document, Kind, StreamedCorpus, read_chunks, reading, spool, unicode_name
from prequential_corpora.tree import scan_tree

if TYPE_CHECKING:
    from prequential_corpora.shards import Shards


def open_corpus(spec: str | os.PathLike[str]) -> Corpus:
    """The corpus that `spec` names. Use it in a `with` statement, which deletes its temporary file if it has one.

    spec:
        PATH            a file, read in its place; or a folder, as the stream of `tree.py`
        -               standard input
        sample:NAME     a text of the package
        hf:...          shards of a data set on the Hugging Face hub: `hub.py`
        shards:...      a folder of Parquet files, JSON lines or compressed text, as a stream: `shards.py`
        git:REPO?...    with since=, what later commits added, as documents new/PATH and added/PATH; otherwise the files of a
                        commit; options: since, until (HEAD), languages (Python,Rust): `git_window.py`
    A path object is always a path. Write a path that looks like another form as ./- or ./hf:x.
    Raises CorpusError if the corpus is missing, unreadable or not of these kinds, OutputError if a temporary file cannot be
    written, MissingDependencyError for a data set of the hub without huggingface_hub.
    """
    if isinstance(spec, str):
        if spec == "-":
            return _spooled(read_chunks(sys.stdin.buffer, "standard input"), "stdin", "-", _stdin_mode())
        if spec.startswith("sample:"):
            return _open_file(sample_path(spec.removeprefix("sample:")), kind="sample")
        if spec.startswith("hf:"):
            from prequential_corpora.hub import hub_shards  # imports pyarrow, which takes a quarter of a second

            name, shards, origin = hub_shards(spec.removeprefix("hf:"))
            return _streamed(shards, "dataset", name, origin)
        if spec.startswith("shards:"):
            shards = _shards(spec)
            return _streamed(shards, "shards", unicode_name(Path(shards.spec.folder).absolute().name), {})
        if spec.startswith("git:"):
            return _open_git(*_git_options(spec))
    path = Path(spec)
    if stat.S_ISDIR(_status(path).st_mode):
        return _open_tree(path)
    return _open_file(path, kind="file")


def corpus_mode(spec: str | os.PathLike[str]) -> int:
    """The permissions of all files of the corpus `spec`, as `Corpus.mode`; of a model or a run, too. Raises CorpusError."""
    if isinstance(spec, str):
        if spec == "-":
            return _stdin_mode()
        if spec.startswith(("sample:", "hf:")):
            return 0o777
        if spec.startswith("shards:"):
            return _shards(spec).mode
        if spec.startswith("git:"):
            return _git_mode(_git_options(spec)[0])
    path = Path(spec)
    mode = _status(path).st_mode
    return scan_tree(path).mode if stat.S_ISDIR(mode) else mode & 0o777 | 0o600


def _status(path: Path) -> os.stat_result:
    with reading(path), possible_name(path):
        return path.stat()


def _open_file(path: Path, kind: Kind) -> Corpus:
    with reading(path):
        status, remedy = path.stat(), "to read from a pipe, pass - as the corpus"
        if not path.is_file():  # opening a pipe would block, and a device may be endless
            raise CorpusError(f"{str(path)!r} is neither a file nor a folder; {remedy}")
    name = path.stem if kind == "sample" else unicode_name(path.name)
    mode = status.st_mode & 0o777 | 0o600 if kind == "file" else 0o777
    with reading(path), open_regular(path) as file:  # refuses an unreadable file now and not in the middle of a run
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes <= 1 << 12 and len(file.read(n_bytes + 1)) != n_bytes:  # made up, as those of /proc and /sys
            raise CorpusError(f"{str(path)!r} has a false length; {remedy}")
    documents = [Document(name, 0, n_bytes)]
    return Corpus(kind=kind, name=name, path=path, n_bytes=n_bytes, documents=documents, origin={}, mode=mode)


def _stdin_mode() -> int:
    """The permissions of the file that standard input is redirected from."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # replaced by an object without a descriptor
        return 0o777
    return mode & 0o777 | 0o600 if stat.S_ISREG(mode) else 0o777


def _open_tree(folder: Path) -> Corpus:
    tree = scan_tree(folder)  # before the temporary file exists, which may be inside the folder
    corpus = _spooled(tree.stream(), "tree", unicode_name(folder.absolute().name), tree.mode)
    origin = {"n_files": len(tree.files), "n_skipped": len(tree.skipped)}
    return replace(corpus, documents=tree.documents(), origin=origin, skipped=tree.skipped)


def _shards(spec: str) -> "Shards":
    from prequential_corpora.shards import ShardsSpec, find_shards

    return find_shards(ShardsSpec.parse(spec.removeprefix("shards:")))


def _open_git(repository: str, options: Mapping[str, str]) -> Corpus:
    from prequential_corpora.git_rules import Rules
    from prequential_corpora.git_window import open_documents, read_tree, read_window

    until, languages = options.get("until", "HEAD"), options.get("languages")
    rules = Rules(languages=tuple(languages.split(",")) if languages else None)
    is_window = "since" in options
    read = read_window(repository, options["since"], until, rules) if is_window else read_tree(repository, until, rules)
    return replace(open_documents(read), mode=_git_mode(repository))


def _git_options(spec: str) -> tuple[str, dict[str, str]]:
    """The repository and the options of `git:REPO?since=...`. Raises CorpusError for an unknown option."""
    repository, _, query = spec.removeprefix("git:").partition("?")
    options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))  # a + in a date is one
    if unknown := options.keys() - {"since", "until", "languages"}:
        raise CorpusError(f"unknown options {sorted(unknown)} of {spec!r}: it takes since, until and languages")
    return unquote(repository, errors="surrogateescape"), options


def _git_mode(repository: str) -> int:
    """The permissions that the repository, its folder `.git` and the folder of its objects have in common."""
    from prequential_corpora.git_repository import find_repository

    root = find_repository(repository)
    return common_mode(root.path, root.objects, root.objects.parent)


def _streamed(shards: "Shards", kind: Kind, name: str, origin: Mapping[str, str]) -> Corpus:
    """origin: where the shards come from, beside what they say of themselves."""
    first = shards.first_pass()
    about = first._replace(origin={**origin, **first.origin})._asdict()
    path = Path(shards.spec.folder)
    return StreamedCorpus(kind=kind, name=name, path=path, mode=shards.mode, read=shards.chunks, **about)


def _spooled(chunks: Iterable[bytes], kind: Kind, name: str, mode: int) -> Corpus:
    file = spool(chunks)
    path, n_bytes = Path(file.name), file.tell()
    documents = [Document(name, 0, n_bytes)]
    return Corpus(
        kind=kind, name=name, path=path, n_bytes=n_bytes, documents=documents, origin={}, mode=mode, spool=file
    )


# ---- the bundled sample


def samples() -> dict[str, Path]:
    """All samples, from name to file, sorted by name. samples/README.md states their origins and licences."""
    with as_file(files("prequential_corpora") / "samples") as folder:
        return {path.stem: path for path in sorted(folder.glob("*.txt"))}


def sample_path(name: str) -> Path:
    """The file of one sample. Raises CorpusError for an unknown name; the message lists all names.

    Examples:
        >>> import prequential
        >>> len(prequential.sample_path("christmas_carol").read_bytes())
        158515
    """
    paths = samples()
    if name not in paths:
        raise CorpusError(f"there is no sample {name!r}; choose from {', '.join(paths)}")
    return paths[name]
