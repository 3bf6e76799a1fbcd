"""Data sets as the library `datasets` reads them: from the hub, from a folder of `save_to_disk`, or given in Python."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import filter as matching
from itertools import islice
from os import fsencode
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prequential.errors import CorpusError, PrequentialError
from prequential_corpora.corpus import Corpus, Documents, copied, unicode_name
from prequential_corpora.rows import BadRowError, RowOptions, columns_of, parse_options, text_of
from prequential_corpora.shards import HIDDEN, read_shards, shard_kind
from prequential_corpora.tree import Tree, is_saved, scan_tree
from prequential_corpora.tree_restore import TreeEntry

COMMIT = re.compile("[0-9a-f]{40}")
HUB_ADDRESS = re.compile(r"//datasets/([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.+))?")
HUB_TIMEOUT_S = 5.0


class DataSetOptions(RowOptions, kw_only=True, frozen=True):
    """As of `load_dataset`; or files: a pattern of the names of plain files."""

    config: str | None = None
    split: str | None = None
    streaming: bool = False
    files: str | None = None

    def __post_init__(self) -> None:
        if self.files is not None and (self.config or self.split or self.streaming):
            raise ValueError("files= reads plain files: leave out config, split and streaming")


def open_named(text: str) -> Corpus:
    """The documents of the data set that `text` names, the part after `hf:`: NAME[@REVISION][?OPTIONS], or an address of the hub.

    Read as by `load_dataset`, or with `files` as shards; for a folder, as by `load_from_disk`. Raises CorpusError.
    """
    address, _, query = text.partition("?")
    name, _, revision = address.partition("@")
    if parts := HUB_ADDRESS.fullmatch(address):
        name, revision = parts[1], (parts[2] or "").replace("%2F", "/")
        query += f"{'&' * bool(query)}files={quote(parts[3])}" if parts[3] else ""
    options = parse_options(query, DataSetOptions)
    if Path(address).is_dir():
        return open_saved(Path(address), options)
    with _library(text):
        from datasets import load_dataset
        from huggingface_hub import HfApi

        commit = revision
        if not COMMIT.fullmatch(revision):  # a commit in the cache needs no network
            commit = str(HfApi().dataset_info(name, revision=revision or None, timeout=HUB_TIMEOUT_S).sha)
        about: dict[str, str | int | None] = {"revision": revision or "main", "commit": commit}
        if options.files is not None:
            corpus = _hub_shards(name, commit, options.files, options)
            origin = {**about, "files": options.files, **corpus.origin}
            return replace(corpus, kind="dataset", name=name, origin=origin)
        how = {"split": options.split, "revision": commit, "streaming": options.streaming}
        return _open(load_dataset(name, options.config, **how), name, options, about)


def open_saved(folder: Path, options: DataSetOptions) -> Corpus:
    """The documents of a folder of `save_to_disk`. Raises CorpusError."""
    tree = scan_tree(folder)
    if not is_saved(folder) or tree.skipped or options.config or options.files is not None:
        wrong = "is not a folder of save_to_disk, of which ?split= can be chosen; files of your own are shards:FOLDER"
        raise CorpusError(f"{str(folder)!r} {wrong}")
    with _library(str(folder)):
        from datasets import load_from_disk

        data = load_from_disk(str(folder))
        data = data if options.split is None else data[options.split]
        corpus = _open(data, unicode_name(folder.absolute().name), options, {})
    return replace(corpus, mode=tree.mode)


def open_given(data: Any) -> Corpus:
    """The documents of a data set of `datasets`, or of a column of one. Raises CorpusError."""
    with _library("given"):
        return _open(getattr(data, "source", data), "", RowOptions(column=getattr(data, "column_name", None)), {})


def _open(data: Any, name: str, rows: RowOptions, about: dict[str, str | int | None]) -> Corpus:
    """about: JSON values that say where the data set comes from."""
    if isinstance(data, dict):
        if len(data) != 1:
            raise CorpusError(f"the data set has the splits {', '.join(data)}: choose one (?split=, or data[SPLIT])")
        (data,) = data.values()
    places = Documents(rows.separator.encode())
    name, texts = name or str(data.info.dataset_name or "data set"), _texts(data, rows.column)
    copy = copied(places.stream((None, (text,)) for text in islice(texts, rows.rows)))
    found = {"config": data.info.config_name, "split": data.split and str(data.split)}
    found["fingerprint"] = getattr(data, "_fingerprint", None)  # of a stream there is none
    return Corpus("dataset", name, copy, places, about | found | rows.describe(len(places)))


def _texts(data: Any, option: str | None) -> Iterator[bytes]:
    row = 0
    try:
        if kinds := data.features:  # so that no other column, such as pictures, is decoded
            strings = [name for name, kind in kinds.items() if getattr(kind, "dtype", "") in ("string", "large_string")]
            data = data.select_columns(columns_of(option, list(kinds), strings))
        for each in data.with_format(None):
            yield text_of(each, option)
            row += 1
    except BadRowError as error:
        raise CorpusError(f"row {row} of the data set: {error}") from error


def _hub_shards(name: str, commit: str, files: str, rows: RowOptions) -> Corpus:
    """The plain files of a commit on the hub that are shards and fit the pattern `files`. They come into the library's cache."""
    from huggingface_hub import HfApi, hf_hub_download

    listed = sorted(HfApi().list_repo_files(name, revision=commit, repo_type="dataset"))
    wanted = [each for each in matching(listed, files) if shard_kind(each) and not HIDDEN.search(fsencode(each))]
    paths = {each: Path(hf_hub_download(name, each, repo_type="dataset", revision=commit)) for each in wanted}
    entries = [TreeEntry(fsencode(each), path.stat().st_size, False) for each, path in paths.items()]
    root = next(iter(paths.values())).parents[wanted[0].count("/")] if paths else Path(name)
    return read_shards(Tree(root, entries, (), 0o777), name, rows, len(listed) - len(wanted))


@contextmanager
def _library(name: str) -> Iterator[None]:
    """Inside the block the libraries log and draw nothing, and what they raise, which are many types, is one line."""
    from datasets import utils as datasets_utils
    from huggingface_hub import utils as hub_utils

    with ExitStack() as afterwards:
        for library in (datasets_utils, hub_utils):
            afterwards.callback(library.logging.set_verbosity, library.logging.get_verbosity())
            if not library.are_progress_bars_disabled():
                afterwards.callback(library.enable_progress_bars)
            library.disable_progress_bars()
            library.logging.set_verbosity_error()
        try:
            yield
        except PrequentialError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            remedy = "check name, revision, login and network; files that you have already are shards:FOLDER"
            raise CorpusError(f"cannot read the data set {name}: {reason}; {remedy}") from error
