"""Models of strangers: only files that were checked are read, no code is chosen by them, and every fault is one line."""

import base64
import json
import logging
import os
import sys
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
import torch
from limits import bounded  # of tests/hostile
from prequential_corpora.sources import sample_path

from prequential.errors import ConfigError, PrequentialError

pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file

from prequential.adapters import StaticModel
from prequential.adapters import hub as model_files

pytestmark = pytest.mark.parametrize("model_folder", ["gpt2"], indirect=True)
SYMBOLS = np.frombuffer(sample_path("christmas_carol").read_bytes()[60_000:60_300], np.uint8)
WEIGHTS, INDEX, FORGED = "model.safetensors", "model.safetensors.index.json", "x\nprequential: done\x1b[2J"
EXTRA_BYTES = 256 << 20


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A copy of a good model."""
    return copytree(model_folder, tmp_path / "model")


def refusal(folder: Path) -> str:
    """Why the model is refused, when it is loaded or used. Fails if it is not."""
    with bounded(extra_bytes=EXTRA_BYTES), pytest.raises(PrequentialError) as refused:
        StaticModel(str(folder)).costs(SYMBOLS)
    assert refused.type is ConfigError
    assert str(refused.value).isprintable() and len(str(refused.value)) < 1000
    return str(refused.value)


def costs(folder: Path | str) -> np.ndarray:
    return StaticModel(str(folder)).costs(SYMBOLS)[0]


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def divide(folder: Path, *names: str) -> None:
    """Divides the weights among files of these names, which an index names."""
    tensors = load_file(folder / WEIGHTS)
    places = {tensor: names[i % len(names)] for i, tensor in enumerate(tensors)}
    for name in names:
        save_file({tensor: tensors[tensor] for tensor in tensors if places[tensor] == name}, folder / name)
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


# ---- which files are read


@pytest.mark.parametrize(
    "name", ["weights.bin", "../w.safetensors", "/tmp/w.safetensors", "a/w.safetensors", ".safetensors", FORGED, 7]
)
def test_an_index_names_plain_safetensors_only(name: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(torch, "load", lambda file, *_, **__: opened.append(file))
    for place in (folder / "weights.bin", folder.parent / "w.safetensors"):
        place.write_bytes((folder / WEIGHTS).read_bytes())
    (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(load_file(folder / WEIGHTS), name)}))
    (folder / WEIGHTS).unlink()
    assert "not a plain name" in refusal(folder)
    assert not opened


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 7}', '{"weight_map": {}}', "[" * 1000, '{"a": NaN}'])
def test_an_index_of_something_else_is_refused(text: str, folder: Path) -> None:
    divide(folder, "a.safetensors")
    (folder / INDEX).write_text(text)
    assert INDEX in refusal(folder)


@pytest.mark.parametrize("name", ["a.safetensors", INDEX, "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_no_file_of_a_model_is_a_link_or_a_pipe(name: str, folder: Path) -> None:
    divide(folder, "a.safetensors", "b.safetensors")
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    assert name in refusal(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"{name} cannot be read: not a regular file" in refusal(folder)


def test_what_is_counted_is_what_is_read(folder: Path) -> None:
    whole = costs(folder)
    divide(folder, "a.safetensors", "b.safetensors")
    save_file({"decoy": torch.zeros(1)}, folder / "decoy.safetensors")
    read = ("a.safetensors", "b.safetensors", INDEX, "config.json", "tokenizer.json", "tokenizer_config.json")
    model = StaticModel(str(folder))
    assert np.array_equal(model.costs(SYMBOLS)[0], whole)
    assert model.weights_bytes == sum((folder / name).stat().st_size for name in read)


opened_paths: list[str] | None = None


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and opened_paths is not None and isinstance(arguments[0], str | bytes | os.PathLike):
        opened_paths.append(os.fsdecode(arguments[0]))


def test_no_other_file_of_the_folder_is_opened(folder: Path) -> None:
    """Adapters, settings of generation, templates and code may all name others."""
    global opened_paths
    decoys = ("generation_config.json", "adapter_config.json", "chat_template.jinja", "special_tokens_map.json",
              "vocab.json", "merges.txt", "tokenization.py", "pytorch_model.bin", "adapter_model.safetensors",
              "custom_generate/generate.py", "model.safetensors.distributed.json")  # fmt: skip
    for name in decoys:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text('{"base_model_name_or_path": "../other"}')
    sys.addaudithook(_record)  # permanent, but idle
    opened_paths = []
    try:
        costs(folder)
        found = {Path(path).relative_to(folder).as_posix() for path in opened_paths if path.startswith(str(folder))}
    finally:
        opened_paths = None
    assert found == {"config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS, INDEX}  # INDEX does not exist


# ---- which weights are used


@pytest.mark.parametrize("tied", [True, False])
def test_a_tensor_without_a_place_and_a_place_without_a_tensor_are_refused(tied: bool, folder: Path) -> None:
    """A missing one would be drawn at random. One that the configuration ties to another may be missing."""
    change(folder / "config.json", tie_word_embeddings=tied)
    tensors = load_file(folder / WEIGHTS)
    name = "transformer.h.1.mlp.c_fc.weight"
    if not tied:
        assert "'lm_head.weight' is missing" in refusal(folder)
        return
    for changed, reason in (
        ({key: value for key, value in tensors.items() if key != name}, f"'{name}' is missing"),
        (tensors | {"surplus": torch.zeros(3)}, "'surplus' is unexpected"),
        (tensors | {name: torch.zeros(32, 64)}, f"'{name}' is mismatched"),
    ):
        save_file(changed, folder / WEIGHTS)
        assert reason in refusal(folder)


def test_other_names_that_the_library_knows_are_used(folder: Path) -> None:
    """As in files of earlier versions: names without their first part, and masks among the weights."""
    good, tensors = costs(folder), load_file(folder / WEIGHTS)
    older = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    save_file(older | {"h.0.attn.bias": torch.ones(1, 1, 64, 64).tril().bool()}, folder / WEIGHTS)
    assert np.array_equal(costs(folder), good)


def test_half_precision_is_computed_in_single(folder: Path) -> None:
    tensors = {name: value.bfloat16() for name, value in load_file(folder / WEIGHTS).items()}
    save_file({name: value.float() for name, value in tensors.items()}, folder / WEIGHTS)
    single = costs(folder)
    save_file(tensors, folder / WEIGHTS)
    change(folder / "config.json", dtype="bfloat16")
    assert np.array_equal(costs(folder), single)


def test_an_index_tells_exactly_what_its_files_hold(folder: Path) -> None:
    divide(folder, "a.safetensors", "b.safetensors")
    tensors = load_file(folder / "a.safetensors")
    save_file(tensors | load_file(folder / "b.safetensors"), folder / "a.safetensors")
    assert "other tensors" in refusal(folder)


# ---- which code runs


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "stranger/kernel"},
        {"_attn_implementation": "stranger/kernel", "_attn_implementation_internal": "stranger/kernel"},
        {"attn_implementation": {"": "stranger/kernel"}},
        {"experts_implementation": "stranger/kernel"},
        {"attn_implementation": "flash_attention_2", "dtype": "float16"},
        {"auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}},
        {"transformers_weights": "adapter_model.bin"},
        {"transformers_weights": "../other.safetensors"},
        {"fusion_config": {"patch_embeddings": True}},
        {"distributed_config": {"tp_size": 2}},
        {"num_labels": 1 << 24},
    ],
    ids=str,
)
@pytest.mark.first_quick
def test_a_configuration_chooses_no_code_and_no_file(
    values: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.modeling_utils

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel was loaded")

    monkeypatch.setattr(transformers.modeling_utils, "lazy_import_flash_attention", load)
    good = costs(folder)
    change(folder / "config.json", **values)
    assert np.array_equal(costs(folder), good)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "quantised"),
        ({"model_type": "gemma3"}, "consists of several models"),
        ({"model_type": "vit"}, "not a causal language model"),
        ({"model_type": FORGED}, "does not know"),
        ({"model_type": ["gpt2"]}, "does not know"),
        ({"model_type": None}, "does not know"),
        ({"activation_function": FORGED}, "cannot be loaded"),
        ({"n_head": 0}, "cannot be loaded"),
        ({"n_layer": -1}, "cannot be loaded"),
        ({"get_text_config": 7}, "cannot be loaded"),
        ({"n_layer": 1_000_000}, "has 'n_layer' 1,000,000, but the weights have 28 tensors"),
        ({"num_hidden_layers": 1 << 24, "model_type": "qwen2"}, "but the weights have 28 tensors"),
        ({"n_layer": 28}, "more values than its weights"),
        ({"n_head": 10**15}, "cannot be loaded"),
        ({"vocab_size": 1 << 24}, "more values than its weights"),
        ({"n_positions": 1 << 20}, "more values than its weights"),
        ({"n_embd": 1 << 20, "n_head": 1}, "more values than its weights"),
        ({"model_type": "gptj", "n_positions": 1 << 24, "rotary_dim": 16}, "more bytes of buffers than"),
    ],
    ids=str,
)
def test_a_configuration_of_another_model_is_refused(values: dict[str, Any], reason: str, folder: Path) -> None:
    change(folder / "config.json", **values)
    assert reason in refusal(folder)


def test_a_configuration_of_many_small_parts_is_refused(folder: Path) -> None:
    """As many values as the weights have, but in very many modules."""
    write_header(folder / WEIGHTS, {"a": entry([1 << 26], 0, 1 << 26, "U8")}, 1 << 26)
    blocks = {"model_type": "xlstm", "num_blocks": 1 << 24, "hidden_size": 16, "num_heads": 2, "vocab_size": 400}
    (folder / "config.json").write_text(json.dumps(blocks))
    assert "more modules than its weights" in refusal(folder)


@pytest.mark.parametrize("text", [b"", b"7", b"{", b"\xff", b"[" * 100_000, b'{"a":NaN}', b" " * (5 << 20)])
def test_a_configuration_that_is_no_json_object_is_refused(text: bytes, folder: Path) -> None:
    for name in ("config.json", "tokenizer_config.json"):
        intact = (folder / name).read_bytes()
        (folder / name).write_bytes(text + b" " * (12 << 20 if name != "config.json" and len(text) > 1 << 20 else 0))
        assert name in refusal(folder)
        (folder / name).write_bytes(intact)


# ---- headers of weights


def write_header(path: Path, header: Any, n_bytes: int) -> None:
    """A file of this header, and n_bytes of holes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + n_bytes)


def entry(shape: Any, start: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("header", "n_bytes"),
    [
        (b"", 0),
        (b"[" * 1000, 0),
        (b"[]", 0),
        ({"a": 7}, 0),
        ({"a": {}}, 0),
        ({"a": entry([1], 0, 8)}, 8),
        ({"a": entry([1], 4, 8)}, 8),
        ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, 4),
        ({"a": entry([1], 0, 4)}, 8),
        ({"a": entry([2], 0, 8)}, 4),
        ({"a": entry([-1], 0, 4)}, 4),
        ({"a": entry([True], 0, 4)}, 4),
        ({"a": entry([1 << 62, 4], 0, 4)}, 4),
        ({"a": entry([1], 0, 4, "F4")}, 4),
        ({"a": entry([1], 0, 4, ["F32"])}, 4),
        ({"a": entry([1] * 100, 0, 4)}, 4),
        ({FORGED: entry([1], 0, 8)}, 8),
    ],
    ids=str,
)
def test_a_damaged_header_is_refused(header: Any, n_bytes: int, folder: Path) -> None:
    write_header(folder / WEIGHTS, header, n_bytes)
    assert f"{WEIGHTS} cannot be used" in refusal(folder)


@pytest.mark.parametrize("n_header", [1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_header_of_a_false_length_is_refused(n_header: int, folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(n_header.to_bytes(8, "little") + (folder / WEIGHTS).read_bytes()[8:])
    assert f"{WEIGHTS} cannot be used" in refusal(folder)


def test_weights_that_the_memory_does_not_hold_are_not_read(folder: Path) -> None:
    """The file is of holes, so it takes no place on the disk."""
    write_header(folder / WEIGHTS, {"a": entry([1 << 40], 0, 1 << 40, "U8")}, 1 << 40)
    assert "and this process may use" in refusal(folder)


def test_a_file_that_becomes_shorter_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that were mapped would end the process."""
    read = model_files.ModelFiles.read_weights

    def shorten(self: model_files.ModelFiles) -> dict[str, torch.Tensor]:
        os.truncate(folder / WEIGHTS, 100_000)
        return read(self)

    monkeypatch.setattr(model_files.ModelFiles, "read_weights", shorten)
    assert "ends within" in refusal(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_weights_that_are_no_numbers_are_one_line(value: float, folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file(tensors | {"transformer.ln_f.weight": torch.full((32,), value)}, folder / WEIGHTS)
    with pytest.raises(PrequentialError, match="symbol"):
        costs(folder)


@pytest.mark.parametrize("first", [400, 1 << 60, -1, 2.5, None, [], "0", {"a": 7}])
def test_a_first_id_outside_the_vocabulary_is_one_line(first: Any, folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    change(folder / "config.json", bos_token_id=first, eos_token_id=first)
    assert refusal(folder)


def test_the_model_names_its_first_id_if_the_tokenizer_does_not(folder: Path) -> None:
    good = costs(folder)
    (folder / "tokenizer_config.json").unlink()
    assert np.array_equal(costs(folder), good)
    change(folder / "config.json", bos_token_id=None, eos_token_id=[0, 1])
    assert np.array_equal(costs(folder), good)


# ---- tokenizers


PANIC = {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\x04\0\0\0\xff").decode()}}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (PANIC, "PanicException"),
        ({"model": {"type": FORGED}}, "the tokenizer failed"),
        ({"model": 7}, "the tokenizer failed"),
    ],
    ids=["panic", "type", "no model"],
)
def test_a_tokenizer_that_cannot_be_loaded_is_one_line(values: dict[str, Any], reason: str, folder: Path) -> None:
    change(folder / "tokenizer.json", **values)
    assert reason in refusal(folder)


def test_tokens_that_forge_lines_do_not_reach_the_message(folder: Path) -> None:
    words = {FORGED: 0, "a": 1, "<|endoftext|>": 2}
    change(folder / "tokenizer.json", model={"type": "WordLevel", "vocab": words, "unk_token": FORGED})
    with pytest.raises(PrequentialError, match="does not restore the corpus") as refused:
        costs(folder)
    assert str(refused.value).isprintable()


# ---- what the libraries say


@pytest.mark.parametrize("is_good", [True, False])
def test_the_libraries_are_silent_and_speak_afterwards_as_before(
    is_good: bool, folder: Path, capfd: pytest.CaptureFixture
) -> None:
    from transformers.utils import logging as of_library

    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    before, had_bars = [logger.level for logger in loggers], of_library.is_progress_bar_enabled()
    if not is_good:
        save_file(load_file(folder / WEIGHTS) | {FORGED: torch.zeros(3)}, folder / WEIGHTS)
    try:
        for bars in (False, True):
            (of_library.enable_progress_bar if bars else of_library.disable_progress_bar)()
            for logger in loggers:
                logger.setLevel(logging.INFO + bars)
            if is_good:
                costs(folder)
            else:
                assert "is unexpected" in refusal(folder)
            assert [logger.level for logger in loggers] == [logging.INFO + bars] * 2
            assert of_library.is_progress_bar_enabled() == bars
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        (of_library.enable_progress_bar if had_bars else of_library.disable_progress_bar)()
    assert capfd.readouterr() == ("", "")


def test_the_name_of_a_model_forges_no_line(folder: Path) -> None:
    named = folder.rename(folder.parent / "x\nprequential: done")
    assert StaticModel(str(named)).name == "hf:x\\nprequential: done"


# ---- the hub


@pytest.fixture
def cached(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of me/tiny in the hub's cache, as its library makes it: links to blobs."""
    commit = "0123456789" * 4
    cache = tmp_path / "cache"
    snapshot, blobs = cache / "models--me--tiny" / "snapshots" / commit, cache / "models--me--tiny" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(commit)
    for i, path in enumerate(sorted(folder.iterdir())):
        (blobs / str(i)).write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(i))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return snapshot


def test_a_model_of_the_hub_is_read_from_the_cache_by_the_same_rules(folder: Path, cached: Path) -> None:
    model = StaticModel("hf:me/tiny@main")
    assert model.name == "hf:me/tiny@main" and model.weights_bytes == StaticModel(str(folder)).weights_bytes
    assert np.array_equal(model.costs(SYMBOLS)[0], costs(folder))
    assert np.array_equal(costs(cached), costs(folder))
    (cached / WEIGHTS).unlink()
    (cached / WEIGHTS).symlink_to(folder / WEIGHTS)  # out of the cache
    assert f"{WEIGHTS} cannot be read" in refusal(Path("hf:me/tiny"))
    (cached / WEIGHTS).unlink()
    assert "no safetensors file" in refusal(Path("hf:me/tiny"))
    (cached / INDEX).write_text('{"weight_map": {"wte.weight": "weights.bin"}}')
    assert "not a plain name" in refusal(Path("hf:me/tiny"))
    rmtree(cached)
    assert "the hub failed" in refusal(Path("hf:me/tiny"))
