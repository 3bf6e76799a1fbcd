"""Data selection: documents of a corpus ranked by what they cost a learner, and the best of them under a budget of bytes.

Every score is bits per byte of a document, made of code lengths that the learner of a configuration really has, learning as it
reads; equal arguments give equal bits on every machine. A learner that has read nothing yet would find whatever comes first the
most surprising. So documents are dealt into two halves, in turn; each half is read after the other one, and only then counts.
With a target, some text of the kind that one is interested in, the learner reads that before all.

    surprise   L(d | target, other half, own half before d)
    novel      the same of a corpus without copies: bytes of d that no match of 32 bytes to the target or to an earlier document
               covers (measure/evaluation/novelty.py); those that are covered cost nothing
    progress   L(d | other half, own half before d) - L(d | target, other half, own half before d): what the target has taught
               about d. Without a target: what a second reading of d's half saves, which begins when both were read

The progress is a difference of two learners, as is the reducible loss of Mindermann et al. (2022), and the cross-entropy
difference by which Moore and Lewis (2010) choose text like a target. Noise, which no learner can learn, has a high surprise and,
under a learner that does not memorise, no progress.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.bit_coder import FOLLOW, BitCoder
from prequential.corpora.corpus import Document
from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.novelty import Copies
from prequential.measure.evaluation.trace import MODEL, Trace
from prequential.model.config import Config
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks

SURPRISE, NOVEL, PROGRESS = MEASURES = ("surprise", "novel", "progress")
HIGH, LOW, MIDDLE = ORDERS = ("high", "low", "middle")

Bytes = NDArray[np.uint8]
Bits = NDArray[np.float64]
OnRead = Callable[[int, int], object]  # called with the bytes just read, and how many there are to read in all


class Scored(NamedTuple):
    """A document and its bits, of which the score is made; code_bits: its surprise, or that of its novel part, in bits."""

    document: Document
    bits: float
    code_bits: float

    @property
    def score(self) -> float:
        """Bits per byte of the document."""
        return self.bits / self.document.n_bytes


class Choice(NamedTuple):
    """A document's place in the order, from 1 on, and whether the budget had room for it."""

    rank: int
    scored: Scored
    selected: bool


def shards(n_bytes: int, shard_bytes: int, name: str) -> list[Document]:
    """The corpus in pieces of shard_bytes, the last perhaps shorter, named after where they begin. Raises ConfigError."""
    if shard_bytes < 1:
        raise ConfigError(f"shards of {shard_bytes} bytes are none")
    return [Document(f"{name}:{at}", at, min(shard_bytes, n_bytes - at)) for at in range(0, n_bytes, shard_bytes)]


# ---- scores


def _unseen(n_bytes: int, n_in_all: int) -> None:
    pass


def score_documents(
    source: Bytes,
    documents: Iterable[Document],
    by: str,
    config: Config,
    runtime: Runtime,
    *,
    target: Bytes | None = None,
    on_read: OnRead = _unseen,
) -> list[Scored]:
    """The documents of `source` (n,) uint8 that have bytes, ascending by offset, scored by one of MEASURES.

    Reads the corpus twice (novel: without its copies), for progress three times, or four with a target; a target twice.
    Sums are exact below 2**31 bits. Raises CorpusError where fewer than two documents have bytes: there are no halves.
    """
    if by not in MEASURES:
        raise ConfigError(f"no measure {by!r}; there are {', '.join(MEASURES)}")
    kept = [document for document in documents if document.n_bytes]
    if len(kept) < 2:
        raise CorpusError(f"nothing to rank: {len(kept)} documents that are not empty")
    parts = [source[d.offset : d.offset + d.n_bytes] for d in kept]
    if by == NOVEL:
        parts = list(_novel_parts(source, kept, target))
    n, n_target = sum(map(len, parts)), 0 if target is None else len(target)
    n_in_all = 2 * (n + n_target) if by != PROGRESS else 3 * n if target is None else 4 * n + 2 * n_target

    def cost(stream: Sequence[Bytes]) -> Bits:
        return part_bits(stream, config, runtime, lambda n_bytes: on_read(n_bytes, n_in_all))

    costs, bits = np.empty(len(kept)), np.empty(len(kept))
    for half in (0, 1):
        own, other = parts[half::2], parts[1 - half :: 2]
        costs[half::2], saved_from = _costs(own, other, by, target, cost)
        bits[half::2] = costs[half::2] - saved_from
    return [Scored(d, float(b), float(c)) for d, b, c in zip(kept, bits, costs, strict=True)]


def _costs(
    own: list[Bytes], other: list[Bytes], by: str, target: Bytes | None, cost: Callable[[Sequence[Bytes]], Bits]
) -> tuple[Bits, Bits]:
    """What each document of one's own half costs, (n,) bits, and what the score is the difference to: nothing, or bits again."""
    n = len(own)
    if by != PROGRESS:
        return cost([*([] if target is None else [target]), *other, *own])[-n:], np.zeros(n)
    if target is None:
        twice = cost([*other, *own, *own])[-2 * n :]
        return twice[:n], twice[n:]
    return cost([*other, *own])[-n:], cost([target, *other, *own])[-n:]


def part_bits(
    parts: Sequence[Bytes], config: Config, runtime: Runtime, on_read: Callable[[int], object] = lambda n: None
) -> Bits:
    """What each part costs a fresh learner that reads them one after another, as one stream: (n,), in bits."""
    stream = np.concatenate(parts)
    trace, learner = Trace([MODEL], len(stream)), runtime.learner(config)
    for block in blocks(len(stream), config.schedule):
        for _, bits in run(learner, BitCoder(FOLLOW), block, stream[block]):
            trace.append(MODEL, bits)
            on_read(len(bits))
    return np.diff(trace.sums(MODEL, np.cumsum([len(part) for part in parts])), prepend=0.0)


def _novel_parts(source: Bytes, documents: Sequence[Document], target: Bytes | None) -> Iterator[Bytes]:
    """The bytes of each document, ascending by offset, that are no copy of the target or of an earlier document."""
    parts = [source[d.offset : d.offset + d.n_bytes] for d in documents]
    n_before = 0 if target is None else len(target)
    copies = Copies(np.concatenate(parts if target is None else [target, *parts]))
    copies.next_labels(0, n_before)
    at = n_before
    for part in parts:
        yield part[copies.next_labels(at, at + len(part)) == 0]
        at += len(part)


# ---- order and choice


def rank(scored: Iterable[Scored], order: str = HIGH) -> list[Scored]:
    """By score: highest or lowest first, or nearest to the median. Equal ones stay in the corpus's order. Raises ConfigError."""
    listed = list(scored)
    if order not in ORDERS:
        raise ConfigError(f"no order {order!r}; there are {', '.join(ORDERS)}")
    median = statistics.median_low(s.score for s in listed) if listed else 0.0
    keys = {HIGH: lambda s: -s.score, LOW: lambda s: s.score, MIDDLE: lambda s: abs(s.score - median)}
    return sorted(listed, key=lambda s: (keys[order](s), s.document.offset))


def choose(ranked: Iterable[Scored], budget_bytes: int) -> list[Choice]:
    """Goes down the order and takes every document that still fits. Raises ConfigError if none does."""
    left, choices = budget_bytes, []
    for place, scored in enumerate(ranked, 1):
        fits = scored.document.n_bytes <= left
        left -= scored.document.n_bytes if fits else 0
        choices.append(Choice(place, scored, fits))
    if not any(choice.selected for choice in choices):
        raise ConfigError(f"no document fits into {budget_bytes} bytes: raise the budget")
    return choices


def subset(source: Bytes, choices: Iterable[Choice], *, by_rank: bool = False) -> Iterator[Bytes]:
    """The bytes of each chosen document, in the corpus's order or in that of ranks, without anything between them."""
    chosen = [choice.scored.document for choice in choices if choice.selected]
    for document in chosen if by_rank else sorted(chosen, key=lambda d: d.offset):
        yield source[document.offset : document.offset + document.n_bytes]
