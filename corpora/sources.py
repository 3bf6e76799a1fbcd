"""From a corpus's name on the command line to an open corpus: `open_corpus`, the one way in.

A file is used where it lies. Data sets and shards are read from front to back, as often as they are asked for, and become a
temporary file only where random access is; standard input and folders always do.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from prequential.corpora.bundled import sample_path
from prequential.corpora.chunks import read_chunks, reading, spool
from prequential.corpora.corpus import Corpus, Document, Kind
from prequential.corpora.dataset import load_rows
from prequential.corpora.dataset_spec import DatasetSpec
from prequential.corpora.shards import ShardsSpec, find_shards
from prequential.corpora.streamed import ReadChunks, StreamedCorpus, Survey
from prequential.corpora.tree import scan_tree
from prequential.errors import CorpusError


def open_corpus(spec: str | os.PathLike[str], *, spool_dir: str | os.PathLike[str] | None = None) -> Corpus:
    """The corpus that `spec` names; use it in a `with` statement, which removes its temporary file if it has one.

    spec:
        PATH            a file, mapped where it is; or a folder, as the stream of `tree.py`
        -               standard input
        sample:NAME     a text that comes with the package
        hf:...          a data set in local files or on the Hugging Face hub: `dataset_spec.py`
        shards:...      a folder of Parquet files, JSON lines or compressed text, as a stream: `shards.py`
    A path object is always a path; a path in a string that looks like another form is written ./-, ./hf:x.
    spool_dir: where temporary files go, at most as large as the corpus; the system's temporary folder where None.

    Raises CorpusError where the corpus is missing, unreadable or not of these kinds, OutputError where it cannot be
    spooled, MissingDependencyError for a data set without the `datasets` package.
    """
    if isinstance(spec, str):
        if spec == "-":
            return _open_stdin(spool_dir)
        if spec.startswith("sample:"):
            return _open_file(sample_path(spec.removeprefix("sample:")), kind="sample")
        if spec.startswith("hf:"):
            return _open_dataset(DatasetSpec.parse(spec.removeprefix("hf:")), spool_dir)
        if spec.startswith("shards:"):
            return _open_shards(ShardsSpec.parse(spec.removeprefix("shards:")), spool_dir)
    path = Path(spec)
    if path.is_dir():
        return _open_tree(path, spool_dir)
    return _open_file(path, kind="file")


def _open_file(path: Path, kind: Kind) -> Corpus:
    with reading(path):
        status = path.stat()
        if not path.is_file():  # opening a pipe would block, and a device may never end
            raise CorpusError(
                f"{str(path)!r} is neither a file nor a folder; to read from a pipe, pass - as the corpus"
            )
        path.open("rb").close()  # refuse an unreadable file now rather than in the middle of a run
    name = path.stem if kind == "sample" else _printable(path.name)
    documents = [Document(name, 0, status.st_size)]
    return Corpus(kind=kind, name=name, path=path, n_bytes=status.st_size, documents=documents, origin={})


def _open_stdin(spool_dir: str | os.PathLike[str] | None) -> Corpus:
    file = spool(read_chunks(sys.stdin.buffer, "standard input"), spool_dir)
    return _spooled(file, "stdin", "-", [Document("-", 0, file.tell())], {})


def _open_tree(folder: Path, spool_dir: str | os.PathLike[str] | None) -> Corpus:
    tree = scan_tree(folder)  # before the spool exists, which may lie inside the folder
    file = spool(tree.stream(), spool_dir, tree.n_bytes)
    name = _printable(folder.absolute().name)
    return _spooled(file, "tree", name, tree.documents(), {"n_files": len(tree.files), "n_skipped": tree.n_skipped})


def _open_dataset(spec: DatasetSpec, spool_dir: str | os.PathLike[str] | None) -> Corpus:
    name = _printable(Path(spec.source).name) if spec.revision is None else spec.source
    with ExitStack() as resources:
        rows = resources.enter_context(load_rows(spec, spool_dir))
        found = rows.survey(spool_dir)
        return _streamed("dataset", name, Path(spec.source), found, rows.chunks, spool_dir, resources.pop_all())


def _open_shards(spec: ShardsSpec, spool_dir: str | os.PathLike[str] | None) -> Corpus:
    shards, path = find_shards(spec), Path(spec.folder)
    name = _printable(path.absolute().name)
    return _streamed("shards", name, path, shards.survey(spool_dir), shards.chunks, spool_dir, ExitStack())


def _streamed(
    kind: Kind,
    name: str,
    path: Path,
    found: Survey,
    read: ReadChunks,
    spool_dir: str | os.PathLike[str] | None,
    resources: ExitStack,
) -> Corpus:
    return StreamedCorpus(
        kind=kind,
        name=name,
        path=path,
        n_bytes=found.n_bytes,
        documents=found.documents,
        origin=found.origin,
        read=read,
        digest=found.blake2b,
        spool_dir=spool_dir,
        resources=resources,
    )


def _spooled(
    file: IO[bytes], kind: Kind, name: str, documents: Sequence[Document], origin: Mapping[str, str | int | None]
) -> Corpus:
    return Corpus(
        kind=kind,
        name=name,
        path=Path(file.name),
        n_bytes=file.tell(),
        documents=documents,
        origin=origin,
        spool=file,
    )


def _printable(name: str) -> str:
    r"""A file name as valid Unicode: bytes that are not UTF-8 become \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
