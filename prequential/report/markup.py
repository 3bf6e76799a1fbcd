"""HTML and SVG markup in which every text is escaped, also control characters, which XML forbids: elements, tables, documents."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files

from prequential.printable import printable
from prequential.report.run_panels import STYLE_SHEET

NUMBER = re.compile(r"[+-]?[0-9][0-9,.]*( ?%)?|0: everywhere|never")
MARK = '<meta name="generator" content="prequential report">'  # by it, a later report knows that it may replace a page
SCRIPT = files(__package__).joinpath("page.js").read_text(encoding="utf-8")


class Html(str):
    """Markup. Any other string is text, which `element` and `join` escape."""


def element(tag: str, *content: str, **attributes: object) -> Html:
    """`<tag attributes>content</tag>`. Text and attribute values are escaped; markup is inserted unchanged.

    In the names of attributes a final _ is dropped, and others are hyphens. Those with the value None are omitted.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    start = "".join(f' {name}="{_escaped(str(value))}"' for name, value in pairs)
    return Html(f"<{tag}{start}>{join(*content)}</{tag}>")


def join(*content: str) -> Html:
    """The concatenated content as markup. Text is escaped."""
    return Html("".join(part if isinstance(part, Html) else _escaped(part) for part in content))


def _escaped(text: str) -> str:
    return html.escape(printable(text, multiline=True))


def folded(title: str, *content: Html) -> Html:
    """The content below a title that shows it when the reader opens it."""
    return element("details", element("summary", title), *content)


def html_document(title: str, body: Html) -> str:
    """A complete HTML document that loads nothing. No script runs in it but SCRIPT."""
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    # The encoding and this policy come before any text of a record.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{MARK}
{element("title", title)}
<style>{STYLE_SHEET}</style>
</head>
<body>
{element("main", body)}
<script>{SCRIPT}</script>
</body>
</html>
"""


# ---- tables


def html_table(title: str, rows: Sequence[Mapping[str, object]], caption: str = "", strong: int | None = None) -> Html:
    """A <figure> of a table, which scrolls if it is too wide, with its caption below. Columns of numbers are aligned right.

    rows: values under the titles of columns, of which the first one names the row. Columns without values are left out. strong:
    place of the row in bold type; -1: the last one, a sum, which stays there.
    """
    every = {name: [row[name] for row in rows] for name in rows[0]}
    columns = {name: column for name, column in every.items() if any(value is not None for value in column)}
    kinds = ["n" if i and all(map(_is_number, column)) else None for i, column in enumerate(columns.values())]
    head = (element("th", name, scope="col", class_=kind) for name, kind in zip(columns, kinds, strict=True))
    body = []
    for place, (name, *texts) in enumerate(zip(*map(_column, columns.values()), strict=True)):
        cells = (element("td", text, class_=kind) for text, kind in zip(texts, kinds[1:], strict=True))
        own = "own" if strong in (place, place - len(rows)) else None
        body.append(element("tr", element("th", name, scope="row"), *cells, class_=own))
    foot = [element("tfoot", body.pop())] if strong == -1 else []
    table = element("table", element("thead", element("tr", *head)), element("tbody", *body), *foot, aria_label=title)
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
    return element("figure", scroll, *([element("figcaption", caption)] if caption else []), class_="table")


def _column(values: Sequence[object]) -> list[str]:
    """The cells of a column. Numbers have the same decimals: none if all are integers, 2 if one is 10 or more, else 4."""
    numbers = [value for value in values if isinstance(value, int | float)]
    decimals = 2 if max(map(abs, numbers), default=0) >= 10 else 4
    return [_cell(value, decimals if any(isinstance(number, float) for number in numbers) else 0) for value in values]


def _cell(value: object, decimals: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{value:,.{decimals}f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return value is None or isinstance(value, int | float)
