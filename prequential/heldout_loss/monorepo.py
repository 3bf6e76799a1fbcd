"""Monorepo loss: the held-out loss of what later commits added to a git repository, under a learner that read the tree before.

A point is a measurement of `heldout` over git:REPO?since=S&until=U, by a learner that reads git:REPO?until=S first. The points of
a series share their setting, and each begins where the last one ended (docs/MEASURES.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from prequential_corpora.git_repository import find_repository

from prequential.arguments import byte_count, check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.files import PathLike
from prequential.files.outputs import prepare_records
from prequential.heldout_loss.heldout import Context
from prequential.heldout_loss.request import Heldout, Record, heldout
from prequential.heldout_loss.text import window_line
from prequential.model.config import Config
from prequential.model.presets import preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.online.source import open_source
from prequential.records import LOSSES, MonorepoRecord, append_record, read_records

NOT_IN_SERIES = ("each", "all_others", "commits")  # of a loss: they may be thousands


def corpus_name(repository: PathLike, languages: Sequence[str] | None = None, **options: str) -> str:
    """The name git:REPO?... of a window, or of a tree (prequential_corpora/sources.py)."""
    if languages:
        options["languages"] = ",".join(languages)
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
    return f"git:{quote(os.fspath(repository), errors='surrogateescape')}?{query}"


def read_series(path: PathLike) -> list[Record]:
    """The records of a series, oldest first. Raises CorpusError if there is no such file, or if a line is not a record.

    Examples:
        >>> import prequential
        >>> prequential.read_series("none.jsonl")
        Traceback (most recent call last):
        prequential.errors.CorpusError: 'none.jsonl' does not exist: name the file of a series
    """
    check_arguments(path=path)
    if not os.path.lexists(path):
        raise CorpusError(f"{os.fspath(path)!r} does not exist: name the file of a series")
    return [record for _, record in read_records(path, MonorepoRecord)]


def _setting(points: Sequence[Record], given: Mapping[str, Any]) -> Record:
    """What all points share, config as a Config. given: None: as before, or the default. Raises ConfigError if it differs."""
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(languages := given.get("languages"), str):
        raise wrong_argument("languages", languages, "a list of names")
    given |= {"languages": list(languages)} if languages else {}
    if not points:
        none = dict.fromkeys(("languages", "train_limit_bytes"))
        return {"config": preset(), "context": "carried"} | none | given
    setting = {**points[-1]["setting"], "config": Config.from_record(points[-1]["setting"]["config"])}
    _check_same(setting, given)
    return setting


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises CorpusError if points of the two would not be comparable."""
    if names := [name.removesuffix("_bytes") for name, value in now.items() if before[name] != value]:
        raise CorpusError(f"the series has another {', '.join(names)}: begin a new series")


def monorepo(
    repository: PathLike,
    *,
    since: str | None = None,
    until: str = "HEAD",
    languages: Sequence[str] | None = None,
    context: Context | None = None,
    series: PathLike | None = None,
    config: Config | None = None,
    train_limit: int | str | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
    show: Callable[[Heldout], object] = lambda point: None,
) -> Heldout:
    """The loss of what the commits of a git repository after `since`, up to `until`, added: new files and lines.

    A learner of this `config` (default: preset 5) reads the tree before the window first. context: of the frozen loss, as in
    `prequential.heldout`; intervals are over commits. Trained models are scored by `heldout` over git:REPO?since=...

    Only what is named here is written: series, the file to which the result is appended as the next point, after it was given to
    `show`. An existing one gives since, config, languages, context and limit. A window in which nothing can be scored gives a
    result without records. Raises ConfigError, CorpusError, OutputError.

    Examples:
        >>> import prequential
        >>> prequential.monorepo(".")
        Traceback (most recent call last):
        prequential.errors.ConfigError: give since=, the beginning of the window
    """
    check_arguments(path=repository, config=config, train_limit=train_limit, runtime=runtime, on_progress=on_progress)
    points = read_series(series) if series is not None and os.path.lexists(series) else []
    if since is None and not points:
        find_repository(repository)  # raises its own error
        raise ConfigError("give since=, the beginning of the window")
    chosen = {"config": config, "languages": languages, "context": context}
    setting = _setting(points, {**chosen, "train_limit_bytes": byte_count(train_limit)})
    named = partial(corpus_name, repository, setting["languages"])
    window = open_source(named(since=since or points[-1]["test"]["until"], until=until))
    if (before := window.origin["since"]) is None:
        raise CorpusError(f"there is no tree to train on before the window: {window.name!r} begins later")
    if points:  # it must continue the series
        _check_same(points[-1]["test"], {"name": window.name, "rules": window.origin["rules"], "until": before})
    if not window.n_bytes:
        text = f"{window.name}: nothing to score, and nothing is appended; {window_line(window.origin)}"
        show(empty := Heldout(records=(), rows=(), text=text))
        return empty
    if series is not None:
        prepare_records(series, window.mode)
    test, train = named(since=str(before), until=str(window.origin["until"])), named(until=str(before))
    about = {"train_limit": setting["train_limit_bytes"], "runtime": runtime, "on_progress": on_progress}
    point = heldout(test, train=train, config=setting["config"], context=setting["context"], **about)
    more = {"kind": "monorepo", "setting": {**setting, "config": setting["config"].to_dict()}}
    point = replace(point, records=({**point.record, **more},))
    show(point)
    if series is not None:
        losses = {loss: {k: v for k, v in point.record[loss].items() if k not in NOT_IN_SERIES} for loss in LOSSES}
        append_record(series, {**point.record, **losses}, window.mode)
    return point
