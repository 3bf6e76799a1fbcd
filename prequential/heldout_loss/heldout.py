"""Held-out loss: the cost of a test corpus under a learner that was trained on another corpus, or stored.

Frozen: nothing of the learner changes, and the context says which symbols of the test corpus predict a symbol. Dynamic: learning
continues. docs/MEASURES.md explains both. Bytes between two documents belong to the first of them. Costs are of coded
decisions, in whole units of 2**-22 bits. A GPT has also learned from the last segment of training.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import fsum
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER
from prequential_codecs.baselines import measure_each
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.corpus import Document, unicode_name
from prequential_corpora.overlap import measure_overlap

from prequential.errors import ConfigError
from prequential.evaluation import baselines
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.files import PathLike
from prequential.heldout_loss.documents import Bytes, HeldoutCorpus
from prequential.heldout_loss.summary import summarise_heldout
from prequential.learners.adapted import AdaptedLearner
from prequential.learners.given import is_model
from prequential.learners.spec import LearnerSpec, byte_costs, code_lengths, other_spec, own_spec, reported
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.model.presets import preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.loop import Learner, run
from prequential.online.model_store import load_model, read_description
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, open_source
from prequential.online.training import train
from prequential.records import NOT_CODED, HeldoutLoss, HeldoutRecord, environment, now, record_of

BASELINES = ("ppmd", "xz")
OWN_POLICY = "carried: one stream; the context continues from the training corpus"
CHUNK_BYTES = 1 << 18  # of a stream, held in memory at a time
Context = Literal["carried", "isolated"]
# A learner that has read a corpus; the corpus, as JSON values; and itself, if its bytes are available.
Trained = tuple[LearnerSpec, Learner, dict[str, Any], Source | None]
POLICIES: dict[Context, str] = {
    "carried": "carried: one stream; window and contexts continue from the training corpus and from document to document",
    "isolated": "isolated: each document begins with an empty window and fresh contexts",
}


def check_learner(spec: LearnerSpec, context: Context, runtime: Runtime) -> None:
    """Raises ConfigError for a learner that is too large or too slow, or that cannot be measured so."""
    if spec.config:  # a frozen learner has a second ring of the history
        runtime.check(spec.config, extra_bytes=1 << spec.config.schedule.history_bits)
    elif context != "carried":
        raise ConfigError("a learner of your own has the context carried: leave out context=")


def dynamic_costs(spec: LearnerSpec, learner: Learner, symbols: Bytes) -> Iterator[NDArray[np.float64]]:
    """The costs (n,) in bits of the next symbols (N,) uint8 while the learner continues to learn from them."""
    if spec.config:
        return code_lengths(learner, symbols, learner.n_symbols)
    return byte_costs(symbols, spec, learner)


def code_frozen(
    learner: OnlineLearner, symbols: Bytes, documents: Sequence[Document], coder: BitCoder, context: Context = "carried"
) -> Iterator[NDArray[np.float64]]:
    """Codes symbols (n,) uint8 under the frozen learner, or decodes them in place. Yields their costs in bits, piece by piece.

    A decoder needs the same documents. Each isolated one is a stream, with the bytes up to the next one.
    """
    frozen, n_bytes = FrozenLearner(learner), len(symbols)
    starts = [0] if context == "carried" else sorted({0, *(d.offset for d in documents if d.offset < n_bytes)})
    for first, end in zip(starts, [*starts[1:], n_bytes], strict=True):
        if context != "carried":
            frozen.restart()
        for start in range(first, end, CHUNK_BYTES):
            chunk, position = np.array(symbols[start : min(start + CHUNK_BYTES, end)]), frozen.history.n_symbols
            for _, bits in run(frozen, coder, slice(position, position + len(chunk)), chunk):
                yield bits
            if coder.decodes:
                symbols[start : start + len(chunk)] = chunk


def traced(costs: Iterator[NDArray[np.float64]], symbols: Bytes, on_progress: OnProgress = ignore) -> Trace:
    """The costs of symbols (n,) uint8, of `code_frozen` or `dynamic_costs`."""
    trace = Trace((MODEL,), len(symbols))
    for bits in reported(costs, symbols, on_progress):
        trace.append(MODEL, bits)
    return trace


# ---- a measurement


class Model(NamedTuple):
    """What is measured on a test corpus: what its losses depend on, as JSON values, and a function that gives their record.

    texts: what one that learns nothing scores.
    """

    depends_on: dict[str, Any]
    record: Callable[[], dict[str, Any]]
    texts: HeldoutCorpus | None = None


def train_on(source: Source, spec: LearnerSpec, on_progress: OnProgress) -> Trained:
    """A new learner that has read the corpus. Raises CorpusError for an empty one, and what the learner raises."""
    begin(on_progress, "training")
    source.check_not_empty("learn from")
    learner, symbols = spec.make(), source.symbols
    if spec.config:
        code_bits = train(learner, symbols, on_progress).code_bits
    else:
        code_bits = fsum(bits.sum() for bits in reported(byte_costs(symbols, spec, learner), symbols, on_progress))
    return spec, learner, {"source": "corpus", **source.describe(), "code_bits": code_bits}, source


def stored_model(folder: PathLike, runtime: Runtime) -> Trained:
    """The learner of a stored model. Raises what `load_model` raises."""
    stored = load_model(folder, runtime)
    about = {"source": "model", **stored.trained_on, "model": unicode_name(os.fspath(folder))}
    return own_spec(stored.config, runtime), stored.learner, about, None


def trained_model(
    train: CorpusLike,
    given: tuple[Config | None, Any, int | None],
    context: Context,
    with_overlap: bool,
    runtime: Runtime,
    test: HeldoutCorpus,
    on_progress: OnProgress,
) -> Model:
    """The learner that has read `train`, or is stored there. given: config, learner and train_limit of the call.

    context: of the frozen loss. with_overlap: whether the overlap is measured, if the training bytes are available. Raises
    ConfigError for what can be refused before the work.
    """
    config, learner, limit_bytes = given
    load: Callable[[], Trained]
    if is_model(train):
        if given != (None, None, None):
            raise ConfigError("train= is a trained learner: leave out the level or config=, learner= and train_limit=")
        load = partial(stored_model, train, runtime)
        about: dict[str, Any] = {"state_digest": read_description(train)["state_digest"]}
    else:
        if config is not None and learner is not None:
            raise ConfigError("give a config, which is a learner of this program, or a learner of your own, not both")
        if isinstance(train, str | os.PathLike) and (Path(train) / "record.jsonl").is_file():
            hint = "name the corpus, or a model that `train` stored"
            raise ConfigError(f"{str(train)!r} is a run, not a corpus: {hint}")
        spec = learner if isinstance(learner, LearnerSpec) else None if learner is None else other_spec(learner)
        spec = spec or own_spec(config or preset(), runtime)
        check_learner(spec, context, runtime)
        source = open_source(train, limit_bytes)
        load = partial(train_on, source, spec, on_progress)
        about = {"train": source.describe(), "config": spec.description}
        if not spec.config and spec.description[OTHER]["source"] is None:
            about["call"] = token_hex()  # its code may be another one the next time
    measure = partial(measure_trained, load, test, context, with_overlap, runtime, on_progress)
    return Model({**about, "context": context, "overlap": with_overlap}, measure)


def measure_trained(
    load: Callable[[], Trained],
    test: HeldoutCorpus,
    context: Context,
    with_overlap: bool,
    runtime: Runtime,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """The record of the losses of a test corpus under the learner that `load` returns.

    A warning of the overlap is logged before the passes. At most one learner exists at a time. A tokenizer encodes each corpus
    alone.
    """
    symbols, (spec, learner, about, source) = test.symbols, load()
    digest, overlap = learner.digest(), None
    check_learner(spec, context, runtime)
    if with_overlap and source:
        begin(on_progress, "overlap")
        overlap = measure_overlap(source.symbols, source.documents, symbols, test.documents)
        if overlap.warning:
            logging.getLogger(__name__).warning("%s", overlap.warning)

    def loss(name: str, costs: Iterator[NDArray[np.float64]]) -> HeldoutLoss:
        begin(on_progress, name)
        trace = traced(costs, symbols, on_progress)
        return summarise_heldout(trace, test.documents, overlap, test.grouping, test.commits)

    if isinstance(learner, OnlineLearner):
        costs = code_frozen(learner, symbols, test.documents, BitCoder(SCORE), context)
    else:
        assert isinstance(learner, AdaptedLearner)
        costs = byte_costs(symbols, spec, learner.frozen())
    frozen = loss("frozen", costs)
    dynamic = loss("dynamic", dynamic_costs(spec, learner, symbols))  # last, because it changes the learner
    del learner, costs
    untrained = loss("untrained", dynamic_costs(spec, spec.make(), symbols))
    begin(on_progress, "baselines")
    others, _ = measure_each(symbols.tobytes(), BASELINES)
    return record_of(
        HeldoutRecord,
        time=now(),
        train=about,
        test=test.about,
        config=spec.description,
        learner_digest=digest.hex(),
        coding=NOT_CODED,
        policy=POLICIES[context] if spec.config else OWN_POLICY,
        frozen=frozen,
        dynamic=dynamic,
        untrained=untrained,
        saved_bits=untrained.total.bits - dynamic.total.bits,
        baselines=[baselines.to_record(each) for each in others],
        overlap=overlap.to_dict() if overlap else None,
        environment=environment(runtime, spec.config),
    )
