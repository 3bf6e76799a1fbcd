"""Plans of runs, which `sweep`, `ladder` and `ablate` share: their options, and the runs one after another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import report_failure
from prequential.cli.progress import progress_bar
from prequential.cli.streams import foreign_code

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plans import Outcome, Plan
    from prequential.watch.progress import SilentProgress


def add_plan(parser: argparse.ArgumentParser, *, folder: str = "runs") -> None:
    """Adds the corpus, the folder of runs, what is printed, the learner and the runtime."""
    parser.add_argument("source", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE or shards:FOLDER")
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of the corpus"
    )
    parser.add_argument(
        "--runs",
        metavar="FOLDER",
        default=folder,
        help="folder for new run folders, and of finished ones to use again (default: %(default)s)",
    )
    add_trust(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(shared="runs")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds the option to use runs as they are found."""
    parser.add_argument(
        "--trust-runs",
        action="store_true",
        help="also use finished runs of other users, and those without their archives (default: refuse them)",
    )


def prints_text(args: argparse.Namespace) -> bool:
    """Whether the plan and its runs are printed as text while they run."""
    return not (args.json or args.quiet)


def check_seeds(args: argparse.Namespace) -> None:
    """Ends the program with a usage error if both --seeds and --seed are given."""
    if args.seeds is not None and args.seed is not None:
        args.parser.error("--seeds gives all seeds: leave out --seed")


def run_plan(args: argparse.Namespace, plan: Plan, runtime: Runtime) -> list[Outcome]:
    """Every run of the plan in order, new or finished already. Prints each as soon as it is finished.

    If torchrun started several processes, the first one returns, and the others end when no run is left.
    """
    from prequential.sweeps import plans
    from prequential.sweeps.plan_workers import PlanWorker

    worker = PlanWorker.launched()
    if worker and runtime.threads is None:
        runtime = replace(runtime, threads=worker.n_threads)
    outcomes = []
    with _note_on_interruption():
        for outcome in plans.run_plan(
            args.source,
            plan,
            args.runs,
            limit_bytes=args.limit,
            runtime=runtime,
            open_progress=partial(_progress, quiet=args.quiet),
            worker=worker,
            trust_runs=args.trust_runs,
        ):
            outcomes.append(outcome)
            _print_outcome(args, outcome)
    if worker and not worker.is_first:
        sys.exit(0)
    return sorted(outcomes, key=lambda outcome: plan.configs.index(outcome.config))


def report_bad_runs(args: argparse.Namespace) -> bool:
    """Whether the folder of runs holds some that cannot be read, so that the plan cannot use them; prints a line for each."""
    from prequential.evaluation.runs import runs_so_far

    bad: list[Exception] = []
    runs_so_far(args.runs, bad.append)
    for error in bad:
        report_failure(None, error, verbose=args.verbose)
    return bool(bad)


@contextmanager
def _note_on_interruption() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note("finished runs are kept: the same command continues with the others")
        raise


@contextmanager
def _progress(title: str, *, quiet: bool) -> Iterator[SilentProgress]:
    with foreign_code(), progress_bar(title, quiet=quiet) as show:
        yield show


def _print_outcome(args: argparse.Namespace, outcome: Outcome) -> None:
    from prequential.sweeps.sweep_text import format_outcome

    if outcome.error:
        report_failure(outcome.name, outcome.error, verbose=args.verbose)
    elif outcome.run and prints_text(args):
        print(format_outcome(outcome), flush=True)
