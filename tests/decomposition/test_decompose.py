"""Decompose: hindsight decodes, and what it says of learning is no law; planted laws are found, and noise is not learning."""

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, BitCoder
from prequential_corpora.bundled import sample_path
from scripts import load

import prequential
from prequential.decomposition.decompose import decompose
from prequential.decomposition.expected import MIN_CELLS, SEGMENTS_PER_CELL, expected_curve
from prequential.decomposition.parts import Decomposition
from prequential.decomposition.weights import _weights, fresh_learner, pack_weights, unpack_weights
from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.evaluation.curves import Curve
from prequential.exact.arrays import to_array
from prequential.heldout_loss.heldout import code_frozen
from prequential.learners.subject import follow
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.runtime import Runtime
from prequential.online.training import train

CONFIG = Config(
    gpt=GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=128, segment_symbols=256, row_symbols=64, n_rows=6, history_bits=14, block_symbols=700
    ),
)
RUNTIME = Runtime(kernels="fused", threads=1)
N = 1500
CAROL = np.frombuffer(sample_path("christmas_carol").read_bytes(), np.uint8)
TEXT, OTHER = CAROL[2000 : 2000 + N], CAROL[20_000:22_000]

simulation = load("learning_cost")


@pytest.fixture(scope="module")
def found() -> Decomposition:
    return decompose(TEXT, CONFIG, RUNTIME)


@pytest.fixture(scope="module")
def learned() -> OnlineLearner:
    """A learner that has read the other text."""
    learner = fresh_learner(CONFIG, RUNTIME)
    train(learner, OTHER)
    return learner


@pytest.fixture(scope="module")
def weights(learned: OnlineLearner) -> bytes:
    return pack_weights(learned, fresh_learner(CONFIG, RUNTIME))


def frozen_bits(learner: OnlineLearner) -> float:
    return float(sum(bits.sum() for bits in follow(FrozenLearner(learner), TEXT)))


def test_the_online_curve_is_the_learners_own_code_length(found: Decomposition) -> None:
    costs = list(follow(RUNTIME.learner(CONFIG), TEXT))
    assert found.online.bits.tolist() == np.cumsum([bits.sum() for bits in costs]).tolist()
    assert found.online.n_bytes.tolist() == np.cumsum([len(bits) for bits in costs]).tolist()


def test_hindsight_is_the_corpus_under_weights_that_were_trained_on_it_and_sent(found: Decomposition) -> None:
    learner = fresh_learner(CONFIG, RUNTIME)
    train(learner, TEXT)
    weights = pack_weights(learner, fresh_learner(CONFIG, RUNTIME))
    assert found.hindsight.bits[-1] == frozen_bits(unpack_weights(weights, CONFIG, RUNTIME))
    assert found.weights_bytes == len(weights)


def test_hindsight_is_cheaper_than_learning_only_while_its_weights_are_not_counted(found: Decomposition) -> None:
    online, hindsight = found.online.bits[-1], found.hindsight.bits[-1]
    assert hindsight < online < hindsight + 8 * found.weights_bytes
    assert found.online.n_bytes.tolist() == found.hindsight.n_bytes.tolist()


def test_the_frame_and_the_record_have_the_parts_in_bits_which_add_up(found: Decomposition) -> None:
    frame, record = found.to_frame().set_index("part"), found.to_dict()
    assert list(frame.index) == ["code", "hindsight", "regret", "weights"] and frame.bits["code"] == record["code_bits"]
    assert frame.bits["hindsight"] + frame.bits["regret"] == pytest.approx(frame.bits_per_byte["code"] * N)
    assert repr(found) == f"<{str(found).splitlines()[-1]}>"


def test_a_curve_that_falls_at_the_end_is_described_and_no_learning_is_claimed() -> None:
    """As with a learning rate that decays in the last tenth: the law claimed 15 to 18 % with an interval that missed."""
    rates = np.where(np.arange(1000) < 900, 2.5, 2.0)
    found = Decomposition(title="a run", about={}, online=curve(rates), expected=expected_curve(curve(rates)))
    assert str(found).splitlines()[-1] == "2.45 bits/byte; the last tenth of the bytes 2.00, the tenth before it 2.50."
    assert not {"learning_bits", "final_bits_per_byte", "data_bits", "level"} & set(found.to_dict())
    assert not any(word in str(found) for word in ("learning", "expect", "%"))


def test_an_evaluation_and_its_run_are_split_alike_and_take_no_learner() -> None:
    result = prequential.evaluate(TEXT, config=CONFIG, runtime=RUNTIME, baselines=())
    split = decompose(result)
    assert (split.online.bits.tolist(), split.hindsight) == (result.curve.bits.tolist(), None)
    with pytest.raises(ConfigError, match="a run has its learner and its bytes"):
        decompose(result, CONFIG)


# ---- frozen weights


def test_the_receiver_of_the_weights_decodes_the_data(weights: bytes) -> None:
    coder, n = BitCoder(ENCODE), 400
    costs = code_frozen(unpack_weights(weights, CONFIG, RUNTIME), TEXT[:n], (), coder)
    bits = sum(float(part.sum()) for part in costs)
    payload, decoded = coder.payload(), np.zeros(n, np.uint8)
    coder = BitCoder(DECODE, payload)
    for _ in code_frozen(unpack_weights(weights, CONFIG, RUNTIME), decoded, (), coder):
        pass
    coder.check_end()
    assert decoded.tobytes() == TEXT[:n].tobytes()
    assert 0 <= 8 * len(payload) - bits < 100


def test_a_frozen_learner_keeps_its_weights_to_the_bit(weights: bytes) -> None:
    learner = unpack_weights(weights, CONFIG, RUNTIME)
    before = {name: t.clone() for name, t in _weights(learner).items()}
    frozen_bits(learner)
    assert all(bool((before[name] == t).all()) for name, t in _weights(learner).items())
    train(learner, TEXT)
    assert not any(bool((before[name] == t).all()) for name, t in _weights(learner).items())


def test_packed_weights_predict_almost_as_well_as_the_original_ones(learned: OnlineLearner, weights: bytes) -> None:
    complete = fresh_learner(CONFIG, RUNTIME)
    complete.load_state({**complete.state(), **{name: to_array(t) for name, t in _weights(learned).items()}})
    assert frozen_bits(unpack_weights(weights, CONFIG, RUNTIME)) == pytest.approx(frozen_bits(complete), rel=0.005)


def test_levels_are_compressed_and_scales_are_not_and_packing_again_gives_the_same_levels(weights: bytes) -> None:
    n_levels = 32 * (96 + 32 + 128) + 128 * 32 + 32 * 256 + 3 * 256 * 32
    n_scales = 96 + 32 + 128 + 32 + 256 + 3 * 256
    assert 4 * n_scales + n_levels // 4 < len(weights) < 4 * n_scales + n_levels
    again = pack_weights(unpack_weights(weights, CONFIG, RUNTIME), fresh_learner(CONFIG, RUNTIME))
    assert len(again) == len(weights)
    assert np.count_nonzero(np.frombuffer(again, np.uint8) != np.frombuffer(weights, np.uint8)) <= n_scales


@pytest.mark.parametrize("damage", [lambda w: w[:-1], lambda w: w + b"\0", lambda w: b"\xff" * 9 + w])
def test_weights_of_another_length_are_refused(weights: bytes, damage) -> None:
    with pytest.raises(CorruptArchiveError):
        unpack_weights(damage(weights), CONFIG, RUNTIME)


def test_a_learner_with_a_mixer_and_an_empty_corpus_are_refused() -> None:
    for config in (Config(), Config(gpt=None, mixer=MixerConfig(table_bits=8))):
        with pytest.raises(ConfigError, match="without mixer"):
            decompose(TEXT, config, RUNTIME)
    with pytest.raises(CorpusError, match="empty"):
        decompose(TEXT[:0], CONFIG, RUNTIME)


# ---- the expected curve


def curve(rates, segment_bytes=100):
    return Curve(n_bytes=segment_bytes * np.arange(1, len(rates) + 1), bits=segment_bytes * np.cumsum(rates))


@pytest.mark.parametrize(("factor", "exponent", "shift"), [(0.5, 0.37, 0.013), (0.5, 0.8, 0.2), (0.05, 1.4, 0.1)])
def test_a_law_without_noise_is_found_also_between_the_nodes_of_the_grid(factor, exponent, shift):
    places = (np.arange(40_000) + 0.5) / 40_000
    rates = (2.0 + factor * (places + shift) ** -exponent).reshape(2000, 20).mean(1)
    found, end = expected_curve(curve(rates)), 2.0 + factor * (1 + shift) ** -exponent
    learning = 200_000 * (rates.mean() - end)
    assert (found.final_rate.point, found.learning_bits.point) == (
        pytest.approx(end, rel=2e-3),
        pytest.approx(learning, rel=0.02),
    )
    epsilon = end + 0.4 * (rates[0] - end)
    surplus = 100 * np.maximum(rates - epsilon, 0).sum()
    assert found.surplus_bits(epsilon).point == pytest.approx(surplus, rel=0.05)


def test_a_constant_rate_has_no_learning_cost_and_its_noise_is_no_surplus():
    """The sum over segments of max(cost - epsilon, 0) would count half of the noise."""
    rates = 3.0 + 0.5 * np.random.default_rng(0).normal(size=2000)
    found = expected_curve(curve(rates))
    clipped = 100 * np.maximum(rates - 3.0, 0.0).sum()
    assert clipped > 30_000 > 20_000 > found.surplus_bits(3.0).high
    assert found.learning_bits.low <= 0.02 * 200_000 and found.final_rate.low < 3.0 < found.final_rate.high


@pytest.mark.parametrize(("kind", "strength", "least"), [("AR", 0.8, 0.9), ("H", 0.7, 0.85), ("H", 0.8, 0.7)])
@pytest.mark.thorough
def test_intervals_hold_the_truth_of_simulated_texts(kind, strength, least):
    """Nominally 90 %. Over 200 texts: 100, 99 and 86 %; with the noise taken as independent in blocks, 94, 78 and 61 %."""
    found = simulation.measured(kind, strength, 40)
    assert all(found[name] >= least for name in ("final rate", "learning", "surplus"))


@pytest.mark.parametrize("jump", [0.4, -0.4])
@pytest.mark.thorough
def test_a_change_of_the_level_is_found_and_is_not_counted_as_learning(jump):
    """The truth is some 570 kbit. Without the step, 323 or 845 kbit were found, and no interval held."""
    found = simulation.measured("H", 0.5, 10, jump)
    assert found["learning"] >= 0.8 and found["error"] < 0.08 and found["changes"] == 1.0


@pytest.mark.thorough
def test_noise_with_long_memory_is_seldom_taken_for_a_change():
    assert max(simulation.measured("H", hurst, 20)["changes"] for hurst in (0.5, 0.9)) <= 0.1


def test_the_ends_of_data_and_learning_add_up_to_the_code_length_and_equal_curves_have_equal_ones():
    line = simulation.text_of("H", 0.8, 5)
    found, n_bytes = expected_curve(line), 1_000_000
    assert found.learning_bits == expected_curve(line).learning_bits  # its noise is the same each time
    rate, learning = found.final_rate, found.learning_bits
    for end, other in ((rate.low, learning.high), (rate.point, learning.point), (rate.high, learning.low)):
        assert n_bytes * end + other == pytest.approx(line.bits[-1], rel=1e-3)


def test_a_short_text_has_no_interval():
    n_segments = MIN_CELLS * SEGMENTS_PER_CELL
    for n, has_interval in ((n_segments - 1, False), (n_segments, True)):
        found = expected_curve(curve(3.0 + np.arange(n, 0, -1) / n))
        assert (found.learning_bits.low is not None) == has_interval
    assert expected_curve(curve([8.0, 7.0])).learning_bits.point == 0.0
