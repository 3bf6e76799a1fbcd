"""A stored learner continues as if it had never stopped. Its folder is complete or absent."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from prequential_codecs.bit_coder import ENCODE, BitCoder
from small import BOTH as CONFIG
from small import CONFIGS

from prequential.errors import CorpusError, OutputError
from prequential.exact.arrays import to_tensor
from prequential.files import check_new_folder
from prequential.model.learner import training_rows
from prequential.online import model_store
from prequential.online.loop import run
from prequential.online.model_store import load_model, save_model
from prequential.online.runtime import Runtime
from prequential.online.training import finish, train

DATA = np.frombuffer(b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 9, np.uint8)
FIRST, REST = DATA[:500], DATA[500:]
ONE, TWO = Runtime(kernels="fused", threads=1), Runtime(kernels="plain", threads=2, backend="float64")
EACH = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def trained(config=CONFIG, runtime=ONE):
    learner = runtime.learner(config)
    train(learner, FIRST)
    return learner


@cache
def shared_learner():
    """A learner that has read FIRST. Do not change it."""
    return trained()


def costs_of_rest(learner):
    """The payload of REST and the cost of each of its bytes; the learner learns from it."""
    coder = BitCoder(ENCODE)
    place = slice(len(FIRST), len(DATA))
    bits = [bits for _, bits in run(learner, coder, place, REST.copy())]
    return coder.payload(), np.concatenate(bits)


# ---- training


@EACH
def test_training_costs_as_much_as_coding_and_reports_each_segment(config):
    reports = []
    learner = ONE.learner(config)
    done = train(learner, FIRST, lambda done, n_bytes: reports.append((done, n_bytes)))
    coder, coded = BitCoder(ENCODE), ONE.learner(config)
    bits = []
    for block in (slice(0, 300), slice(300, 500)):
        bits += [bits for _, bits in run(coded, coder, block, FIRST[block].copy())]
    assert [n_bytes for _, n_bytes in reports] == [len(FIRST)] * len(reports)
    assert np.array_equal(np.concatenate([d.segment_bits for d, _ in reports]), np.concatenate(bits))
    assert np.array_equal(np.concatenate([d.segment for d, _ in reports]), FIRST)
    assert done.code_bits == np.concatenate(bits).sum() and done.n_bytes == len(FIRST)
    assert reports[-1][0] == done and not len(done.segment)


def test_training_learns_from_the_last_segment_too():
    learner, other = trained(), ONE.learner(CONFIG)
    for block in (slice(0, 300), slice(300, 500)):
        for done, _ in run(other, BitCoder(ENCODE), block, FIRST[block].copy()):
            n_last = done
    n_last = (500 - 300) - 32 * ((500 - 300 - 1) // 32)
    other.gpt.update(*map(to_tensor, training_rows(CONFIG, other.history, n_last)))
    other.gpt.end()
    state, expected = learner.state(), other.state()
    assert [name for name in state if not np.array_equal(state[name], expected[name])] == ["counters"]


def test_an_empty_corpus_is_refused():
    with pytest.raises(CorpusError, match="empty"):
        train(ONE.learner(CONFIG), FIRST[:0])


# ---- storing


@EACH
def test_a_loaded_learner_continues_bit_for_bit_like_the_saved_one(config, tmp_path):
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


def test_a_model_records_what_it_was_trained_on(tmp_path):
    trained_on = {"kind": "file", "name": "böok", "n_bytes": len(FIRST), "blake2b": "00", "origin": None}
    digest = save_model(tmp_path / "m", shared_learner(), trained_on)
    model = load_model(tmp_path / "m", ONE)
    assert (model.trained_on, model.config, model.digest) == (trained_on, CONFIG, digest)
    assert json.loads((tmp_path / "m" / model_store.DESCRIPTION).read_text()).keys() == model_store.FIELDS


def test_two_models_have_the_same_digest_if_they_predict_alike_and_their_folders_the_usual_mode(tmp_path):
    (tmp_path / "other").mkdir()
    digests = [
        save_model(tmp_path / "a", shared_learner(), {"name": "a"}),
        save_model(tmp_path / "b", trained(runtime=TWO), {"name": "b"}),
        save_model(tmp_path / "c", trained(replace(CONFIG, seed=1)), {}),
    ]
    assert digests[0] == digests[1] != digests[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "other"]
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1
    assert len({path.stat().st_mode for path in (tmp_path / "a").iterdir()}) == 1


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_an_existing_path_is_not_overwritten(kind, tmp_path):
    path = tmp_path / "m"
    if kind == "dangling link":
        path.symlink_to("nowhere")
    else:
        own = path / "own" if kind == "folder" else path
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        save_model(path, shared_learner(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert kind == "dangling link" or own.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path):
    with pytest.raises(OutputError, match="does not exist or is not writable"):
        check_new_folder(tmp_path / "a" / "m")
    for name in (".", "..", "/"):
        with pytest.raises(OutputError, match="cannot be the name of a new folder"):
            check_new_folder(name)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("last", ["write_packed", "write_text"])
def test_a_save_that_fails_leaves_nothing(error, last, monkeypatch, tmp_path):
    learner = shared_learner()

    def fail(*_):
        raise error

    monkeypatch.setattr(model_store, last, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        save_model(tmp_path / "m", learner, {})
    assert not list(tmp_path.iterdir())
