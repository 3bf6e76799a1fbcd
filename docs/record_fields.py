"""The page of the site with the fields of every record, from their schemas (msgspec)."""

from collections.abc import Iterator

from msgspec import Struct, inspect

from prequential.records import (
    EvaluationRecord,
    HeldoutRecord,
    MonorepoRecord,
    PackedRun,
    ScoreFields,
    TrainingRecord,
    UnfinishedRecord,
)

RECORDS: tuple[type[Struct], ...] = (
    EvaluationRecord,
    TrainingRecord,
    UnfinishedRecord,
    PackedRun,
    HeldoutRecord,
    MonorepoRecord,
    ScoreFields,
)
HEAD = """# Records

A record is one JSON object in one line, with a `kind` and mostly a `schema`. The number of the schema changes when a name changes
its meaning or is removed. New names may be added at any time, so a reader must expect that older records lack some. Names end in
their unit. An object may have further fields, for people to read.
"""
UNITS = {
    "table_bits": "",
    "bits_per_byte": "bits/byte",
    "nats_per_byte": "nats/byte",
    "bytes_per_s": "bytes/s",
    "_bits": "bits",
    "_bytes": "bytes",
    "_ppm": "ppm",
    "_s": "seconds",
}
WORDS = {
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "text",
    inspect.BytesType: "text",
    inspect.BoolType: "true or false",
    inspect.DateTimeType: "time",
    inspect.AnyType: "any",
    inspect.NoneType: "null",
}


def page() -> str:
    """The page of all records."""
    parts, shown = [HEAD], set[type]()
    for record in RECORDS:
        waiting: list[type] = [record]
        while waiting:
            form = waiting.pop(0)
            if form not in shown:
                shown.add(form)
                parts.append(section(form, level=2 if form is record else 3))
                waiting += [each for field in type_of(form).fields for each in structs_in(field.type)]
    return "\n".join(parts)


def section(form: type, level: int) -> str:
    """The fields of one object as a table; of an object that extends another one, those that differ."""
    base = form.__bases__[0]
    known = {} if base in (Struct, dict) else {field.name: field.type for field in type_of(base).fields}
    rows = [row(field.name, field.type) for field in type_of(form).fields if known.get(field.name) != field.type]
    head = f"{'#' * level} {form.__name__}\n\n{(form.__doc__ or '').strip()}\n\n| field | type | meaning |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def row(name: str, kind: inspect.Type) -> str:
    said = (kind.extra_json_schema or {}).get("description", "") if isinstance(kind, inspect.Metadata) else ""
    unit = "bits" if name == "bits" else next((UNITS[end] for end in UNITS if name.endswith(end)), "")
    return f"| `{name}` | {words(kind)}{f', {unit}' if unit else ''} | {said} |"


def words(kind: inspect.Type) -> str:
    """A type in words."""
    match kind:
        case inspect.Metadata():
            return words(kind.type)
        case inspect.StructType() | inspect.TypedDictType():
            return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
        case inspect.ListType():
            return f"list of {words(kind.item_type)}"
        case inspect.DictType():
            return "object" if isinstance(kind.value_type, inspect.AnyType) else f"object of {words(kind.value_type)}"
        case inspect.UnionType():
            return " or ".join(map(words, kind.types))
        case inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
    return WORDS[type(kind)]


def structs_in(kind: inspect.Type) -> Iterator[type]:
    """The objects that a type contains."""
    if isinstance(kind, inspect.StructType | inspect.TypedDictType):
        yield kind.cls
    inner = [getattr(kind, name) for name in ("type", "item_type", "value_type") if hasattr(kind, name)]
    for each in [*inner, *getattr(kind, "types", ())]:
        yield from structs_in(each)


def type_of(form: type) -> inspect.StructType | inspect.TypedDictType:
    kind = inspect.type_info(form)
    assert isinstance(kind, inspect.StructType | inspect.TypedDictType)
    return kind
