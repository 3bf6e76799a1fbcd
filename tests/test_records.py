"""Records: every struct is written and read again, and the page of records has all of their fields."""

import importlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect

from prequential.errors import CorpusError
from prequential.records import PackedRun, check_record, record_of

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes the page of records."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("record_fields")


def example(kind: inspect.Type) -> Any:
    """A value of this type, as JSON has it. Objects have all fields."""
    match kind:
        case inspect.Metadata():
            return example(kind.type)
        case inspect.StructType() | inspect.TypedDictType():
            return {field.name: example(field.type) for field in kind.fields}
        case inspect.ListType():
            return [example(kind.item_type)]
        case inspect.DictType():
            return {"key": example(kind.value_type)}
        case inspect.UnionType():
            return example(kind.types[0])
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.DateTimeType():
            return "2026-11-28T12:00:00+00:00"
        case inspect.StrType() | inspect.BytesType():
            return "text"  # of bytes, in base64
    return {inspect.IntType: 1, inspect.FloatType: 0.5, inspect.BoolType: True}.get(type(kind))


def test_every_record_is_written_with_its_fields_in_their_order_and_read_again(page: Any) -> None:
    for form in page.RECORDS:
        whole = example(inspect.type_info(form))
        written = record_of(form, **whole)
        assert list(written) == list(form.__struct_fields__)
        assert check_record(written, form, "x") == written == whole
        required = [field.name for field in msgspec.structs.fields(form) if field.required]
        for name in required:
            without = {key: value for key, value in whole.items() if key != name}
            with pytest.raises(CorpusError, match=f"x is not a complete record: .*`{name}`"):
                check_record(without, form, "x")
            with pytest.raises(TypeError, match=name):
                record_of(form, **without)
        with pytest.raises(CorpusError, match="not a"):
            check_record(whole | {required[0]: []}, form, "x")


def test_a_field_is_the_attribute_of_the_first_source_that_has_it() -> None:
    class Source(Struct):
        name: str
        curves: str = ""

    made = record_of(PackedRun, Source("a"), Source("b", "c"), record={"n": (1, 2)}, curves="d")
    assert made == {"kind": "packed run", "name": "a", "record": {"n": (1, 2)}, "curves": "d"}
    with pytest.raises(TypeError, match="more"):
        record_of(PackedRun, Source("a"), record={}, more=1)


def test_the_page_of_records_has_every_field_of_every_record(page: Any) -> None:
    text = page.page()
    for record in page.RECORDS:
        section = text.partition(f"\n## {record.__name__}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        fields = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        assert fields and fields >= {
            name for name in record.__annotations__ if name not in record.__bases__[0].__dict__
        }
