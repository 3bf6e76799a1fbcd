"""Run folders as text: the list of runs, and the report of one run with its crossings."""

from pathlib import Path
from typing import Any

from prequential.evaluation.runs import Run
from prequential.evaluation.summary import format_report, model_summary
from prequential.model.presets import name_of
from prequential.records.table import format_table

TITLES = ("run", "bytes", "model", "bits/byte", "kB/s", "verified")
MAX_COLUMNS = 100


def run_record(run: Run) -> dict[str, Any]:
    """The figures of a run for the list of runs, as JSON values. Raises CorpusError if the record is incomplete."""
    record = run.record
    return {
        "run": str(run.path),
        "corpus": record["corpus"].get("name"),
        "n_bytes": record["corpus"]["n_bytes"],
        "blake2b": record["corpus"]["blake2b"],
        "model": name_of(record["config"]) or model_summary(record["config"]),
        "archive_bytes": record["archive_bytes"],
        "bits_per_byte": record["bits_per_byte"],
        "bytes_per_s": record["bytes_per_s"],
        "verified": record["verified"],
        "time": record["time"],
    }


def format_runs(records: list[dict[str, Any]]) -> str:
    """A table with one row for each `run_record`, at most MAX_COLUMNS wide unless the names of runs are very long."""
    rows = [_row(record) for record in records]
    widths = [max(map(len, column)) for column in zip(TITLES, *rows, strict=True)]
    n_model = max(12, MAX_COLUMNS - (sum(widths) + 2 * (len(widths) - 1) - widths[2]))
    for row in rows:
        row[2] = row[2] if len(row[2]) <= n_model else f"{row[2][: n_model - 1]}…"
    return format_table(TITLES, rows)


def format_run(run: Run) -> str:
    """The report of the evaluation, and the crossings. Raises CorpusError if the record is incomplete."""
    return f"{format_report(run.record)}\n\n{_crossings(run.record)}"


def _row(record: dict[str, Any]) -> list[str]:
    return [
        Path(record["run"]).name,
        f"{record['n_bytes']:,}",
        record["model"],
        f"{record['bits_per_byte']:.4f}",
        f"{record['bytes_per_s'] / 1e3:,.2f}",
        "yes" if record["verified"] else "no",
    ]


def _crossings(record: dict[str, Any]) -> str:
    """The byte from which on the model's archive stays below each baseline's size."""
    labels = {baseline["name"]: baseline["label"] for baseline in record["baselines"]}
    rows = [
        [labels.get(name, name), "never" if byte is None else f"{byte:,}"] for name, byte in record["crossings"].items()
    ]
    return format_table(("the model is below", "from byte"), rows)
