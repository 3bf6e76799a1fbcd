"""A point of a series as text, from its record: the window, the held-out measurement, the kinds, the conditional sizes."""

from typing import Any

from prequential_corpora.git.window import GitCorpus

from prequential.heldout_loss.heldout_text import format_heldout
from prequential.monorepo_loss.monorepo import LOSSES, reasons
from prequential.printable import printable
from prequential.records.table import format_table

Record = dict[str, Any]


def format_point(record: Record) -> str:
    """The commits, the held-out measurement, new files and added lines, and other compressors after the training bytes."""
    window, train, setting = record["test"], record["train"], record["setting"]
    model = "one model for the complete series" if setting["fixed"] else "a new model for each point"
    until = f"{window['until'][:12]} ({window['until_date']})"
    lines = [
        f"window: {window['n_commits']} commits after {window['since'][:12]}, up to {until}",
        f"trained on: the tree at {train['until'][:12]} ({train['until_date']}); {model}",
    ]
    parts = ["\n".join(map(printable, lines)), format_heldout(record), _kinds(record), _conditional_sizes(record)]
    return "\n\n".join(part for part in parts if part)


def format_empty_window(window: GitCorpus) -> str:
    """One line that says that a window has nothing to score, and why its files were left out."""
    n_commits, since = window.origin["n_commits"], str(window.origin["since"])[:12]
    excluded = reasons(window.excluded)
    return f"{printable(window.name)}: {n_commits} commits after {since} have nothing to score{excluded}; nothing is appended"


def _kinds(record: Record) -> str:
    rows = [
        [group["name"], f"{group['n_documents']:,}", f"{group['n_bytes']:,}"]
        + [f"{record[loss]['kinds'][i]['bits_per_byte']:.4f}" for loss in LOSSES]
        for i, group in enumerate(record["frozen"]["kinds"])
    ]
    return format_table(("kind", "documents", "bytes", *LOSSES), rows)


def _conditional_sizes(record: Record) -> str:
    n_bytes = record["test"]["n_bytes"]
    rows = [("dynamic, all bytes", record["dynamic"]["total"]["bits"])]
    rows += [(size["label"], 8.0 * size["compressed_bytes"]) for size in record["behind"]]
    cells = [[name, f"{bits:,.0f}", f"{bits / n_bytes:.4f}"] for name, bits in rows]
    return format_table(("after the training bytes", "bits", "bits/byte"), cells)
