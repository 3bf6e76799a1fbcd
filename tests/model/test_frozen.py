"""A frozen learner: it predicts like the learner, and changes nothing that was learned."""

from dataclasses import replace

import numpy as np
import pytest
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.sources import sample_path
from small import DEEPER

from prequential.model.config import MixerConfig
from prequential.model.frozen import FrozenLearner
from prequential.model.mixer.past import N_BITS
from prequential.online.runtime import Runtime

BOTH = replace(
    DEEPER, mixer=MixerConfig(contexts=("1", "2", "4", "word", "above", "match"), table_bits=10, match_bits=8)
)
PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 6_000).astype(np.int64)
SEEN, NEW = TEXT[:600], TEXT[600:900]


def code(learner, symbols, coder=None, size=48):
    """The symbols (n,) that the coder leaves, and their costs, read in segments of this size."""
    symbols, costs = symbols.copy(), []
    for start in range(0, len(symbols), size):
        part = symbols[start : start + size]
        learner.begin(len(part))
        costs.append(learner.code(part, coder or BitCoder(SCORE)))
        learner.end(len(part))
    return symbols, np.concatenate(costs)


def trained(config, kernels="plain"):
    learner = Runtime(threads=1, kernels=kernels, backend="float32").learner(config)
    code(learner, SEEN)
    return learner


@CONFIGS
def test_a_frozen_learner_changes_no_bit_of_the_learner(config):
    learner = trained(config)
    before = learner.digest()
    code(FrozenLearner(learner), NEW)
    assert learner.digest() == before
    code(learner, NEW)
    assert learner.digest() != before


def test_only_past_and_ring_of_a_frozen_learner_advance():
    learner = trained(BOTH)
    frozen = FrozenLearner(learner)
    code(frozen, NEW)
    own = learner.state()
    moved = {name for name, tensor in frozen.state().items() if not (tensor == own[name]).all()}
    advance = {"mixer.past", "history", "counters", "gpt.counters", "recall.last", "recall.values"}
    assert moved == advance | {name for name in own if name.startswith("gpt.carried")}
    assert own["mixer.past"][N_BITS] == frozen.state()["mixer.past"][N_BITS] == 8 * len(SEEN)
    assert frozen.history.at(np.arange(900)).tolist() == TEXT[:900].tolist()


@CONFIGS
def test_the_first_decision_is_predicted_as_the_learner_would(config):
    """The GPT's weights are constant within a segment; what it recalls and the mixer learn after the first decision."""
    learner = trained(config)
    frozen, first = FrozenLearner(learner), NEW[:48].copy()
    frozen.begin(48)
    learner.begin(48)
    if config.mixer is None:
        coded = [x.code(first.copy(), BitCoder(SCORE)) for x in (frozen, learner)]
        assert coded[0][0] == coded[1][0]
        assert not np.array_equal(*coded)
        return
    rows = frozen.gpt_frequencies(frozen.inputs(first), 0) if config.gpt else None
    coded = [x.mixer.code(first.copy(), rows, BitCoder(SCORE)) for x in (frozen, learner)]
    assert coded[0][0, 0] == coded[1][0, 0]
    assert not np.array_equal(*coded)


@CONFIGS
def test_costs_do_not_depend_on_the_sizes_of_the_segments(config):
    learner = trained(config)
    assert np.array_equal(code(FrozenLearner(learner), NEW, size=48)[1], code(FrozenLearner(learner), NEW, size=31)[1])


def test_a_frozen_mixer_does_not_recognise_text_that_it_did_not_learn():
    """With an empty table only the last bytes and the fixed weights predict, so a repeat of noise costs the same again."""
    config = replace(MIXER, mixer=replace(MIXER.mixer, match_bits=12))
    noise, text = np.random.default_rng(1).integers(32, 256, 400), np.resize(TEXT[2000:2400], 400)
    for symbols in (noise, text):
        costs = code(FrozenLearner(Runtime().learner(config)), np.concatenate((symbols, symbols)))[1]
        assert np.array_equal(costs[403:], costs[3:400])
        learned = code(Runtime().learner(config), np.concatenate((symbols, symbols)))[1]
        assert learned[400:].sum() < 0.3 * learned[:400].sum()
