"""List, show and pack earlier evaluations (docs/MEASURES.md)."""

import argparse
import json
import shlex
import sys
from pathlib import Path

from prequential.cli import options
from prequential.cli.streams import EXIT_FAILURE, fitted, report_failure
from prequential.errors import CorpusError
from prequential.printable import printable

DEFAULT_FOLDER = "runs"


def add_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="{list,show,pack}", required=True)
    listing = actions.add_parser("list", help="all runs in a folder", description="List all runs, the oldest first.")
    folder = f"folder of runs, or file of packed runs (default: {DEFAULT_FOLDER})"
    listing.add_argument("folder", nargs="?", metavar="FOLDER", help=folder)
    showing = actions.add_parser("show", help="one run", description="Show one run as `evaluate` printed it.")
    showing.add_argument("name", metavar="RUN", help=options.RUN)
    showing.set_defaults(runs_of=("name",))
    what = "Write the records and curves of all runs in a folder into one text file, which is read like that folder."
    packing = actions.add_parser("pack", help="all runs of a folder in one file", description=what)
    packing.add_argument("folder", metavar="FOLDER", help="folder of runs")
    packing.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write")
    options.add(packing, options.FORCE)
    for action, command in ((listing, list_runs), (showing, show_run), (packing, pack_runs)):
        options.add(action, options.VERBOSITY | ({} if action is packing else options.JSON))
        action.set_defaults(run=command, parser=action)


def list_runs(args: argparse.Namespace) -> int:
    """Prints a row for each run, and on stderr the interrupted evaluations."""
    from prequential.evaluation.runs import interrupted_runs, runs_so_far, unfinished_trainings
    from prequential.evaluation.summary import format_runs, run_figures

    if args.folder is not None and not Path(args.folder).exists():
        raise CorpusError(f"{args.folder!r} is not a runs folder: there is no such folder")
    folder = args.folder or DEFAULT_FOLDER
    records, bad = [], list[CorpusError]()
    for run in runs_so_far(folder, bad.append):
        try:
            records.append(run_figures(run.path, run.record))
        except CorpusError as error:
            bad.append(error)
    print(
        "".join(json.dumps(record) + "\n" for record in records) if args.json else format_runs(records) + "\n", end=""
    )
    if not args.quiet:
        for draft in interrupted_runs(folder):
            command = f"prequential evaluate CORPUS --resume {printable(shlex.quote(str(draft)))}"
            note = "with the corpus and the options of that run, resumes it, unless it is still running"
            print(f"prequential: unfinished: `{command}`, {note}", file=sys.stderr)
        for draft, so_far in unfinished_trainings(folder):
            rate = f"{so_far['code_bits'] / max(1, so_far['n_bytes']):.4f} bits/byte of {so_far['n_bytes']:,} bytes"
            what = f"{str(draft)!r}, training run {so_far['name']!r}, {so_far['n_steps']:,} steps, {rate}"
            note = "load_state_dict of its Recorder continues it, unless it is still running"
            print(printable(f"prequential: unfinished: {what}; {note}"), file=sys.stderr)
    for reason in {str(error): error for error in bad}.values():
        report_failure(None, reason, verbose=args.verbose)
    return EXIT_FAILURE if bad else 0


def show_run(args: argparse.Namespace) -> int:
    """Prints the report of a run, and from which byte the model is below each baseline."""
    from prequential.evaluation.runs import read_run
    from prequential.evaluation.summary import format_run

    run = read_run(args.name)
    print(json.dumps(run.record) if args.json else fitted(format_run(run.record, run.path, run.split())))
    return 0


def pack_runs(args: argparse.Namespace) -> int:
    """Writes the file of packed runs, and prints how many there are."""
    from prequential.evaluation import runs

    packed = runs.pack_runs(args.folder, args.output, overwrite=args.force)
    if not args.quiet:
        print(f"{len(packed)} runs packed into {printable(args.output)}")
        if any(run.record.get("passages") for run in packed):
            print("prequential: the records hold passages of the corpora, up to 2,400 bytes each", file=sys.stderr)
    return 0
