"""How far estimates are from what runs then took: writes the table of docs/ESTIMATE.md.

    python benchmarks/estimates.py

It reads the evaluations of benchmarks/results.jsonl, of which `python benchmarks/results.py FILE...` makes more: the newest
of each file and preset that has an estimate. Other work on the machine spoils times.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from prequential.measure.table import format_markdown

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
PAGE = PROJECT / "docs" / "ESTIMATE.md"
BEGIN, END = "<!-- begin: benchmarks/estimates.py -->", "<!-- end: benchmarks/estimates.py -->"
FIGURES = {
    "compress_s": ("compress s", "{:.1f}"),
    "decompress_s": ("decompress s", "{:.1f}"),
    "peak_memory_bytes": ("peak memory", "{:,.0f}"),
    "archive_bytes": ("archive", "{:,.0f}"),
}

Record = dict[str, Any]


def main() -> int:
    """Renews the table."""
    write_table(PAGE, read(RECORDS))
    return 0


def errors(record: Record) -> dict[str, float]:
    """(estimated - actual) / actual of each figure."""
    return {figure: record["estimate"][figure]["relative_error"] for figure in FIGURES}


def read(path: Path) -> list[Record]:
    """The newest record of each file, limit and level; none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return list({(r["corpus"]["blake2b"], r["level"]): r for r in map(json.loads, lines)}.values())


def write_table(path: Path, records: list[Record]) -> None:
    """Replaces what stands between the markers of the file at `path`."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{path} has no place for the table"
    path.write_text(f"{before}{BEGIN}\n\n{table(records)}\n\n{END}{after}", encoding="utf-8")


def table(records: list[Record]) -> str:
    """Markdown: each run's estimates and errors, and medians of the errors without their sign."""
    if not records:
        return "No runs yet."
    rows = [
        [f"{r['corpus']['name']} -{r['level']}", f"{r['corpus']['n_bytes']:,}", *map(cell, pairs(r))] for r in records
    ]
    medians = [statistics.median(abs(errors(r)[figure]) for r in records) for figure in FIGURES]
    rows.append(["median error", "", *(f"{median:.1%}" for median in medians)])
    within = sum(r["estimate"]["archive_low"] <= r["archive_bytes"] <= r["estimate"]["archive_high"] for r in records)
    environments = sorted({(r["environment"]["machine"]["cpu"], r["environment"]["threads"]) for r in records})
    made = "; ".join(f"{cpu}, {threads} threads" for cpu, threads in environments)
    titles = ("estimated (error)", "bytes", *(title for title, _ in FIGURES.values()))
    note = f"{within} of {len(records)} archives lie within the bounds of their size. Machine: {made}."
    return f"{format_markdown(titles, rows)}\n\n{note}"


def pairs(record: Record) -> list[tuple[str, float, float]]:
    """(format, estimated, relative error) of each figure."""
    return [
        (form, record["estimate"][figure]["estimated"], record["estimate"][figure]["relative_error"])
        for figure, (_, form) in FIGURES.items()
    ]


def cell(pair: tuple[str, float, float]) -> str:
    """An estimate with its error."""
    form, estimated, error = pair
    return f"{form.format(estimated)} ({error:+.1%})"


if __name__ == "__main__":
    sys.exit(main())
