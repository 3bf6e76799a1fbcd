"""Held-out loss: which symbols a policy predicts from, exact to the bit; and sums that add up, exact to the unit."""

from dataclasses import replace

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder
from prequential_corpora.corpus import Document
from prequential_corpora.sources import sample_path
from small import DEEPER

from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL
from prequential.heldout_loss.heldout import CONTEXTS, Policy, code_frozen, dynamic_trace, frozen_trace
from prequential.model.config import MixerConfig
from prequential.online.runtime import Runtime
from prequential.online.training import train

BOTH = replace(
    DEEPER,
    gpt=replace(DEEPER.gpt, contexts=("3", "after2"), context_bits=8, window=16),
    mixer=MixerConfig(contexts=("1", "2", "4", "word", "line,above", "match"), table_bits=10, match_bits=8),
    schedule=replace(DEEPER.schedule, block_symbols=256),
)
PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
NAMES = {"both": BOTH, "pure": PURE, "mixer": MIXER}
# a stride is a number of symbols that the GPT sees, so a mixer alone has no strided policy
CONFIGS_AND_CONTEXTS = [(n, context) for n in NAMES for context in CONTEXTS if (n, context) != ("mixer", "strided")]
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 30_000)


def new_learner(config):
    return Runtime(threads=1, kernels="fused", backend="float32").learner(config)


@pytest.fixture(scope="module")
def trained():
    """A trained learner of each configuration. Tests must not train it further."""
    learners = {}

    def trained(config):
        if config not in learners:
            learners[config] = new_learner(config)
            train(learners[config], TEXT[:700])
        return learners[config]

    return trained


def corpus_of(parts, end=b"\0"):
    """Bytes (n,) uint8 of parts with `end` after each, and the parts as documents."""
    stream, documents = b"head", []
    for i, part in enumerate(parts):
        documents.append(Document(f"{i}.txt", len(stream), len(part)))
        stream += bytes(part) + end
    return np.frombuffer(stream, np.uint8), documents


def document_costs(learner, parts, context, stride=None, end=b"\0"):
    """The costs of the bytes of each part under a frozen learner."""
    symbols, documents = corpus_of(parts, end)
    trace = frozen_trace(learner, symbols, documents, Policy(context, stride))
    return [trace.bits(MODEL, slice(d.offset, d.offset + d.n_bytes)).tolist() for d in documents]


PARTS = [TEXT[2000:2060].tobytes(), TEXT[5000:5100].tobytes(), b"", TEXT[9000:9033].tobytes()]


# ---- policies


@pytest.mark.parametrize(("name", "context"), [pair for pair in CONFIGS_AND_CONTEXTS if pair[1] != "carried"])
def test_the_cost_of_an_isolated_document_does_not_depend_on_other_documents(trained, name, context):
    learner = trained(NAMES[name])
    together = document_costs(learner, PARTS, context)
    assert together == document_costs(learner, PARTS[::-1], context)[::-1]
    assert together == [document_costs(learner, [part], context)[0] for part in PARTS]
    assert together == document_costs(learner, PARTS, context, end=b"no end\n\n")
    assert together != document_costs(learner, PARTS, "carried")
    if name == "mixer":
        filling_the_ring = np.resize(TEXT[::-1], 40_000).tobytes()
        assert document_costs(learner, [filling_the_ring, PARTS[0]], context)[1] == together[0]


def test_carried_costs_are_those_of_one_stream_for_any_documents(trained):
    symbols, documents = corpus_of(PARTS)
    traces = [frozen_trace(trained(BOTH), symbols, of) for of in (documents, [Document("all", 0, len(symbols))], [])]
    assert all(np.array_equal(traces[0].bits(MODEL), trace.bits(MODEL)) for trace in traces[1:])


@pytest.mark.parametrize("stride", [1, 5, 16])
def test_a_strided_symbol_depends_on_the_stated_number_of_symbols_of_its_document(trained, stride):
    """For the GPT alone: the cost equals that at the end of a document with only those symbols."""
    learner, document, window = trained(PURE), PARTS[1], 16
    costs = document_costs(learner, [document], "strided", stride)[0]
    assert costs[:window] == document_costs(learner, [document[:window]], "isolated")[0]
    for i in (window, window + 1, 37, 64, 99):
        n_seen = window - stride + (i - window) % stride
        assert window - stride <= n_seen <= window - 1
        assert costs[i] == document_costs(learner, [document[i - n_seen : i + 1]], "isolated")[0][-1]


@pytest.mark.parametrize(("name", "context"), CONFIGS_AND_CONTEXTS)
def test_every_frozen_code_decodes(trained, name, context):
    config = NAMES[name]
    symbols, documents = corpus_of(PARTS)
    encoder, policy = BitCoder(ENCODE), Policy(context)
    costs = np.concatenate(list(code_frozen(trained(config), symbols.copy(), documents, encoder, policy)))
    decoder, found = BitCoder(DECODE, encoder.payload()), np.zeros_like(symbols)
    again = np.concatenate(list(code_frozen(trained(config), found, documents, decoder, policy)))
    decoder.check_end()
    assert np.array_equal(found, symbols) and np.array_equal(costs, again)
    assert np.array_equal(costs, frozen_trace(trained(config), symbols, documents, policy).bits(MODEL))


def test_a_policy_is_stated_with_its_numbers_and_refused_if_it_does_not_fit(trained):
    symbols, documents = corpus_of(PARTS)
    for config, context, stride in [
        (MIXER, "strided", None), (PURE, "strided", 0), (PURE, "strided", 17), (PURE, "carried", 4), (PURE, "none", None),
    ]:  # fmt: skip
        with pytest.raises(ConfigError):
            list(code_frozen(trained(config), symbols, documents, BitCoder(SCORE), Policy(context, stride)))
    text = Policy("strided", 5).describe(BOTH)
    assert text.endswith("sees 11 to 15 symbols of it, read afresh every 5 symbols")
    assert len({Policy(context).describe(BOTH) for context in CONTEXTS}) == 3


# ---- dynamic


def test_dynamic_costs_are_those_of_a_run_that_continues():
    """Without a GPT, whose steps depend on where a corpus ends, the costs of a corpus are those of its two parts."""
    learner, uninterrupted, costs = new_learner(MIXER), new_learner(MIXER), []
    train(learner, TEXT[:700])
    train(uninterrupted, TEXT[:1000], lambda done, n_bytes: costs.append(done.segment_bits))
    assert np.array_equal(dynamic_trace(learner, TEXT[700:1000]).bits(MODEL), np.concatenate(costs)[700:])


@CONFIGS
def test_a_frozen_pass_changes_nothing_for_the_dynamic_one(config):
    traces = []
    for n_frozen in (0, 2):
        learner = new_learner(config)
        train(learner, TEXT[:300])
        for _ in range(n_frozen):
            frozen_trace(learner, TEXT[400:500], [], Policy("isolated"))
        traces.append(dynamic_trace(learner, TEXT[300:500]).bits(MODEL))
    assert np.array_equal(*traces)


def test_training_saves_bits_on_text_of_the_same_kind(trained):
    learner = new_learner(MIXER)
    train(learner, TEXT[:20_000])
    frozen = frozen_trace(learner, TEXT[20_000:24_000], []).total_bits(MODEL)
    dynamic = dynamic_trace(learner, TEXT[20_000:24_000]).total_bits(MODEL)
    untrained = dynamic_trace(new_learner(MIXER), TEXT[20_000:24_000]).total_bits(MODEL)
    assert dynamic < frozen < untrained
