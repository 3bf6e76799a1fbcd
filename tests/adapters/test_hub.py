"""Models of strangers: only files that were checked are read, no code is chosen by them, and every fault is one line."""

import base64
import json
import logging
import os
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from limits import bounded  # of tests/hostile
from prequential_corpora.sources import sample_path

from prequential.errors import ConfigError, PrequentialError

pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file
from transformers.utils import logging as of_library

from prequential.adapters import StaticModel

pytestmark = pytest.mark.parametrize("model_folder", ["gpt2"], indirect=True)
SYMBOLS = np.frombuffer(sample_path("christmas_carol").read_bytes()[60_000:60_300], np.uint8)
WEIGHTS, INDEX, FORGED = "model.safetensors", "model.safetensors.index.json", "x\nprequential: done\x1b[2J"
TENSOR = "transformer.h.1.mlp.c_fc.weight"


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A copy of a good model."""
    return copytree(model_folder, tmp_path / "model")


def refusal(folder: Path | str) -> str:
    """Why the model is refused, when it is loaded or used. Fails if it is not."""
    with bounded(extra_bytes=256 << 20), pytest.raises(PrequentialError) as refused:
        StaticModel(str(folder)).costs(SYMBOLS)
    assert refused.type is ConfigError
    assert str(refused.value).isprintable() and len(str(refused.value)) < 1000
    return str(refused.value)


def costs(folder: Path | str) -> np.ndarray:
    return StaticModel(str(folder)).costs(SYMBOLS)[0]


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def divide(folder: Path) -> None:
    """Divides the weights among two files, which an index names."""
    tensors = load_file(folder / WEIGHTS)
    places = {tensor: f"{'ab'[i % 2]}.safetensors" for i, tensor in enumerate(tensors)}
    for name in set(places.values()):
        save_file({tensor: tensors[tensor] for tensor in tensors if places[tensor] == name}, folder / name)
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


# ---- which files are read


def test_an_index_names_plain_safetensors_only(folder: Path) -> None:
    for place in (folder / "weights.bin", folder.parent / "w.safetensors"):
        place.write_bytes((folder / WEIGHTS).read_bytes())
    for name in ("weights.bin", "../w.safetensors", str(folder.parent / "w.safetensors"), FORGED, 7):
        (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(load_file(folder / WEIGHTS), name)}))
        assert "not a plain name" in refusal(folder)


@pytest.mark.parametrize("name", ["a.safetensors", INDEX, "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_no_file_of_a_model_is_a_pipe(name: str, folder: Path) -> None:
    divide(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"{name} cannot be read: not a regular file" in refusal(folder)


def test_what_is_counted_is_what_is_read(folder: Path) -> None:
    whole = costs(folder)
    divide(folder)
    save_file({"decoy": torch.zeros(1)}, folder / "decoy.safetensors")
    read = ("a.safetensors", "b.safetensors", INDEX, "config.json", "tokenizer.json", "tokenizer_config.json")
    model = StaticModel(str(folder))
    assert np.array_equal(model.costs(SYMBOLS)[0], whole)
    assert model.weights_bytes == sum((folder / name).stat().st_size for name in read)
    save_file(load_file(folder / "a.safetensors") | load_file(folder / "b.safetensors"), folder / "a.safetensors")
    assert "other tensors" in refusal(folder)


opened_paths: list[str] | None = None


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and opened_paths is not None and isinstance(arguments[0], str | bytes | os.PathLike):
        opened_paths.append(os.fsdecode(arguments[0]))


def test_no_other_file_of_the_folder_is_opened(folder: Path) -> None:
    """Adapters, settings of generation, templates and code may all name others."""
    global opened_paths
    for name in ("generation_config.json", "adapter_config.json", "chat_template.jinja", "vocab.json", "tokenization.py",
                 "pytorch_model.bin", "adapter_model.safetensors", "generate.py", f"{WEIGHTS}.distributed.json"):  # fmt: skip
        (folder / name).write_text('{"base_model_name_or_path": "../other"}')
    sys.addaudithook(_record)  # permanent, but idle
    opened_paths = []
    try:
        costs(folder)
        names = {Path(path).relative_to(folder).as_posix() for path in opened_paths if path.startswith(str(folder))}
    finally:
        opened_paths = None
    assert names == {"config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS, INDEX}  # INDEX does not exist


def test_a_model_of_the_hub_is_read_from_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library makes links to blobs."""
    cache = tmp_path / "cache"
    of_model, commit = cache / "models--me--tiny", "0123456789" * 4
    snapshot = of_model / "snapshots" / commit
    for each in (snapshot, of_model / "blobs", of_model / "refs"):
        each.mkdir(parents=True)
    (of_model / "refs" / "main").write_text(commit)
    for path in folder.iterdir():
        (of_model / "blobs" / f"of {path.name}").write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(Path("../../blobs") / f"of {path.name}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = StaticModel("hf:me/tiny@main")
    assert model.name == "hf:me/tiny@main" and model.weights_bytes == StaticModel(str(folder)).weights_bytes
    assert np.array_equal(model.costs(SYMBOLS)[0], costs(folder))
    assert np.array_equal(costs(snapshot), costs(folder))
    assert "the hub failed" in refusal("hf:me/other")


# ---- which weights are used


def test_a_tensor_without_a_place_and_a_place_without_a_tensor_are_refused(folder: Path) -> None:
    """A missing one would be drawn at random. One that the configuration ties to another may be missing."""
    tensors = load_file(folder / WEIGHTS)
    for changed, reason in (
        ({key: value for key, value in tensors.items() if key != TENSOR}, f"'{TENSOR}' is missing"),
        (tensors | {"surplus": torch.zeros(3)}, "'surplus' is unexpected"),
        (tensors | {TENSOR: torch.zeros(32, 64)}, f"'{TENSOR}' is mismatched"),
    ):
        save_file(changed, folder / WEIGHTS)
        assert reason in refusal(folder)
    save_file(tensors, folder / WEIGHTS)
    change(folder / "config.json", tie_word_embeddings=False)
    assert "'lm_head.weight' is missing" in refusal(folder)


def test_damaged_weights_are_refused(folder: Path) -> None:
    whole, header = (folder / WEIGHTS).read_bytes(), json.dumps({FORGED: 7}).encode()
    for damaged in (b"", whole[:-1], len(header).to_bytes(8, "little") + header):
        (folder / WEIGHTS).write_bytes(damaged)
        assert f"{WEIGHTS} cannot be used" in refusal(folder)


def test_weights_that_the_memory_does_not_hold_are_not_read(folder: Path) -> None:
    """The file is of holes, so it takes no place on the disk."""
    header = json.dumps({"a": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))
    assert "and this process may use" in refusal(folder)


def test_the_model_names_the_first_id_if_the_tokenizer_does_not(folder: Path) -> None:
    good = costs(folder)
    (folder / "tokenizer_config.json").unlink()
    assert np.array_equal(costs(folder), good)
    change(folder / "config.json", bos_token_id=None, eos_token_id=[0, 1])
    assert np.array_equal(costs(folder), good)
    for first in (400, 1 << 60, -1, 2.5, [], {"a": 7}):
        change(folder / "config.json", bos_token_id=first, eos_token_id=first)
        assert refusal(folder)


# ---- which code runs


KERNEL = "stranger/kernel"


def test_a_configuration_chooses_no_code_and_no_file(folder: Path) -> None:
    good, kernels = (
        costs(folder),
        ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation"),
    )
    more = {
        "fusion_config": {"patch_embeddings": True},
        "dtype": "float16",
        "num_labels": 1 << 24,
        "distributed_config": {"tp_size": 2},
    }
    code = {
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
        "transformers_weights": "../o.safetensors",
    }
    change(folder / "config.json", **dict.fromkeys(kernels, KERNEL), **more, **code)
    assert np.array_equal(costs(folder), good)


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "quantised"),
    ({"model_type": "gemma3"}, "consists of several models"), ({"model_type": "vit"}, "not a causal language model"),
    ({"model_type": FORGED}, "does not know"), ({"activation_function": FORGED}, "cannot be loaded"),
    ({"n_layer": 1_000_000}, "has 'n_layer' 1,000,000, but the weights have 28 tensors"),
    ({"n_embd": 1 << 20, "n_head": 1}, "its configuration describes"),
    ({"model_type": "gptj", "n_positions": 1 << 24, "rotary_dim": 16}, "its configuration describes 2,0"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "reason"), OTHERS)
def test_a_configuration_of_another_model_is_refused(values: dict[str, Any], reason: str, folder: Path) -> None:
    change(folder / "config.json", **values)
    assert reason in refusal(folder)


def test_a_tokenizer_that_cannot_be_loaded_is_one_line(folder: Path) -> None:
    panic = base64.b64encode(b"\x04\0\0\0\xff").decode()
    for values, reason in (
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": panic}},
            "the tokenizer failed: PanicException",
        ),
        ({"model": {"type": FORGED}}, "the tokenizer failed"),
    ):
        change(folder / "tokenizer.json", **values)
        assert reason in refusal(folder)


# ---- what is printed


def test_tokens_and_names_forge_no_line(folder: Path) -> None:
    named = folder.rename(folder.parent / "x\nprequential: done")
    assert StaticModel(str(named)).name == "hf:x\\nprequential: done"
    words = {FORGED: 0, "a": 1, "<|endoftext|>": 2}
    change(named / "tokenizer.json", model={"type": "WordLevel", "vocab": words, "unk_token": FORGED})
    with pytest.raises(PrequentialError, match="does not restore the corpus") as refused:
        costs(named)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("has_bars", [True, False])
def test_the_libraries_are_silent_and_speak_afterwards_as_before(
    has_bars: bool, folder: Path, capfd: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    logger, had_bars = logging.getLogger("transformers"), of_library.is_progress_bar_enabled()
    caplog.set_level(logging.INFO, "transformers")
    logger.addHandler(caplog.handler)  # nothing of it reaches the root
    (of_library.enable_progress_bar if has_bars else of_library.disable_progress_bar)()
    try:
        costs(folder)
        save_file(load_file(folder / WEIGHTS) | {FORGED: torch.zeros(3)}, folder / WEIGHTS)
        assert "is unexpected" in refusal(folder)
        assert logger.level == logging.INFO and of_library.is_progress_bar_enabled() == has_bars
    finally:
        logger.removeHandler(caplog.handler)
        (of_library.enable_progress_bar if had_bars else of_library.disable_progress_bar)()
    assert capfd.readouterr() == ("", "") and not caplog.records
