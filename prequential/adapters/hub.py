"""Models of the transformers library and their tokenizers, from a folder or from the hub. No code of a model runs.

The library opens no file of a folder. It gets the configuration without the entries that choose code or files, and the tensors of
safetensors files. Every tensor must have its place in the model, and every place its tensor.
"""

import math
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from prequential.adapters.text_tokenizer import TextTokenizer
from prequential.errors import ConfigError, MissingDependencyError, PrequentialError
from prequential.files import open_regular, read_regular
from prequential.files.strict_json import parse_json
from prequential.learners.distributions import named_failures
from prequential.machine.facts import usable_memory_bytes

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_BYTES = {CONFIG: 4 << 20, TOKENIZER: 128 << 20, TOKENIZER_CONFIG: 16 << 20, INDEX: 16 << 20}
SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}\.safetensors")
# Entries that choose code or files in the library, or that this program does not need. The tensors say the types of the weights.
IGNORED = {
    "auto_map", "attn_implementation", "experts_implementation", "transformers_weights", "fusion_config", "distributed_config",
    "kernel_config", "use_kernels", "dtype", "torch_dtype", "num_labels", "id2label", "label2id",
}  # fmt: skip
BUFFER_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """model: in float32, ready to predict. first_id: stands before a text; begins_windows: before every window. n_bytes: of all
    files that were read. memory_bytes: what the weights take. weights: the safetensors files, in the order of their names.
    """

    model: Any
    tokenizer: TextTokenizer
    first_id: int | None
    begins_windows: bool
    n_bytes: int
    memory_bytes: int
    weights: tuple[Path, ...]


def load_model(name: str, revision: str | None = None, max_memory_bytes: int | None = None) -> LoadedModel:
    """A causal language model. name: a folder, or one of the hub. max_memory_bytes: a larger one is refused (default: what this
    process may use). Raises MissingDependencyError, ConfigError of one line.
    """
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        needed = "models of transformers need the library transformers: in a checkout, pip install '.[transformers]'"
        raise MissingDependencyError(needed) from error
    try:
        with quiet(), named_failures("transformers failed"):
            return _loaded(name, revision, max_memory_bytes)
    except PrequentialError as error:
        raise type(error)(f"the model {name!r} cannot be loaded: {error}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silences what the libraries log, warn and draw; it may quote a hostile file. Afterwards they are as they were."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    with warnings.catch_warnings(action="ignore"), ExitStack() as afterwards:
        for logger in map(getLogger, ("transformers", "huggingface_hub")):
            afterwards.callback(logger.setLevel, logger.level)
            logger.setLevel(CRITICAL + 1)
        afterwards.callback(disable_progress_bars if are_progress_bars_disabled() else enable_progress_bars)
        if logging.is_progress_bar_enabled():
            afterwards.callback(logging.enable_progress_bar)
        logging.disable_progress_bar()
        yield


def check_memory(need: int, max_memory_bytes: int | None, what: str = "") -> None:
    """Raises ConfigError if this process may not use so much memory, or max_memory_bytes is less."""
    have = usable_memory_bytes() if max_memory_bytes is None else max_memory_bytes
    if need > have:
        raise ConfigError(f"{what}it takes {need >> 20:,} MiB of memory, and this process may use {have >> 20:,} MiB")


# ---- the files


def _loaded(name: str, revision: str | None, max_memory_bytes: int | None) -> LoadedModel:
    small, folder = {}, _folder(name, revision, list(MAX_BYTES))
    for file, max_bytes in MAX_BYTES.items():
        with _named_problems(file), suppress(FileNotFoundError):
            small[file] = read_regular(folder / file, max_bytes)
    file_of = _file_of_each_tensor(_object(small, INDEX)) if INDEX in small else {}
    names = sorted(set(file_of.values())) or [WEIGHTS]
    folder = _folder(name, revision, names)
    if not file_of and not os.path.lexists(folder / WEIGHTS):
        hint = "weights as a pickle, which may run code, are not read: save it as safetensors"
        raise ConfigError(f"it has no file {WEIGHTS}, and no {INDEX}; {hint}")
    if missing := {CONFIG, TOKENIZER} - small.keys():
        raise ConfigError(f"it has no {min(missing)}")
    paths, n_bytes = [folder / file for file in names], sum(map(len, small.values()))
    n_values: dict[tuple[str, str], int] = {}
    for file, path in zip(names, paths, strict=True):
        with _named_problems(file):
            with open_regular(path) as opened:
                n_bytes += os.fstat(opened.fileno()).st_size
            with safe_open(path, "numpy") as stored:  # reads the header alone
                n_values |= {(key, file): math.prod(stored.get_slice(key).get_shape()) for key in sorted(stored.keys())}
    if file_of and n_values.keys() != file_of.items():
        raise ConfigError(f"the weight files hold other tensors than {INDEX} says")
    memory_bytes = torch.float32.itemsize * sum(n_values.values())
    check_memory(memory_bytes, max_memory_bytes)
    config, more = _object(small, CONFIG), _object(small, TOKENIZER_CONFIG)
    tokenizer, model = TextTokenizer(small[TOKENIZER]), _model(config, paths, len(n_values), memory_bytes)
    said = more.get("add_bos_token")
    begins_windows = said if isinstance(said, bool) else tokenizer.begins_with is not None
    begins_windows |= str(config.get("model_type")).startswith("gemma")  # which predicts badly without it
    first_id = _first_id(config, more, tokenizer)
    return LoadedModel(model, tokenizer, first_id, begins_windows, n_bytes, memory_bytes, tuple(paths))


def _folder(name: str, revision: str | None, wanted: list[str]) -> Path:
    """The folder of this name, or the one in the hub's cache that has the wanted files, as far as they exist."""
    from huggingface_hub import snapshot_download

    if Path(name).is_dir():
        return Path(name).resolve()
    with named_failures("no folder has this name, and the hub failed"):
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted)).resolve()


@contextmanager
def _named_problems(name: str) -> Iterator[None]:
    """Makes ConfigErrors of what is wrong with the file of this name."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, SafetensorError) as error:
        raise ConfigError(f"{name} cannot be used: {error}") from error


def _object(files: dict[str, bytes], name: str) -> dict[str, Any]:
    """The JSON object in one of the files; empty without such a file."""
    with _named_problems(name):
        value = parse_json(files.get(name, b"{}"))
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
    return value


def _file_of_each_tensor(index: dict[str, Any]) -> dict[str, str]:
    file_of = index.get("weight_map")
    if not isinstance(file_of, dict) or not file_of:
        raise ConfigError(f"{INDEX} names no weights")
    for name in file_of.values():
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise ConfigError(f"{INDEX} names {str(name)!r}, which is not a plain name that ends with .safetensors")
    return file_of


def _first_id(config: dict[str, Any], more: dict[str, Any], tokenizer: TextTokenizer) -> int | None:
    """The beginning-of-text id, else the end-of-text id: of the tokenizer (more: tokenizer_config.json), else of the model."""

    def of_token(name: str) -> int | None:
        token = more.get(name)
        content = token.get("content") if isinstance(token, dict) else token
        return tokenizer.ids.get(content) if isinstance(content, str) else None

    of_model = [config.get(name) for name in ("bos_token_id", "eos_token_id")]
    of_model = [each[0] if isinstance(each, list) and each else each for each in of_model]
    ids = [of_token("bos_token"), tokenizer.begins_with, of_token("eos_token"), *of_model]
    return next((each for each in ids if type(each) is int and each >= 0), None)


# ---- the model


def _model(stored: dict[str, Any], paths: list[Path], n_tensors: int, memory_bytes: int) -> Any:
    """The model in these safetensors files of n_tensors, which take memory_bytes. stored: its configuration."""
    config, kind = _config(stored, n_tensors)
    with torch.device("meta"):
        described = kind(config)  # without memory: only to see how large it is
    described.tie_weights()
    n_bytes = sum(each.nbytes for each in (*described.parameters(), *described.buffers()))
    if n_bytes > 2 * memory_bytes + BUFFER_BYTES:
        raise ConfigError(f"its configuration describes {n_bytes >> 20:,} MiB, its weights {memory_bytes >> 20:,} MiB")
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        with _named_problems(path.name), safe_open(path, "pt") as file:
            tensors |= {name: file.get_tensor(name).clone() for name in sorted(file.keys())}  # no longer mapped
    model, report = kind.from_pretrained(
        None, config=config, state_dict=tensors, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
    )  # fmt: skip
    for what in ("missing", "unexpected", "mismatched"):  # all are reported
        for key in report[f"{what}_keys"]:
            name = key if isinstance(key, str) else key[0]
            raise ConfigError(f"its weights do not fit its configuration: {name!r} is {what}")
    return model.eval()


def _config(stored: dict[str, Any], n_tensors: int) -> tuple[Any, Any]:
    """The library's configuration, and the class of the model. n_tensors: so many layers are possible."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    if stored.get("quantization_config") or stored.get("compression_config"):
        raise ConfigError("its weights are quantised: give the model as it was before")
    model_type = stored.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise ConfigError(f"config.json has the model_type {model_type!r}, which transformers does not know")
    for name, value in stored.items():
        if name.endswith(("layer", "layers")) and isinstance(value, int) and value > n_tensors:
            raise ConfigError(f"config.json has {name!r} {value:,}, but the weights have {n_tensors:,} tensors")
    config = CONFIG_MAPPING[model_type].from_dict(_cleaned(stored))
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ConfigError(f"{model_type!r} is not a causal language model")
    if config.sub_configs:
        raise ConfigError(f"{model_type!r} consists of several models; give a model of text alone")
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    config._attn_implementation = "sdpa" if kind._supports_sdpa else "eager"
    return config, kind


def _cleaned(value: Any) -> Any:
    """The value without the ignored entries, at any depth."""
    if isinstance(value, dict):
        return {k: _cleaned(v) for k, v in value.items() if k not in IGNORED and not k.startswith("_")}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value
