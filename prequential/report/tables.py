"""Tables of the HTML page, and how values of a record become their cells."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prequential.report.markup import Html, element, join

EVERYWHERE, NEVER = "0: everywhere", "never"
NUMBER = re.compile(rf"[+-]?[0-9,]+(\.[0-9]+)?%?|{EVERYWHERE}|{NEVER}")
FOLDED_ROWS = 24  # a longer table is shown only when the reader opens it

Row = Sequence[object]


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    caption: str = "",
    *,
    is_bold: Callable[[Row], bool] = lambda row: False,
) -> Html:
    """The rows under the column titles. A column of numbers is aligned right; a table that is too wide scrolls."""
    right = ["n" if all(_is_number(row[i]) for row in rows) else None for i in range(len(columns))]
    head = element("tr", *(element("th", name, scope="col", class_=right[i]) for i, name in enumerate(columns)))
    body = (_table_row(row, right, "own" if is_bold(row) else None) for row in rows)
    text = join(element("strong", title), f". {caption}" if caption else "")
    table = element("table", element("caption", text), element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)


def _table_row(row: Row, alignments: Sequence[str | None], kind: str | None) -> Html:
    name, *values = row
    cells = (element("td", _cell(value), class_=right) for value, right in zip(values, alignments[1:], strict=True))
    return element("tr", element("th", _cell(name), scope="row", class_=alignments[0]), *cells, class_=kind)


def foldable_table(title: str, rows: Sequence[Mapping[str, object]]) -> Html:
    """Rows with named values, one column for each name. A table of more than FOLDED_ROWS rows is folded."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name) for name in columns] for row in rows]
    table = html_table(title, columns, cells, is_bold=lambda row: row[0] == "all")
    if len(rows) <= FOLDED_ROWS:
        return table
    return element("details", element("summary", f"{title}: {len(rows):,} rows"), table)


def value_table(title: str, values: Mapping[str, Any]) -> Html:
    """One row for each value of a nested mapping."""
    return html_table(title, ("name", "value"), list(flattened(values)))


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """(name, value) for each value of a nested mapping. The name joins the names on the path to the value."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{words(name)}, ")
        else:
            yield f"{prefix}{words(name)}", value


def words(name: str) -> str:
    """The name of a record's field in words: without n_ and with spaces."""
    return name.removeprefix("n_").replace("_", " ")


def first_byte(byte: int | None) -> str:
    """The cell for a crossing: the byte from which the model is ahead to the end."""
    return NEVER if byte is None else EVERYWHERE if byte == 0 else f"{byte:,}"


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
