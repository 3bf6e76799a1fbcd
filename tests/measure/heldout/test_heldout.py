"""Held-out loss: what a policy lets a symbol know, to the bit; and sums that add up, to the unit."""

from dataclasses import replace

import numpy as np
import pytest

from prequential.codecs.bit_coder import DECODE, ENCODE, FOLLOW, UNIT_BITS, BitCoder
from prequential.corpora.bundled import sample_path
from prequential.corpora.corpus import Document
from prequential.corpora.overlap.overlap import measure_overlap
from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.trace import MODEL, Trace
from prequential.measure.heldout.heldout import (
    code_frozen,
    dynamic_trace,
    frozen_trace,
    languages_of,
    policy,
    summarise_heldout,
)
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online.runtime import Runtime
from prequential.online.training import train

BOTH = Config(
    gpt=GPTConfig(n_layers=2, width=32, n_heads=2, mlp_factor=2, window=16, warmup_updates=1),
    mixer=MixerConfig(contexts=("1", "2", "4", "word", "line,above", "match"), table_bits=10, match_bits=8),
    schedule=ScheduleConfig(
        first_segment_symbols=48, segment_symbols=48, row_symbols=16, n_rows=5, history_bits=14, block_symbols=256
    ),
)
PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
POLICIES = ["carried", "isolated", "strided"]
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 30_000)


def new_learner(config):
    return Runtime(threads=1, kernels="plain", backend="float32").learner(config)


@pytest.fixture(scope="module")
def trained():
    """A trained learner of each configuration; nothing may learn with it."""
    learners = {}

    def trained(config):
        if config not in learners:
            learners[config] = new_learner(config)
            train(learners[config], TEXT[:700])
        return learners[config]

    return trained


def corpus_of(parts, end=b"\0"):
    """Bytes (n,) uint8 of parts with `end` behind each, and the documents that they are."""
    stream, documents = b"head", []
    for i, part in enumerate(parts):
        documents.append(Document(f"{i}.txt", len(stream), len(part)))
        stream += bytes(part) + end
    return np.frombuffer(stream, np.uint8), documents


def costs_of(learner, parts, context, stride=None, end=b"\0"):
    symbols, documents = corpus_of(parts, end)
    trace = frozen_trace(learner, symbols, documents, context, stride)
    return [trace.bits(MODEL, slice(d.offset, d.offset + d.n_bytes)).tolist() for d in documents]


PARTS = [TEXT[2000:2060].tobytes(), TEXT[5000:5100].tobytes(), b"", TEXT[9000:9033].tobytes()]


# ---- policies


@CONFIGS
@pytest.mark.parametrize("context", ["isolated", "strided"])
def test_what_an_isolated_document_costs_does_not_depend_on_those_around_it(trained, config, context):
    if context == "strided" and config is MIXER:
        return
    learner = trained(config)
    together = costs_of(learner, PARTS, context)
    assert together == costs_of(learner, PARTS[::-1], context)[::-1]
    assert together == [costs_of(learner, [part], context)[0] for part in PARTS]
    assert together == costs_of(learner, PARTS, context, end=b"no end\n\n")
    assert together != costs_of(learner, PARTS, "carried")


def test_nor_on_one_that_filled_the_ring_with_other_bytes(trained):
    learner, long = trained(MIXER), np.resize(TEXT[::-1], 40_000).tobytes()
    assert costs_of(learner, [long, PARTS[0]], "isolated")[1] == costs_of(learner, [PARTS[0]], "isolated")[0]


def test_carried_costs_are_those_of_one_stream_whatever_the_documents(trained):
    symbols, documents = corpus_of(PARTS)
    traces = [frozen_trace(trained(BOTH), symbols, of) for of in (documents, [Document("all", 0, len(symbols))], [])]
    assert all(np.array_equal(traces[0].bits(MODEL), trace.bits(MODEL)) for trace in traces[1:])


@pytest.mark.parametrize("stride", [1, 5, 16])
def test_a_strided_symbol_sees_so_many_symbols_of_its_document(trained, stride):
    """Of the GPT alone: its cost is that of the end of a document which holds just those."""
    learner, document, window = trained(PURE), PARTS[1], 16
    costs = costs_of(learner, [document], "strided", stride)[0]
    assert costs[:window] == costs_of(learner, [document[:window]], "isolated")[0]
    for i in (window, window + 1, 37, 64, 99):
        n_seen = window - stride + (i - window) % stride
        assert window - stride <= n_seen <= window - 1
        assert costs[i] == costs_of(learner, [document[i - n_seen : i + 1]], "isolated")[0][-1]


def test_striding_leaves_the_mixers_contexts_alone(trained):
    """The first window of a document costs what it costs in isolation, with the mixer too; behind it another GPT speaks."""
    strided, isolated = (costs_of(trained(BOTH), [PARTS[1]], context)[0] for context in ("strided", "isolated"))
    assert strided[:16] == isolated[:16]
    assert strided[16:] != isolated[16:]


@CONFIGS
@pytest.mark.parametrize("context", POLICIES)
def test_every_frozen_code_decodes(trained, config, context):
    if context == "strided" and config is MIXER:
        return
    symbols, documents = corpus_of(PARTS)
    writer = BitCoder(ENCODE)
    costs = np.concatenate(list(code_frozen(trained(config), symbols.copy(), documents, writer, context)))
    reader, found = BitCoder(DECODE, writer.payload()), np.zeros_like(symbols)
    again = np.concatenate(list(code_frozen(trained(config), found, documents, reader, context)))
    reader.check_end()
    assert np.array_equal(found, symbols) and np.array_equal(costs, again)
    assert np.array_equal(costs, frozen_trace(trained(config), symbols, documents, context).bits(MODEL))


def test_a_policy_that_a_learner_cannot_have_is_refused(trained):
    symbols, documents = corpus_of(PARTS)
    for config, context, stride in [
        (MIXER, "strided", None), (PURE, "strided", 0), (PURE, "strided", 17), (PURE, "carried", 4), (PURE, "none", None),
    ]:  # fmt: skip
        with pytest.raises(ConfigError):
            list(code_frozen(trained(config), symbols, documents, BitCoder(FOLLOW), context, stride))
    with pytest.raises(CorpusError):
        frozen_trace(trained(PURE), symbols[:0], [])


def test_a_policy_is_stated_with_its_numbers():
    assert policy(BOTH, "strided", 5).endswith("sees 11 to 15 symbols of it, read afresh each 5")
    assert len({policy(BOTH, context) for context in POLICIES}) == 3


# ---- dynamic


def test_dynamic_costs_are_those_of_a_run_that_goes_on():
    """Without a GPT, whose steps fall elsewhere when a corpus ends: then the code of the whole is that of its halves."""
    learner, whole, costs = new_learner(MIXER), new_learner(MIXER), []
    train(learner, TEXT[:700])
    train(whole, TEXT[:1000], lambda done, n_bytes: costs.append(done.segment_bits))
    assert np.array_equal(dynamic_trace(learner, TEXT[700:1000]).bits(MODEL), np.concatenate(costs)[700:])


@CONFIGS
def test_a_frozen_pass_changes_nothing_for_the_dynamic_one(config):
    traces = []
    for n_frozen in (0, 2):
        learner = new_learner(config)
        train(learner, TEXT[:300])
        for _ in range(n_frozen):
            frozen_trace(learner, TEXT[400:500], [], "isolated")
        traces.append(dynamic_trace(learner, TEXT[300:500]).bits(MODEL))
    assert np.array_equal(*traces)


def test_training_saves_bits_on_text_of_the_same_kind(trained):
    learner = new_learner(MIXER)
    train(learner, TEXT[:20_000])
    frozen = frozen_trace(learner, TEXT[20_000:24_000], []).total_bits(MODEL)
    dynamic = dynamic_trace(learner, TEXT[20_000:24_000]).total_bits(MODEL)
    untrained = dynamic_trace(new_learner(MIXER), TEXT[20_000:24_000]).total_bits(MODEL)
    assert dynamic < frozen < untrained


# ---- sums


DOCUMENTS = [
    Document("a/x.py", 3, 10), Document("y.RS", 14, 5), Document("b/empty.py", 20, 0), Document("z", 20, 6),
    Document("w.odd", 30, 7),
]  # fmt: skip


@pytest.fixture
def trace():
    trace = Trace((MODEL,), 40)
    trace.append(MODEL, np.random.default_rng(0).integers(1, 1 << 30, 40) * UNIT_BITS)
    return trace


def test_sums_over_documents_languages_and_what_is_outside_add_up_exactly(trace):
    found = summarise_heldout(trace, DOCUMENTS)
    bits = trace.bits(MODEL)
    assert found.total.bits == bits.sum() and found.total.n_bytes == 40
    assert {g.name: g.bits for g in found.each} == {
        d.name: bits[d.offset : d.offset + d.n_bytes].sum() for d in DOCUMENTS
    }
    assert found.documents.bits + found.outside.bits == found.total.bits
    assert found.documents.n_bytes + found.outside.n_bytes == 28 + 12
    assert sum(g.bits for g in found.each) == sum(g.bits for g in found.languages) == found.documents.bits
    assert {g.name: (g.n_documents, g.n_bytes) for g in found.languages} == {
        "Python": (2, 10), "Rust": (1, 5), "(none)": (1, 6), ".odd": (1, 7),
    }  # fmt: skip
    assert [g.bits for g in found.each] == sorted((g.bits for g in found.each), reverse=True)


def test_averages_weight_bytes_documents_or_languages_alike(trace):
    found = summarise_heldout(trace, DOCUMENTS, labels=["one", "two", "two", "two", "two"])
    rates = [trace.bits(MODEL)[d.offset : d.offset + d.n_bytes].mean() for d in DOCUMENTS if d.n_bytes]
    assert found.bits_per_byte == found.documents.bits / 28
    assert found.macro_documents == pytest.approx(np.mean(rates), rel=1e-12)
    assert found.macro_languages == pytest.approx(np.mean([g.bits / g.n_bytes for g in found.languages]), rel=1e-12)
    assert (found.quantiles[0], found.quantiles[-1]) == pytest.approx((min(rates), max(rates)), rel=1e-12)
    assert found.quantiles[3] == pytest.approx(np.median(rates), rel=1e-12)


def test_clean_dirty_and_novel_add_up_to_what_overlap_says():
    copied, fresh = TEXT[1000:2000].tobytes(), TEXT[20_000:21_000].tobytes()
    symbols, documents = corpus_of([copied, fresh, copied[:400], b"few"])
    seen = measure_overlap(TEXT[:5000], [Document("train", 0, 5000)], symbols, documents)
    trace = Trace((MODEL,), len(symbols))
    trace.append(MODEL, np.random.default_rng(1).integers(1, 1 << 25, len(symbols)) * UNIT_BITS)
    found = summarise_heldout(trace, documents, None, seen)
    assert (found.dirty.n_documents, found.clean.n_documents) == (2, 2)
    assert found.dirty.bits + found.clean.bits == found.documents.bits
    inside = np.zeros(len(symbols), bool)
    for d in documents:
        inside[d.offset : d.offset + d.n_bytes] = True
    assert found.novel.bits == trace.bits(MODEL)[inside & seen.novel].sum()
    assert found.novel.n_bytes == (inside & seen.novel).sum() <= 1003
    record = found.to_record()
    assert record["novel"]["bits"] == found.novel.bits and record["clean"]["n_documents"] == 2


def test_nothing_is_divided_by_nothing(trace):
    found = summarise_heldout(trace, [])
    assert (found.bits_per_byte, found.macro_documents, found.quantiles) == (None, None, ())
    assert found.outside.bits == found.total.bits


def test_many_documents_are_summed_up_in_a_record():
    trace = Trace((MODEL,), 1200)
    trace.append(MODEL, np.arange(1200) * UNIT_BITS)
    record = summarise_heldout(trace, [Document(str(i), i, 1) for i in range(1200)]).to_record()
    assert (len(record["each"]), record["all_others"]["n_documents"]) == (1000, 200)
    assert sum(g["bits"] for g in record["each"]) + record["all_others"]["bits"] == record["documents"]["bits"]


def test_documents_of_another_corpus_are_refused(trace):
    for documents in ([Document("a", 35, 6)], [Document("a", 5, 6), Document("b", 10, 1)], [Document("a", 0, -1)]):
        with pytest.raises(CorpusError):
            summarise_heldout(trace, documents)
    with pytest.raises(CorpusError):
        summarise_heldout(trace, DOCUMENTS, labels=["one"])


def test_a_language_is_known_by_name_else_it_is_the_extension():
    names = ["a.py", "b/Makefile", "c.PY", "d.strange", "e", ".hidden", "f.\udcff"]
    documents = [Document(name, 0, 0) for name in names]
    assert languages_of(documents) == ["Python", "Make", "Python", ".strange", "(none)", "(none)", ".\\udcff"]
