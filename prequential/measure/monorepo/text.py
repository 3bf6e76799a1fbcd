"""A point of a series as a person reads it, from its record: the window first, then the held-out measurement, then by kind."""

from typing import Any

from prequential.measure.heldout.text import format_heldout
from prequential.measure.monorepo.monorepo import LOSSES
from prequential.measure.table import format_table, printable

Record = dict[str, Any]


def format_point(record: Record) -> str:
    """The commits, everything that a held-out measurement says, new files and added lines, and others behind the tree."""
    window, train, setting = record["test"], record["train"], record["setting"]
    model = "one model for the whole series" if setting["fixed"] else "a model of its own"
    until = f"{window['until'][:12]} ({window['until_date']})"
    lines = [
        f"window: {window['n_commits']} commits after {window['since'][:12]}, up to {until}",
        f"trained on: the tree at {train['until'][:12]} ({train['until_date']}); {model}",
    ]
    parts = ["\n".join(map(printable, lines)), format_heldout(record), _kinds(record), _behind(record)]
    return "\n\n".join(part for part in parts if part)


def _kinds(record: Record) -> str:
    rows = [
        [group["name"], f"{group['n_documents']:,}", f"{group['n_bytes']:,}"]
        + [f"{record[loss]['kinds'][i]['bits_per_byte']:.4f}" for loss in LOSSES]
        for i, group in enumerate(record["frozen"]["kinds"])
    ]
    return format_table(("kind", "documents", "bytes", *LOSSES), rows)


def _behind(record: Record) -> str:
    n_bytes = record["test"]["n_bytes"]
    rows = [("dynamic, all bytes", record["dynamic"]["total"]["bits"])]
    rows += [(each["label"], 8.0 * each["compressed_bytes"]) for each in record["behind"]]
    cells = [[printable(name), f"{bits:,.0f}", f"{bits / n_bytes:.4f}"] for name, bits in rows]
    return format_table(("behind the training bytes", "bits", "bits/byte"), cells)
