"""Damaged and hostile model folders are refused in one line, in bounded time and memory, and no code in them runs."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from limits import bounded
from safetensors.torch import save_file
from seeds import MAX_MEMORY_BYTES, PURE, SCHEDULE
from watch import confined

from prequential.errors import CheckpointError, ConfigError, PrequentialError, UnsupportedVersionError
from prequential.exact.arrays import digest
from prequential.model.config import Config, MixerConfig
from prequential.online import model_store
from prequential.online.model_store import DESCRIPTION, TENSORS, load_model, save_model
from prequential.online.runtime import Runtime
from prequential.online.tensor_file import open_tensors
from prequential.online.training import train

Tensors = dict[str, torch.Tensor]

BOTH = replace(PURE, mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4), schedule=SCHEDULE)
RUNTIME = Runtime(kernels="fused", threads=1, max_memory_bytes=MAX_MEMORY_BYTES)
TEXT = np.frombuffer(b"the cat sat on the mat, the cat sat on the hat", np.uint8)
LARGE = 1 << 62
EXTRA_BYTES = 64 << 20  # these learners take 10 MB


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a model that loads."""
    learner, folder = RUNTIME.learner(BOTH), tmp_path_factory.mktemp("good") / "m"
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
        load_model(folder, RUNTIME)
    assert refused.type in (CheckpointError, UnsupportedVersionError, ConfigError)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 1000
    return str(refused.value)


def unpacked(path: Path) -> Tensors:
    with open_tensors(path) as file:
        return {name: torch.from_numpy(file.read(name)) for name in file.types}


def forge(folder: Path, change_about: Callable[[dict[str, Any]], object] = len, tensors: Tensors | None = None) -> None:
    """Writes the changed description and the given tensors, with matching digests."""
    if tensors is not None:
        save_file(tensors, folder / TENSORS)
    about = json.loads((folder / DESCRIPTION).read_text())
    about["tensors_blake2b"] = model_store._blake2b(folder / TENSORS)
    if tensors is not None:
        about["state_digest"] = digest(tensors, 16).hex()
    del about["digest"]
    change_about(about)
    about["digest"] = model_store._digest_of_text(about)
    (folder / DESCRIPTION).write_text(json.dumps(about))


def test_a_model_forged_without_changes_loads(folder: Path) -> None:
    forge(folder, tensors=unpacked(folder / TENSORS))
    assert load_model(folder, RUNTIME).trained_on["name"] == "text"


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
    for n_bytes in (0, 1, 7, 8, 300, -3):
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


def test_the_files_of_two_models_do_not_make_one(folder: Path, tmp_path: Path) -> None:
    other = RUNTIME.learner(BOTH)
    train(other, TEXT[::-1].copy())
    save_model(tmp_path / "other", other, {})
    (folder / TENSORS).write_bytes((tmp_path / "other" / TENSORS).read_bytes())
    assert "damaged" in refusal(folder)


def test_a_path_that_is_not_a_folder_is_refused(folder: Path) -> None:
    assert "cannot be read" in refusal(folder / DESCRIPTION)
    assert "cannot be read" in refusal(folder / "a\0b")


# ---- forged files


Forgery = Callable[[Path], object]


def text(data: bytes) -> Forgery:
    return lambda folder: (folder / DESCRIPTION).write_bytes(data)


def say(**values: Any) -> Forgery:
    return lambda folder: forge(folder, lambda about: about.update(values))


def configure(part: str, **values: Any) -> Forgery:
    return lambda folder: forge(folder, lambda about: about["config"][part].update(values))


def change(of: Callable[[Tensors], object]) -> Forgery:
    def forgery(folder: Path) -> None:
        tensors = unpacked(folder / TENSORS)
        of(tensors)
        forge(folder, tensors=tensors)

    return forgery


def fill(name: str, value: float) -> Forgery:
    return change(lambda tensors: tensors[name].fill_(value))


def replaced(name: str, tensor: torch.Tensor) -> Forgery:
    return change(lambda tensors: tensors.update({name: tensor}))


def headed(n_bytes: int) -> Forgery:
    """The file of tensors says that its header has so many bytes."""

    def forgery(folder: Path) -> None:
        path = folder / TENSORS
        path.write_bytes(n_bytes.to_bytes(8, "little") + path.read_bytes()[8:])
        forge(folder)

    return forgery


def pickled(folder: Path) -> None:
    torch.save({"gpt.head": torch.zeros(16, 256)}, folder / TENSORS)
    forge(folder)


OTHER_TEXTS = (
    b"", b"null", b"[]", b"7", b'"prequential model"', b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000,
    b"9" * 10_000, b" " * (model_store.MAX_DESCRIPTION_BYTES + 1), b'{"format": "prequential model"}',
    b'{"format": "prequential model", "version": 1}',
)  # fmt: skip
FILLED = (
    ("gpt.head", float("nan")), ("gpt.0.qkv", float("inf")), ("gpt.embedding", 3e38), ("gpt.counters", -1),
    ("gpt.counters", LARGE), ("counters", -1), ("counters", LARGE), ("mixer.table", -1), ("mixer.past", LARGE),
    ("mixer.past", -1), ("mixer.matches", LARGE),
    ("counters", 1 << 47),  # the next step would make rows of this many symbols
)  # fmt: skip
FORGERIES: list[tuple[Forgery, str]] = [
    *((text(data), DESCRIPTION) for data in OTHER_TEXTS),
    (say(version=3), "version 3"),
    (say(version="1"), "version '1'"),
    (say(version="\x1b[2J\n" * 500), "version"),
    (say(format="another"), "not describe a model of this program"),
    (say(surplus=1), "digest"),
    (say(trained_on=[1]), "not an object"),
    (say(config=None), "config"),
    (say(config={"seed": 0}), "missing names"),
    (say(state_digest="00" * 16), "learner's digest"),
    (say(tensors_blake2b=None), "its digest"),
    (configure("gpt", width=17), "width = 17"),
    (configure("gpt", width=1 << 40), "outside"),
    (configure("gpt", width=float("nan")), "width"),
    (configure("gpt", width=4096, n_heads=64, n_layers=64), "more than the limit"),
    (configure("mixer", table_bits=26), "more than the limit"),
    (configure("schedule", history_bits=30), "more than the limit"),
    (configure("mixer", table_bits=7), "another shape"),
    (configure("gpt", n_layers=2), "other tensors"),
    *((fill(*each), TENSORS) for each in FILLED),
    (replaced("surplus", torch.zeros(3)), TENSORS),
    (replaced("gpt.head", torch.zeros(16, 257)), TENSORS),
    (replaced("gpt.head", torch.zeros(1 << 22)), TENSORS),
    *(
        (replaced("gpt.head", torch.zeros(16, 256, dtype=t)), TENSORS)
        for t in (torch.float64, torch.int32, torch.complex64)
    ),
    (replaced("counters", torch.zeros(0, dtype=torch.int64)), TENSORS),
    (change(lambda tensors: tensors.pop("history")), TENSORS),
    (change(lambda tensors: tensors.clear()), TENSORS),
    *((headed(n), TENSORS) for n in (0, 1, 1 << 20, 1 << 40, (1 << 64) - 1)),
    (pickled, TENSORS),
]


@pytest.mark.parametrize(("forgery", "reason"), FORGERIES)
def test_a_forged_file_is_refused_for_the_right_reason(forgery: Forgery, reason: str, folder: Path) -> None:
    forgery(folder)
    assert reason in refusal(folder)


def test_a_loaded_model_has_the_declared_config(folder: Path) -> None:
    """A changed configuration that fits the tensors and the memory gives a valid model with that configuration."""
    forge(folder, lambda about: about["config"].update(seed=7))
    assert load_model(folder, RUNTIME).config == Config.from_dict({**BOTH.to_dict(), "seed": 7})
