"""Tables: columns line up, nothing is cut."""

from prequential.measure.table import format_markdown, format_table

ROWS = [["gzip -9", "1,549"], ["prequential", "72"]]


def test_columns_line_up_to_the_left_and_to_the_right() -> None:
    assert format_table(["", "bytes"], ROWS) == "             bytes\ngzip -9      1,549\nprequential     72"


def test_a_markdown_table_has_a_rule_that_aligns_numbers_right() -> None:
    assert format_markdown(["", "bytes"], ROWS).splitlines()[1] == "| --- | ---: |"
