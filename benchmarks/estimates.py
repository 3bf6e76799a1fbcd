"""The errors of estimates: writes the table of docs/MACHINES.md that compares them with measurements.

    python benchmarks/estimates.py

It reads the evaluations of benchmarks/results.jsonl and takes the newest of each file and preset that has an estimate.
`python benchmarks/results.py FILE...` appends more evaluations. Other programs that run on the machine distort the times.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from markdown_table import format_markdown
from results import is_current

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
PAGE = PROJECT / "docs" / "MACHINES.md"
BEGIN, END = "<!-- begin: benchmarks/estimates.py -->", "<!-- end: benchmarks/estimates.py -->"
FIGURES = {
    "compress_s": ("compress s", "{:.1f}"),
    "decompress_s": ("decompress s", "{:.1f}"),
    "peak_memory_bytes": ("peak memory, bytes", "{:,.0f}"),
    "archive_bytes": ("archive, bytes", "{:,.0f}"),
}

Record = dict[str, Any]


def main() -> int:
    """Writes the table."""
    write_table(PAGE, read(RECORDS))
    return 0


def errors(record: Record) -> dict[str, float | None]:
    """(estimated - actual) / actual of each figure; None for a figure that was not measured."""
    return {figure: record["estimate"][figure]["relative_error"] for figure in FIGURES}


def name(record: Record) -> str:
    return f"{record['corpus']['name']} {' '.join(record['options'])}"


def read(path: Path) -> list[Record]:
    """The newest record of each file and preset of today that has an estimate."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return list({name(r): r for r in records if r.get("estimate") and is_current(r)}.values())


def write_table(path: Path, records: list[Record]) -> None:
    """Replaces the text between the markers of the file at `path`."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{path} has no markers for the table"
    path.write_text(f"{before}{BEGIN}\n\n{table(records)}\n\n{END}{after}", encoding="utf-8")


def table(records: list[Record]) -> str:
    """Markdown: the estimates of each run with their errors, and the medians of the absolute errors."""
    rows = [
        [name(r), f"{r['corpus']['n_bytes']:,}", *(cell(r, *figure) for figure in FIGURES.items())] for r in records
    ]
    known = {figure: [abs(e) for r in records if (e := errors(r)[figure]) is not None] for figure in FIGURES}
    rows.append(["median error", "", *(f"{statistics.median(known[figure]):.1%}" for figure in FIGURES)])
    within = sum(r["estimate"]["archive_low"] <= r["archive_bytes"] <= r["estimate"]["archive_high"] for r in records)
    environments = sorted({(r["environment"]["machine"]["cpu"], r["environment"]["threads"]) for r in records})
    machines = "; ".join(f"{cpu}, {threads} threads" for cpu, threads in environments)
    titles = ("estimated (error)", "bytes", *(title for title, _ in FIGURES.values()))
    note = f"{within} of {len(records)} archives lie within the bounds of their size. Machine: {machines}."
    return f"{format_markdown(titles, rows)}\n\n{note}"


def cell(record: Record, figure: str, title_and_format: tuple[str, str]) -> str:
    """An estimate with its error, or with "-" if there is no measurement."""
    error = errors(record)[figure]
    shown = title_and_format[1].format(record["estimate"][figure]["estimated"])
    return f"{shown} (-)" if error is None else f"{shown} ({error:+.1%})"


if __name__ == "__main__":
    sys.exit(main())
