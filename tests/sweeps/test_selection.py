"""Selection: a score is a code length after all other documents; orders, budgets and copies are exact."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from prequential_corpora.bundled import sample_path
from prequential_corpora.corpus import Document

import prequential
from prequential import Config, ConfigError, CorpusError, MixerConfig, Runtime, ScheduleConfig
from prequential.evaluation.novelty import MATCH_BYTES
from prequential.sweeps.selection import (
    HIGH,
    LOW,
    MEASURES,
    MIDDLE,
    NOVEL,
    PROGRESS,
    SURPRISE,
    Scored,
    choose,
    part_bits,
    rank,
    score_documents,
    shards,
    subset,
)

SMALL = Config(
    gpt=None,
    mixer=MixerConfig(contexts=("1", "2", "3"), table_bits=10, match_bits=8),
    schedule=ScheduleConfig(history_bits=14, block_symbols=1 << 20),
)
FUSED = Runtime(kernels="fused", threads=1)
TEXT = np.frombuffer(sample_path("christmas_carol").read_bytes()[5000:13192], np.uint8)  # after the licence
NOISE = np.random.default_rng(0).integers(0, 256, 1024, np.uint8)


def corpus(*parts: np.ndarray) -> tuple[np.ndarray, list[Document]]:
    """Documents one after another, each followed by a NUL, as in a folder."""
    pieces, documents, at = [], [], 0
    for i, part in enumerate(parts):
        documents.append(Document(f"d{i}", at, len(part)))
        pieces += [part, np.zeros(1, np.uint8)]
        at += len(part) + 1
    return np.concatenate(pieces), documents


def scores(parts: list[np.ndarray], by: str, target: np.ndarray | None = None) -> list[float]:
    return [s.score for s in score_documents(*corpus(*parts), by, SMALL, FUSED, target=target)]


def bits_after(before: list[np.ndarray], parts: list[np.ndarray]) -> float:
    """The cost of `parts` after `before`, from the evaluation of both as one stream."""
    stream = np.concatenate([*before, *parts])
    trace = prequential.evaluate(stream, config=SMALL, baselines=(), runtime=FUSED).trace
    n_before = sum(map(len, before))
    return float(trace.bits("model", slice(n_before, len(stream))).sum())


TEXTS = [TEXT[i : i + 1024] for i in range(0, 6144, 1024)]


# ---- scores


def test_the_surprise_of_each_half_is_its_code_length_after_the_other_half() -> None:
    found = score_documents(*corpus(*TEXTS[:4]), SURPRISE, SMALL, FUSED)
    even, odd = [found[0].bits, found[2].bits], [found[1].bits, found[3].bits]
    assert sum(even) == bits_after([TEXTS[1], TEXTS[3]], [TEXTS[0], TEXTS[2]])
    assert sum(odd) == bits_after([TEXTS[0], TEXTS[2]], [TEXTS[1], TEXTS[3]])
    assert [s.code_bits for s in found] == [s.bits for s in found]


def test_progress_is_the_saving_by_the_target_or_by_a_second_reading() -> None:
    a, b, target = TEXTS[:3]
    with_target = score_documents(*corpus(a, b), PROGRESS, SMALL, FUSED, target=target)
    assert with_target[0].bits == bits_after([b], [a]) - bits_after([target, b], [a])
    alone = score_documents(*corpus(a, b), PROGRESS, SMALL, FUSED)
    assert alone[1].bits == bits_after([a], [b]) - bits_after([a, b], [b])
    assert alone[1].code_bits == with_target[1].code_bits == bits_after([a], [b])


def test_the_first_document_is_not_more_surprising_than_the_others() -> None:
    found = scores(TEXTS, SURPRISE)
    straight = part_bits(TEXTS, SMALL, FUSED) / 1024
    assert straight[0] > 1.2 * straight[1:].mean()  # in a single pass it would be
    assert found[0] < 1.2 * np.mean(found[1:])


def test_noise_has_the_highest_surprise_and_the_least_progress_with_a_target() -> None:
    parts = [*TEXTS[:2], NOISE, TEXTS[2]]
    assert int(np.argmax(scores(parts, SURPRISE))) == 2
    assert int(np.argmin(scores(parts, PROGRESS, target=TEXT[6144:]))) == 2


def test_a_target_finds_similar_documents() -> None:
    shouted = np.array([ord(chr(byte).upper()) if byte < 128 else byte for byte in TEXT], np.uint8)
    parts = [TEXTS[0], shouted[1024:2048], shouted[2048:3072], TEXTS[3]]
    first = rank(score_documents(*corpus(*parts), PROGRESS, SMALL, FUSED, target=TEXT[4096:]))[:2]
    assert {scored.document.name for scored in first} == {"d0", "d3"}


def test_a_copy_of_an_earlier_document_or_of_the_target_is_not_novel() -> None:
    found = scores([TEXTS[0], TEXTS[1], TEXTS[0]], NOVEL)
    assert found[2] == 0.0
    assert found[0] > 0.5
    assert found[1] > 0.5
    assert scores(TEXTS[:2], NOVEL, target=TEXTS[0])[0] == 0.0


def test_documents_without_copies_are_completely_novel() -> None:
    parts = [TEXTS[0], NOISE[: MATCH_BYTES - 1], TEXTS[3]]
    assert scores(parts, NOVEL) == scores(parts, SURPRISE)


def test_empty_documents_are_left_out_and_a_single_document_is_an_error() -> None:
    nothing = np.zeros(0, np.uint8)
    found = score_documents(*corpus(nothing, TEXTS[0], nothing, TEXTS[1]), SURPRISE, SMALL, FUSED)
    assert [s.document.name for s in found] == ["d1", "d3"]
    for by in MEASURES:
        with pytest.raises(CorpusError, match="two documents that are not empty: here are 1"):
            score_documents(*corpus(TEXTS[0], nothing), by, SMALL, FUSED)


@pytest.mark.parametrize("by", MEASURES)
@pytest.mark.parametrize("target", [None, TEXTS[5]])
def test_the_total_to_read_is_known_at_the_start_and_reached_at_the_end(by: str, target: np.ndarray | None) -> None:
    reports: list[tuple[int, int]] = []
    score_documents(
        *corpus(*TEXTS[:3]), by, SMALL, FUSED, target=target, on_read=lambda n, total: reports.append((n, total))
    )
    assert len({total for _, total in reports}) == 1
    assert sum(n for n, _ in reports) == reports[0][1]


# ---- order and choice

SCORED = st.lists(st.tuples(st.integers(1, 50), st.floats(0, 400)), min_size=1, max_size=30).map(
    lambda pairs: [Scored(Document(str(i), 50 * i, n), bits, bits) for i, (n, bits) in enumerate(pairs)]
)


@given(SCORED)
def test_an_order_has_every_document_once_and_ties_in_the_order_of_the_corpus(scored: list[Scored]) -> None:
    for order in (HIGH, LOW, MIDDLE):
        assert sorted(rank(scored, order), key=lambda s: s.document.offset) == scored
    for a, b in pairwise(rank(scored, HIGH)):
        assert (-a.score, a.document.offset) < (-b.score, b.document.offset)
    assert rank(scored, MIDDLE)[0].score == sorted(s.score for s in scored)[(len(scored) - 1) // 2]


@given(SCORED, st.integers(1, 500))
def test_a_document_is_left_out_only_if_it_no_longer_fits(scored: list[Scored], budget: int) -> None:
    assume(budget >= min(s.document.n_bytes for s in scored))
    left = budget
    for choice in choose(rank(scored), budget):
        assert choice.selected == (choice.scored.document.n_bytes <= left)
        left -= choice.selected * choice.scored.document.n_bytes
    assert left >= 0


@given(SCORED)
def test_a_budget_below_the_smallest_document_is_refused(scored: list[Scored]) -> None:
    with pytest.raises(ConfigError, match="no document fits"):
        choose(rank(scored), min(s.document.n_bytes for s in scored) - 1)


def test_a_subset_has_the_selected_bytes_in_the_order_of_the_corpus_or_of_ranks() -> None:
    source, documents = corpus(*TEXTS[:3])
    scored = [Scored(d, bits, bits) for d, bits in zip(documents, (1.0, 3.0, 2.0), strict=True)]
    choices = choose(rank(scored), 2048)
    assert [choice.selected for choice in choices] == [True, True, False]
    parts = {order: b"".join(p.tobytes() for p in subset(source, choices, by_rank=order)) for order in (False, True)}
    assert parts[False] == parts[True] == TEXTS[1].tobytes() + TEXTS[2].tobytes()
    backwards = choose(rank(scored, LOW), 3072)
    assert np.concatenate(list(subset(source, backwards, by_rank=True))).tolist() == [
        *TEXTS[0], *TEXTS[2], *TEXTS[1]
    ]  # fmt: skip


@given(st.integers(0, 300), st.integers(1, 100))
def test_shards_cover_the_corpus_without_overlap(n_bytes: int, shard_bytes: int) -> None:
    pieces = shards(n_bytes, shard_bytes, "x")
    assert [at for d in pieces for at in range(d.offset, d.offset + d.n_bytes)] == list(range(n_bytes))
    assert all(d.n_bytes == shard_bytes for d in pieces[:-1])


def test_an_unknown_measure_or_order_or_an_empty_shard_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no measure 'loss'; the measures are surprise"):
        score_documents(*corpus(*TEXTS[:2]), "loss", SMALL, FUSED)
    with pytest.raises(ConfigError, match="no order 'best'; the orders are high"):
        rank([], "best")
    with pytest.raises(ConfigError, match="shards of 0 bytes"):
        shards(10, 0, "x")
