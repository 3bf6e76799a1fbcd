"""Tables: columns are aligned and nothing is truncated."""

from prequential.records.table import format_table

ROWS = [["gzip -9", "1,549"], ["prequential", "72"]]


def test_the_first_column_is_aligned_left_and_the_others_right() -> None:
    assert format_table(["", "bytes"], ROWS) == "             bytes\ngzip -9      1,549\nprequential     72"
