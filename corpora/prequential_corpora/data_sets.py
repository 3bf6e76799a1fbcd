"""Data sets as the library `datasets` reads them: from the hub, from a folder of `save_to_disk`, or given in Python."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from os import fsencode
from pathlib import Path
from typing import Any

from prequential.errors import CorpusError, PrequentialError
from prequential_corpora.corpus import Corpus, Documents, spooled, unicode_name
from prequential_corpora.rows import OPTIONS, BadRowError, RowOptions, columns_of, parse_options, text_of
from prequential_corpora.shards import Shards, is_hidden, shard_kind, shards_of
from prequential_corpora.tree import Tree, is_saved, scan_tree
from prequential_corpora.tree_restore import TreeEntry

COMMIT = re.compile("[0-9a-f]{40}")
HUB_ADDRESS = re.compile(r"//datasets/([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.+))?")
HUB_TIMEOUT_S = 5.0
LOADED = {"config", "split", "streaming"}


def open_named(text: str) -> Corpus:
    """The documents of the data set that `text` names, the part after `hf:`: NAME[@REVISION][?OPTIONS], or an address of the hub.

    Read as by `load_dataset`, or with `files` as shards; for a folder, as by `load_from_disk`. Raises CorpusError.
    """
    address, _, query = text.partition("?")
    options = parse_options(query, OPTIONS | LOADED | {"files"})
    name, _, revision = address.partition("@")
    if parts := HUB_ADDRESS.fullmatch(address):
        name, revision = parts[1], (parts[2] or "").replace("%2F", "/")
        options |= {"files": parts[3]} if parts[3] else {}
    files, loaded = options.pop("files", None), {each: options.pop(each) for each in LOADED if each in options}
    if loaded.get("streaming") not in (None, "true", "false") or (loaded and files is not None):
        raise CorpusError(f"cannot read the options {query!r}: files= takes no config, split or streaming=true")
    rows, split = RowOptions.of(options), loaded.get("split")
    if Path(address).is_dir():
        return open_saved(Path(address), rows, split)
    with _problems(text), _quiet():
        from datasets import load_dataset
        from huggingface_hub import HfApi

        commit = revision
        if not COMMIT.fullmatch(revision):  # a commit in the cache needs no network
            commit = str(HfApi().dataset_info(name, revision=revision or None, timeout=HUB_TIMEOUT_S).sha)
        about: dict[str, str | int | None] = {"revision": revision or "main", "commit": commit}
        if files is not None:
            return _hub_shards(name, commit, files, rows).open("dataset", name, about | {"files": files})
        streaming = loaded.get("streaming") == "true"
        data = load_dataset(name, loaded.get("config"), split=split, revision=commit, streaming=streaming)
        return _open(data, name, rows, about)


def open_saved(folder: Path, rows: RowOptions, split: str | None) -> Corpus:
    """The documents of a folder of `save_to_disk`. Raises CorpusError."""
    tree = scan_tree(folder)
    if not is_saved(folder) or tree.skipped:
        raise CorpusError(f"{str(folder)!r} is not a folder of save_to_disk; files of your own are shards:FOLDER")
    with _problems(str(folder)), _quiet():
        from datasets import load_from_disk

        data = load_from_disk(str(folder))
        corpus = _open(data if split is None else data[split], unicode_name(folder.absolute().name), rows, {})
    return replace(corpus, mode=tree.mode, skipped=[file.name for file in tree.files])


def open_given(data: Any) -> Corpus:
    """The documents of a data set of `datasets`, or of a column of one. Raises CorpusError."""
    with _problems("given"):
        return _open(getattr(data, "source", data), "", RowOptions(column=getattr(data, "column_name", None)), {})


def _open(data: Any, name: str, rows: RowOptions, about: dict[str, str | int | None]) -> Corpus:
    """about: JSON values that say where the data set comes from."""
    if isinstance(data, dict):
        if len(data) != 1:
            raise CorpusError(f"the data set has the splits {', '.join(data)}: choose one (?split=, or data[SPLIT])")
        (data,) = data.values()
    places = Documents(rows.separator.encode())
    name, texts = name or str(data.info.dataset_name or ""), rows.chosen(_texts(data, rows.column))
    corpus = spooled(places.stream((None, (text,)) for text in texts), "dataset", name, documents=places)
    found = {"config": data.info.config_name, "split": data.split and str(data.split)}
    found["fingerprint"] = getattr(data, "_fingerprint", None)  # of a stream there is none
    return replace(corpus, origin=about | found | rows.describe(len(places)))


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


def _hub_shards(name: str, commit: str, files: str, rows: RowOptions) -> Shards:
    """The plain files of a commit on the hub that are shards and fit the pattern `files`. They come into the library's cache."""
    from huggingface_hub import HfApi, hf_hub_download

    listed = sorted(HfApi().list_repo_files(name, revision=commit, repo_type="dataset"))
    wanted = [
        each for each in listed if shard_kind(each) and not is_hidden(fsencode(each)) and fnmatchcase(each, files)
    ]
    paths = {each: Path(hf_hub_download(name, each, repo_type="dataset", revision=commit)) for each in wanted}
    entries = [TreeEntry(fsencode(each), path.stat().st_size, False) for each, path in paths.items()]
    root = next(iter(paths.values())).parents[wanted[0].count("/")] if paths else Path(name)
    return shards_of(Tree(root, entries, (), 0o777), name, rows, len(listed) - len(wanted))


@contextmanager
def _quiet() -> Iterator[None]:
    """Disables the libraries' progress bars and log lines inside the block, and restores the caller's settings after it."""
    from datasets import utils as datasets_utils
    from huggingface_hub import utils as hub_utils

    with ExitStack() as stack:
        for library in (datasets_utils, hub_utils):
            stack.callback(library.logging.set_verbosity, library.logging.get_verbosity())
            if not library.are_progress_bars_disabled():
                stack.callback(library.enable_progress_bars)
            library.disable_progress_bars()
            library.logging.set_verbosity_error()
        yield


@contextmanager
def _problems(name: str) -> Iterator[None]:
    """Makes one line of what the libraries raise, which are many types."""
    try:
        yield
    except PrequentialError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        remedy = "check name, revision, login and network; files that you have already are shards:FOLDER"
        raise CorpusError(f"cannot read the data set {name}: {reason}; {remedy}") from error
