"""A stored learner goes on as if it had never stopped; its folder is whole or absent."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from prequential.codecs.bit_coder import ENCODE, BitCoder
from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.files import check_new_folder
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.learner import rows_of_step
from prequential.online import model_store
from prequential.online.loop import run
from prequential.online.model_store import load_model, save_model
from prequential.online.runtime import Runtime
from prequential.online.training import finish, train

CONFIG = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=2, contexts=("2",), context_bits=6, window=8),
    mixer=MixerConfig(contexts=("1", "2", "4", "word"), table_bits=8, match_bits=8),
    schedule=ScheduleConfig(
        first_segment_symbols=32, segment_symbols=64, row_symbols=16, n_rows=4, history_bits=14, block_symbols=300
    ),
)
CONFIGS = {"both": CONFIG, "pure": replace(CONFIG, mixer=None), "mixer": replace(CONFIG, gpt=None)}
DATA = np.frombuffer(b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 9, np.uint8)
FIRST, REST = DATA[:500], DATA[500:]
ONE, TWO = Runtime(kernels="plain", threads=1), Runtime(kernels="plain", threads=2, backend="float64")
EACH = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def trained(config=CONFIG, runtime=ONE):
    learner = runtime.learner(config)
    train(learner, FIRST)
    return learner


@cache
def kept():
    """A learner that has read FIRST; not to be changed."""
    return trained()


def costs_of_rest(learner):
    """The payload and the cost of each byte of what comes next, which is learned from."""
    coder = BitCoder(ENCODE)
    place = slice(len(FIRST), len(DATA))
    bits = [bits for _, bits in run(learner, coder, place, REST.copy())]
    return coder.payload(), np.concatenate(bits)


# ---- training


@EACH
def test_training_costs_what_is_coded_and_tells_each_segment(config):
    told = []
    learner = ONE.learner(config)
    done = train(learner, FIRST, lambda done, n_bytes: told.append((done, n_bytes)))
    coder, coded = BitCoder(ENCODE), ONE.learner(config)
    bits = []
    for block in (slice(0, 300), slice(300, 500)):
        bits += [bits for _, bits in run(coded, coder, block, FIRST[block].copy())]
    assert [n_bytes for _, n_bytes in told] == [len(FIRST)] * len(told)
    assert np.array_equal(np.concatenate([d.segment_bits for d, _ in told]), np.concatenate(bits))
    assert np.array_equal(np.concatenate([d.segment for d, _ in told]), FIRST)
    assert done.code_bits == np.concatenate(bits).sum() and done.n_bytes == len(FIRST)
    assert told[-1][0] == done and not len(done.segment)


def test_training_learns_from_the_last_segment_too():
    learner, other = trained(), ONE.learner(CONFIG)
    for block in (slice(0, 300), slice(300, 500)):
        for done, _ in run(other, BitCoder(ENCODE), block, FIRST[block].copy()):
            n_last = done
    n_last = (500 - 300) - 32 * ((500 - 300 - 1) // 32)
    other.gpt.update(*rows_of_step(CONFIG, other.history, n_last))
    other.gpt.end()
    state, expected = learner.state(), other.state()
    assert [name for name in state if not torch.equal(state[name], expected[name])] == ["counters"]


def test_no_corpus_is_nothing_to_learn_from():
    with pytest.raises(CorpusError, match="empty"):
        train(ONE.learner(CONFIG), FIRST[:0])


# ---- storing


@EACH
def test_a_loaded_learner_goes_on_in_every_bit_as_the_one_that_was_saved(config, tmp_path):
    learner = trained(config)
    before = learner.digest()
    save_model(tmp_path / "m", learner, {})
    assert learner.digest() == before
    payload, bits = costs_of_rest(learner)
    for runtime in (ONE, TWO, replace(ONE, audit_every=2)):
        loaded = load_model(tmp_path / "m", runtime).learner
        assert loaded.digest() == before
        other_payload, other_bits = costs_of_rest(loaded)
        assert other_payload == payload and np.array_equal(other_bits, bits)
        assert loaded.digest() == learner.digest()


def test_a_learner_is_stored_between_any_two_segments(tmp_path):
    learner = ONE.learner(CONFIG)
    for _ in run(learner, BitCoder(ENCODE), slice(0, 500), FIRST.copy()):
        pass
    save_model(tmp_path / "m", learner, {})
    loaded = load_model(tmp_path / "m", ONE).learner
    for one in (learner, loaded):
        finish(one)
    assert loaded.digest() == learner.digest()


def test_a_model_says_what_it_was_trained_on(tmp_path):
    trained_on = {"kind": "file", "name": "böok", "n_bytes": len(FIRST), "blake2b": "00", "origin": None}
    digest = save_model(tmp_path / "m", kept(), trained_on)
    model = load_model(tmp_path / "m", ONE)
    assert (model.trained_on, model.config, model.digest) == (trained_on, CONFIG, digest)


def test_two_models_share_a_digest_where_they_predict_alike(tmp_path):
    digests = [
        save_model(tmp_path / "a", kept(), {"name": "a"}),
        save_model(tmp_path / "b", trained(runtime=TWO), {"name": "b"}),
        save_model(tmp_path / "c", trained(replace(CONFIG, seed=1)), {}),
    ]
    assert digests[0] == digests[1] != digests[2]


def test_the_folder_is_readable_as_others_are_and_nothing_lies_beside_it(tmp_path):
    (tmp_path / "other").mkdir()
    save_model(tmp_path / "m", kept(), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "other"]
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert len({path.stat().st_mode for path in (tmp_path / "m").iterdir()}) == 1


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "m").mkdir()
    save_model(tmp_path / "m", kept(), {})
    assert load_model(tmp_path / "m", ONE).digest


def occupied(path, kind):
    if kind == "folder":
        path.mkdir()
        (path / "own").write_text("mine")
    elif kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_nothing_is_overwritten(kind, tmp_path):
    occupied(tmp_path / "m", kind)
    with pytest.raises(OutputError, match="exists"):
        save_model(tmp_path / "m", kept(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert kind != "folder" or (tmp_path / "m" / "own").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told_before_the_work(tmp_path):
    with pytest.raises(OutputError, match="no folder"):
        check_new_folder(tmp_path / "a" / "m")
    for name in (".", "..", "/"):
        with pytest.raises(OutputError, match="no name for a new folder"):
            check_new_folder(name)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("last", ["save_tensors", "write_text"])
def test_a_save_that_fails_leaves_nothing(error, last, monkeypatch, tmp_path):
    learner = kept()

    def fail(*_):
        raise error

    monkeypatch.setattr(model_store, last, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        save_model(tmp_path / "m", learner, {})
    assert not list(tmp_path.iterdir())


def test_a_learner_larger_than_the_limit_is_not_built(monkeypatch, tmp_path):
    save_model(tmp_path / "m", kept(), {})
    monkeypatch.setattr(Runtime, "learner", lambda *_: pytest.fail("built"))
    with pytest.raises(ConfigError, match="more than the limit"):
        load_model(tmp_path / "m", ONE, max_memory_bytes=1 << 20)


def test_the_description_has_the_names_of_the_document(tmp_path):
    save_model(tmp_path / "m", kept(), {})
    about = json.loads((tmp_path / "m" / model_store.DESCRIPTION).read_text())
    assert about.keys() == model_store.FIELDS
