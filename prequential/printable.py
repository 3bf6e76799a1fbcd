"""Foreign text (names of files, fields of records, messages of libraries) in a form that cannot control a terminal."""

import re
from collections.abc import Sequence

# Control characters, marks that change the direction of text, ends of lines, unpaired surrogates, and no characters at all.
_UNSAFE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufffe\uffff"
_IN_LINE = re.compile(f"[{_UNSAFE}]")
_IN_TEXT = re.compile(rf"(?![\n\t])[{_UNSAFE}]")


def printable(text: str, *, multiline: bool = False) -> str:
    r"""The text as one line whose unsafe characters are escapes such as \x1b. multiline: newlines and tabs stay."""
    return (_IN_TEXT if multiline else _IN_LINE).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    letter = match[0]  # from DEL on, escapes as in JSON: json.dumps leaves a DEL as it is
    return ascii(letter)[1:-1] if letter < "\x7f" else f"\\u{ord(letter):04x}"


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their titles, two spaces apart: the first aligned left, the others right; printable, no final newline."""
    lines = [[printable(cell) for cell in cells] for cells in (titles, *rows)]
    first, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]).rstrip() for row in lines)
