"""HTML and SVG markup in which every text is escaped.

XML forbids most control characters, also as references, so they become escapes such as \\x1b.
"""

import html

from prequential.printable import printable


class Html(str):
    """Markup. Any other string is text, which `element` and `join` escape."""


def element(tag: str, *content: str, **attributes: object) -> Html:
    """`<tag attributes>content</tag>`. Text and attribute values are escaped; markup is inserted unchanged.

    In attribute names a final _ is dropped and every other _ becomes a hyphen. An attribute with the value None is omitted.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    start = "".join(f' {name}="{_escaped(str(value))}"' for name, value in pairs)
    return Html(f"<{tag}{start}>{join(*content)}</{tag}>")


def join(*content: str) -> Html:
    """The concatenated content as markup. Text is escaped."""
    return Html("".join(part if isinstance(part, Html) else _escaped(part) for part in content))


def _escaped(text: str) -> str:
    return html.escape(printable(text, multiline=True))
