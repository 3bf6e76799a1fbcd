"""Files of a data set on the Hugging Face hub, `hf:NAME@REVISION[?OPTIONS]`, read as shards.

NAME alone means the version that was pushed last, so a revision is needed. The hub is asked for the commit and its list of files.
The files come into the cache of the library huggingface_hub. What a data set says of itself, such as splits in its metadata, is
not read: `files` selects by name, and the other options are those of shards.py.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from os import fsencode
from pathlib import Path
from typing import NamedTuple

from prequential.errors import CorpusError, MissingDependencyError
from prequential_corpora.shard_files import shard_kind
from prequential_corpora.shards import OPTIONS, Shards, ShardsSpec, is_hidden, parse_options, shards_of
from prequential_corpora.tree import Tree
from prequential_corpora.tree_restore import TreeFile

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
MOVING_REVISION = re.compile(r"main|master|HEAD|refs/.*")
HUB_TIMEOUT_S = 5.0


class HubShards(NamedTuple):
    """The shards, and the JSON values that say where they come from."""

    name: str
    shards: Shards
    origin: dict[str, str]


def hub_shards(text: str) -> HubShards:
    """The shards that `text` names, the part after `hf:`. Downloads what is not in the cache.

    Raises CorpusError, and MissingDependencyError without huggingface_hub.
    """
    address, _, query = text.partition("?")
    name, _, revision = address.partition("@")
    options = parse_options(query, {*OPTIONS, "files"})
    files = options.pop("files", "*")
    spec = ShardsSpec.of(name, options)
    if not HUB_NAME.fullmatch(name):
        raise CorpusError(f"{name!r} is not a name on the hub; files of your own are shards:FOLDER")
    if not revision or MOVING_REVISION.fullmatch(revision):
        raise CorpusError(
            f"for a data set on the hub, pin a revision that cannot change: hf:{name}@COMMIT (the commit hash in its History) or "
            "@TAG; files of your own are shards:FOLDER"
        )
    with _problems(name, revision), _quiet():
        from huggingface_hub import HfApi, hf_hub_download

        info = HfApi().dataset_info(name, revision=revision, timeout=HUB_TIMEOUT_S)
        listed = sorted(file.rfilename for file in info.siblings or ())
        wanted = [each for each in listed if shard_kind(each) and not is_hidden(fsencode(each))]
        wanted = [each for each in wanted if fnmatchcase(each, files)]
        paths = {each: Path(hf_hub_download(name, each, repo_type="dataset", revision=info.sha)) for each in wanted}
    entries = [TreeFile(fsencode(each), path.stat().st_size, False) for each, path in paths.items()]
    root = next(iter(paths.values())).parents[wanted[0].count("/")] if paths else Path(name)
    shards = shards_of(Tree(root, entries, (), 0o777), spec, n_skipped=len(listed) - len(wanted))
    return HubShards(name, shards, {"revision": revision, "commit": str(info.sha), "files": files})


@contextmanager
def _quiet() -> Iterator[None]:
    """Disables the library's progress bars and log lines inside the block, and restores the caller's settings after it."""
    from huggingface_hub import utils

    had_bars, verbosity = not utils.are_progress_bars_disabled(), utils.logging.get_verbosity()
    utils.disable_progress_bars()
    utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        utils.logging.set_verbosity(verbosity)
        if had_bars:
            utils.enable_progress_bars()


@contextmanager
def _problems(name: str, revision: str) -> Iterator[None]:
    """Makes one line of what the library raises, which are many types."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError("data sets of the hub need: pip install 'prequential[hub]'") from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        remedy = "check name, revision, login and network; files that you have already are shards:FOLDER"
        raise CorpusError(f"the hub does not give {name}@{revision}: {reason}; {remedy}") from error
