"""The monorepo loss from its request to its result: the one path of the command and of `prequential.monorepo`."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from prequential_corpora.git_repository import find_repository
from prequential_corpora.git_rules import Rules
from prequential_corpora.git_window import GitCorpus, open_documents, read_tree, read_window

from prequential.arguments import check_arguments
from prequential.errors import ConfigError
from prequential.files import PathLike, common_mode
from prequential.files.append import prepare_records
from prequential.heldout_loss.documents import DocumentSet, documents_of
from prequential.heldout_loss.heldout import Context
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
from prequential.heldout_loss.run import LoadLearner, Stage, Warn, check_size
from prequential.heldout_loss.scored import NO_MODELS, Models
from prequential.heldout_loss.trained import TrainedOn
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.monorepo_loss.monorepo import (
    commits_of,
    format_empty_window,
    format_point,
    measure_point,
    named_source,
    train_on_tree,
)
from prequential.monorepo_loss.series import (
    NextPoint,
    SeriesSetting,
    append_point,
    check_same_setting,
    next_window,
    points_so_far,
)
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.version import VERSION


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


def open_window(request: MonorepoRequest, warn: Warn) -> GitCorpus:
    """The documents of the window. Raises ConfigError without its beginning, and what `read_window` raises."""
    if request.since is None:
        raise ConfigError("give since=, the beginning of the window")
    return open_documents(read_window(request.repository, request.since, request.until, request.rules), warn)


def window_documents(window: GitCorpus, mode: int) -> DocumentSet:
    """The documents with the names new/PATH and added/PATH, and their commits. Raises CorpusError if there is no byte in them."""
    found = documents_of(named_source(window), commits_of(window), commits=window.commits)
    return replace(found, mode=mode)


def measure_window(request: MonorepoRequest, *, stage: Stage, warn: Warn, keep: Keep = keep_nothing) -> Heldout:
    """Scores the window under each model. keep: is given each record at once. Raises as `measure_models`."""
    with open_window(request, warn) as window:
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
    with open_documents(point.window, warn) as window:
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
