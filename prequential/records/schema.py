"""Schemas of records: each field once, with its type and a sentence. Writer, reader, checks and docs/RECORDS.md follow from them.

A schema is a msgspec.Struct; a record, a dict of JSON values. Readers rely on fields without a default; `Absent` ones may
be missing. Other names may be present. A stranger's record is read within limits and checked once; its readers need no checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType

from prequential.errors import CorpusError
from prequential.files import PathLike, open_regular, read_regular, reading
from prequential.files.append import append_line
from prequential.files.strict_json import parse_json
from prequential.machine.facts import NO_BACKEND, git_commit, machine, versions
from prequential.version import VERSION

if TYPE_CHECKING:  # slow: a list of runs needs none
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

MAX_RECORD_BYTES = 1 << 26  # of a line
MAX_RECORDS_BYTES = 1 << 28  # of a file
MAX_NUMBER = 1e30  # products of a few such numbers are finite
MAX_COUNT = 1 << 62
MAX_TIME_S = 1e10
WORDS = {
    "int": "an integer", "float": "a number", "str": "a text", "bool": "true or false", "object": "an object", "array": "a list"
}  # fmt: skip


class Time(str):
    """An ISO 8601 time with its zone, in a year that every zone can express."""


Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Positive = Annotated[float, Meta(ge=1 / MAX_NUMBER, le=MAX_NUMBER)]
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_TIME_S)]
WallSeconds = Annotated[float, Meta(ge=1e-9, le=MAX_TIME_S)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Size = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Absent = UnsetType


def says(sentence: str) -> Meta:
    """What a field means, for docs/RECORDS.md."""
    return Meta(description=sentence)


# ---- writing


def record_of(form: type[Struct], *sources: object, **values: Any) -> dict[str, Any]:
    """A record with every field of the form, in its order.

    A field is taken from `values`, or is the attribute of that name of the first source that has it, or its default.
    """
    if unknown := values.keys() - set(form.__struct_fields__):
        raise TypeError(f"{form.__name__} has no fields {unknown}")
    return {field.name: _value(field, sources, values) for field in msgspec.structs.fields(form)}


def _value(field: msgspec.structs.FieldInfo, sources: tuple[object, ...], values: dict[str, Any]) -> Any:
    if field.name in values:
        return values[field.name]
    for source in sources:
        if hasattr(source, field.name):
            return getattr(source, field.name)
    if field.default in (NODEFAULT, UNSET):
        raise TypeError(f"the field {field.name} has no value")
    return field.default


def environment(runtime: Runtime, config: Config | None) -> dict[str, Any]:
    """Machine, versions, and how this runtime computes a learner of this configuration, as JSON values; for every record.

    config: None for a learner that is not ours. Raises InexactMachineError if no arithmetic is exact on this machine.
    """
    backend, device = NO_BACKEND, "cpu"
    if config is not None and config.gpt is not None:
        import torch

        from prequential.exact import matmul

        backend = matmul.choose("cpu", runtime.backend).name
        if accelerator := runtime.accelerator(config):
            device = f"cuda: {torch.cuda.get_device_name(accelerator.device)}"
    return {
        "machine": machine(),
        "threads": runtime.n_threads,
        "backend": backend,
        "kernels": runtime.kernels or "fused",
        "device": device,
        "versions": {"prequential": VERSION, **versions()},
        "git_commit": git_commit(),
    }


def append_record(path: PathLike, record: dict[str, Any], mode: int = 0o777) -> None:
    """Appends one line to the file at `path`, made if it is missing. mode: that of what was measured. Raises OutputError."""
    append_line(path, json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n", mode)


# ---- reading


class Fields(dict[str, Any]):
    """A JSON object whose missing names raise CorpusError. where: its file, for this error."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise CorpusError(f"{self.where} is incomplete: it has no {name!r}")


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


def check_record(value: Any, form: type[Struct], where: str) -> dict[str, Any]:
    """The value, if it has this form, and its kind and schema, if it has them. Raises CorpusError, which names `where`."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(form)}
    kind, schema = defaults.get("kind"), defaults.get("schema")
    if not isinstance(value, dict) or (kind and value.get("kind") != kind):
        raise CorpusError(f"{where} is not a record of the kind {kind!r}" if kind else f"{where} is not a record")
    if schema and value.get("schema") != schema:
        raise CorpusError(f"{where} has schema {value.get('schema')!r}; this version reads {schema}")
    try:
        msgspec.convert(value, form, dec_hook=_time)
    except msgspec.ValidationError as error:
        raise CorpusError(f"{where} is not a complete record: {_plain(str(error))}") from error
    return value


def _plain(error: str) -> str:
    """An error of msgspec in words, such as "Expected `int` >= 0 - at `$.n`": 'n' is not an integer >= 0."""
    problem, _, place = error.partition(" - at `$")
    name = repr(place.strip(".`")) if place else "it"
    if found := re.match("Expected `([^`]+)`([^,]*)", problem):
        return f"{name} is not {' or '.join(WORDS.get(kind, kind) for kind in found[1].split(' | '))}{found[2]}"
    if found := re.match("Object missing required field `([^`]+)`", problem):
        return f"{name} has no {found[1]!r}"
    return f"{name}: {problem}"


def _time(kind: type, value: Any) -> Time:
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None and 1900 <= time.year < 9000:
            return Time(value)
    raise ValueError("it is not a time with its zone")
