"""Arguments of the public functions, checked before any work. An argument of one name is of one kind in all of them."""

import os
import re
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from prequential_corpora import is_data_set, is_stream

from prequential.errors import ConfigError, wrong_argument
from prequential.model.config import Config


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and value != ""


def _is_bytes(value: Any) -> bool:
    is_vector = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    return is_vector or isinstance(value, bytes | bytearray | memoryview)


def _is_corpus(value: Any) -> bool:
    is_list = (isinstance(value, Sequence) and not isinstance(value, str)) or is_stream(value) or is_data_set(value)
    is_opened = any(hasattr(value, name) for name in ("read", "to_list", "to_pylist"))  # a file, or a column
    return _is_bytes(value) or _is_path(value) or is_list or is_opened


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_size(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, str) and re.fullmatch(_SIZE, value) is not None)


def byte_count(value: "int | str | None") -> int | None:
    """A number of bytes, also as a text such as 65536, 64K, 10M or 4G, as on the command line."""
    if not isinstance(value, str):
        return None if value is None else int(value)
    number, unit = re.fullmatch(_SIZE, value).groups()  # type: ignore[union-attr]
    return int(number) << 10 * " kmg".index(unit.lower() or " ")


def _is_runtime(value: Any) -> bool:
    from prequential.online.runtime import Runtime  # slow: a list of runs needs none

    return isinstance(value, Runtime)


_SIZE = re.compile(r"0*([1-9]\d*)([kmgKMG]?)", re.ASCII)
_BYTES = "bytes, a numpy array (n,) of uint8, a path"
_CORPUS = f"{_BYTES} or the name of a corpus, a file open for bytes, a data set, documents, or a column of a data frame"
_KINDS: dict[tuple[str, ...], tuple[Callable[[Any], bool], str]] = {
    ("source", "test", "train", "given"): (_is_corpus, _CORPUS),
    ("archive",): (lambda x: _is_bytes(x) or _is_path(x) or hasattr(x, "read"), f"{_BYTES} or an open binary file"),
    ("output",): (lambda x: _is_path(x) or hasattr(x, "write"), "a path or an open binary file"),
    ("config",): (lambda x: isinstance(x, Config), "a Config, such as prequential.preset(5)"),
    ("runtime",): (_is_runtime, "a prequential.Runtime"),
    ("max_output_bytes",): (_is_count, "a number of bytes"),
    ("limit", "train_limit"): (_is_size, 'a number of bytes, or a text such as "64K" or "10M"'),
    ("level",): (lambda x: isinstance(x, str) or _is_count(x), "a preset, from 1 to 6"),
    ("orders",): (_is_count, "a number of orders"),
    ("cluster", "label", "given_field"): (lambda x: isinstance(x, str) and x != "", "the name of a field"),
    ("name",): (lambda x: isinstance(x, str) and x != "", "a text"),
    ("repeats",): (("exclude", "include").__contains__, "'exclude' or 'include'"),
    ("audit_every",): (_is_count, "a number of steps, or 0"),
    ("ignore_index",): (lambda x: type(x) is int, "a whole number"),
    ("folder", "path", "runs"): (_is_path, "a path"),
    ("executor",): (lambda x: hasattr(x, "submit"), "an executor, which has a method `submit`"),
    ("on_progress", "on_outcome", "on_bad"): (callable, "a function"),
    ("overwrite", "resume", "verify", "after_the_fact"): (lambda x: isinstance(x, bool | np.bool_), "True or False"),
}
_KIND_OF = {name: kind for names, kind in _KINDS.items() for name in names}
_OR_NONE = {
    "train", "given", "output", "level", "config", "runtime", "limit", "train_limit", "max_output_bytes", "orders",
    "cluster", "on_bad", "given_field", "executor",
}  # fmt: skip


def check_arguments(**values: Any) -> None:
    """Raises ConfigError for the first value that is not of the kind of its name; with a runtime, where none can compute."""
    one, little = 1.0, 2.0**-60
    if "runtime" in values and (one + little != one or one - little != one):
        raise ConfigError("this thread does not round to nearest: fesetround(FE_TONEAREST) before the call")
    for name, value in values.items():
        is_right, give = _KIND_OF[name]
        may_be_none = name in _OR_NONE
        if not (is_right(value) or (may_be_none and value is None)):
            raise wrong_argument(name, value, f"{give}, or None" if may_be_none else give)
