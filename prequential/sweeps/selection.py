"""Data selection: documents of a corpus ranked by their code length, and the best of them within a budget of bytes.

Every score is in bits per byte of a document. It is made of code lengths of a learner that learns while it reads. Equal arguments
give equal bits on every machine. A learner that has read nothing is most surprised by the first documents. So documents are
assigned in turn to two halves. Each half is read after the other one, and only this second reading counts. With a target, a text
of the wanted kind, the learner reads the target first.

    surprise   L(d | target, other half, own half before d)
    novel      the same for a corpus without copies: without the bytes of d in a match of 32 bytes or more to the target or to an
               earlier document (evaluation/novelty.py), which cost nothing
    progress   L(d | other half, own half before d) - L(d | target, other half, own half before d): what the target teaches
               about d. Without a target: what a second reading of d's half saves, after both halves were read

Progress is a difference between two learners. So are the reducible loss of Mindermann et al. (2022), and the cross-entropy
difference by which Moore and Lewis (2010) choose text like a target. Noise, which no learner can learn, has a high surprise and,
for a learner that does not memorise, no progress.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_corpora.corpus import Document

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.novelty import Copies
from prequential.evaluation.trace import Trace
from prequential.learners.following import follow
from prequential.model.config import Config
from prequential.online.runtime import Runtime

SURPRISE, NOVEL, PROGRESS = MEASURES = ("surprise", "novel", "progress")
HIGH, LOW, MIDDLE = ORDERS = ("high", "low", "middle")

Bytes = NDArray[np.uint8]
Bits = NDArray[np.float64]
OnRead = Callable[[int, int], object]  # called with the bytes just read, and the bytes to read in total


class Scored(NamedTuple):
    """A document with the bits of its score. code_bits: its surprise, or the surprise of its novel part, in bits."""

    document: Document
    bits: float
    code_bits: float

    @property
    def score(self) -> float:
        """The score in bits per byte of the document."""
        return self.bits / self.document.n_bytes


class Choice(NamedTuple):
    """A document with its rank, from 1 on, and whether it fits into the budget."""

    rank: int
    scored: Scored
    selected: bool


def shards(n_bytes: int, shard_bytes: int, name: str) -> list[Document]:
    """The corpus in pieces of shard_bytes, named by their starts; the last may be shorter. Raises ConfigError."""
    if shard_bytes < 1:
        raise ConfigError(f"shards of {shard_bytes} bytes are impossible: a shard has at least 1")
    return [Document(f"{name}:{at}", at, min(shard_bytes, n_bytes - at)) for at in range(0, n_bytes, shard_bytes)]


# ---- scores


def score_documents(
    source: Bytes,
    documents: Iterable[Document],
    by: str,
    config: Config,
    runtime: Runtime,
    *,
    target: Bytes | None = None,
    on_read: OnRead = lambda n_bytes, n_total: None,
) -> list[Scored]:
    """The documents of `source` (n,) uint8 that are not empty, in the order of `documents`, scored by one of MEASURES.

    on_read: called while the learner reads. The learner reads the corpus twice (novel: without copies), for progress three times,
    or four with a target. It reads a target twice. Sums are exact below 2**31 bits. Raises ConfigError for an unknown measure,
    and CorpusError for fewer than two documents: there are no halves.
    """
    if by not in MEASURES:
        raise ConfigError(f"there is no measure {by!r}; the measures are {', '.join(MEASURES)}")
    kept = [document for document in documents if document.n_bytes]
    if len(kept) < 2:
        raise CorpusError(f"ranking needs two documents that are not empty: here are {len(kept)}")
    parts = list(_novel_parts(source, kept, target)) if by == NOVEL else _document_parts(source, kept)
    n_total = _n_read(sum(map(len, parts)), by, target)

    def cost(stream: Sequence[Bytes]) -> Bits:
        return part_bits(stream, config, runtime, lambda n_bytes: on_read(n_bytes, n_total))

    code_bits, bits = np.empty(len(kept)), np.empty(len(kept))
    for half in (0, 1):
        own, other = parts[half::2], parts[1 - half :: 2]
        code_bits[half::2], subtracted = _half_bits(own, other, by, target, cost)
        bits[half::2] = code_bits[half::2] - subtracted
    return [Scored(d, float(b), float(c)) for d, b, c in zip(kept, bits, code_bits, strict=True)]


def _document_parts(source: Bytes, documents: Sequence[Document]) -> list[Bytes]:
    return [source[d.offset : d.offset + d.n_bytes] for d in documents]


def _n_read(n_bytes: int, by: str, target: Bytes | None) -> int:
    """The bytes that the learners read for all scores. n_bytes: of all documents."""
    if by != PROGRESS:
        return 2 * (n_bytes + (0 if target is None else len(target)))
    return 3 * n_bytes if target is None else 4 * n_bytes + 2 * len(target)


def _half_bits(
    own: list[Bytes], other: list[Bytes], by: str, target: Bytes | None, cost: Callable[[Sequence[Bytes]], Bits]
) -> tuple[Bits, Bits]:
    """The cost of each of the n documents in the own half, and what the score subtracts from it: (n,) bits each."""
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
    """The cost (n,) in bits of n parts for a fresh learner that reads them one after another, as one stream."""
    stream = np.concatenate(parts)
    trace, learner = Trace([MODEL], len(stream)), runtime.learner(config)
    for bits in follow(learner, stream):
        trace.append(MODEL, bits)
        on_read(len(bits))
    return np.diff(trace.sums(MODEL, np.cumsum([len(part) for part in parts])), prepend=0.0)


def _novel_parts(source: Bytes, documents: Sequence[Document], target: Bytes | None) -> Iterator[Bytes]:
    """The bytes of each document that are not copies from the target or from an earlier document."""
    parts = _document_parts(source, documents)
    n_before = 0 if target is None else len(target)
    copies = Copies(np.concatenate(parts if target is None else [target, *parts]))
    copies.next_labels(0, n_before)
    at = n_before
    for part in parts:
        yield part[copies.next_labels(at, at + len(part)) == 0]
        at += len(part)


# ---- order and choice


def rank(scored: Iterable[Scored], order: str = HIGH) -> list[Scored]:
    """Sorted by score: the highest, the lowest, or the nearest to the median first. Ties keep the order of the corpus.

    Raises ConfigError for an unknown order.
    """
    listed = list(scored)
    if order not in ORDERS:
        raise ConfigError(f"there is no order {order!r}; the orders are {', '.join(ORDERS)}")
    median = statistics.median_low(s.score for s in listed) if listed else 0.0
    keys = {HIGH: lambda s: -s.score, LOW: lambda s: s.score, MIDDLE: lambda s: abs(s.score - median)}
    return sorted(listed, key=lambda s: (keys[order](s), s.document.offset))


def choose(ranked: Iterable[Scored], budget_bytes: int) -> list[Choice]:
    """Selects every document that still fits into the budget, in the order of ranks. Raises ConfigError if none fits."""
    remaining_bytes, choices = budget_bytes, []
    for place, scored in enumerate(ranked, 1):
        fits = scored.document.n_bytes <= remaining_bytes
        remaining_bytes -= scored.document.n_bytes if fits else 0
        choices.append(Choice(place, scored, fits))
    if not any(choice.selected for choice in choices):
        raise ConfigError(f"no document fits into {budget_bytes} bytes: increase the budget")
    return choices


def subset(source: Bytes, choices: Iterable[Choice], *, by_rank: bool = False) -> Iterator[Bytes]:
    """The bytes of each selected document, in the order of the corpus or of ranks."""
    chosen = [choice.scored.document for choice in choices if choice.selected]
    for document in chosen if by_rank else sorted(chosen, key=lambda d: d.offset):
        yield source[document.offset : document.offset + document.n_bytes]
