"""Schemas: they are the document, and a writer cannot leave a field out or invent one."""

import pytest
from scripts import load

from prequential.records import BaselineFields, PackedRun, record_of

record_fields = load("record_fields")


def test_the_document_of_records_is_what_the_schemas_say() -> None:
    assert record_fields.PAGE.read_text(encoding="utf-8") == record_fields.page()


def test_a_record_has_exactly_the_fields_of_its_schema_in_their_order() -> None:
    values = {"curves": "", "record": {}, "name": "a"}
    assert list(record_of(PackedRun, **values).items()) == [
        ("kind", "packed run"), ("name", "a"), ("record", {}), ("curves", "")
    ]  # fmt: skip
    with pytest.raises(TypeError, match="the field name has no value"):
        record_of(BaselineFields)
    with pytest.raises(TypeError, match="has no fields"):
        record_of(PackedRun, **values, more=1)
