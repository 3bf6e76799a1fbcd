"""A complete held-out measurement: overlap, frozen and dynamic loss, and the figures to compare them with."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from prequential_codecs.archive_header import OTHER
from prequential_codecs.baselines import BaselineResult, measure_installed
from prequential_corpora.overlap import Overlap, measure_overlap

from prequential.comparison.clusters import Grouping
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation import baselines as evaluation_baselines
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.heldout import CARRIED, Policy, dynamic_trace, frozen_trace, scored_trace
from prequential.heldout_loss.summary import HeldoutLoss, summarise_heldout
from prequential.heldout_loss.trained import TrainedOn, describe
from prequential.learners.adapted import AdaptedLearner
from prequential.learners.spec import LearnerSpec
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress
from prequential.online.runtime import Runtime
from prequential.online.source import Source
from prequential.records import LOSSES, NOT_CODED, HeldoutRecord, environment, record_of

BASELINES = ("ppmd", "xz")

LoadLearner = Callable[[], tuple[OnlineLearner, TrainedOn]]  # returns a new learner and what it was trained on
Stage = Callable[[str], AbstractContextManager[OnProgress]]  # is given a stage's name and shows its progress
Warn = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Passes:
    """What to measure. frozen: the policy of the frozen loss; None: no frozen loss. grouping: of the test corpus's documents."""

    frozen: Policy | None = CARRIED
    dynamic: bool = True
    overlap: bool = True
    grouping: Grouping | None = None


EVERYTHING = Passes()


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The results for one test corpus. None: not asked for, or not known.

    config: as in headers. policy: of the frozen loss, in words. losses: by name of LOSSES. baselines: of the test corpus alone.
    """

    config: dict[str, Any]
    learner_digest: bytes
    trained_on: TrainedOn
    policy: str | None
    losses: Mapping[str, HeldoutLoss]
    baselines: tuple[BaselineResult, ...]
    overlap: Overlap | None
    coding = NOT_CODED

    @property
    def saved_bits(self) -> float | None:
        """What training saved: untrained minus dynamic cost of the complete test corpus."""
        bits = {name: loss.total.bits for name, loss in self.losses.items()}
        return bits["untrained"] - bits["dynamic"] if "dynamic" in bits else None

    def to_record(self, test: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
        """JSON values. test: the description of the test corpus."""
        return record_of(
            HeldoutRecord,
            self,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            train=self.trained_on.to_record(),
            test=test,
            learner_digest=self.learner_digest.hex(),
            **{name: self.losses[name].to_record() if name in self.losses else None for name in LOSSES},
            baselines=[evaluation_baselines.to_record(result) for result in self.baselines],
            overlap=self.overlap.to_dict() if self.overlap else None,
            environment=environment(runtime, None if OTHER in self.config else Config.from_dict(self.config)),
        )


def check_size(config: Config, runtime: Runtime) -> None:
    """Refuses a learner that is too large or too slow for a frozen loss, which takes a second ring of the history."""
    runtime.check(config, extra_bytes=1 << config.schedule.history_bits)


def measure_heldout(
    load: LoadLearner, test: Source, runtime: Runtime, passes: Passes = EVERYTHING, *, stage: Stage, warn: Warn
) -> Measurement:
    """Measures the losses of a test corpus under the learner that `load` returns.

    At most one learner exists at a time. The overlap is measured if the training bytes are available; `warn` receives its warning
    before the passes. Raises ConfigError, CorpusError.
    """
    learner, trained_on = load()
    config, learner_digest = learner.config, learner.digest()
    overlap = _measure_overlap(trained_on, test, stage, warn) if passes.overlap else None
    traces = _trained_traces(learner, test, passes, stage)
    del learner
    with stage("untrained") as show:
        traces["untrained"] = dynamic_trace(runtime.learner(config), test.symbols[:], show)
    policy = passes.frozen.describe(config) if passes.frozen else None
    losses = _losses(traces, test, overlap, passes)
    return _measurement(config.to_dict(), learner_digest, trained_on, policy, losses, test, overlap, stage)


def measure_other_heldout(
    spec: LearnerSpec, train: Source, test: Source, passes: Passes = EVERYTHING, *, stage: Stage, warn: Warn
) -> Measurement:
    """As `measure_heldout`, for a learner of the user's own, which first reads `train`. A frozen loss must be carried.

    A tokenizer encodes each corpus alone. Raises ConfigError for another policy, and what the learner raises.
    """
    if passes.frozen not in (None, CARRIED):
        raise ConfigError("a learner of your own has the context carried: leave out context= and stride=")
    if not train.n_bytes:
        raise CorpusError("nothing to learn from: the training corpus is empty")
    learner, symbols = spec.make(), test.symbols[:]
    with stage("training") as show:
        code_bits = scored_trace(train.symbols[:], spec, learner, show).total_bits(MODEL)
    about = {**describe(train), "code_bits": code_bits}
    trained_on = TrainedOn(kind="corpus", about=about, symbols=train.symbols[:], documents=train.documents)
    digest, overlap = learner.digest(), _measure_overlap(trained_on, test, stage, warn) if passes.overlap else None
    traces = {}
    if passes.frozen and isinstance(learner, AdaptedLearner):
        with stage("frozen") as show:
            traces["frozen"] = scored_trace(symbols, spec, learner.frozen(), show)
    if passes.dynamic:
        with stage("dynamic") as show:
            traces["dynamic"] = scored_trace(symbols, spec, learner, show)
    with stage("untrained") as show:
        traces["untrained"] = scored_trace(symbols, spec, spec.make(), show)
    policy = "carried: one stream; the context continues from the training corpus" if passes.frozen else None
    losses = _losses(traces, test, overlap, passes)
    return _measurement(spec.description, digest, trained_on, policy, losses, test, overlap, stage)


def _losses(
    traces: Mapping[str, Trace], test: Source, overlap: Overlap | None, passes: Passes
) -> dict[str, HeldoutLoss]:
    summaries = partial(summarise_heldout, documents=test.documents, overlap=overlap, grouping=passes.grouping)
    return {name: summaries(trace) for name, trace in traces.items()}


def _measurement(
    config: dict[str, Any],
    learner_digest: bytes,
    trained_on: TrainedOn,
    policy: str | None,
    losses: Mapping[str, HeldoutLoss],
    test: Source,
    overlap: Overlap | None,
    stage: Stage,
) -> Measurement:
    """The losses, and the baselines."""
    with stage("baselines"):
        baselines, _ = measure_installed(test.symbols[:].tobytes(), BASELINES)
    return Measurement(
        config=config,
        learner_digest=learner_digest,
        trained_on=trained_on,
        policy=policy,
        losses=losses,
        baselines=tuple(baselines),
        overlap=overlap,
    )


def _measure_overlap(trained_on: TrainedOn, test: Source, stage: Stage, warn: Warn) -> Overlap | None:
    """The overlap of the training and the test corpus; None if the bytes of the training corpus are not available."""
    if trained_on.symbols is None:
        return None
    with stage("overlap"):
        overlap = measure_overlap(trained_on.symbols, trained_on.documents, test.symbols[:], test.documents)
    if overlap.warning:
        warn(overlap.warning)
    return overlap


def _trained_traces(learner: OnlineLearner, test: Source, passes: Passes, stage: Stage) -> dict[str, Trace]:
    """The costs of the losses that need the trained learner. The dynamic loss comes last, because it changes the learner."""
    traces, symbols = {}, test.symbols[:]
    if passes.frozen:
        with stage("frozen") as show:
            traces["frozen"] = frozen_trace(learner, symbols, test.documents, passes.frozen, show)
    if passes.dynamic:
        with stage("dynamic") as show:
            traces["dynamic"] = dynamic_trace(learner, symbols, show)
    return traces
