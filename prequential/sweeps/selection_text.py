"""A data selection as text: how much was chosen, and the two ends of the order."""

from collections.abc import Sequence
from typing import Any

from prequential.records.table import format_table
from prequential.sweeps.selection import Choice

MAX_ROWS = 10  # half of them from each end


def format_selection(record: dict[str, Any], choices: Sequence[Choice]) -> str:
    """The `selection_record` as one line, then a table of choices."""
    half = MAX_ROWS // 2
    n_hidden = max(0, len(choices) - MAX_ROWS)
    shown = choices if len(choices) <= MAX_ROWS else [*choices[:half], *choices[-half:]]
    rows = [
        [
            choice.scored.document.name,
            str(choice.rank),
            f"{choice.scored.document.n_bytes:,}",
            f"{choice.scored.bits:,.1f}",
            f"{choice.scored.score:.4f}",
            "*" if choice.selected else "",
        ]
        for choice in shown
    ]
    return (
        f"{record['n_selected']:,} of {record['n_documents']:,} documents chosen, {record['selected_bytes']:,} of "
        f"{record['budget_bytes']:,} bytes, by {record['by']}, {record['order']} first\n\n"
        + format_table(("document", "rank", "bytes", "bits", "bits/byte", "chosen"), rows)
        + (f"\n\n{n_hidden:,} more ranks between these: -o FILE writes all" if n_hidden else "")
    )
