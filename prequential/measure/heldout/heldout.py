"""Held-out loss: what a test corpus costs a learner that was trained on another one, frozen, and as it goes on learning.

    frozen    weights, counts and maps stand still; the context policy says what else a symbol may know of the test corpus:
        carried   one stream: window and contexts go on from where training ended, and from document to document
        isolated  each document begins with an empty window and fresh contexts, and with it the bytes up to the next document:
                  what a document costs does not depend on those around it
        strided   as isolated, and the GPT reads each stretch of S symbols afresh, with the W - S symbols of the document before
                  it: a symbol is predicted from W - S to W - 1 symbols (all there are, at the beginning); W is the GPT's window
    dynamic   learning goes on: the prequential code length of the test corpus behind the training corpus

Costs are those of coded decisions, in whole units of 2**-22 bits; `code_frozen` with a decoder gives the bytes back.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.bit_coder import FOLLOW, BitCoder
from prequential.corpora.corpus import Document
from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.trace import MODEL, Trace
from prequential.measure.heldout.summary import Group, Heldout, languages_of, summarise_heldout
from prequential.model.config import Config
from prequential.model.frozen import Frozen
from prequential.model.learner import Learner
from prequential.online.coding import OnProgress, Progress, ignore
from prequential.online.loop import run
from prequential.online.training import train

__all__ = [
    "CONTEXTS",
    "Context",
    "Group",
    "Heldout",
    "check_context",
    "code_frozen",
    "dynamic_trace",
    "frozen_trace",
    "languages_of",
    "policy",
    "summarise_heldout",
]

Context = Literal["carried", "isolated", "strided"]
CONTEXTS: tuple[Context, ...] = get_args(Context)
CHUNK_BYTES = 1 << 18  # of a stream, held in memory at a time

Bytes = NDArray[np.uint8]


def frozen_trace(
    learner: Learner,
    symbols: Bytes,
    documents: Sequence[Document],
    context: Context = "carried",
    stride: int | None = None,
    on_progress: OnProgress = ignore,
) -> Trace:
    """The cost of each of symbols (n,) uint8, perhaps mapped, under what the learner has learned; the learner is left as it is.

    documents: in stream order. stride: S of "strided", by default half the window. Raises ConfigError for a policy that the
    learner cannot have, CorpusError for an empty corpus.
    """
    trace, coder, done = _new_trace(symbols), BitCoder(FOLLOW), Progress()
    for bits in code_frozen(learner, symbols, documents, coder, context, stride):
        trace.append(MODEL, bits)
        part = symbols[done.n_bytes : done.n_bytes + len(bits)]
        n_bytes, code_bits = done.n_bytes + len(bits), done.code_bits + float(bits.sum())
        done = Progress(n_bytes=n_bytes, code_bits=code_bits, segment=part, segment_bits=bits)
        on_progress(done, len(symbols))
    return trace


def dynamic_trace(learner: Learner, symbols: Bytes, on_progress: OnProgress = ignore) -> Trace:
    """The cost of each of symbols (n,) uint8, perhaps mapped, as the learner goes on learning from them; the learner is consumed.

    Raises CorpusError for an empty corpus.
    """
    trace = _new_trace(symbols)

    def keep(done: Progress, n_bytes: int) -> None:
        trace.append(MODEL, done.segment_bits)
        on_progress(done, n_bytes)

    train(learner, symbols, keep)
    return trace


def code_frozen(
    learner: Learner,
    symbols: Bytes,
    documents: Sequence[Document],
    coder: BitCoder,
    context: Context = "carried",
    stride: int | None = None,
) -> Iterator[NDArray[np.float64]]:
    """Codes symbols (n,) uint8 under the frozen learner, or finds them out, in place; yields their costs piece by piece, in bits.

    As `frozen_trace` otherwise. A decoder needs the documents, too.
    """
    stride = check_context(learner.config, context, stride)
    frozen = Frozen(learner)
    for start, stop in _stretches(documents, len(symbols), context):
        if context != "carried":
            frozen.restart()
        stretch = symbols[start:stop]
        yield from _windows(frozen, stretch, coder, stride) if stride else _stream(frozen, stretch, coder)


def check_context(config: Config, context: str, stride: int | None = None) -> int | None:
    """The stride of a "strided" context, None of another. Raises ConfigError for what this learner cannot do."""
    if context not in CONTEXTS:
        raise ConfigError(f"no context {context!r}; there are {', '.join(CONTEXTS)}")
    if context != "strided":
        if stride is not None:
            raise ConfigError(f"a stride belongs to the context strided, not to {context}")
        return None
    if config.gpt is None:
        raise ConfigError("the context strided is of learners with a GPT, and this one has none")
    stride = config.gpt.window // 2 if stride is None else stride
    if not 1 <= stride <= config.gpt.window:
        raise ConfigError(f"stride = {stride} lies outside [1, {config.gpt.window}], the GPT's window")
    return stride


def policy(config: Config, context: Context, stride: int | None = None) -> str:
    """What a frozen symbol is predicted from, in one line."""
    if context == "carried":
        return "carried: one stream; window and contexts go on from the training corpus and from document to document"
    text = "each document begins with an empty window and fresh contexts"
    if stride := check_context(config, context, stride):
        assert config.gpt
        window = config.gpt.window
        text += f"; the GPT sees {window - stride} to {window - 1} symbols of it, read afresh each {stride}"
    return f"{context}: {text}"


def _new_trace(symbols: Bytes) -> Trace:
    if not len(symbols):
        raise CorpusError("nothing to score: the test corpus is empty")
    return Trace((MODEL,), len(symbols))


def _stretches(documents: Sequence[Document], n_bytes: int, context: Context) -> Iterator[tuple[int, int]]:
    """Where a stream goes on: everywhere; or each document with what follows it, and what comes before the first."""
    starts = [0] if context == "carried" else sorted({0, *(d.offset for d in documents if d.offset < n_bytes)})
    return zip(starts, [*starts[1:], n_bytes], strict=True)


def _stream(frozen: Frozen, symbols: Bytes, coder: BitCoder) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(symbols), CHUNK_BYTES):
        chunk, at = np.array(symbols[start : start + CHUNK_BYTES]), frozen.history.n_symbols
        for _, bits in run(frozen, coder, slice(at, at + len(chunk)), chunk):
            yield bits
        if coder.decodes:
            symbols[start : start + len(chunk)] = chunk


def _windows(frozen: Frozen, symbols: Bytes, coder: BitCoder, stride: int) -> Iterator[NDArray[np.float64]]:
    assert frozen.config.gpt
    window, done = frozen.config.gpt.window, 0
    while done < len(symbols):
        known = symbols[max(0, done - window + stride) : done].astype(np.int64)
        part = symbols[done : done + stride if done else window].astype(np.int64)
        bits = frozen.code_window(known, part, coder)
        coder.check()
        if coder.decodes:
            symbols[done : done + len(part)] = part
        done += len(part)
        yield bits
