"""JSON that a stranger may have written. `parse_json` is for records of this program, `parse_row` for rows of data."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

MAX_DEPTH = 64
MAX_VALUES = 1 << 21  # each takes up to 100 bytes of memory
MAX_DIGITS = 39  # of an integer
MAX_ROW_DIGITS = 640  # of an integer in a row: every Python reads and writes so many
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # also one that does not end: linear in time


def parse_json(data: bytes, make_object: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of one JSON text in UTF-8. make_object: returns what replaces an object, inner ones first.

    Raises ValueError, also for NaN, infinities, integers of more than MAX_DIGITS digits, half surrogate pairs, a key twice.
    """
    check_json_size(data)

    def object_of(pairs: list[tuple[str, Any]]) -> Any:
        values = _unique(pairs)
        return make_object(values) if make_object else values

    try:
        value = json.loads(
            data.decode(), object_pairs_hook=object_of, parse_int=_integer, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError as error:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep") from error
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


class LongLineError(ValueError):
    """A line is longer than its reader accepts."""


class LongInteger:
    """Stands for an integer of more than MAX_ROW_DIGITS digits. It matters only to a reader that uses it."""


def parse_row(line: bytes) -> Any:
    """The value of one line of JSON in UTF-8. Raises ValueError, also for a key that occurs twice in an object."""
    check_json_size(line)
    try:
        return json.loads(line, object_pairs_hook=_unique, parse_int=_row_integer)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def bounded_lines(stream: IO[bytes], max_n_bytes: int) -> Iterator[bytes]:
    """The lines of a stream, with their ends. Raises LongLineError for one of more than max_n_bytes, of which no more is read."""
    while line := stream.readline(max_n_bytes + 1):
        if len(line) > max_n_bytes:
            raise LongLineError(f"the line is longer than {max_n_bytes:,} bytes")
        yield line


def check_json_size(data: bytes) -> None:
    """Raises ValueError for a JSON text of more than MAX_VALUES values, before it is parsed."""

    def most(text: bytes) -> int:
        return sum(map(text.count, (b",", b":", b"[", b"{")))

    if most(data) > MAX_VALUES and most(_STRING.sub(b"", data)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def _children(value: Any) -> list[Any]:
    """The values within a value. Raises ValueError (UnicodeEncodeError) for text that UTF-8 cannot encode."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, str):
        value.encode()
    return value if isinstance(value, list) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs if len(dict(pairs)) < len(pairs) else ():
        if name in values:
            raise ValueError(f"an object has the key {name[:200]!r} twice")
        values[name] = value
    return values or dict(pairs)


def _row_integer(text: str) -> int | LongInteger:
    return int(text) if len(text) <= MAX_ROW_DIGITS else LongInteger()


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)  # of NaN and Infinity, too
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
