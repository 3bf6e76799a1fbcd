"""HTML and SVG markup in which every text is escaped, also control characters, which XML forbids: elements, tables, documents."""

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files

from prequential.printable import printable
from prequential.report.run_panels import LIGHT, LINE_COLOURS, Table

DARK = {
    "ink": "#e8e8e8", "soft": "#a8a8a8", "rule": "#3d4045", "paper": "#15171a", "tint": "#1f2226", "link": "#7db8f0",
    "shadow": "#000c",
    "s0": "#fff", "s1": "#4aa8f0", "s2": "#ff9350", "s3": "#3fce86", "s4": "#f07ad6", "s5": "#9d8bff", "s6": "#ff6b8a",
    "s7": "#d3c640", "s8": "#c99a78", "s9": "#3fcad2", "s10": "#c7669f", "s11": "#94a6ba", "s12": "#b4c6ff", "s13": "#b2e06a",
    "s14": "#ffa9a0", "s15": "#d3a5ff", "s16": "#ffd676",
    "h0": "#15171a", "h1": "#2a2118", "h2": "#43301c", "h3": "#61401f", "h4": "#854f21", "h5": "#9a4f1d",
}  # fmt: skip
EVERYWHERE, NEVER = "0: everywhere", "never"
_PLAIN = r"[+-]?[0-9,]+(\.[0-9]+)?"
NUMBER = re.compile(rf"{_PLAIN}(( ±| to) {_PLAIN})?( ?%)?|{EVERYWHERE}|{NEVER}")


MARK = '<meta name="generator" content="prequential report">'  # by it, a later report knows that it may replace a page


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


def heading(level: str, sentence: str) -> Html:
    """A heading in which no line ends between a figure and its unit."""
    return element(level, re.sub("(?<=[0-9]) (?=[%b±])|(?<=±) ", "\u00a0", sentence))


def folded(title: str, *content: Html) -> Html:
    """The content below a title that shows it when the reader opens it."""
    return element("details", element("summary", title), *content)


def html_document(title: str, body: Html) -> str:
    """A complete HTML document that loads nothing."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
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
<style>{_page_style()}</style>
</head>
<body>
{element("main", body)}
</body>
</html>
"""


def _page_style() -> str:
    """The colours in light and dark, and page.css, which uses them."""
    light, dark = (" ".join(f"--{name}: {colour};" for name, colour in each.items()) for each in (LIGHT, DARK))
    lines = (f".s{i} {{ stroke: var(--s{i}); }}\n.t{i} {{ color: var(--s{i}); }}\n" for i in range(len(LINE_COLOURS)))
    costs = (f".{name} {{ background: var(--{name}); }}\n" for name in LIGHT if re.fullmatch("h[0-9]", name))
    rules = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return f""":root {{ color-scheme: light dark; {light} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
{"".join(costs)}{rules}{"".join(lines)}"""


# ---- tables


def html_table(table: Table) -> Html:
    """The table as a <figure> with its caption below. One that is too wide scrolls. Columns of numbers are aligned right."""
    n_narrow = table.n_narrow or len(table.columns)
    kinds = [  # n: aligned right; wide: not on narrow pages
        " ".join(["n"] * (i > 0 and all(map(_is_number, column))) + ["wide"] * (i >= n_narrow)) or None
        for i, column in enumerate(table.columns.values())
    ]
    names = zip(table.columns, kinds, strict=True)
    head = element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in names))
    rows = list(zip(*map(_column, table.columns.values()), strict=True))
    body = (_table_row(texts, kinds, "own" if i in table.strong else None) for i, texts in enumerate(rows))
    cells = element("table", element("thead", head), element("tbody", *body), aria_label=table.title)
    scroll = element("div", cells, class_="scroll", tabindex=0, role="region", aria_label=table.title)
    caption = [element("figcaption", table.caption)] if table.caption else []
    return element("figure", scroll, *caption, class_="table")


def _table_row(texts: Sequence[str], kinds: Sequence[str | None], of_row: str | None) -> Html:
    cells = (element("td", value, class_=kind) for value, kind in zip(texts[1:], kinds[1:], strict=True))
    return element("tr", element("th", texts[0], scope="row"), *cells, class_=of_row)


def _column(values: Sequence[object]) -> list[str]:
    """The cells of a column. Numbers have the same decimals: none if all are integers, 2 if one is 100 or more, else 4."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    decimals = 2 if max(map(abs, numbers), default=0) >= 100 else 4
    if not any(isinstance(number, float) for number in numbers):
        decimals = 0
    return [_cell(value, decimals) for value in values]


def _cell(value: object, decimals: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.{decimals}f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def first_byte(byte: int | None) -> str:
    """The cell for a crossing: the byte from which the model is ahead to the end."""
    return NEVER if byte is None else EVERYWHERE if byte == 0 else f"{byte:,}"


def words(name: str) -> str:
    """The name of a record's field in words: without n_ and with spaces."""
    return name.removeprefix("n_").replace("_", " ")
