"""Schemas: the page of records is made from them, and a writer cannot leave a field out or invent one."""

import importlib
import re
from pathlib import Path

import pytest

from prequential.records import BaselineFields, PackedRun, record_of

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_records_has_every_field_of_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    record_fields = importlib.import_module("record_fields")
    page = record_fields.page()
    for record in record_fields.RECORDS:
        section = page.partition(f"\n## {record.__name__}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        fields = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        assert fields and fields >= {
            name for name in record.__annotations__ if name not in record.__bases__[0].__dict__
        }


def test_a_record_has_exactly_the_fields_of_its_schema_in_their_order() -> None:
    values = {"curves": "", "record": {}, "name": "a"}
    assert list(record_of(PackedRun, **values).items()) == [
        ("kind", "packed run"), ("name", "a"), ("record", {}), ("curves", "")
    ]  # fmt: skip
    with pytest.raises(TypeError, match="the field name has no value"):
        record_of(BaselineFields)
    with pytest.raises(TypeError, match="has no fields"):
        record_of(PackedRun, **values, more=1)
