"""Text for a terminal: it cannot control the terminal, and fits 80 columns."""

import re
import sys
from collections.abc import Sequence
from textwrap import fill

# Control characters, marks that change the direction of text, ends of lines, unpaired surrogates, and no characters at all.
_UNSAFE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufffe\uffff"
WIDTH = 80
LEAST_ROOM = 12  # of a column that is cut
_IN_LINE = re.compile(f"[{_UNSAFE}]")
_IN_TEXT = re.compile(rf"(?![\n\t])[{_UNSAFE}]")


def printable(text: str, *, multiline: bool = False) -> str:
    r"""The text as one line whose unsafe characters are escapes such as \x1b. multiline: newlines and tabs stay."""
    return (_IN_TEXT if multiline else _IN_LINE).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    letter = match[0]  # from DEL on, escapes as in JSON: json.dumps leaves a DEL as it is
    return ascii(letter)[1:-1] if letter < "\x7f" else f"\\u{ord(letter):04x}"


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, cut: int = 0, on_pipes: bool = False) -> str:
    """Columns under their titles, two spaces apart: the first aligned left, the others right; printable, no final newline.

    cut: the number of the column of names, which a terminal shows cut if the table would have more than WIDTH columns of letters.
    on_pipes: so does any output.
    """
    lines = [[printable(cell) for cell in cells] for cells in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if on_pipes or sys.stdout.isatty():
        room = max(LEAST_ROOM, WIDTH - sum(widths) - 2 * (len(widths) - 1) + widths[cut])
        for cells in lines:
            cells[cut] = _cut(cells[cut], room)
        widths[cut] = min(widths[cut], room)
    first, *others = widths
    return "\n".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in lines)


def _cut(cell: str, room: int) -> str:
    """Of a path, the end is kept."""
    if len(cell) <= room:
        return cell
    return f"…{cell[1 - room :]}" if "/" in cell else f"{cell[: room - 1]}…"


def wrapped(text: str) -> str:
    """The text, its lines broken at spaces after at most WIDTH columns. Rows of tables stay: they hold gaps of two spaces.

    Of a line with a name, a gap and a text, the text is broken, and its lines stand below each other.
    """
    return "\n".join(map(_wrapped, text.split("\n")))


def _wrapped(line: str) -> str:
    gaps = list(re.finditer(r"(?<=\S)  +", line))
    if len(line) <= WIDTH or len(gaps) > 1:
        return line
    margin = gaps[0].end() if gaps else 2
    broken = fill(line[margin:] if gaps else line, WIDTH - margin, break_long_words=False, break_on_hyphens=False)
    return (line[:margin] if gaps else "") + broken.replace("\n", "\n" + " " * margin)
