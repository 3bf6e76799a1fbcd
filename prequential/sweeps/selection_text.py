"""A data selection as text: how much was chosen, and the two ends of the order."""

from collections.abc import Mapping, Sequence
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


def selection_record(request: Mapping[str, Any], choices: Sequence[Choice], n_documents: int) -> dict[str, Any]:
    """The complete selection. request: what was asked for. n_documents: of the corpus, empty ones included.

    Equal arguments give equal records: nothing in them depends on the machine or the time.
    """
    chosen = [choice.scored for choice in choices if choice.selected]
    return {
        "schema": 1,
        "kind": "selection",
        **request,
        "n_documents": len(choices),
        "n_empty": n_documents - len(choices),
        "n_selected": len(chosen),
        "selected_bytes": sum(scored.document.n_bytes for scored in chosen),
        "code_bits": sum(choice.scored.code_bits for choice in choices),
    }


def choice_record(choice: Choice) -> dict[str, Any]:
    """One document of a selection."""
    rank, scored, selected = choice
    return {
        "kind": "document",
        "rank": rank,
        "name": scored.document.name,
        "start": scored.document.offset,
        "n_bytes": scored.document.n_bytes,
        "bits": scored.bits,
        "code_bits": scored.code_bits,
        "score": scored.score,
        "selected": selected,
    }
