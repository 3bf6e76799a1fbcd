"""Records that a stranger may have written: read within limits, and checked once, so that their readers need no checks.

A file of records has one JSON object a line. `Fields` is an object whose missing names raise CorpusError. `check_fields` compares
the values with a form:

    a Kind              the value is of this kind
    (form, None)        the same, or null
    [form]              a list of such values
    {name: form, ...}   an object with these names; a name that ends in ? may be missing, and * stands for all other names

Other names may be present: a newer version may have added them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prequential.errors import CorpusError
from prequential.files import PathLike, open_regular, read_regular, reading
from prequential.files.strict_json import parse_json

MAX_RECORD_BYTES = 1 << 26  # of a line
MAX_RECORDS_BYTES = 1 << 28  # of a file
MAX_NUMBER = 1e30  # products of a few such numbers are finite
MAX_COUNT = 1 << 62
MAX_TIME_S = 1e10


class Fields(dict[str, Any]):
    """A JSON object. where: its file, for the error about a missing name."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise CorpusError(f"{self.where} is incomplete: it has no {name!r}")


# ---- reading


def read_lines(path: PathLike) -> Iterator[bytes]:
    """The lines of a file of records, with their ends. Raises CorpusError for a file that cannot be read or is too long."""
    n_bytes = 0
    with reading(path), open_regular(path) as file:
        while line := file.readline(MAX_RECORD_BYTES + 1):
            n_bytes += len(line)
            if len(line) > MAX_RECORD_BYTES:
                raise CorpusError(f"{str(path)!r} has a line of more than {MAX_RECORD_BYTES:,} bytes")
            if n_bytes > MAX_RECORDS_BYTES:
                raise CorpusError(f"{str(path)!r} has more than {MAX_RECORDS_BYTES:,} bytes: split it")
            yield line


def read_object(path: PathLike) -> Any:
    """The single JSON value in the file at `path`; objects in it are Fields. Raises CorpusError."""
    with reading(path):
        data = read_regular(path, MAX_RECORD_BYTES)
    return parse_object(data, repr(str(path)))


def parse_object(data: bytes, where: str) -> Any:
    """The JSON value `data`; objects in it are Fields. Raises CorpusError, which names `where`."""
    try:
        return parse_json(data, lambda values: Fields(values, where))
    except ValueError as error:
        raise CorpusError(f"{where} is not JSON: {error}") from error


# ---- checking


@dataclass(frozen=True)
class Kind:
    """A kind of value. name: what it is called in an error."""

    name: str
    holds: Callable[[Any], bool]


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_time(value: Any) -> bool:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return time.tzinfo is not None and 1900 <= time.year < 9000


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", lambda value: _is_number(value, -MAX_NUMBER, MAX_NUMBER))
POSITIVE = Kind("a number above 0", lambda value: _is_number(value, 1 / MAX_NUMBER, MAX_NUMBER))
FROM_1 = Kind("a number from 1", lambda value: _is_number(value, 1, MAX_NUMBER))
EXPONENT = Kind("an exponent from -8 to 8", lambda value: _is_number(value, -8, 8))
TIME_S = Kind("a time in seconds", lambda value: _is_number(value, 0, MAX_TIME_S))
WALL_S = Kind("a time above 0 seconds", lambda value: _is_number(value, 1e-9, MAX_TIME_S))
COUNT = Kind("an integer from 0", lambda value: isinstance(value, int) and _is_number(value, 0, MAX_COUNT))
SIZE = Kind("an integer from 1", lambda value: isinstance(value, int) and _is_number(value, 1, MAX_COUNT))
TIME = Kind("a time with its zone", _is_time)

Form = Any  # as the docstring of the module says


def check_fields(value: Any, form: Form, where: str) -> None:
    """Raises CorpusError, which names `where`, unless the value has this form."""
    problem = _problem(value, form)
    if problem:
        raise CorpusError(f"{where} is not a complete record: {problem}")


def _problem(value: Any, form: Form, name: str = "it") -> str | None:
    """What is wrong with the value called `name`; None if it has the form."""
    if isinstance(form, Kind):
        return None if form.holds(value) else f"{name} is not {form.name}"
    if isinstance(form, tuple):
        return None if value is None else _problem(value, form[0], name)
    parts: Iterator[tuple[Any, Form, str]]
    if isinstance(form, Mapping):
        if not isinstance(value, dict):
            return f"{name} is not an object"
        if missing := [key for key in form if key not in value and key != "*" and not key.endswith("?")]:
            return f"{name} has no {missing[0]!r}"
        parts = _parts(value, form)
    else:
        if not isinstance(value, list):
            return f"{name} is not a list"
        parts = ((each, form[0], f"an entry of {name}") for each in value)
    return next((problem for part in parts if (problem := _problem(*part))), None)


def _parts(value: dict[str, Any], form: Mapping[str, Form]) -> Iterator[tuple[Any, Form, str]]:
    """Each value of an object with its form and its name."""
    known = {key.removesuffix("?"): each for key, each in form.items()}
    for key, each in value.items():
        if key in known or "*" in known:
            yield each, known[key] if key in known else known["*"], repr(key)
