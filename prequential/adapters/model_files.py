"""The files of a model of transformers, read and checked here and not by the library: a stranger may have made all of them.

Every name is plain, and every file regular and in the folder. Headers are checked before memory is taken for values. No file is
mapped that others can change.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prequential.errors import ConfigError
from prequential.files import open_regular, read_regular
from prequential.files.strict_json import parse_json
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
