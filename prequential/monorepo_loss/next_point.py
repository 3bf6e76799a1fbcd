"""The next point of a series: the file of the series, the window of the point, its setting, and the model of the series."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prequential_corpora.git.file_rules import Rules
from prequential_corpora.git.repository import find_repository
from prequential_corpora.git.window import GitDocuments, read_tree, read_window

from prequential.errors import ConfigError, CorpusError
from prequential.heldout_loss.trained import TrainedOn
from prequential.model.learner import OnlineLearner
from prequential.monorepo_loss.monorepo import open_tree
from prequential.monorepo_loss.series import Setting
from prequential.online.model_store import load_model
from prequential.online.runtime import Runtime
from prequential.online.source import source_of


@dataclass(frozen=True, kw_only=True)
class NextPoint:
    """Everything that a point needs before it is computed. series: the file. records: the points of the series so far."""

    repository: str
    series: Path
    records: Sequence[dict[str, Any]]
    setting: Setting
    window: GitDocuments


def series_path(folder: str, repository: str) -> Path:
    """The default file of the series of a repository: FOLDER/NAME.series.jsonl."""
    name = find_repository(repository).name
    return Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'repo'}.series.jsonl"


def next_window(
    repository: str, records: Sequence[dict[str, Any]], since: str, until: str, rules: Rules
) -> GitDocuments:
    """The documents that the commits after `since`, up to `until`, added.

    Raises ConfigError if the window does not continue the series, CorpusError if there is no tree at its beginning.
    """
    name, last = find_repository(repository).name, records[-1]["test"] if records else None
    if last and last["name"] != name:
        raise ConfigError(
            f"the series belongs to the repository {last['name']!r}, not to {name!r}: name another series"
        )
    window = read_window(repository, since, until, rules)
    if window.since is None:
        raise CorpusError(f"there is no tree to train on at {since}: the history begins later")
    if last and window.since != last["until"]:
        raise ConfigError(
            f"the series ended at {last['until'][:12]}, but the window begins at {window.since[:12]}: leave out since=, "
            "or name another series"
        )
    return window


def check_same_setting(previous: Setting, setting: Setting) -> None:
    """Raises ConfigError if points of the two settings are not comparable."""
    names = ["model" if name == "fixed" else name.removesuffix("_bytes") for name in previous.differing(setting)]
    if names:
        raise ConfigError(
            f"the series has another {', '.join(names)}, so the points would not be comparable: begin a new series"
        )


def load_series_model(folder: str, point: NextPoint, runtime: Runtime) -> tuple[OnlineLearner, TrainedOn]:
    """The stored learner of a series with one model for all points, and the tree that it was trained on.

    Raises ConfigError if the model does not belong to the series, CorpusError if its tree is not before the window.
    """
    stored = load_model(folder, runtime)
    about, commit = stored.trained_on, stored.trained_on.get("until")
    if point.records and stored.learner.digest().hex() != point.records[-1]["learner_digest"]:
        raise ConfigError(f"the model in {folder!r} is not the model of the series: name that one")
    if stored.config != point.setting.config or about.get("read") != "tree" or not isinstance(commit, str):
        raise ConfigError(f"the model in {folder!r} has another configuration, or was not trained on a git tree")
    read_window(point.repository, commit, str(point.window.since))  # raises if that tree is not before the window
    with open_tree(read_tree(point.repository, commit, point.setting.rules)) as corpus:
        source = source_of(corpus, point.setting.train_limit_bytes)
        if source.blake2b.hex() != about.get("blake2b"):
            raise ConfigError(f"the model in {folder!r} was trained on other bytes of that tree")
        symbols = source.symbols[:]
    return stored.learner, TrainedOn(kind="model", about=about, symbols=symbols, documents=source.documents)
