"""Models of the transformers library and their tokenizers, from a folder or from the hub. A stranger may have made every file.

The library never sees the files: it gets a configuration and tensors that model_files.py read and checked, so it follows no name
in them. Of the configuration it does not get what chooses code. Every tensor must have its place in the model, and every place
its tensor.
"""

import math
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as hooks

from prequential.adapters.text_tokenizer import TextTokenizer
from prequential.errors import ConfigError, MissingDependencyError, PrequentialError
from prequential.files import open_regular, read_regular
from prequential.files.strict_json import parse_json
from prequential.machine.facts import usable_memory_bytes
from prequential.online.tensor_file import StoredTensor, read_header, read_values

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_BYTES = {CONFIG: 4 << 20, TOKENIZER: 128 << 20, TOKENIZER_CONFIG: 16 << 20, INDEX: 16 << 20}
MAX_HEADER_BYTES = 16 << 20
MAX_FILES = 1024
SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}\.safetensors")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip

Fetch = Callable[[Sequence[str]], Path]  # downloads the files that exist, if necessary, and returns their folder


@dataclass(frozen=True)
class WeightFile:
    """A safetensors file whose header was checked. n_bytes: of the complete file, which holds nothing but its tensors."""

    path: Path
    n_bytes: int
    tensors: dict[str, StoredTensor]

    def read(self) -> dict[str, torch.Tensor]:
        """The tensors, in memory that they do not share. Raises OSError, and ValueError if the file has become shorter."""
        found = {}
        with open_regular(self.path, follow_links=False) as file:
            for name, stored in self.tensors.items():
                values = torch.from_numpy(read_values(file, name, stored))
                is_bool = stored.dtype == torch.bool  # any byte but 0 is true
                found[name] = (values.ne(0) if is_bool else values.view(stored.dtype)).reshape(stored.shape)
        return found


@dataclass(frozen=True)
class ModelFiles:
    """What was read. n_bytes: of all files, also the weights, whose values are not read yet."""

    config: dict[str, Any]
    tokenizer: bytes
    tokenizer_config: dict[str, Any]
    weights: list[WeightFile]
    n_bytes: int

    @property
    def n_values(self) -> int:
        return sum(math.prod(stored.shape) for file in self.weights for stored in file.tensors.values())

    def read_weights(self) -> dict[str, torch.Tensor]:
        found = {}
        for file in self.weights:
            with _problems_of(file.path.name):
                found.update(file.read())
        return found


def read_model_files(fetch: Fetch, cache: Path) -> ModelFiles:
    """Reads all but the values of the weights. cache: the hub's, whose files may be links within it. Raises ConfigError."""
    folder = fetch(list(MAX_BYTES)).resolve()
    small = {}
    for name, max_bytes in MAX_BYTES.items():
        with _problems_of(name):
            if (data := _read(_path_to_open(folder, name, cache), max_bytes)) is not None:
                small[name] = data
    places = _file_of_each_tensor(_object(small, INDEX)) if INDEX in small else None
    names = sorted(set(places.values())) if places else [WEIGHTS]
    folder = fetch(names).resolve()
    if not places and not os.path.lexists(folder / WEIGHTS):
        raise ConfigError(_without_weights(folder))
    for name in (CONFIG, TOKENIZER):
        if name not in small:
            raise ConfigError(f"it has no {name}")
    weights = []
    for name in names:
        with _problems_of(name):
            weights.append(_weight_file(_path_to_open(folder, name, cache)))
    found = [(tensor, name) for name, file in zip(names, weights, strict=True) for tensor in file.tensors]
    if places is not None and sorted(found) != sorted(places.items()):
        raise ConfigError(f"the weight files hold other tensors than {INDEX} says")
    return ModelFiles(
        config=_object(small, CONFIG),
        tokenizer=small[TOKENIZER],
        tokenizer_config=_object(small, TOKENIZER_CONFIG),
        weights=weights,
        n_bytes=sum(map(len, small.values())) + sum(file.n_bytes for file in weights),
    )


@contextmanager
def _problems_of(name: str) -> Iterator[None]:
    """Makes ConfigErrors of what is wrong with the file of this name."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{name} cannot be used: {error}") from error


def _path_to_open(folder: Path, name: str, cache: Path) -> Path:
    """The path to open, which must not be a link. In the hub's cache every file is a link to another place of the cache."""
    path, cache = folder / name, cache.resolve()
    target = path.resolve() if path.is_symlink() and folder.is_relative_to(cache) else path
    return target if target.is_relative_to(cache) else path


def _read(path: Path, max_bytes: int) -> bytes | None:
    try:
        return read_regular(path, max_bytes, follow_links=False)
    except FileNotFoundError:
        return None


def _object(files: dict[str, bytes], name: str) -> dict[str, Any]:
    """The JSON object in one of the files; empty without such a file."""
    with _problems_of(name):
        found = parse_json(files.get(name, b"{}"))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    return found


def _file_of_each_tensor(index: dict[str, Any]) -> dict[str, str]:
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ConfigError(f"{INDEX} names no weights")
    for name in places.values():
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise ConfigError(f"{INDEX} names {str(name)!r}, which is not a plain name that ends with .safetensors")
    if len(set(places.values())) > MAX_FILES:
        raise ConfigError(f"{INDEX} names more than {MAX_FILES} files")
    return places


def _without_weights(folder: Path) -> str:
    if any(path for pattern in PICKLES for path in folder.glob(pattern)):
        return "it has its weights as a pickle only, which may run code: save it as safetensors"
    return f"it has no safetensors file of the name {WEIGHTS}, and no {INDEX}"


def _weight_file(path: Path) -> WeightFile:
    """Checks the header. Raises OSError, and ValueError if the file is not complete, or holds anything but tensors."""
    with open_regular(path, follow_links=False) as file:
        _, tensors = read_header(file, DTYPES, MAX_HEADER_BYTES)
        return WeightFile(path, os.fstat(file.fileno()).st_size, tensors)


LIBRARIES = ("transformers", "huggingface_hub")
QUANTISED = ("quantization_config", "compression_config")
# Entries that choose code or files in the library, or that this program does not need. The tensors say the types of the weights.
IGNORED = {
    "auto_map", "attn_implementation", "experts_implementation", "transformers_weights", "fusion_config", "distributed_config",
    "kernel_config", "use_kernels", "dtype", "torch_dtype", "num_labels", "id2label", "label2id",
}  # fmt: skip
NEED_FIRST = "gemma"
MAX_INTEGER = 1 << 24  # lengths are smaller
MODULES_PER_TENSOR, MORE_MODULES = 16, 4096
MORE_BUFFER_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """model: in float32, ready to predict. first_id: what stands before a text. begins_windows: the model was trained with it
    before every window. n_bytes: of all files that were read. memory_bytes: what the weights take.
    weights: the safetensors files, in the order of their names.
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
        from huggingface_hub import constants
    except ImportError as error:
        needed = "models of transformers need the package transformers: pip install 'prequential[transformers]'"
        raise MissingDependencyError(needed) from error
    folder = Path(name)

    def fetch(wanted: Sequence[str]) -> Path:
        return folder if folder.is_dir() else _snapshot(name, revision, wanted)

    with quiet():
        try:
            files = read_model_files(fetch, Path(constants.HF_HUB_CACHE))
            tokenizer = TextTokenizer(files.tokenizer)
            memory_bytes = files.n_values * torch.float32.itemsize
            check_memory(memory_bytes, max_memory_bytes)
            model = _model(files)
        except PrequentialError as error:
            raise type(error)(f"the model {name!r} cannot be loaded: {error}") from error
        except Exception as error:  # the library raises many types
            raise ConfigError(f"the model {name!r} cannot be loaded: {_in_a_line(error)}") from error
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        first_id=_first_id(files, tokenizer),
        begins_windows=_begins_windows(files, tokenizer),
        n_bytes=files.n_bytes,
        memory_bytes=memory_bytes,
        weights=tuple(file.path for file in files.weights),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Silences what the libraries log, warn and draw; it may quote a hostile file. Afterwards they are as they were."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    loggers = [getLogger(name) for name in LIBRARIES]
    levels = [logger.level for logger in loggers]
    bars, bars_of_hub = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(CRITICAL + 1)
            logging.disable_progress_bar()
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            if bars:
                logging.enable_progress_bar()
            (enable_progress_bars if bars_of_hub else disable_progress_bars)()


def _snapshot(name: str, revision: str | None, wanted: Sequence[str]) -> Path:
    """The folder in the hub's cache that has the wanted files, as far as they exist."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(wanted)))
    except Exception as error:  # the library raises many types
        raise ConfigError(f"no folder has this name, and the hub failed with {_in_a_line(error)}") from error


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {textwrap.shorten(str(error), 200, placeholder=' ...')}"


def _first_id(files: ModelFiles, tokenizer: TextTokenizer) -> int | None:
    """The beginning-of-text id, else the end-of-text id: of the tokenizer, else of the model."""

    def of_tokenizer(name: str) -> int | None:
        token = files.tokenizer_config.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        return tokenizer.ids.get(token) if isinstance(token, str) else None

    def of_model(name: str) -> int | None:
        found = files.config.get(name)
        found = found[0] if isinstance(found, list) and found else found
        return found if type(found) is int and found >= 0 else None

    found = (
        of_tokenizer("bos_token"), tokenizer.begins_with, of_tokenizer("eos_token"),
        of_model("bos_token_id"), of_model("eos_token_id"),
    )  # fmt: skip
    return next((each for each in found if each is not None), None)


def _begins_windows(files: ModelFiles, tokenizer: TextTokenizer) -> bool:
    """Whether the beginning-of-text id stands before every window: tokenizer_config.json says so, or the tokenizer puts it there.
    Gemma's models predict badly without it.
    """
    said = files.tokenizer_config.get("add_bos_token")
    if str(files.config.get("model_type")).startswith(NEED_FIRST):
        return True
    return said if isinstance(said, bool) else tokenizer.begins_with is not None


# ---- the model


def check_memory(need: int, max_memory_bytes: int | None = None) -> None:
    """Raises ConfigError if this process may not use so much memory, or max_memory_bytes is less."""
    have = usable_memory_bytes() if max_memory_bytes is None else max_memory_bytes
    if need > have:
        raise ConfigError(f"it takes {need >> 20:,} MiB of memory, and this process may use {have >> 20:,} MiB")


def _model(files: ModelFiles) -> Any:
    n_tensors = sum(len(file.tensors) for file in files.weights)
    config, kind = _config(files.config, n_tensors)
    with torch.device("meta"), _bounded(n_tensors, files.n_values):
        kind(config)  # without memory: only to see how large it is
    model, report = kind.from_pretrained(
        None,
        config=config,
        state_dict=files.read_weights(),
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are in the report
    )
    for what in ("missing", "unexpected", "mismatched"):
        for key in report[f"{what}_keys"]:
            found = key if isinstance(key, str) else key[0]
            raise ConfigError(f"its weights do not fit its configuration: {found!r} is {what}")
    return model.eval()


def _config(stored: dict[str, Any], n_tensors: int) -> tuple[Any, Any]:
    """The library's configuration, and the class of the model. n_tensors: so many layers are possible."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    if any(stored.get(name) for name in QUANTISED):
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
    """The value without the ignored entries, at any depth. Large integers become floats, because the library loops over some."""
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in IGNORED and not name.startswith("_")}
        return {name: _cleaned(each) for name, each in kept.items()}
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return float(value) if isinstance(value, int) and abs(value) > MAX_INTEGER else value


@contextmanager
def _bounded(n_tensors: int, n_values: int) -> Iterator[None]:
    """Raises ConfigError if modules that the body makes have many more parts or values than the weights."""
    left = {
        "modules": MODULES_PER_TENSOR * n_tensors + MORE_MODULES,
        "values": 4 * n_values,  # a tied one is registered three times
        "bytes of buffers": 4 * n_values + MORE_BUFFER_BYTES,
    }

    def take(what: str, n: int) -> None:
        left[what] -= n
        if left[what] < 0:
            raise ConfigError(f"its configuration describes a model of more {what} than its weights have")

    registered = [
        hooks.register_module_module_registration_hook(lambda *_: take("modules", 1)),
        hooks.register_module_parameter_registration_hook(
            lambda _, name, value: take("values", 0 if value is None else value.numel())
        ),
        hooks.register_module_buffer_registration_hook(
            lambda _, name, value: take("bytes of buffers", 0 if value is None else value.nbytes)
        ),
    ]
    try:
        yield
    finally:
        for each in registered:
            each.remove()
