"""Sums over documents, languages, kinds and overlap, exact to the unit; and what a record holds of them."""

from dataclasses import asdict

import msgspec
import numpy as np
import pytest
from prequential_codecs.bit_coder import UNIT_BITS
from prequential_corpora.corpus import Document
from prequential_corpora.overlap import measure_overlap
from prequential_corpora.sources import sample_path

from prequential.comparison.clusters import Clusters, rate_interval
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.summary import languages_of, summarise_heldout

TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 30_000)
DOCUMENTS = [
    Document("a/x.py", 3, 10), Document("y.RS", 14, 5), Document("b/empty.py", 20, 0), Document("z", 20, 6),
    Document("w.odd", 30, 7),
]  # fmt: skip


def trace_of(bits: np.ndarray) -> Trace:
    trace = Trace((MODEL,), len(bits))
    trace.append(MODEL, bits)
    return trace


@pytest.fixture
def trace() -> Trace:
    return trace_of(np.random.default_rng(0).integers(1, 1 << 30, 40) * UNIT_BITS)


def test_sums_over_documents_languages_and_bytes_outside_documents_add_up_exactly(trace: Trace) -> None:
    loss, bits = summarise_heldout(trace, DOCUMENTS), trace.bits(MODEL)
    assert loss.total.bits == bits.sum() and loss.total.n_bytes == 40
    assert {g.name: g.bits for g in loss.each} == {
        d.name: bits[d.offset : d.offset + d.n_bytes].sum() for d in DOCUMENTS
    }
    assert loss.documents.bits + loss.outside.bits == loss.total.bits
    assert (loss.documents.n_bytes, loss.outside.n_bytes) == (28, 12)
    assert sum(g.bits for g in loss.each) == sum(g.bits for g in loss.languages) == loss.documents.bits
    assert {g.name: (g.n_documents, g.n_bytes) for g in loss.languages} == {
        "Python": (2, 10), "Rust": (1, 5), "(none)": (1, 6), ".odd": (1, 7),
    }  # fmt: skip
    assert [g.bits for g in loss.each] == sorted((g.bits for g in loss.each), reverse=True)


def test_each_mean_has_equal_weights_for_bytes_documents_or_languages(trace: Trace) -> None:
    loss = summarise_heldout(trace, DOCUMENTS)
    rates = [trace.bits(MODEL)[d.offset : d.offset + d.n_bytes].mean() for d in DOCUMENTS if d.n_bytes]
    assert loss.bits_per_byte == loss.documents.bits / 28
    assert loss.macro_documents == pytest.approx(np.mean(rates), rel=1e-12)
    assert loss.macro_languages == pytest.approx(np.mean([g.bits / g.n_bytes for g in loss.languages]), rel=1e-12)


def test_kinds_and_commits_of_a_window_sum_to_all_documents() -> None:
    documents = [Document("new/added/a.py", 0, 5), Document("added/new", 6, 3), Document("new/b.py", 9, 0)]
    dates = [("c2", "2026-01-02"), ("c1", "2026-01-01"), ("c2", "2026-01-02")]
    loss = summarise_heldout(trace_of(np.arange(10.0)), documents, commits=dates)
    assert [(g.name, g.n_documents, g.n_bytes, g.bits) for g in loss.kinds or ()] == [
        ("new", 2, 5, 10.0), ("added", 1, 3, 21.0)
    ]  # fmt: skip
    assert [(g.name, g.date, g.bits) for g in loss.commits or ()] == [
        ("c2", "2026-01-02", 10.0), ("c1", "2026-01-01", 21.0)
    ]  # fmt: skip
    assert {g.number: g.commit for g in loss.each} == {0: "c2", 1: "c1", 2: "c2"}


def test_clean_dirty_and_novel_agree_with_the_overlap() -> None:
    copied, fresh = TEXT[1000:2000].tobytes(), TEXT[20_000:21_000].tobytes()
    stream, documents = b"head", []
    for i, part in enumerate([copied, fresh, copied[:400], b"few"]):
        documents.append(Document(f"{i}.txt", len(stream), len(part)))
        stream += part + b"\0"
    symbols = np.frombuffer(stream, np.uint8)
    seen = measure_overlap(TEXT[:5000], [Document("train", 0, 5000)], symbols, documents)
    trace = trace_of(np.random.default_rng(1).integers(1, 1 << 25, len(symbols)) * UNIT_BITS)
    loss = summarise_heldout(trace, documents, seen)
    assert loss.clean and loss.dirty and loss.novel
    assert (loss.dirty.n_documents, loss.clean.n_documents) == (2, 2)
    assert loss.dirty.bits + loss.clean.bits == loss.documents.bits
    inside = np.zeros(len(symbols), bool)
    for d in documents:
        inside[d.offset : d.offset + d.n_bytes] = True
    assert loss.novel.bits == trace.bits(MODEL)[inside & seen.novel].sum()
    assert loss.novel.n_bytes == (inside & seen.novel).sum() <= 1003


def test_a_record_lists_the_costliest_documents_and_the_sum_of_the_others() -> None:
    trace = trace_of(np.arange(1200) * UNIT_BITS)
    record = msgspec.to_builtins(summarise_heldout(trace, [Document(str(i), i, 1) for i in range(1200)]))
    assert (len(record["each"]), record["all_others"]["n_documents"]) == (1000, 200)
    assert sum(g["bits"] for g in record["each"]) + record["all_others"]["bits"] == record["documents"]["bits"]


@pytest.mark.parametrize("n", [2, 12])
def test_an_interval_is_made_of_three_documents_or_more_in_the_order_of_the_corpus(n: int) -> None:
    bits = np.random.default_rng(4).integers(1, 1 << 25, 1200) * UNIT_BITS
    loss = summarise_heldout(trace_of(bits), [Document(str(i), 100 * i + 10, 60 + i) for i in range(n)])
    assert loss.clusters.n_bytes == [60 + i for i in range(n)]
    assert loss.clusters.bits == [bits[100 * i + 10 : 100 * i + 70 + i].sum() for i in range(n)]
    sizes, costs = tuple(loss.clusters.n_bytes), tuple(loss.clusters.bits)
    expected = rate_interval(Clusters(n_documents=n, n_bytes=sizes, bits=costs))
    assert loss.interval == (asdict(expected) if expected else None)
    assert (expected is None) == (n == 2)


def test_without_documents_means_are_none(trace: Trace) -> None:
    loss = summarise_heldout(trace, [])
    assert (loss.bits_per_byte, loss.macro_documents) == (None, None)
    assert loss.outside.bits == loss.total.bits


def test_a_language_is_known_by_the_name_or_is_the_extension() -> None:
    names = ["a.py", "b/Makefile", "c.PY", "d.strange", "e", ".hidden", "f.\udcff"]
    languages = languages_of([Document(name, 0, 0) for name in names])
    assert languages == ["Python", "Make", "Python", ".strange", "(none)", "(none)", ".\\udcff"]
