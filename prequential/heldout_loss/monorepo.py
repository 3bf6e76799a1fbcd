"""Monorepo loss: the held-out loss of what later commits added to a git repository, under a learner that read the tree before.

A point is a measurement of `heldout` over git:REPO?since=S&until=U, by a learner that reads git:REPO?until=S first. The points of
a series share their setting, and each begins where the last one ended (docs/MEASURES.md).
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.files import PathLike
from prequential.files.outputs import prepare_records
from prequential.heldout_loss.heldout import Context, Policy
from prequential.heldout_loss.request import Heldout, HeldoutRequest, measure, stages
from prequential.heldout_loss.run import Passes, Stage, Warn
from prequential.heldout_loss.text import window_line
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.online.source import open_source
from prequential.records import LOSSES, MonorepoRecord, append_record, check_record, parse_object, read_lines
from prequential.version import VERSION

Record = dict[str, Any]
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
    records = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"line {number} of {os.fspath(path)!r}"
        try:
            records.append(check_record(parse_object(line, where), MonorepoRecord, where))
        except CorpusError as error:
            raise CorpusError(f"{error}: delete the line, or name another series") from error
    return records


def measure_point(
    repository: PathLike,
    given: Mapping[str, Any],
    *,
    since: str | None,
    until: str,
    series: PathLike | None,
    runtime: Runtime,
    stage: Stage,
    warn: Warn,
    show: Callable[[Heldout], object],
) -> None:
    """Measures the next point of a series, shows it, and appends it. Without records if the window has nothing to score.

    given: its setting (records.py, SeriesFields); None: as before, or the default. Raises ConfigError, CorpusError, OutputError.
    """
    given = {name: value for name, value in given.items() if value is not None}
    points = read_series(series) if series is not None and os.path.lexists(series) else []
    if since is None and not points:
        raise ConfigError("give since=, the beginning of the window")
    last = points[-1] if points else None
    setting: Record = {"config": preset(), "context": "carried"} | dict.fromkeys(
        ("languages", "train_limit_bytes", "stride")
    )
    if last:
        setting = {**last["setting"], "config": Config.from_record(last["setting"]["config"])}
        _check_same(setting, given)
        since = since or last["test"]["until"]
    setting |= given
    test = corpus_name(repository, setting["languages"], since=str(since), until=until)
    with open_source(test) as window:
        before = window.origin["since"]
        if before is None:
            raise CorpusError(f"there is no tree to train on at {since}: the history begins later")
        if last:
            _check_same(last["test"], {"name": window.name, "rules": window.origin["rules"], "until": before})
            if (version := last["environment"]["versions"]["prequential"]) != VERSION:
                warn(f"version {version} made the last point, {VERSION} makes this one: the learner may have changed")
        if not window.n_bytes:
            text = f"{window.name}: nothing to score, and nothing is appended; {window_line(window.origin)}"
            show(Heldout(records=(), rows=(), text=text))
            return
        if series is not None:
            prepare_records(series, window.mode)
        request = HeldoutRequest(
            test=test,
            train=corpus_name(repository, setting["languages"], until=str(before)),
            config=setting["config"],
            passes=Passes(frozen=Policy(setting["context"], setting["stride"])),
            train_limit_bytes=setting["train_limit_bytes"],
            runtime=runtime,
        )
        measured = measure(request, stage=stage, warn=warn, opened=window)
        record = {**measured.record, "kind": "monorepo", "setting": {**setting, "config": setting["config"].to_dict()}}
        show(replace(measured, records=(record,)))
        if series is not None:
            losses = {loss: {k: v for k, v in record[loss].items() if k not in NOT_IN_SERIES} for loss in LOSSES}
            append_record(series, {**record, **losses}, window.mode)


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ConfigError if points of the two would not be comparable."""
    if names := [name.removesuffix("_bytes") for name, value in now.items() if before[name] != value]:
        raise ConfigError(
            f"the series has another {', '.join(names)}, so the point would not continue it: begin a new series"
        )


@engine_call()
def monorepo(
    repository: PathLike,
    *,
    since: str | None = None,
    until: str = "HEAD",
    languages: Sequence[str] | None = None,
    context: Context | None = None,
    stride: int | None = None,
    series: PathLike | None = None,
    config: Config | None = None,
    train_limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
) -> Heldout:
    """The loss of what the commits of a git repository after `since`, up to `until`, added: new files and lines.

    A learner of this `config` (default: preset 5) reads the tree before the window first. context, stride: of the frozen loss, as
    in `prequential.heldout`; intervals are over commits. Trained models are scored by `heldout` over git:REPO?since=...

    Only what is named here is written: series, the file to which the result is appended as the next point; an existing one gives
    since, config, languages, context and limit. A window in which nothing can be scored gives a result without records. Raises
    ConfigError, CorpusError, OutputError.

    Examples:
        >>> import prequential
        >>> prequential.monorepo(".")
        Traceback (most recent call last):
        prequential.errors.ConfigError: give since=, the beginning of the window
    """
    check_arguments(path=repository, config=config, runtime=runtime, on_progress=on_progress)
    if languages is not None and (isinstance(languages, str) or not all(isinstance(each, str) for each in languages)):
        raise wrong_argument("languages", languages, "a list of names")
    results = list[Heldout]()
    measure_point(
        repository,
        {
            "config": config,
            "languages": None if languages is None else list(languages),
            "train_limit_bytes": train_limit_bytes,
            "context": context,
            "stride": stride,
        },
        since=since,
        until=until,
        series=series,
        runtime=runtime or Runtime(),
        stage=stages(on_progress),
        warn=logging.getLogger(__name__).warning,
        show=results.append,
    )
    return results[0]
