"""Arguments of the public functions, checked before any work. An argument of one name is of one kind in all of them."""

import os
import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from prequential.errors import ConfigError, wrong_argument
from prequential.model.config import Config

Test = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    """Whether it is an integer of 0 or more, of Python or numpy; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and value != ""


def _is_bytes(value: Any) -> bool:
    is_vector = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    return is_vector or isinstance(value, bytes | bytearray | memoryview)


def _is_corpus(value: Any) -> bool:
    is_list = isinstance(value, Sequence)
    return _is_bytes(value) or _is_path(value) or (is_list and not isinstance(value, str)) or _is_opened(value)


def _is_opened(value: Any) -> bool:  # a file, or a column of a data frame
    return hasattr(value, "read") or hasattr(value, "to_list")


def _is_runtime(value: Any) -> bool:
    from prequential.online.runtime import Runtime  # slow: a list of runs needs none

    return isinstance(value, Runtime)


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


_BYTES = "bytes, a numpy array (n,) of uint8, a path"
_CORPUS = f"{_BYTES} or the name of a corpus, a file open for bytes, a list of documents, or a column of a data frame"
_FLAG = (lambda value: isinstance(value, bool | np.bool_), "True or False")
_FUNCTION = (callable, "a function")
_PATH = (_is_path, "a path")
_LIMIT = (_or_none(is_count), "a number of bytes, or None for no limit")
_KINDS: dict[str, tuple[Test, str]] = {
    "source": (_is_corpus, _CORPUS),
    "test": (_is_corpus, _CORPUS),
    "train": (_or_none(_is_corpus), f"{_CORPUS}, or the folder of a run or a model"),
    "archive": (
        lambda value: _is_bytes(value) or _is_path(value) or hasattr(value, "read"),
        f"{_BYTES} or an open binary file",
    ),
    "output": (
        _or_none(lambda value: _is_path(value) or hasattr(value, "write")),
        "a path or an open binary file, or None for bytes",
    ),
    "given": (
        _or_none(_is_corpus),
        f"{_CORPUS}, or the folder of a stored model",
    ),
    "config": (_or_none(lambda value: isinstance(value, Config)), "a Config, such as prequential.preset(5)"),
    "runtime": (_or_none(_is_runtime), "a prequential.Runtime"),
    "limit_bytes": _LIMIT,
    "max_output_bytes": _LIMIT,
    "cluster": (_or_none(lambda value: isinstance(value, str) and value != ""), "the name of a field, or None"),
    "orders": (_or_none(is_count), "a number of orders, or None"),
    "name": (lambda value: isinstance(value, str) and value != "", "a text"),
    "repeats": (("exclude", "include").__contains__, "'exclude' or 'include'"),
    "audit_every": (is_count, "a number of steps, or 0"),
    "ignore_index": (lambda value: type(value) is int, "a whole number"),
    "folder": _PATH,
    "path": _PATH,
    "runs": _PATH,
    "on_progress": _FUNCTION,
    "on_outcome": _FUNCTION,
    "on_step": _FUNCTION,
    "on_bad": (_or_none(callable), "a function, or None"),
    "overwrite": _FLAG,
    "resume": _FLAG,
    "verify": _FLAG,
    "whole": _FLAG,
    "after_the_fact": _FLAG,
}


def check_arguments(**values: Any) -> None:
    """Raises ConfigError for the first value that is not of the kind of its name; with a runtime, where none can compute."""
    if "runtime" in values:
        _check_caller()
    for name, value in values.items():
        is_right, give = _KINDS[name]
        if not is_right(value):
            raise wrong_argument(name, value, give)


def _check_caller() -> None:
    """Raises ConfigError in another rounding mode, within torch.compile, and in a mode of torch whose tensors have no values."""
    one, little = 1.0, 2.0**-60
    if one + little != one or one - little != one:
        raise ConfigError("this thread does not round to nearest: fesetround(FE_TONEAREST) before the call")
    if not (torch := sys.modules.get("torch")):
        return
    frames = torch._C._dynamo.eval_frame if "torch._dynamo" in sys.modules else None
    if callable(getattr(frames, "get_eval_frame_callback", lambda: None)()):
        raise ConfigError("torch.compile cannot compile this call: make it outside of the compiled function")
    if type(found := torch.empty(0, device="cpu")) is not torch.Tensor:
        raise ConfigError(f"torch gives {type(found).__name__}s here, which hold no values: call outside of that mode")
