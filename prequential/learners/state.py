"""The state of a learner of one's own: nested dicts and lists of arrays, tensors and numbers, as flat bytes and back.

What is in it becomes a text (JSON) that names its arrays, and the bytes of these arrays. A digest is of both; a file holds both,
and runs no code. Small arrays share one, because there may be thousands.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from prequential.errors import ConfigError

STRUCTURE, SMALL = "structure", "small"
SMALL_BYTES = 1 << 12
PLAIN = (bool, int, float, str, type(None))


def flattened(state: Any) -> dict[str, np.ndarray]:
    """Arrays (n,) uint8 by name; those of tensors and arrays in their own memory if possible. Raises ConfigError for a value of
    another type.
    """
    arrays: dict[str, np.ndarray] = {}
    small = bytearray()

    def place(values: np.ndarray) -> list[int]:
        if values.size >= SMALL_BYTES:
            arrays[str(len(arrays))] = values
            return [len(arrays) - 1]
        small.extend(values.data)
        return [len(small) - values.size, values.size]

    def walked(value: Any, name: str) -> Any:
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, Mapping):
            return {"dict": [[walked(key, name), walked(each, f"{name}.{key}")] for key, each in value.items()]}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [walked(each, f"{name}.{i}") for i, each in enumerate(value)]}
        if isinstance(value, bytes):
            return {"bytes": place(np.frombuffer(value, np.uint8))}
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype.kind not in "biufc":
                raise ConfigError(f"state_dict of the learner: {name or 'its value'} has type {array.dtype}")
            kind = "array" if isinstance(value, np.ndarray) else "number"
            values = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return {kind: place(values), "dtype": array.dtype.str, "shape": array.shape}
        if hasattr(value, "detach"):
            return {"tensor": place(_bytes_of(value)), "dtype": str(value.dtype), "shape": list(value.shape)}
        raise ConfigError(f"state_dict of the learner: {name or 'its value'} is a {type(value).__name__}")

    structure = json.dumps(walked(state, "")).encode()
    both = {STRUCTURE: structure, SMALL: bytes(small)}
    return arrays | {name: np.frombuffer(data, np.uint8) for name, data in both.items()}


def _bytes_of(tensor: Any) -> np.ndarray:
    import torch

    flat = tensor.detach().contiguous().reshape(-1)
    return np.asarray(flat.view(torch.uint8).numpy(force=True)) if flat.numel() else np.zeros(0, np.uint8)


def restored(arrays: Mapping[str, np.ndarray]) -> Any:
    """The state that `flattened` had, in memory of its own; tensors on the processor. Raises ValueError for other arrays."""

    def values_of(place: list[int]) -> np.ndarray:
        if len(place) == 1:
            return arrays[str(place[0])].copy()
        start, n = place
        return arrays[SMALL][start : start + n].copy()

    def built(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind, inside = next(iter(value.items()))
        if kind == "dict":
            return {built(key): built(each) for key, each in inside}
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(map(built, inside))
        values = values_of(inside)
        if kind == "bytes":
            return values.tobytes()
        if kind == "tensor":
            import torch

            dtype = getattr(torch, value["dtype"].removeprefix("torch."))
            if not isinstance(dtype, torch.dtype):
                raise ValueError("not a type of a tensor")
            flat = torch.from_numpy(values).view(dtype) if values.size else torch.zeros(0, dtype=dtype)
            return flat.reshape(value["shape"])
        array = values.view(np.dtype(value["dtype"])).reshape(value["shape"])
        return array if kind == "array" else array[()]

    try:
        return built(json.loads(arrays[STRUCTURE].tobytes()))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError, RuntimeError) as error:
        raise ValueError(f"the state of the learner is damaged: {type(error).__name__}") from error
