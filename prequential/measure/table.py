"""Tables in plain text: for a terminal, and for Markdown as they stand."""

from collections.abc import Sequence


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart under their titles, the first to the left, the others to the right; no final newline."""
    widths = [max(len(line[i]) for line in (titles, *rows)) for i in range(len(titles))]
    return "\n".join(_line(cells, widths) for cells in (titles, *rows))


def format_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    return "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()


def printable(text: str) -> str:
    """One line that cannot command a terminal: what a stranger named may hold control characters or halves of pairs."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
