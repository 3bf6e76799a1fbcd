"""A complete held-out measurement of a trained learner: overlap, frozen and dynamic loss, and figures to compare them with."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from prequential_codecs.baselines import measure_installed
from prequential_corpora.overlap import Overlap, measure_overlap

from prequential.comparison.clusters import Grouping
from prequential.evaluation import baselines
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.heldout import POLICIES, Context, check_learner, dynamic_trace, frozen_trace, scored_trace
from prequential.heldout_loss.summary import summarise_heldout
from prequential.heldout_loss.trained import Trained
from prequential.learners.adapted import AdaptedLearner
from prequential.learners.spec import LearnerSpec
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import Source
from prequential.records import NOT_CODED, HeldoutRecord, environment

BASELINES = ("ppmd", "xz")
OWN_POLICY = "carried: one stream; the context continues from the training corpus"


def measure_heldout(
    load: Callable[[], Trained],
    test: Source,
    about: dict[str, Any],
    grouping: Grouping,
    context: Context,
    with_overlap: bool,
    runtime: Runtime,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """The record of the losses of a test corpus under the learner that `load` returns. about: the test corpus in records.

    grouping: of its documents. context: of the frozen loss. with_overlap: whether the overlap is measured, if the training bytes
    are available; its warning is logged before the passes. At most one learner exists at a time. A tokenizer encodes each corpus
    alone.
    """
    trained, traces = load(), {}
    spec, train, digest = trained.spec, trained.about, trained.learner.digest()
    check_learner(spec, context, runtime)
    overlap = _measure_overlap(trained, test, on_progress) if with_overlap else None
    begin(on_progress, "frozen")
    if isinstance(trained.learner, OnlineLearner):
        traces["frozen"] = frozen_trace(trained.learner, test.symbols[:], test.documents, context, on_progress)
    else:
        assert isinstance(trained.learner, AdaptedLearner)
        traces["frozen"] = scored_trace(test.symbols[:], spec, trained.learner.frozen(), on_progress)
    begin(on_progress, "dynamic")  # last, because it changes the learner
    traces["dynamic"] = _dynamic(spec, trained.learner, test, on_progress)
    del trained
    begin(on_progress, "untrained")
    traces["untrained"] = _dynamic(spec, spec.make(), test, on_progress)
    losses = {
        name: summarise_heldout(trace, test.documents, overlap, grouping, test.commits)
        for name, trace in traces.items()
    }
    begin(on_progress, "baselines")
    others, _ = measure_installed(test.symbols[:].tobytes(), BASELINES)
    return heldout_record(
        train=train,
        test=about,
        config=spec.description,
        learner_digest=digest.hex(),
        coding=NOT_CODED,
        policy=POLICIES[context] if spec.config else OWN_POLICY,
        **losses,
        saved_bits=losses["untrained"].total.bits - losses["dynamic"].total.bits,
        baselines=[baselines.to_record(each) for each in others],
        overlap=overlap.to_dict() if overlap else None,
        environment=environment(runtime, spec.config),
    )


def heldout_record(**values: Any) -> dict[str, Any]:
    """A HeldoutRecord of these fields as JSON values, with the time."""
    values["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    return dict(msgspec.to_builtins(HeldoutRecord(**values)))


def _dynamic(spec: LearnerSpec, learner: Learner, test: Source, show: OnProgress) -> Trace:
    if isinstance(learner, OnlineLearner):
        return dynamic_trace(learner, test.symbols[:], show)
    return scored_trace(test.symbols[:], spec, learner, show)


def _measure_overlap(trained: Trained, test: Source, on_progress: OnProgress) -> Overlap | None:
    """The overlap of the training and the test corpus; None if the bytes of the training corpus are not available."""
    if trained.symbols is None:
        return None
    begin(on_progress, "overlap")
    overlap = measure_overlap(trained.symbols, trained.documents, test.symbols[:], test.documents)
    if overlap.warning:
        logging.getLogger(__name__).warning("%s", overlap.warning)
    return overlap
