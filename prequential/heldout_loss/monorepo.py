"""Monorepo loss: the cost of a window of a git repository under a learner that was trained on the tree before the window.

A point is one window, measured like any held-out corpus (heldout_loss/run.py), with its bytes in the order of the commits, by new
files and added lines. docs/MEASURES.md says which bytes it has.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from prequential_corpora.git_repository import find_repository
from prequential_corpora.git_rules import Rules
from prequential_corpora.git_window import GitCorpus, GitDocuments, open_documents, read_tree, read_window

from prequential.arguments import check_arguments
from prequential.comparison.clusters import Grouping
from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.files import PathLike, common_mode
from prequential.files.outputs import prepare_records
from prequential.heldout_loss.documents import DocumentSet, documents_of
from prequential.heldout_loss.heldout import Context, Policy
from prequential.heldout_loss.request import (
    Heldout,
    Keep,
    keep_nothing,
    measure_models,
    models_of,
    names_of,
    rows_of,
    stages,
)
from prequential.heldout_loss.run import LoadLearner, Passes, Stage, Warn, check_size, measure_heldout
from prequential.heldout_loss.scored import NO_MODELS, Models
from prequential.heldout_loss.summary import kinds_of
from prequential.heldout_loss.text import format_tables, verdict
from prequential.heldout_loss.trained import TrainedOn, describe, train_on
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.online.source import Source, source_of
from prequential.printable import printable
from prequential.records import LOSSES, MonorepoRecord, append_record, check_record, parse_object, read_lines, record_of
from prequential.version import VERSION


def measure_point(
    load: LoadLearner,
    window: GitCorpus,
    runtime: Runtime,
    policy: Policy,
    setting: Mapping[str, Any],
    *,
    stage: Stage,
    warn: Warn,
) -> dict[str, Any]:
    """The record of a point: as of `measure_heldout`, with kinds. setting: of the series, as JSON values."""
    test = named_source(window)
    passes = Passes(frozen=policy, grouping=commits_of(window))
    measured = measure_heldout(load, test, runtime, passes, stage=stage, warn=warn)
    record = measured.to_record({**describe(test), "limit_bytes": None}, runtime)
    for name in LOSSES:
        record[name]["kinds"] = [group.to_record() for group in kinds_of(measured.losses[name])]
    more = {"kind": "monorepo", "setting": dict(setting), "excluded": dict(window.excluded)}
    return record_of(MonorepoRecord, **{**record, **more})


def commits_of(window: GitCorpus) -> Grouping:
    """The commit of each document: what one commit adds belongs together."""
    return Grouping("commit", [commit for commit, _ in window.commits])


def named_source(window: GitCorpus) -> Source:
    """The window with the names new/PATH and added/PATH of its documents."""
    pairs = zip(window.documents, window.kinds, strict=True)
    documents = [document._replace(name=f"{kind}/{document.name}") for document, kind in pairs]
    return replace(source_of(window), documents=documents)


def train_on_tree(
    documents: GitDocuments, limit_bytes: int | None, learner: Callable[[], OnlineLearner], on_progress: OnProgress
) -> tuple[OnlineLearner, TrainedOn]:
    """Trains a new learner on the tree, or on the first limit_bytes of its files. Raises CorpusError as `open_tree` does."""
    with open_tree(documents) as corpus:
        return train_on(source_of(corpus, limit_bytes), learner(), on_progress)


def open_tree(documents: GitDocuments) -> GitCorpus:
    """The files of `read_tree` as a training corpus. Raises CorpusError if the rules keep no file of the tree."""
    corpus = open_documents(documents)
    if not any(document.n_bytes for document in corpus.documents):
        corpus.close()
        at = str(corpus.origin["until"])[:12]
        raise CorpusError(f"nothing to learn from in the tree of {corpus.name!r} at {at}{reasons(corpus.excluded)}")
    return corpus


def reasons(excluded: Mapping[str, int]) -> str:
    """The number of files left out by reason, as the end of a sentence: `; left out: 3 binary, 1 lock`."""
    counts = ", ".join(f"{n} {reason}" for reason, n in sorted(excluded.items(), key=lambda pair: -pair[1]))
    return f"; left out: {counts}" if counts else ""


# ---- text


def format_point(record: dict[str, Any]) -> str:
    """The commits, and the held-out measurement."""
    window, train = record["test"], record["train"]
    until = f"{window['until'][:12]} ({window['until_date']})"
    lines = [
        f"window: {window['n_commits']} commits after {window['since'][:12]}, up to {until}{reasons(record['excluded'])}",
        f"trained on: the tree at {train['until'][:12]} ({train['until_date']})",
    ]
    head = "\n".join(map(printable, lines))
    return "\n\n".join([head, *format_tables(record), verdict(record)])


def format_empty_window(window: GitCorpus) -> str:
    """One line that says that a window has nothing to score, and why its files were left out."""
    n_commits, since = window.origin["n_commits"], str(window.origin["since"])[:12]
    excluded = reasons(window.excluded)
    return f"{printable(window.name)}: {n_commits} commits after {since} have nothing to score{excluded}; nothing is appended"


# ---- series


@dataclass(frozen=True, kw_only=True)
class SeriesSetting:
    """What the points of a series share.

    train_limit_bytes: of a tree, in the order of paths; None: all. context, stride: of the frozen loss (`policy`).
    Raises ConfigError if the learner cannot be measured under the policy.
    """

    config: Config
    rules: Rules
    train_limit_bytes: int | None = None
    context: Context = "carried"
    stride: int | None = None

    def __post_init__(self) -> None:
        self.policy.stride_for(self.config)
        if self.train_limit_bytes is not None and self.train_limit_bytes < 1:
            raise ConfigError(f"the training limit is {self.train_limit_bytes} bytes: it must be at least 1")

    @property
    def policy(self) -> Policy:
        """The policy of the frozen loss."""
        return Policy(self.context, self.stride)

    def to_record(self) -> dict[str, Any]:
        """JSON values. The digest of the rules also covers their tables."""
        rules = {**asdict(self.rules), "digest": self.rules.digest()}
        return {**asdict(self), "config": self.config.to_dict(), "rules": rules}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "SeriesSetting":
        """The setting in the record of a point. Raises CorpusError if it is not valid, ConfigError for other rules of files."""
        try:
            values = dict(record["setting"])
            values.pop("fixed", None)  # of earlier versions
            given = dict(values["rules"])
            digest, languages = given.pop("digest"), given.pop("languages")
            rules = Rules(**given, languages=None if languages is None else tuple(languages))
            setting = cls(**{**values, "config": Config.from_record(values["config"]), "rules": rules})
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CorpusError(f"the series has a record without a complete setting: {error}") from error
        if rules.digest() != digest:
            raise ConfigError("this program chooses files by other rules than the series: begin a new series")
        return setting

    def differing(self, other: "SeriesSetting") -> list[str]:
        """Names of the fields that differ. Points with different fields are not comparable."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


def read_series(path: PathLike) -> list[dict[str, Any]]:
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
            if not line.endswith(b"\n"):
                raise CorpusError(f"{where} is cut off")
            records.append(check_record(parse_object(line, where), MonorepoRecord, where))
        except CorpusError as error:
            raise CorpusError(f"{error}: delete the line, or name another series") from error
    return records


def points_so_far(path: PathLike) -> list[dict[str, Any]]:
    """As `read_series`; none if the file does not exist yet."""
    return read_series(path) if os.path.lexists(path) else []


def append_point(
    path: PathLike, record: Mapping[str, Any], before: Sequence[Mapping[str, Any]], mode: int = 0o777
) -> None:
    """Appends a point without its documents. mode: the repository's. Raises OutputError if another run appended to `before`."""
    if len(points_so_far(path)) != len(before):
        raise OutputError(
            f"another run has appended a point to {os.fspath(path)!r}, so this one is not appended: run it again"
        )
    append_record(path, slim(record), mode)


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without its single documents, which may be thousands."""
    hidden = ("each", "all_others")
    losses = {name: {key: value for key, value in record[name].items() if key not in hidden} for name in LOSSES}
    return {**record, **losses}


# ---- the next point


@dataclass(frozen=True, kw_only=True)
class NextPoint:
    """What a point needs before it is computed. series: the file, if it belongs to one. records: its points so far."""

    repository: str
    series: Path | None
    records: Sequence[dict[str, Any]]
    setting: SeriesSetting
    window: GitDocuments


def series_path(folder: str, repository: str) -> Path:
    """The default file of the series of a repository: FOLDER/NAME.series.jsonl."""
    name = find_repository(repository).name
    return Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'repo'}.series.jsonl"


def next_window(
    repository: str, records: Sequence[dict[str, Any]], since: str, until: str, rules: Rules
) -> GitDocuments:
    """What the commits from `since` to `until` added. Raises CorpusError, ConfigError if it does not continue the series."""
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


def check_same_setting(previous: SeriesSetting, setting: SeriesSetting) -> None:
    """Raises ConfigError if points of the two settings are not comparable."""
    names = [name.removesuffix("_bytes") for name in previous.differing(setting)]
    if names:
        raise ConfigError(
            f"the series has another {', '.join(names)}, so the points would not be comparable: begin a new series"
        )


# ---- the call


@dataclass(frozen=True, kw_only=True)
class MonorepoRequest:
    """What to measure on the window (since, until] of a repository: `models`, which are frozen, and then nothing else counts.

    Otherwise a learner that reads the tree before the window first. series: the file to which its figures are the next point:
    where nothing is given (None), what the series has counts; since: the beginning of a new one.
    """

    repository: str
    since: str | None = None
    until: str = "HEAD"
    rules: Rules | None = None
    models: Models = NO_MODELS
    config: Config | None = None
    context: Context | None = None
    stride: int | None = None
    train_limit_bytes: int | None = None
    series: PathLike | None = None
    runtime: Runtime = field(default_factory=Runtime)

    @property
    def mode(self) -> int:
        """The permissions that the repository, its folder `.git` and the folder of its objects have in common."""
        found = find_repository(self.repository)
        return common_mode(found.path, found.objects, found.objects.parent)


# ---- models that learn nothing


def open_window(request: MonorepoRequest) -> GitCorpus:
    """The documents of the window. Raises ConfigError without its beginning, and what `read_window` raises."""
    if request.since is None:
        raise ConfigError("give since=, the beginning of the window")
    return open_documents(read_window(request.repository, request.since, request.until, request.rules))


def window_documents(window: GitCorpus, mode: int) -> DocumentSet:
    """The documents with the names new/PATH and added/PATH, and their commits. Raises CorpusError if there is no byte in them."""
    found = documents_of(named_source(window), commits_of(window), commits=window.commits)
    return replace(found, mode=mode)


def measure_window(request: MonorepoRequest, *, stage: Stage, warn: Warn, keep: Keep = keep_nothing) -> Heldout:
    """Scores the window under each model. keep: is given each record at once. Raises as `measure_models`."""
    with open_window(request) as window:
        if not window.documents:
            return _nothing(window)
        documents = window_documents(window, request.mode)
        return measure_models(documents, request.models, request.runtime, stage=stage, warn=warn, keep=keep)


def _nothing(window: GitCorpus) -> Heldout:
    return Heldout(records=(), rows=(), text=format_empty_window(window))


# ---- a learner that is trained on the tree, and its series


def next_point(request: MonorepoRequest) -> NextPoint:
    """Reads the series and finds the window; nothing is computed or written yet. Raises ConfigError, CorpusError."""
    series = Path(request.series) if request.series else None
    records = points_so_far(series) if series else []
    if not (request.since or records):
        new = f"{str(series)!r} has no points yet: " if series else ""
        raise ConfigError(f"{new}give since=, the beginning of the {'series' if series else 'window'}")
    since = request.since or records[-1]["test"]["until"]
    setting = _setting(request, records)
    window = next_window(request.repository, records, since, request.until, setting.rules)
    return NextPoint(repository=request.repository, series=series, records=records, setting=setting, window=window)


def measure_next(request: MonorepoRequest, point: NextPoint, *, stage: Stage, warn: Warn) -> Heldout:
    """Measures the point and writes nothing. Without records if the window has nothing to score."""
    with open_documents(point.window) as window:
        if not window.documents:  # the next window begins where this one does
            return _nothing(window)
        _check_before(request, point, warn)
        load, setting, runtime = _loader(request, point, stage), point.setting, request.runtime
        record = measure_point(load, window, runtime, setting.policy, setting.to_record(), stage=stage, warn=warn)
        commits = window.commits
    return Heldout(records=(record,), rows=tuple(rows_of(record, commits)), text=format_point(record))


def _setting(request: MonorepoRequest, records: Sequence[dict[str, Any]]) -> SeriesSetting:
    """The setting of the series, with which the request must agree. A new series takes it from the request."""
    names = ("config", "rules", "train_limit_bytes", "context", "stride")
    given: dict[str, Any] = {name: value for name in names if (value := getattr(request, name)) is not None}
    if not records:
        given.setdefault("config", preset(DEFAULT_PRESET))
        given.setdefault("rules", Rules())
        return SeriesSetting(**given)
    previous = SeriesSetting.of(records[-1])
    setting = replace(previous, **given)
    check_same_setting(previous, setting)
    return setting


def _check_before(request: MonorepoRequest, point: NextPoint, warn: Warn) -> None:
    """Refuses what cannot succeed, and makes the folder of the series."""
    check_size(point.setting.config, request.runtime)
    if point.series:
        prepare_records(point.series, request.mode)
    if point.records:
        version = point.records[-1]["environment"]["versions"]["prequential"]
        if version != VERSION:
            warn(f"the last point was made by version {version}, this one by {VERSION}: the learner may have changed")


def _loader(request: MonorepoRequest, point: NextPoint, stage: Stage) -> LoadLearner:
    """A function that returns a learner trained on the tree before this window."""
    setting = point.setting

    def train() -> tuple[OnlineLearner, TrainedOn]:
        tree = read_tree(request.repository, str(point.window.since), setting.rules)
        with stage("training") as show:
            make = partial(request.runtime.learner, setting.config)
            return train_on_tree(tree, setting.train_limit_bytes, make, show)

    return train


# ---- the public function


@engine_call()
def monorepo(
    repository: PathLike,
    *,
    since: str | None = None,
    until: str = "HEAD",
    static: str | Sequence[str] = (),
    scores: PathLike | Sequence[PathLike] = (),
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

    static, scores, context, stride: models that are scored as in `prequential.heldout`; intervals are over commits. Without
    models, a learner of this `config` (default: preset 5) reads the tree before the window first.

    Only what is named here is written: series, the file to which the result is appended as the next point, without models; an
    existing one gives since, config, languages, context and limit.
    A window in which nothing can be scored gives a result without records. Raises ConfigError, CorpusError, OutputError, and what
    models and learners raise.

    Examples:
        >>> import prequential
        >>> prequential.monorepo(".", static="hf:step-1000")
        Traceback (most recent call last):
        prequential.errors.ConfigError: give since=, the beginning of the window
    """
    check_arguments(path=repository, config=config, runtime=runtime, on_progress=on_progress)
    models = models_of(static, scores, context, stride)
    request = MonorepoRequest(
        repository=str(repository),
        since=since,
        until=until,
        rules=None if languages is None else Rules(languages=names_of("languages", languages)),
        models=models,
        config=config,
        context=context,
        stride=stride,
        train_limit_bytes=train_limit_bytes,
        series=series,
        runtime=runtime or Runtime(),
    )
    stage, warn = stages(on_progress), logging.getLogger(__name__).warning
    if models and series is not None:
        raise ConfigError("a series= is of one learner, not of models with static= or scores=: leave one out")
    if models:
        return measure_window(request, stage=stage, warn=warn)
    point = next_point(request)
    found = measure_next(request, point, stage=stage, warn=warn)
    if found.records and point.series:
        append_point(point.series, found.record, point.records, request.mode)
    return found
