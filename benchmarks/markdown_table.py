"""Markdown tables for the documents that the benchmarks write."""

from collections.abc import Sequence


def format_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is aligned left, the others right. No final newline."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))
