"""Held-out loss: the cost of a test corpus under a learner that was trained on another corpus.

Frozen: nothing of the learner changes, and the context says which symbols of the test corpus predict a symbol. Dynamic: learning
continues. docs/MEASURES.md explains both. Bytes between two documents belong to the first of them. Costs are of coded
decisions, in whole units of 2**-22 bits.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import BitCoder
from prequential_corpora.corpus import Document

from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.learners.spec import LearnerSpec, byte_costs, code_lengths, reported
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress, ignore
from prequential.online.loop import Learner, run
from prequential.online.runtime import Runtime

CHUNK_BYTES = 1 << 18  # of a stream, held in memory at a time
Bytes = NDArray[np.uint8]
Context = Literal["carried", "isolated"]
POLICIES: dict[Context, str] = {
    "carried": "carried: one stream; window and contexts continue from the training corpus and from document to document",
    "isolated": "isolated: each document begins with an empty window and fresh contexts",
}


def check_context(context: str) -> None:
    if context not in POLICIES:
        raise ConfigError(f"unknown context {context!r}; choose one of {', '.join(POLICIES)}")


def check_learner(spec: LearnerSpec, context: Context, runtime: Runtime) -> None:
    """Raises ConfigError for a learner that is too large or too slow, or that cannot be measured so."""
    check_context(context)
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
    for begin, end in zip(starts, [*starts[1:], n_bytes], strict=True):
        if context != "carried":
            frozen.restart()
        for start in range(begin, end, CHUNK_BYTES):
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
