"""List, show and pack earlier evaluations (docs/MEASURES.md)."""

import argparse
import shlex
import sys
from pathlib import Path
from time import sleep
from typing import Any

from prequential.cli import options
from prequential.cli.options import Command, Group
from prequential.cli.streams import EXIT_FAILURE, print_result, report_failure
from prequential.errors import CorpusError
from prequential.printable import printable

FOLLOW_S = 1.0  # between two looks at an unfinished run


def list_runs(args: argparse.Namespace) -> int:
    """Prints a row for each run, and on stderr the interrupted evaluations."""
    from prequential.evaluation.runs import interrupted_runs, runs_so_far, unfinished_trainings
    from prequential.evaluation.summary import format_runs, run_figures

    folder = args.folder
    if folder != args.parser.get_default("folder") and not Path(folder).exists():
        raise CorpusError(f"{folder!r} is not a runs folder: there is no such folder")
    records, bad = [], list[CorpusError]()
    for run in runs_so_far(folder, bad.append):
        try:
            records.append(run_figures(run.path, run.record))
        except CorpusError as error:
            bad.append(error)
    names = "\n".join(record["run"] for record in records)
    print_result(args, format_runs(records), *records, figure=names, rows=lambda: records)
    unfinished = []
    for draft in interrupted_runs(folder):
        command = f"prequential evaluate CORPUS --resume {printable(shlex.quote(str(draft)))}"
        unfinished.append(f"`{command}`, with the corpus and the options of that run, resumes it")
    for draft, so_far in unfinished_trainings(folder):
        rate = f"{so_far['code_bits'] / max(1, so_far['n_bytes']):.4f} bits/byte of {so_far['n_bytes']:,} bytes"
        what = f"{str(draft)!r}, training run {so_far['name']!r}, {so_far['n_steps']:,} steps, {rate}"
        unfinished.append(f"{what}; load_state_dict of its Recorder continues it")
    for note in unfinished if not args.quiet else ():
        print(printable(f"prequential: unfinished: {note}, unless it is still running"), file=sys.stderr)
    for reason in {str(error): error for error in bad}.values():
        report_failure(None, reason, verbose=args.verbose)
    return EXIT_FAILURE if bad else 0


def show_run(args: argparse.Namespace) -> int:
    """Prints the report of a run, and from which byte the model is below each baseline."""
    from prequential.evaluation.runs import read_run
    from prequential.evaluation.summary import format_run

    if args.follow:
        return _follow(args.name, Path(args.runs))
    run = read_run(args.name)
    figure = f"{run.record['bits_per_byte']:.4f}"
    print_result(args, format_run(run.record, run.path, run.split()), run.record, figure=figure)
    return 0


def _follow(name: str, folder: Path) -> int:
    """Prints a line for each reading of an unfinished training run, until it ends. name: of its learner, or of its draft."""
    from prequential.evaluation.runs import unfinished_trainings

    def so_far() -> dict[str, Any] | None:
        drafts = unfinished_trainings(folder)
        known = [values for path, values in drafts if name in (values["name"], path.name, str(path))]
        return max(known, key=lambda values: values["time"], default=None)

    values, last = so_far(), -1
    if values is None:
        raise CorpusError(f"no unfinished training run {name!r} in {str(folder)!r}")
    while values is not None:
        if values["n_steps"] != last:
            last, rate = values["n_steps"], values["code_bits"] / max(1, values["n_bytes"])
            print(f"{values['time']}  step {last:,}  {values['n_bytes']:,} bytes  {rate:.4f} bits/byte", flush=True)
        sleep(FOLLOW_S)
        values = so_far()
    return 0


def pack_runs(args: argparse.Namespace) -> int:
    from prequential.evaluation import runs

    packed = runs.pack_runs(args.folder, args.output, overwrite=args.force)
    if not args.quiet:
        print(f"{len(packed)} runs packed into {printable(args.output)}")
    return 0


LIST = {"folder: FOLDER [runs]": "folder of runs, or file of packed runs"}
SHOW = {
    "name: RUN": f"{options.RUN}; with --follow, the name of a training run",
    "--follow": "print the figures of a training while it runs",
    "--runs FOLDER [runs]": "where --follow looks",
    **options.JSON,
}
PACK = {"folder: FOLDER": "folder of runs", "-o, --output FILE !": "file to write", **options.FORCE}
OF_PACK = "Write the records and curves of all runs in a folder into one text file, which is read like that folder."
OF_LIST = "List all runs in a folder, the oldest first; with -q only their names."
OF_SHOW = "Show one run as `evaluate` printed it."
COMMAND = Command(
    "runs",
    __doc__,
    actions=(
        Command("list", OF_LIST, options=(Group(LIST), options.FORMATS), run=list_runs),
        Command("show", OF_SHOW, "latest", options=(Group(SHOW),), run=show_run, runs_of=("name",)),
        Command("pack", OF_PACK, "runs -o runs.jsonl", options=(Group(PACK),), run=pack_runs),
    ),
)
