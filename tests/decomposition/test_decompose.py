"""Reference codes: every counted code decodes, frozen weights do not change, and the parts of a code length add up."""

import numpy as np
import pytest
from prequential_codecs.bit_coder import ENCODE, FOLLOW, BitCoder
from prequential_corpora.bundled import sample_path

from prequential.decomposition import decompose as references
from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.evaluation.curves import Curve
from prequential.exact.host import to_array
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.frozen import FrozenLearner
from prequential.online.runtime import Runtime

CONFIG = Config(
    gpt=GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=128, segment_symbols=256, row_symbols=64, n_rows=6, history_bits=14, block_symbols=700
    ),
)
RUNTIME = Runtime(kernels="fused", threads=1)
N = 1500
FIRST = 512


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    return np.frombuffer(sample_path("christmas_carol").read_bytes(), np.uint8)[2000 : 2000 + N].copy()


@pytest.fixture(scope="module")
def other() -> np.ndarray:
    return np.frombuffer(sample_path("christmas_carol").read_bytes(), np.uint8)[20_000:22_000].copy()


@pytest.fixture(scope="module")
def weights(other: np.ndarray) -> bytes:
    """Packed weights that were learned from the other text."""
    learner = references.fresh_learner(CONFIG, RUNTIME)
    references.train(learner, other.copy())
    return references.pack_weights(learner, references.fresh_learner(CONFIG, RUNTIME))


@pytest.fixture(scope="module")
def measured(text: np.ndarray, other: np.ndarray) -> references.References:
    return references.measure_references(text, CONFIG, RUNTIME, other=other, first_bytes=FIRST)


@pytest.fixture(scope="module")
def by_name(measured: references.References) -> dict[str, references.Reference]:
    return {reference.name: reference for reference in measured.references}


def curve(n_bytes: list[int], bits: list[float]) -> Curve:
    return Curve(n_bytes=np.array(n_bytes), bits=np.array(bits))


# ---- measures of a learning curve


def test_learning_and_data_add_up_to_the_code_length_exactly() -> None:
    rng = np.random.default_rng(0)
    for n_points in range(1, 40):
        units = rng.integers(1, 2**40, n_points).cumsum()
        line = curve((np.arange(n_points) * 97 + 97).tolist(), (units * 2.0**-22).tolist())
        split = references.split_of(line)
        assert split.data_bits + split.learning_bits == split.code_bits == line.bits[-1]


def test_a_learner_with_a_constant_rate_has_no_learning_cost() -> None:
    split = references.split_of(curve([100, 200, 400], [300.0, 600.0, 1200.0]))
    assert (split.final_bits_per_byte, split.data_bits, split.learning_bits) == (3.0, 1200.0, 0.0)


def test_learning_cost_is_the_area_above_the_final_rate() -> None:
    split = references.split_of(curve([100, 200], [800.0, 1000.0]), window_bytes=50)
    assert (split.window_bytes, split.final_bits_per_byte, split.learning_bits) == (50, 2.0, 600.0)


@pytest.mark.parametrize("window_bytes", [0, 201])
def test_a_window_outside_the_corpus_is_refused(window_bytes: int) -> None:
    with pytest.raises(ConfigError, match="take 1 to 200"):
        references.split_of(curve([100, 200], [800.0, 1000.0]), window_bytes)


# ---- frozen weights


def test_frozen_weights_code_data_that_their_receiver_decodes(text: np.ndarray, weights: bytes) -> None:
    payload, line = references.encode_frozen(weights, text[:400].copy(), CONFIG, RUNTIME)
    assert references.decode_frozen(weights, payload, 400, CONFIG, RUNTIME) == text[:400].tobytes()
    assert 0 <= 8 * len(payload) - line.bits[-1] < 100
    assert line.n_bytes[-1] == 400


def test_weights_learned_from_another_text_help(text: np.ndarray, weights: bytes) -> None:
    untaught = references.fresh_learner(CONFIG, RUNTIME)
    nothing = references.pack_weights(untaught, untaught)
    taught_bits, untaught_bits = (
        references.encode_frozen(w, text.copy(), CONFIG, RUNTIME)[1].bits[-1] for w in (weights, nothing)
    )
    assert untaught_bits == 8 * N  # the head is zero, so all bytes are equally likely
    assert taught_bits < 5 * N


def test_a_frozen_learner_keeps_its_weights_to_the_bit(text: np.ndarray, weights: bytes) -> None:
    learner = references.unpack_weights(weights, CONFIG, RUNTIME)
    before = {name: t.clone() for name, t in references._weights(learner).items()}
    references.code(FrozenLearner(learner), BitCoder(FOLLOW), text.copy())
    assert all(bool((before[name] == t).all()) for name, t in references._weights(learner).items())
    references.code(learner, BitCoder(FOLLOW), text.copy(), N)
    assert not any(bool((before[name] == t).all()) for name, t in references._weights(learner).items())


def test_packed_weights_predict_almost_as_well_as_the_original_ones(
    text: np.ndarray, other: np.ndarray, weights: bytes
) -> None:
    packed_bits = references.encode_frozen(weights, text.copy(), CONFIG, RUNTIME)[1].bits[-1]
    learner = references.fresh_learner(CONFIG, RUNTIME)
    references.train(learner, other.copy())
    complete = references.fresh_learner(CONFIG, RUNTIME)
    weights = {name: to_array(tensor) for name, tensor in references._weights(learner).items()}
    complete.load_state({**complete.state(), **weights})
    own_bits = references.code(FrozenLearner(complete), BitCoder(FOLLOW), text.copy()).bits[-1]
    assert packed_bits == pytest.approx(own_bits, rel=0.005)


def test_packing_unpacked_weights_gives_the_same_levels(weights: bytes) -> None:
    learner = references.unpack_weights(weights, CONFIG, RUNTIME)
    again = references.pack_weights(learner, references.fresh_learner(CONFIG, RUNTIME))
    n_scales = 4 * (96 + 32 + 128 + 32 + 256 + 3 * 256)
    assert again[:-n_scales] == weights[:-n_scales]


def test_levels_are_compressed_and_scales_are_not(weights: bytes) -> None:
    n_levels = 32 * (96 + 32 + 128) + 128 * 32 + 32 * 256 + 3 * 256 * 32
    n_scales = 96 + 32 + 128 + 32 + 256 + 3 * 256
    assert 4 * n_scales + n_levels // 4 < len(weights) < 4 * n_scales + n_levels


@pytest.mark.parametrize("damage", [lambda w: w[:-1], lambda w: w + b"\0", lambda w: b"\xff" * 9 + w])
def test_weights_of_another_length_are_refused(weights: bytes, damage) -> None:
    with pytest.raises(CorruptArchiveError):
        references.unpack_weights(damage(weights), CONFIG, RUNTIME)


def test_a_learner_with_a_mixer_is_refused() -> None:
    for config in (Config(), Config(gpt=None, mixer=MixerConfig(table_bits=8))):
        with pytest.raises(ConfigError, match="without mixer"):
            references.fresh_learner(config, RUNTIME)


# ---- blocks


def test_blocks_double_in_length_up_to_the_end() -> None:
    assert references.block_ends(1000, 100) == [100, 200, 400, 800, 1000]
    assert references.block_ends(800, 100) == [100, 200, 400, 800]
    assert references.block_ends(60, 100) == [60]


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_block_code_decodes(text: np.ndarray, epochs: int) -> None:
    packed, line = references.encode_blocks(text[:700].copy(), CONFIG, RUNTIME, first_bytes=300, epochs=epochs)
    back = references.decode_blocks(packed, 700, CONFIG, RUNTIME, first_bytes=300, epochs=epochs)
    assert back == text[:700].tobytes()
    assert (line.n_bytes[0], line.bits[0]) == (300, 2400.0)
    assert 0 <= 8 * len(packed) - line.bits[-1] < 100


def test_a_block_costs_the_same_whatever_follows_it(text: np.ndarray) -> None:
    _, long = references.encode_blocks(text.copy(), CONFIG, RUNTIME, first_bytes=400)
    _, short = references.encode_blocks(text[:800].copy(), CONFIG, RUNTIME, first_bytes=400)
    assert long.at(800) == short.bits[-1]


def test_more_passes_over_the_known_bytes_make_blocks_cheaper(text: np.ndarray) -> None:
    once, often = (
        references.encode_blocks(text[:800].copy(), CONFIG, RUNTIME, first_bytes=400, epochs=n)[1].bits[-1]
        for n in (1, 4)
    )
    assert often < once


# ---- all


def test_the_online_row_is_the_learners_own_code_length(text: np.ndarray, by_name) -> None:
    learner, coder, symbols = RUNTIME.learner(CONFIG), BitCoder(ENCODE), text.copy()
    line = references.code(learner, coder, symbols)
    online = by_name["online"]
    assert (online.code_bits, online.payload_bytes) == (line.bits[-1], len(coder.payload()))
    assert online.counted_bits == online.uncounted_bits == 8 * online.payload_bytes


def test_hindsight_equals_training_on_the_corpus_itself(text: np.ndarray, by_name) -> None:
    same = references.measure_references(text, CONFIG, RUNTIME, other=text, first_bytes=N)
    frozen = next(reference for reference in same.references if reference.name == "frozen")
    hindsight = by_name["hindsight"]
    assert (frozen.code_bits, frozen.model_bytes) == (hindsight.code_bits, hindsight.model_bytes)


def test_hindsight_is_cheaper_than_learning_only_while_its_weights_are_not_counted(by_name) -> None:
    assert by_name["hindsight"].uncounted_bits < by_name["online"].counted_bits < by_name["hindsight"].counted_bits


def test_regret_ends_at_the_difference_of_the_two_code_lengths(measured, by_name) -> None:
    assert measured.regret.bits[-1] == by_name["online"].code_bits - by_name["hindsight"].code_bits
    assert measured.split.code_bits == by_name["online"].code_bits
    assert list(measured.regret.n_bytes) == list(measured.curve.n_bytes)


def test_the_trained_bytes_are_reported(by_name) -> None:
    trained = {name: by_name[name].trained_bytes for name in ("online", "hindsight", "frozen", "blocks")}
    assert trained == {"online": N, "hindsight": N, "frozen": 2000, "blocks": 512 + 1024}


def test_an_empty_corpus_is_refused(text: np.ndarray) -> None:
    for source, other in ((text[:0], None), (text, text[:0])):
        with pytest.raises(CorpusError, match="empty"):
            references.measure_references(source, CONFIG, RUNTIME, other=other)
