"""The tables of where the bits went, each with its explanation and its plot."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prequential.evaluation import breakdown
from prequential.evaluation.breakdown_text import COUNTS, EXPLANATIONS
from prequential.report import run_panels
from prequential.report.markup import Html, element
from prequential.report.names import Look
from prequential.report.svg import html_figure
from prequential.report.tables import ALL, flattened, foldable_table, value_table, words

ROW_NAMES = {
    breakdown.POSITIONS: "bytes from-to", breakdown.DOCUMENTS: "document", breakdown.EXTENSIONS: "extension",
    breakdown.CLASSES: "kind of byte", breakdown.OCCURRENCES: "occurrence k", breakdown.LEARNING: "occurrence k",
    breakdown.WORDS: "how common", breakdown.COPIES: "bytes that are",
}  # fmt: skip
OTHER_NAMES = {
    "n_forgotten": "windows of 32 bytes that were forgotten to save memory",
    "n_untracked": "occurrences of words that were not tracked to save memory",
    "of": "quantiles",
}

Record = Mapping[str, Any]


def breakdowns(tables: Mapping[str, Any], look: Look) -> Iterator[Html]:
    """Every table of evaluation/breakdown.py: its rows, its plot if the rows follow occurrences, and its other values."""
    for name, table in tables.items():
        title, rows = words(name).capitalize(), table["rows"]
        explanation = EXPLANATIONS.get(name, "")
        if rows and all(row.get("n_bytes") and row.get("bits") for row in rows):
            yield foldable_table(title, _costs(rows, ROW_NAMES.get(name, "name"), look), explanation)
        else:
            yield foldable_table(title, [_flat_row(row) for row in rows], explanation)
        panel = run_panels.tail(table, f"{title}: bits/byte at the k-th", look)
        if panel.series:
            yield element("div", html_figure(panel), class_="plots")
        shown = ("rows", "fits")  # older versions fitted power laws
        rest = {OTHER_NAMES.get(key, key): value for key, value in table.items() if key not in shown and value}
        if rest:
            yield value_table(f"{title}: other values", rest)


def _costs(rows: Sequence[Record], name: str, look: Look) -> list[dict[str, object]]:
    """Rows with the same columns as on the command line, and the bits of the first part. Several rows have a row of sums."""
    parts = list(rows[0]["bits"])
    bits = {part: math.fsum(row["bits"][part] for row in rows) for part in parts}
    total = {"name": ALL, "n_bytes": sum(row["n_bytes"] for row in rows), "bits": bits}
    counts = {key: text for key, text in COUNTS.items() if any(key in row for row in rows)}
    return [
        {
            name: row["name"],
            "bytes": row["n_bytes"],
            "bits": row["bits"][parts[0]],
            "of bytes": f"{row['n_bytes'] / total['n_bytes']:.1%}",
            "of bits": f"{row['bits'][parts[0]] / (bits[parts[0]] or 1.0):.1%}",
            **{f"bits/byte, {look.label(part)}": row["bits"][part] / row["n_bytes"] for part in parts},
            **{text: row.get(key) for key, text in counts.items()},
        }
        for row in ([*rows, total] if len(rows) > 1 else rows)
    ]


def _flat_row(row: Record) -> dict[str, object]:
    return dict(flattened(row))
