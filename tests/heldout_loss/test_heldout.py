"""Held-out loss: which symbols a policy predicts from, exact to the bit; and sums that add up, exact to the unit."""

from dataclasses import replace

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder
from prequential_corpora.corpus import Document
from prequential_corpora.sources import sample_path
from small import DEEPER

import prequential
from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL
from prequential.heldout_loss.heldout import POLICIES, code_frozen, traced
from prequential.learners.spec import code_lengths
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
NAMES = {"both": BOTH, "pure": PURE, "mixer": MIXER}
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


def frozen_trace(learner, symbols, documents, context="carried"):
    return traced(code_frozen(learner, symbols, documents, BitCoder(SCORE), context), symbols)


def dynamic_trace(learner, symbols):
    return traced(code_lengths(learner, symbols, learner.n_symbols), symbols)


def corpus_of(parts, end=b"\0"):
    """Bytes (n,) uint8 of parts with `end` after each, and the parts as documents."""
    stream, documents = b"head", []
    for i, part in enumerate(parts):
        documents.append(Document(f"{i}.txt", len(stream), len(part)))
        stream += bytes(part) + end
    return np.frombuffer(stream, np.uint8), documents


def document_costs(learner, parts, context, end=b"\0"):
    """The costs of the bytes of each part under a frozen learner."""
    symbols, documents = corpus_of(parts, end)
    trace = frozen_trace(learner, symbols, documents, context)
    return [trace.bits(MODEL, slice(d.offset, d.offset + d.n_bytes)).tolist() for d in documents]


PARTS = [TEXT[2000:2060].tobytes(), TEXT[5000:5100].tobytes(), b"", TEXT[9000:9033].tobytes()]


# ---- policies


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_of_an_isolated_document_does_not_depend_on_other_documents(trained, name):
    learner, context = trained(NAMES[name]), "isolated"
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


@pytest.mark.parametrize("context", POLICIES)
@pytest.mark.parametrize("name", NAMES)
def test_every_frozen_code_decodes(trained, name, context):
    config = NAMES[name]
    symbols, documents = corpus_of(PARTS)
    encoder = BitCoder(ENCODE)
    costs = np.concatenate(list(code_frozen(trained(config), symbols.copy(), documents, encoder, context)))
    decoder, found = BitCoder(DECODE, encoder.payload()), np.zeros_like(symbols)
    again = np.concatenate(list(code_frozen(trained(config), found, documents, decoder, context)))
    decoder.check_end()
    assert np.array_equal(found, symbols) and np.array_equal(costs, again)
    assert np.array_equal(costs, frozen_trace(trained(config), symbols, documents, context).bits(MODEL))


def test_an_unknown_context_is_refused():
    with pytest.raises(ConfigError, match="choose one of carried, isolated"):
        prequential.heldout(b"text", train=b"text", context="strided")


# ---- dynamic


def test_dynamic_costs_are_those_of_a_run_that_continues():
    """Without a GPT, whose steps depend on where a corpus ends, the costs of a corpus are those of its two parts."""
    learner, uninterrupted, costs = new_learner(MIXER), new_learner(MIXER), []
    train(learner, TEXT[:700])
    train(uninterrupted, TEXT[:1000], lambda done, n_bytes: costs.append(done.segment_bits))
    assert np.array_equal(dynamic_trace(learner, TEXT[700:1000]).bits(MODEL), np.concatenate(costs)[700:])


def test_training_saves_bits_on_text_of_the_same_kind(trained):
    learner = new_learner(MIXER)
    train(learner, TEXT[:20_000])
    frozen = frozen_trace(learner, TEXT[20_000:24_000], []).total_bits(MODEL)
    dynamic = dynamic_trace(learner, TEXT[20_000:24_000]).total_bits(MODEL)
    untrained = dynamic_trace(new_learner(MIXER), TEXT[20_000:24_000]).total_bits(MODEL)
    assert dynamic < frozen < untrained
