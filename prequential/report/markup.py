"""HTML and SVG markup in which every text is escaped."""

import html


class Html(str):
    """Markup. Any other string is text, which `element` and `join` escape."""


def element(tag: str, *content: str, **attributes: object) -> Html:
    """`<tag attributes>content</tag>`. Text and attribute values are escaped; markup is inserted unchanged.

    In attribute names a final _ is dropped and every other _ becomes a hyphen. An attribute with the value None is omitted.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    start = "".join(f' {name}="{html.escape(str(value))}"' for name, value in pairs)
    return Html(f"<{tag}{start}>{join(*content)}</{tag}>")


def join(*content: str) -> Html:
    """The concatenated content as markup. Text is escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in content))
