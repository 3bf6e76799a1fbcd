"""What sweep, ablate and ladder share: the options of a plan of runs, its runs one after another, and how they are told."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import report
from prequential.cli.options import Parser, add_model, add_runtime, add_verbosity, n_bytes
from prequential.cli.progress import progress_bar

if TYPE_CHECKING:
    from prequential.measure.study.sweep import Outcome, Plan
    from prequential.online.runtime import Runtime


def add_plan(parser: argparse.ArgumentParser, *, folder: str = "runs") -> None:
    """The corpus, where its runs go, what is shown; the learner and how to compute."""
    parser.add_argument("source", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE or shards:FOLDER")
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the corpus")
    parser.add_argument(
        "--runs",
        metavar="FOLDER",
        default=folder,
        help="where the run folders go, and finished ones are looked for (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be run")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(shared="runs")


def check_seeds(args: argparse.Namespace) -> None:
    """A list of seeds and a seed of the learner's exclude each other: an error of usage."""
    if args.seeds is not None and args.seed is not None:
        parser: Parser = args.parser
        parser.error("--seeds says all about the seeds: leave out --seed")


def run_plan(args: argparse.Namespace, plan: Plan, machine: Runtime) -> list[Outcome]:
    """Every run of the plan, made or found, in order; each is told when it is there.

    Of several processes that torchrun started, the first returns, and the others end the program when nothing is left to run.
    """
    from prequential import __version__, api
    from prequential.measure.study.plan_workers import Spread
    from prequential.measure.study.sweep import sweep

    for config in plan.configs:
        machine.check(config)
    spread = Spread.launched()
    if spread and machine.threads is None:
        machine = replace(machine, threads=spread.n_threads)
    outcomes = []
    with _kept():
        for outcome in sweep(
            args.source,
            plan,
            args.runs,
            evaluate=api.evaluate,
            program_version=__version__,
            limit_bytes=args.limit,
            runtime=machine,
            watching=partial(progress_bar, quiet=args.quiet),
            spread=spread,
        ):
            outcomes.append(outcome)
            _tell(outcome, says=not (args.json or args.quiet), verbose=args.verbose)
    if spread and not spread.first:
        sys.exit(0)
    return sorted(outcomes, key=lambda outcome: plan.configs.index(outcome.config))


@contextmanager
def _kept() -> Iterator[None]:
    """An interruption says that what is done is not lost."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note("finished runs are kept: the same command goes on with the others")
        raise


def _tell(outcome: Outcome, *, says: bool, verbose: bool) -> None:
    if outcome.error:
        report(outcome.name, outcome.error, verbose=verbose)
    elif says and outcome.run:
        record = outcome.run.record
        figures = f"{record['bits_per_byte']:.4f} bits/byte, {record['bytes_per_s'] / 1e3:,.2f} kB/s"
        print(f"{outcome.name}: {figures}, {'' if outcome.is_new else 'there already, '}{outcome.run.path}")
        sys.stdout.flush()


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """A run of a plan as JSON values."""
    return {
        "name": outcome.setting.name,
        "seed": outcome.config.seed,
        "is_new": outcome.is_new,
        "path": str(outcome.run.path) if outcome.run else None,
        "bits_per_byte": outcome.run.record["bits_per_byte"] if outcome.run else None,
        "error": str(outcome.error) if outcome.error else None,
    }


# ---- lists of numbers


def _list(text: str, number: Callable[[str], float], what: str, lowest: float) -> list[Any]:
    try:
        values = [number(part) for part in text.split(",")]
        if not all(lowest <= value < math.inf for value in values):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {what}, such as 1,2,4") from None
    return values


replays = partial(_list, number=float, what="numbers above 0", lowest=1e-6)
counts = partial(_list, number=int, what="numbers of 1 or more", lowest=1)
integers = partial(_list, number=int, what="numbers of 0 or more", lowest=0)
