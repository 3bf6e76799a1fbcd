"""JSON that a stranger may have written: limited in depth and in number of values, without values that few programs can hold."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
MAX_VALUES = 1 << 21  # each takes up to 100 bytes of memory
MAX_DIGITS = 39  # of an integer
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # also one that does not end: linear in time


def parse_json(data: bytes, make_object: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of one JSON text in UTF-8. Raises ValueError.

    make_object: called with each object, inner ones first; returns what replaces it. None: nothing replaces it.
    Refused are also NaN, infinities, integers of more than MAX_DIGITS digits, and half surrogate pairs.
    """
    check_json_size(data)
    try:
        value = json.loads(
            data.decode(), object_hook=make_object, parse_int=_integer, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError as error:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep") from error
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        _check_surrogates(level)
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def check_json_size(data: bytes) -> None:
    """Raises ValueError for a JSON text of more than MAX_VALUES values, before it is parsed."""
    if _n_values(data) > MAX_VALUES and _n_values(_STRING.sub(b"", data)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def _n_values(data: bytes) -> int:
    """An upper bound of the number of values."""
    return sum(map(data.count, (b",", b":", b"[", b"{")))


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _check_surrogates(values: list[Any]) -> None:
    """Raises ValueError (UnicodeEncodeError) for text that UTF-8 cannot encode."""
    for value in values:
        if isinstance(value, str) and not value.isascii():
            value.encode()


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)  # of NaN and Infinity, too
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
