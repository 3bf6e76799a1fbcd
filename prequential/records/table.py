"""Tables in plain text."""

from collections.abc import Sequence

from prequential.printable import printable


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their titles, two spaces apart: the first aligned left, the others right. Every cell is made printable.

    No final newline.
    """
    lines = [[printable(cell) for cell in cells] for cells in (titles, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    return "\n".join(_line(cells, widths) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    return "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
