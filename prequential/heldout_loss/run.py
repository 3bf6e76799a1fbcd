"""A complete held-out measurement of a learner that was trained on a corpus, or stored: overlap, frozen and dynamic loss, and
figures to compare them with. Its GPT has also learned from the last segment of training.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential_codecs.archive_header import OTHER
from prequential_codecs.baselines import measure_installed
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.corpus import Document, unicode_name
from prequential_corpora.overlap import Overlap, measure_overlap

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation import baselines
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.files import PathLike
from prequential.heldout_loss.documents import DocumentSet, TestCorpus
from prequential.heldout_loss.heldout import (
    POLICIES,
    Bytes,
    Context,
    check_context,
    check_learner,
    code_frozen,
    dynamic_trace,
    traced,
)
from prequential.heldout_loss.summary import summarise_heldout
from prequential.learners.adapted import AdaptedLearner
from prequential.learners.given import is_model
from prequential.learners.spec import LearnerSpec, byte_costs, other_spec, own_spec
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.model.presets import preset
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner
from prequential.online.model_store import load_model
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, open_source
from prequential.online.training import train
from prequential.records import NOT_CODED, HeldoutRecord, environment

BASELINES = ("ppmd", "xz")
OWN_POLICY = "carried: one stream; the context continues from the training corpus"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A learner that has read a corpus. spec: what it is one of. about: the corpus, as JSON values of a record.

    symbols (n,) uint8, documents: the corpus itself, if its bytes are available.
    """

    spec: LearnerSpec
    learner: Learner
    about: dict[str, Any]
    symbols: Bytes | None = None
    documents: Sequence[Document] = ()


def describe(source: Source) -> dict[str, Any]:
    """The description of a source in records. Reads it once for its digest."""
    sizes = {"n_bytes": source.n_bytes, "whole_bytes": source.whole_bytes}
    return {**source.origin, **sizes, "blake2b": source.blake2b.hex()}


def train_on(source: Source, spec: LearnerSpec, on_progress: OnProgress) -> Trained:
    """A new learner that has read the corpus. Raises CorpusError for an empty one, and what the learner raises."""
    begin(on_progress, "training")
    if not source.n_bytes:
        raise CorpusError(f"nothing to learn from: the training corpus {source.name!r} is empty")
    learner, symbols = spec.make(), source.symbols[:]
    if spec.config:
        code_bits = train(learner, symbols, on_progress).code_bits
    else:
        code_bits = traced(byte_costs(np.array(symbols), spec, learner), symbols, on_progress).total_bits(MODEL)
    about = {"source": "corpus", **describe(source), "code_bits": code_bits}
    return Trained(spec=spec, learner=learner, about=about, symbols=symbols, documents=source.documents)


def stored_model(folder: PathLike, runtime: Runtime) -> Trained:
    """The learner of a stored model. Raises what `load_model` raises."""
    stored = load_model(folder, runtime)
    about = {"source": "model", **stored.trained_on, "model": unicode_name(os.fspath(folder))}
    return Trained(spec=own_spec(stored.config, runtime), learner=stored.learner, about=about)


# ---- a measurement


class Model(NamedTuple):
    """What is measured on a test corpus: what its losses depend on, as JSON values, and a function that gives their record.

    documents: those of one that learns nothing.
    """

    depends_on: dict[str, Any]
    record: Callable[[], dict[str, Any]]
    documents: DocumentSet | None = None


def trained_model(
    train: CorpusLike,
    given: tuple[Config | None, Any, int | None],
    context: Context,
    with_overlap: bool,
    runtime: Runtime,
    test: TestCorpus,
    on_progress: OnProgress,
) -> Model:
    """The learner that has read `train`, or is stored there. given: config, learner and train_limit of the call.

    The other arguments are those of `measure_heldout`. Raises ConfigError for what can be refused before the work.
    """
    config, learner, limit_bytes = given
    check_context(context)
    load: Callable[[], Trained]
    if is_model(train):
        if given != (None, None, None):
            raise ConfigError("train= names a trained learner: leave out config=, learner= and train_limit=")
        load = partial(stored_model, train, runtime)
        about: dict[str, Any] = {"learner_digest": load().learner.digest().hex()}
    else:
        if config is not None and learner is not None:
            raise ConfigError("give a config, which is a learner of this program, or a learner of your own, not both")
        if isinstance(train, str | os.PathLike) and (Path(train) / "record.jsonl").is_file():
            hint = "name the corpus, or a model that `train` stored"
            raise ConfigError(f"{str(train)!r} is a run, not a corpus: {hint}")
        spec = learner if isinstance(learner, LearnerSpec) else None if learner is None else other_spec(learner)
        spec = spec or own_spec(config or preset(), runtime)
        check_learner(spec, context, runtime)
        with open_source(train, limit_bytes) as source:
            load, about = partial(train_on, source, spec, on_progress), {"train": describe(source)}
        about["config"] = spec.description
        if not spec.config and spec.description[OTHER]["source"] is None:
            about["call"] = token_hex()  # its code may be another one the next time
    measure = partial(measure_heldout, load, test, context, with_overlap, runtime, on_progress)
    return Model({**about, "context": context, "overlap": with_overlap}, measure)


def measure_heldout(
    load: Callable[[], Trained],
    corpus: TestCorpus,
    context: Context,
    with_overlap: bool,
    runtime: Runtime,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """The record of the losses of a test corpus under the learner that `load` returns. context: of the frozen loss.

    with_overlap: whether the overlap is measured, if the training bytes are available; its warning is logged before the passes.
    At most one learner exists at a time. A tokenizer encodes each corpus alone.
    """
    test, grouping, about = corpus
    trained, traces, symbols = load(), {}, test.symbols[:]
    spec, train, digest = trained.spec, trained.about, trained.learner.digest()
    check_learner(spec, context, runtime)
    overlap = _measure_overlap(trained, test, on_progress) if with_overlap else None
    begin(on_progress, "frozen")
    if isinstance(trained.learner, OnlineLearner):
        costs = code_frozen(trained.learner, symbols, test.documents, BitCoder(SCORE), context)
    else:
        assert isinstance(trained.learner, AdaptedLearner)
        costs = byte_costs(np.array(symbols), spec, trained.learner.frozen())
    traces["frozen"] = traced(costs, symbols, on_progress)
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
    return traced(byte_costs(np.array(test.symbols[:]), spec, learner), test.symbols[:], show)


def _measure_overlap(trained: Trained, test: Source, on_progress: OnProgress) -> Overlap | None:
    """The overlap of the training and the test corpus; None if the bytes of the training corpus are not available."""
    if trained.symbols is None:
        return None
    begin(on_progress, "overlap")
    overlap = measure_overlap(trained.symbols, trained.documents, test.symbols[:], test.documents)
    if overlap.warning:
        logging.getLogger(__name__).warning("%s", overlap.warning)
    return overlap
