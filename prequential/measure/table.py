"""Tables in plain text, and text that is safe for a terminal."""

from collections.abc import Sequence


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their titles, two spaces apart: the first aligned left, the others right. No final newline."""
    widths = [max(len(line[i]) for line in (titles, *rows)) for i in range(len(titles))]
    return "\n".join(_line(cells, widths) for cells in (titles, *rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    return "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()


def printable(text: str) -> str:
    """The text as one line that cannot control a terminal: control characters and unpaired surrogates become escapes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
