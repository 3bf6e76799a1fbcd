"""Tables of the HTML page, and how values of a record become their cells."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prequential.report.markup import Html, element, join

EVERYWHERE, NEVER = "0: everywhere", "never"
ALL = "all"  # the name of a row of sums
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
    """The rows under the column titles. The first column names the rows. Others of numbers are aligned right.

    A column has one precision. A table that is too wide scrolls; its title and caption do not.
    """
    right = ["n" if i and all(_is_number(row[i]) for row in rows) else None for i in range(len(columns))]
    head = element("tr", *(element("th", name, scope="col", class_=right[i]) for i, name in enumerate(columns)))
    cells = zip(*(_column([row[i] for row in rows]) for i in range(len(columns))), strict=True)
    body = (_table_row(texts, right, "own" if is_bold(row) else None) for texts, row in zip(cells, rows, strict=True))
    text = join(element("strong", title), f". {caption}" if caption else "")
    table = element("table", element("thead", head), element("tbody", *body), aria_label=title)
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
    return element("figure", element("figcaption", text), scroll, class_="table")


def _table_row(texts: Sequence[str], alignments: Sequence[str | None], kind: str | None) -> Html:
    name, *values = texts
    cells = (element("td", value, class_=right) for value, right in zip(values, alignments[1:], strict=True))
    return element("tr", element("th", name, scope="row", class_=alignments[0]), *cells, class_=kind)


def _column(values: Sequence[object]) -> list[str]:
    """The cells of a column. Numbers have the same decimals: none if all are integers, 2 if one is 100 or more, else 4."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    decimals = 2 if max(map(abs, numbers), default=0) >= 100 else 4
    if not any(isinstance(number, float) for number in numbers):
        decimals = 0
    return [_cell(value, decimals) for value in values]


def foldable_table(title: str, rows: Sequence[Mapping[str, object]], caption: str = "") -> Html:
    """Rows with named values, one column for each name. A table of more than FOLDED_ROWS rows is folded."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name) for name in columns] for row in rows]
    table = html_table(title, columns, cells, caption, is_bold=lambda row: row[0] == ALL)
    return table if len(rows) <= FOLDED_ROWS else folded(f"{title}: {len(rows):,} rows", table)


def folded(title: str, *content: Html) -> Html:
    """The content below a title that shows it when the reader opens it."""
    return element("details", element("summary", title), *content)


def value_table(title: str, values: Mapping[str, Any]) -> Html:
    """One row for each value of a nested mapping."""
    return html_table(title, ("name", "value"), [(name, *_column([value])) for name, value in flattened(values)])


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


def _cell(value: object, decimals: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.{decimals}f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
