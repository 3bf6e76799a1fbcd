"""prequential runs: what there is in a folder of runs, and one of them as `evaluate` printed it."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli.options import add_verbosity

if TYPE_CHECKING:
    from prequential.measure.evaluation.runs import Run

TITLES = ("run", "corpus", "bytes", "model", "bits/byte", "kB/s", "verified", "time")
DEFAULT_FOLDER = "runs"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand and its own two."""
    parser = commands.add_parser(
        "runs", help="list and show earlier evaluations", description="List and show earlier evaluations."
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list", help="all runs in a folder", description="List all runs in a folder, oldest first."
    )
    listing.add_argument("folder", nargs="?", metavar="FOLDER", help=f"folder of runs (default: {DEFAULT_FOLDER})")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(run=list_runs)
    showing = actions.add_parser("show", help="one run", description="Show one run as `evaluate` printed it.")
    showing.add_argument("name", metavar="RUN", help="run folder")
    showing.add_argument("--json", action="store_true", help="the record, one JSON object")
    showing.set_defaults(run=show_run)
    for action in (listing, showing):
        add_verbosity(action)


def list_runs(args: argparse.Namespace) -> int:
    """Prints a row for each run."""
    from prequential.errors import CorpusError
    from prequential.measure.evaluation.runs import interrupted_runs, read_runs
    from prequential.measure.table import format_table

    if args.folder is not None and not Path(args.folder).is_dir():
        raise CorpusError(f"{args.folder!r} is no folder of runs")
    folder = args.folder or DEFAULT_FOLDER
    entries = [describe(run) for run in read_runs(folder)]
    if args.json:
        for entry in entries:
            print(json.dumps(entry))
    else:
        print(format_table(TITLES, [_row(entry) for entry in entries]))
    if not args.quiet:
        for draft in interrupted_runs(folder):
            print(f"prequential: unfinished: evaluate --resume {draft} goes on, if it does not run", file=sys.stderr)
    return 0


def describe(run: "Run") -> dict[str, Any]:
    """The figures of the list, as JSON values. Raises CorpusError for a record that is not whole."""
    from prequential.errors import CorpusError
    from prequential.measure.evaluation.summary import model_summary

    record = run.record
    try:
        return {
            "run": str(run.path),
            "corpus": record["corpus"].get("name"),
            "n_bytes": record["corpus"]["n_bytes"],
            "blake2b": record["corpus"]["blake2b"],
            "model": model_summary(record["config"]),
            "archive_bytes": record["archive_bytes"],
            "bits_per_byte": record["bits_per_byte"],
            "bytes_per_s": record["bytes_per_s"],
            "verified": record["verified"],
            "time": record["time"],
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise CorpusError(f"{str(run.path)!r} is no whole run: {type(error).__name__}: {error}") from error


def _row(entry: dict[str, Any]) -> list[str]:
    from prequential.measure.table import printable

    return [
        printable(Path(entry["run"]).name),
        printable(str(entry["corpus"] or "bytes")),
        f"{entry['n_bytes']:,}",
        printable(entry["model"]),
        f"{entry['bits_per_byte']:.4f}",
        f"{entry['bytes_per_s'] / 1e3:,.2f}",
        "yes" if entry["verified"] else "no",
        printable(entry["time"]),
    ]


def show_run(args: argparse.Namespace) -> int:
    """Prints the report, and from which byte on the model lay below each baseline."""
    from prequential.errors import CorpusError
    from prequential.measure.evaluation.runs import read_run
    from prequential.measure.evaluation.summary import format_report

    record = read_run(args.name).record
    if args.json:
        print(json.dumps(record))
        return 0
    try:
        text = f"{format_report(record)}\n\n{format_crossings(record)}"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorpusError(f"{args.name!r} is no whole run: {type(error).__name__}: {error}") from error
    print(text)
    return 0


def format_crossings(record: dict[str, Any]) -> str:
    """From which byte on the model's ideal code length lies below each baseline's size, to the end."""
    from prequential.measure.table import format_table

    labels = {baseline["name"]: baseline["label"] for baseline in record["baselines"]}
    crossings = record["crossings"].items()
    return format_table(
        ("the model is below", "from byte"), [[labels.get(name, name), _from_byte(byte)] for name, byte in crossings]
    )


def _from_byte(byte: int | None) -> str:
    return "never" if byte is None else f"{byte:,}"
