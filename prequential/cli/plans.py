"""Studies: what `sweep` and `ablate` share. Their options, and the plan, its runs one after another, and the summary."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import EXIT_FAILURE, in_options, report_failure
from prequential.cli.progress import progress_bar
from prequential.cli.streams import foreign_code

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.finished import CorpusKey
    from prequential.sweeps.plan_runs import RunOutcome, Study
    from prequential.sweeps.plans import Plan
    from prequential.watch.progress import SilentProgress

SCHEMA = 1


def add_plan(parser: argparse.ArgumentParser, *, folder: str = "runs", seeds: str = "") -> None:
    """Adds the corpus, the folder of runs, seeds, what is printed, the learner and the runtime. folder, seeds: for the help."""
    parser.add_argument("source", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE or shards:FOLDER")
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of the corpus"
    )
    parser.add_argument(
        "--runs",
        metavar="FOLDER",
        help=f"folder for new run folders, and of finished ones to use again (default: {folder})",
    )
    add_trust(parser)
    parser.add_argument(
        "--seeds",
        type=options.non_negative_integers,
        metavar="LIST",
        help=f"seeds; results are averaged over them{seeds}",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(shared="runs", inputs=("source",))


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds the option to use runs as they are found."""
    parser.add_argument(
        "--trust-runs",
        action="store_true",
        help="also use finished runs of other users, and those without their archives (default: refuse them)",
    )


def check_seeds(args: argparse.Namespace, *, has_default: bool = False) -> None:
    """Ends the program with a usage error if both --seeds, or seeds by default, and --seed are given."""
    if args.seed is not None and (has_default or args.seeds is not None):
        args.parser.error("--seeds gives all seeds: leave out --seed")


def run_study(args: argparse.Namespace, study: Study, runtime: Runtime, corpus: CorpusKey) -> int:
    """Prints the plan, makes its runs and prints the summary; returns the exit code."""
    from prequential.sweeps.finished import finished_runs
    from prequential.sweeps.plans import format_plan, plan_record

    plan, prints = study.plan, not (args.json or args.quiet)
    bad: list[Exception] = []
    finished = finished_runs(args.runs, corpus, plan.keys, trust_runs=args.trust_runs, on_bad=bad.append).keys()
    for error in bad:
        report_failure(None, error, verbose=args.verbose)
    if prints or (args.dry_run and not args.json):
        print(in_options(format_plan(plan, corpus, len(finished), study.notes)), flush=True)
    outcomes = [] if args.dry_run else _run_plan(args, plan, runtime)
    summary = study.summarise(outcomes) if any(outcome.run for outcome in outcomes) else None
    if args.json:
        record = {"schema": SCHEMA, "kind": study.kind, **plan_record(plan, corpus)}
        record["runs"] = [outcome.to_record() for outcome in outcomes]
        print(json.dumps(record | (summary.to_record() if summary else {}), allow_nan=False))
    elif summary:
        print(("\n" if prints else "") + summary.to_text())
    return EXIT_FAILURE if bad or any(outcome.error for outcome in outcomes) else 0


def _run_plan(args: argparse.Namespace, plan: Plan, runtime: Runtime) -> list[RunOutcome]:
    """Every run of the plan in order, new or finished already. Prints each as soon as it is finished.

    If torchrun started several processes, the first one returns, and the others end when no run is left.
    """
    from prequential.sweeps.plan_runs import run_plan
    from prequential.sweeps.plan_workers import PlanWorker

    worker = PlanWorker.launched()
    if worker and runtime.threads is None:
        runtime = replace(runtime, threads=worker.n_threads)
    outcomes = []
    try:
        for outcome in run_plan(
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
            if outcome.error:
                report_failure(outcome.name, outcome.error, verbose=args.verbose)
            elif not (args.json or args.quiet):
                print(outcome.to_text(), flush=True)
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note("finished runs are kept: the same command continues with the others")
        raise
    if worker and not worker.is_first:
        sys.exit(0)
    return sorted(outcomes, key=lambda outcome: plan.configs.index(outcome.config))


@contextmanager
def _progress(title: str, *, quiet: bool) -> Iterator[SilentProgress]:
    with foreign_code(), progress_bar(title, quiet=quiet) as show:
        yield show
