"""Held-out loss: the cost of a test corpus under a learner that was trained on another corpus.

Frozen: nothing of the learner changes, and a policy says which symbols of the test corpus predict a symbol. Dynamic: learning
continues. docs/MEASURES.md explains both. Bytes between two documents belong to the first of them. Costs are of coded
decisions, in whole units of 2**-22 bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.corpus import Document

from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.learners.spec import LearnerSpec, byte_costs, reported
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress, Progress, ignore
from prequential.online.loop import Learner, run
from prequential.online.runtime import Runtime
from prequential.online.training import train

CHUNK_BYTES = 1 << 18  # of a stream, held in memory at a time
Bytes = NDArray[np.uint8]
Context = Literal["carried", "isolated", "strided"]
CONTEXTS: tuple[Context, ...] = get_args(Context)


@dataclass(frozen=True)
class Policy:
    """A context and, if it is "strided", its stride; None: half the window of the GPT."""

    context: Context = "carried"
    stride: int | None = None

    def stride_for(self, config: Config) -> int | None:
        """The stride S of "strided", None for other contexts. Raises ConfigError if such learners cannot be measured so."""
        if self.context not in CONTEXTS:
            raise ConfigError(f"unknown context {self.context!r}; choose one of {', '.join(CONTEXTS)}")
        if self.context != "strided":
            if self.stride is not None:
                raise ConfigError(f"a stride belongs to the context strided, not to {self.context}: leave it out")
            return None
        if config.gpt is None:
            raise ConfigError("the context strided needs a GPT, and this learner has none: choose another context")
        stride = config.gpt.window // 2 if self.stride is None else self.stride
        if not 1 <= stride <= config.gpt.window:
            raise ConfigError(f"stride = {stride} lies outside [1, {config.gpt.window}], the window of the GPT")
        return stride

    def check(self, spec: LearnerSpec, runtime: Runtime) -> None:
        """Raises ConfigError for a learner that is too large or too slow, or that cannot be measured so."""
        if spec.config:
            # a frozen learner has a second ring of the history
            runtime.check(spec.config, extra_bytes=1 << spec.config.schedule.history_bits)
            self.stride_for(spec.config)
        elif self != Policy():
            raise ConfigError("a learner of your own has the context carried: leave out context= and stride=")

    def describe(self, config: Config) -> str:
        """The policy in one line. Raises ConfigError as `stride_for` does."""
        stride = self.stride_for(config)
        if self.context == "carried":
            return "carried: one stream; window and contexts continue from the training corpus and from document to document"
        text = f"{self.context}: each document begins with an empty window and fresh contexts"
        if stride is None or config.gpt is None:
            return text
        window = config.gpt.window
        return (
            f"{text}; the GPT sees {window - stride} to {window - 1} symbols of it, read afresh every {stride} symbols"
        )


def frozen_trace(
    learner: OnlineLearner,
    symbols: Bytes,
    documents: Sequence[Document],
    policy: Policy = Policy(),
    on_progress: OnProgress = ignore,
) -> Trace:
    """The cost of each of symbols (n,) uint8, which may be memory-mapped, under the frozen learner. Leaves the learner unchanged.

    documents: in stream order. Raises ConfigError if the learner cannot be measured under this policy.
    """
    return _traced(code_frozen(learner, symbols, documents, BitCoder(SCORE), policy), symbols, on_progress)


def scored_trace(symbols: Bytes, spec: LearnerSpec, learner: Learner, on_progress: OnProgress = ignore) -> Trace:
    """The cost of each of symbols (n,) uint8 under a learner of the user's own, which learns unless it is frozen.

    spec: what `learner` is one of. Raises what the learner and its tokenizer raise.
    """
    return _traced(byte_costs(np.array(symbols), spec, learner), symbols, on_progress)


def dynamic_trace(learner: OnlineLearner, symbols: Bytes, on_progress: OnProgress = ignore) -> Trace:
    """The cost of each of symbols (n,) uint8 while the learner continues to learn from them."""
    trace = Trace((MODEL,), len(symbols))

    def record(done: Progress, n_bytes: int) -> None:
        trace.append(MODEL, done.segment_bits)
        on_progress(done, n_bytes)

    train(learner, symbols, record)
    return trace


def code_frozen(
    learner: OnlineLearner, symbols: Bytes, documents: Sequence[Document], coder: BitCoder, policy: Policy = Policy()
) -> Iterator[NDArray[np.float64]]:
    """Codes symbols (n,) uint8 under the frozen learner, or decodes them in place. Yields their costs in bits, piece by piece.

    A decoder needs the same documents. Raises ConfigError if the learner cannot be measured under this policy.
    """
    stride = policy.stride_for(learner.config)
    frozen = FrozenLearner(learner)
    for start, stop in _streams(documents, len(symbols), policy):
        if policy.context != "carried":
            frozen.restart()
        stream = symbols[start:stop]
        yield from _code_windows(frozen, stream, coder, stride) if stride else _code_stream(frozen, stream, coder)


def _traced(costs: Iterator[NDArray[np.float64]], symbols: Bytes, on_progress: OnProgress) -> Trace:
    trace = Trace((MODEL,), len(symbols))
    for bits in reported(costs, symbols, on_progress):
        trace.append(MODEL, bits)
    return trace


def _streams(documents: Sequence[Document], n_bytes: int, policy: Policy) -> Iterator[tuple[int, int]]:
    """Start and end of each stream: of everything; or of each document with the bytes up to the next one."""
    starts = [0] if policy.context == "carried" else sorted({0, *(d.offset for d in documents if d.offset < n_bytes)})
    return zip(starts, [*starts[1:], n_bytes], strict=True)


def _code_stream(frozen: FrozenLearner, symbols: Bytes, coder: BitCoder) -> Iterator[NDArray[np.float64]]:
    """Codes one stream, each symbol after all symbols before it."""
    for start in range(0, len(symbols), CHUNK_BYTES):
        chunk, position = np.array(symbols[start : start + CHUNK_BYTES]), frozen.history.n_symbols
        for _, bits in run(frozen, coder, slice(position, position + len(chunk)), chunk):
            yield bits
        if coder.decodes:
            symbols[start : start + len(chunk)] = chunk


def _code_windows(frozen: FrozenLearner, symbols: Bytes, coder: BitCoder, stride: int) -> Iterator[NDArray[np.float64]]:
    """Codes one stream in windows of the GPT: the first one complete, of each later one the last `stride` symbols."""
    assert frozen.config.gpt
    window, n_done = frozen.config.gpt.window, 0
    while n_done < len(symbols):
        known = symbols[max(0, n_done - window + stride) : n_done].astype(np.int64)
        part = symbols[n_done : n_done + stride if n_done else window].astype(np.int64)
        bits = frozen.code_window(known, part, coder)
        coder.check()
        if coder.decodes:
            symbols[n_done : n_done + len(part)] = part
        n_done += len(part)
        yield bits
