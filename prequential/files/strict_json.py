"""JSON that a stranger may have written. `parse_json` is for records of this program, `parse_row` for rows of data."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Any

MAX_DEPTH = 64
MAX_VALUES = 1 << 21  # each takes up to 100 bytes of memory
MAX_DIGITS = 39  # of an integer
TOO_DEEP = f"it is nested more than {MAX_DEPTH} deep"
MAX_ROW_DIGITS = 640  # of an integer in a row: every Python reads and writes so many
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # also one that does not end: linear in time


def parse_json(data: bytes, make_object: Callable[[dict[str, Any]], Any] = dict) -> Any:
    """The value of one JSON text in UTF-8. make_object: returns what replaces an object, inner ones first.

    Raises ValueError, also for NaN, infinities, integers of more than MAX_DIGITS digits, half surrogate pairs, a key twice.
    """
    value = _parse(data, MAX_DIGITS, make_object, parse_float=_finite, parse_constant=_finite)
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise ValueError(TOO_DEEP)


def parse_row(line: bytes) -> Any:
    """The value of one line of JSON. Raises ValueError, also for integers of more than MAX_ROW_DIGITS digits, a key twice."""
    return _parse(line, MAX_ROW_DIGITS, dict)


def _parse(data: bytes, max_digits: int, make_object: Callable[[dict[str, Any]], Any], **options: Any) -> Any:
    if _most_values(data) > MAX_VALUES and _most_values(_STRING.sub(b"", data)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")

    def object_of(pairs: list[tuple[str, Any]]) -> Any:
        values = dict(pairs)
        if len(values) < len(pairs):
            [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"an object has the key {name[:200]!r} twice")
        return make_object(values)

    def integer(digits: str) -> int:
        if len(digits) > max_digits:
            raise ValueError(f"an integer has more than {max_digits} digits")
        return int(digits)

    try:
        return json.loads(data, object_pairs_hook=object_of, parse_int=integer, **options)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error


def bounded_lines(stream: IO[bytes], max_n_bytes: int) -> Iterator[bytes]:
    """The lines of a stream, with their ends. Raises ValueError for one of more than max_n_bytes, of which no more is read."""
    while line := stream.readline(max_n_bytes + 1):
        if len(line) > max_n_bytes:
            raise ValueError(f"the line is longer than {max_n_bytes:,} bytes")
        yield line


def _most_values(text: bytes) -> int:
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def _children(value: Any) -> list[Any]:
    """The values within a value. Raises ValueError (UnicodeEncodeError) for text that UTF-8 cannot encode."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, str):
        value.encode()
    return value if isinstance(value, list) else []


def _finite(text: str) -> float:
    value = float(text)  # of NaN and Infinity, too
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
