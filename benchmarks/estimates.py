"""The errors of estimates: writes the table of docs/MACHINES.md that compares them with measurements.

    python benchmarks/estimates.py

It reads the evaluations of benchmarks/results.jsonl and takes the newest of each file and preset that has an estimate.
`python benchmarks/results.py FILE...` appends more evaluations. Other programs that run on the machine distort the times.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from markdown_table import format_markdown
from results import is_current, read, write_between

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
PAGE = PROJECT / "docs" / "MACHINES.md"
BEGIN, END = "<!-- begin: benchmarks/estimates.py -->", "<!-- end: benchmarks/estimates.py -->"
TITLES = ("preset", "runs", "compress s", "decompress s", "peak memory")
FIGURES = ("compress_s", "decompress_s", "peak_memory_bytes")

Record = dict[str, Any]


def main() -> int:
    """Writes the table."""
    write_between(PAGE, BEGIN, table(estimated(read(RECORDS))), END)
    return 0


def estimated(records: list[Record]) -> list[Record]:
    """The newest record of each file and preset of today that has an estimate."""
    found = [record for record in records if record.get("estimate") and is_current(record)]
    return list({(record["corpus"]["name"], preset(record)): record for record in found}.values())


def preset(record: Record) -> str:
    """The options that chose the learner."""
    return " ".join(record["options"])


def table(records: list[Record]) -> str:
    """Markdown: the medians of the absolute errors of each preset, and of all."""
    groups = {name: [r for r in records if preset(r) == name] for name in sorted({preset(r) for r in records})}
    rows = [cells(name, group) for name, group in (*groups.items(), ("all", records))]
    environments = sorted({(r["environment"]["machine"]["cpu"], r["environment"]["threads"]) for r in records})
    machines = "; ".join(f"{cpu}, {threads} threads" for cpu, threads in environments)
    return f"{format_markdown(TITLES, rows)}\n\nMachines: {machines}."


def cells(name: str, records: list[Record]) -> list[str]:
    """One row: the number of runs, the median of |estimated - actual| / actual of each figure."""
    return [name, f"{len(records)}", *(median_error(records, figure) for figure in FIGURES)]


def median_error(records: list[Record], figure: str) -> str:
    """The median over the records that measured the figure, as a percentage; "-" if none did."""
    errors = [abs(e) for r in records if (e := r["estimate"][figure]["relative_error"]) is not None]
    return f"{statistics.median(errors):.1%}" if errors else "-"


if __name__ == "__main__":
    sys.exit(main())
