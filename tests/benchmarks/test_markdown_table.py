"""Markdown tables of the benchmarks."""

from markdown_table import format_markdown


def test_a_markdown_table_aligns_numbers_right() -> None:
    assert format_markdown(["", "bytes"], [["gzip -9", "1,549"]]).splitlines()[1] == "| --- | ---: |"
