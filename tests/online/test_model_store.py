"""A stored learner continues as if it had never stopped. Its folder is complete or absent.

Damaged and hostile folders are refused in one line, in bounded time and memory, and no code in them runs.
"""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from limits import bounded
from prequential_codecs.bit_coder import ENCODE, BitCoder
from safetensors.torch import save_file
from seeds import MAX_MEMORY_BYTES, PURE, SCHEDULE
from small import BOTH as CONFIG
from small import CONFIGS
from watch import confined

from prequential.errors import (
    CheckpointError,
    ConfigError,
    OutputError,
    PrequentialError,
    UnsupportedVersionError,
)
from prequential.exact.arrays import digest, to_tensor
from prequential.model.config import Config, MixerConfig
from prequential.model.learner import training_rows
from prequential.online import model_store
from prequential.online.loop import run
from prequential.online.model_store import DESCRIPTION, TENSORS, load_model, save_model
from prequential.online.runtime import Runtime
from prequential.online.tensor_file import open_tensors
from prequential.online.training import train

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


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("last", ["write_packed", "write_bytes"])
def test_a_save_that_fails_leaves_nothing(error, last, monkeypatch, tmp_path):
    learner = shared_learner()

    def fail(*_):
        raise error

    monkeypatch.setattr(model_store, last, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        save_model(tmp_path / "m", learner, {})
    assert not list(tmp_path.iterdir())


# ---- damaged and hostile folders


Tensors = dict[str, torch.Tensor]

SMALLEST = replace(PURE, mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4), schedule=SCHEDULE)
LIMITED = Runtime(kernels="fused", threads=1, max_memory_bytes=MAX_MEMORY_BYTES)
TEXT = np.frombuffer(b"the cat sat on the mat, the cat sat on the hat", np.uint8)
LARGE = 1 << 62
EXTRA_BYTES = 64 << 20  # these learners take 10 MB


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a model that loads."""
    learner, folder = LIMITED.learner(SMALLEST), tmp_path_factory.mktemp("good") / "m"
    train(learner, TEXT)
    save_model(folder, learner, {"name": "text", "n_bytes": len(TEXT)})
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(good: dict[str, bytes], tmp_path: Path) -> Path:
    """A copy of that model."""
    for name, data in good.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def refusal(folder: Path) -> str:
    """The reason why the model is refused. Fails if it loads."""
    with bounded(extra_bytes=EXTRA_BYTES), confined(Path(os.devnull)), pytest.raises(PrequentialError) as refused:
        load_model(folder, LIMITED)
    assert refused.type in (CheckpointError, UnsupportedVersionError, ConfigError)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 1000
    return str(refused.value)


def unpacked(path: Path) -> Tensors:
    with open_tensors(path) as file:
        return {name: torch.from_numpy(file.read(name)) for name in file.types}


def forge(folder: Path, tensors: Tensors | None = None, **changes: Any) -> None:
    """Writes the given tensors and the changed entries of the description, those of parts of the configuration too, with
    matching digests.
    """
    if tensors is not None:
        save_file(tensors, folder / TENSORS)
    about = json.loads((folder / DESCRIPTION).read_text())
    if tensors is not None:
        about["state_digest"] = digest(tensors, 16).hex()
    del about["digest"]
    for name, value in changes.items():
        if isinstance(about["config"].get(name), dict):
            about["config"][name].update(value)
        else:
            about[name] = value
    about["digest"] = model_store._digest_of_text(about)
    (folder / DESCRIPTION).write_text(json.dumps(about))


def test_a_forged_model_without_faults_loads_with_its_declared_configuration(folder: Path) -> None:
    forge(folder, unpacked(folder / TENSORS), config={**SMALLEST.to_dict(), "seed": 7})
    loaded = load_model(folder, LIMITED)
    assert loaded.trained_on["name"] == "text" and loaded.config == Config.from_dict({**SMALLEST.to_dict(), "seed": 7})


# ---- damage


@pytest.mark.parametrize("name", [DESCRIPTION, TENSORS])
def test_any_flipped_bit_is_found(name: str, folder: Path, good: dict[str, bytes]) -> None:
    random, intact = Random(0), good[name]
    for place in [0, 1, 9, 100, len(intact) - 2, *(random.randrange(len(intact)) for _ in range(25))]:
        damaged = bytearray(intact)
        damaged[place] ^= 1 << random.randrange(8)
        if name == DESCRIPTION and intact[place : place + 1].isspace():  # it may become another white space
            continue
        (folder / name).write_bytes(damaged)
        assert refusal(folder)


@pytest.mark.parametrize("name", [DESCRIPTION, TENSORS])
def test_a_file_that_is_cut_missing_a_link_or_a_pipe_is_refused(
    name: str, folder: Path, good: dict[str, bytes]
) -> None:
    path = folder / name
    for n_bytes in (0, 7, 300, -3):
        path.write_bytes(good[name][:n_bytes])
        assert name in refusal(folder)
    path.unlink()
    assert "No such file" in refusal(folder)
    (folder / "elsewhere").write_bytes(good[name])
    path.symlink_to(folder / "elsewhere")
    assert "link" in refusal(folder)
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in refusal(folder)


def test_what_is_no_folder_or_no_description_is_refused(folder: Path) -> None:
    assert "cannot be read" in refusal(folder / DESCRIPTION)
    assert "cannot be read" in refusal(folder / "a\0b")
    too_long = b" " * (model_store.MAX_DESCRIPTION_BYTES + 1)
    for text in (
        b"null",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        too_long,
        b'{"format": "prequential model", "version": 1}',
    ):
        (folder / DESCRIPTION).write_bytes(text)
        assert DESCRIPTION in refusal(folder)


# ---- forged files, with the right digests


FORGED: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "version 2"), ({"version": "\x1b[2J\n" * 500}, "version"), ({"surplus": 1}, "digest"),
    ({"format": "another"}, "not describe a model of this program"), ({"trained_on": [1]}, "not an object"),
    ({"config": {"seed": 0}}, "missing names"), ({"state_digest": "00" * 16}, "learner's digest"),
    ({"gpt": {"width": 1 << 40}}, "outside"),
    ({"gpt": {"width": 4096, "n_heads": 64, "n_layers": 64}}, "more than the limit"),
    ({"mixer": {"table_bits": 26}}, "more than the limit"), ({"schedule": {"history_bits": 30}}, "more than the limit"),
    ({"mixer": {"table_bits": 7}}, "another shape"), ({"gpt": {"n_layers": 2}}, "other tensors"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), FORGED)
def test_a_forged_description_is_refused_for_the_right_reason(changes: Any, reason: str, folder: Path) -> None:
    forge(folder, **changes)
    assert reason in refusal(folder)


IMPOSSIBLE = [
    ("gpt.head", float("nan")), ("gpt.embedding", 3e38), ("gpt.counters", LARGE), ("mixer.table", -1), ("mixer.past", LARGE),
    ("mixer.matches", LARGE), ("counters", -1), ("counters", 1 << 47),  # the next step would make rows of this many symbols
    ("surplus", torch.zeros(3)), ("gpt.head", torch.zeros(1 << 22)), ("gpt.head", torch.zeros(16, 256, dtype=torch.complex64)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_tensors_of_another_shape_or_of_impossible_values_are_refused(name: str, value: Any, folder: Path) -> None:
    tensors = unpacked(folder / TENSORS)
    tensors[name] = value if isinstance(value, torch.Tensor) else torch.full_like(tensors[name], value)
    forge(folder, tensors)
    assert TENSORS in refusal(folder)
