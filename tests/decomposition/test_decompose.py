"""Decompose: the parts of a code length add up, hindsight decodes, frozen weights do not change."""

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, BitCoder
from prequential_corpora.bundled import sample_path

from prequential.decomposition.decompose import (
    Decomposition,
    _weights,
    decompose,
    decomposition_record,
    fresh_learner,
    pack_weights,
    unpack_weights,
)
from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.exact.host import to_array
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


def test_data_and_learning_add_up_to_the_code_length(found: Decomposition) -> None:
    record = decomposition_record(found, [8.0, 0.5])
    assert record["data_bits"]["point"] + record["learning_bits"]["point"] == pytest.approx(record["code_bits"])
    assert [t["epsilon"] for t in record["thresholds"]] == [8.0, 0.5]
    above = [t["epsilon"] - record["final_bits_per_byte"]["point"] for t in decomposition_record(found)["thresholds"]]
    assert above == pytest.approx([0.1, 0.5, 1.0])


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
    assert again[: -4 * n_scales] == weights[: -4 * n_scales]


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
