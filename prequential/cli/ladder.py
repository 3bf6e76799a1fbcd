"""prequential ladder: one learner at several sizes over one corpus, from which a larger run can be forecast."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import EXIT_FAILURE, in_options, warn
from prequential.cli.plans import add_plan, prints_text, report_bad_runs, run_plan
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plans import Outcome, Plan, Subject

SUMMARY = "run one learner at several sizes, to forecast a larger one"
DEFAULT_SEEDS = (0, 1, 2)
STEP_CHECK_BYTES = 100_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "ladder",
        description="Run the GPT of a learner at several sizes over one corpus. Each run contains the runs over every prefix of "
        "the corpus, so only sizes and seeds need runs of their own. Finished runs are not repeated (docs/STUDIES.md).",
    )
    add_plan(parser, folder="ladder")
    parser.add_argument(
        "--sizes",
        type=options.gpt_sizes,
        metavar="LIST",
        help="sizes WIDTHxLAYERS (default: 24x2,32x2,48x2,64x2,96x2)",
    )
    parser.add_argument("--seeds", type=options.non_negative_integers, metavar="LIST", help="seeds (default: 0,1,2)")
    parser.add_argument(
        "--seeded",
        type=options.gpt_sizes,
        metavar="LIST",
        help="sizes that run with all seeds (default: the second and the second to last); the others run with the first seed",
    )
    parser.add_argument(
        "--check-steps",
        action="store_true",
        help="check the rule of step sizes instead: run the smallest, the middle and the largest size with steps halved and "
        f"doubled, over --limit bytes (default here: {STEP_CHECK_BYTES}), in FOLDER/steps",
    )
    parser.set_defaults(run=run, inputs=("source",))


def run(args: argparse.Namespace) -> int:
    """Plans, runs and summarises; returns the exit code."""
    from prequential.sweeps.ladder import predicted_remaining_s
    from prequential.sweeps.ladder_text import format_plan
    from prequential.sweeps.plans import finished_runs, subject_of

    if args.check_steps:
        args.limit, args.runs = args.limit or STEP_CHECK_BYTES, f"{args.runs}/steps"
    runtime = options.runtime(args)
    plan = _plan(args, runtime)
    corpus, has_bad_runs = subject_of(args.source, args.limit), report_bad_runs(args)
    finished = finished_runs(args.runs, corpus, plan, trust_runs=args.trust_runs).keys()
    predicted_s = predicted_remaining_s(args.source, plan, corpus, finished, runtime) if args.dry_run else None
    if prints_text(args) or (args.dry_run and not args.json):
        print(in_options(format_plan(plan, corpus, finished, predicted_s)), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, plan, runtime)
    _print_results(args, plan, corpus, outcomes, predicted_s)
    return EXIT_FAILURE if has_bad_runs or any(outcome.error for outcome in outcomes) else 0


def _plan(args: argparse.Namespace, runtime: Runtime) -> Plan:
    """The runs of the options; impossible ones end the program with a usage error."""
    from prequential.sweeps.ladder import DEFAULT_SIZES, Size, ladder_plan, step_plan

    if args.seed is not None:
        args.parser.error("--seeds gives all seeds: leave out --seed")
    base = options.learner_config(args)
    sizes = [Size(*size) for size in args.sizes] if args.sizes else list(DEFAULT_SIZES)
    seeded = [Size(*size) for size in args.seeded] if args.seeded else None
    try:
        if args.check_steps:
            return step_plan(base, list(dict.fromkeys([sizes[0], sizes[len(sizes) // 2], sizes[-1]])), runtime=runtime)
        if unknown := set(seeded or ()) - set(sizes):
            raise ConfigError(f"--seeded names sizes that --sizes does not: {', '.join(map(str, sorted(unknown)))}")
        return ladder_plan(base, sizes, seeds=args.seeds or DEFAULT_SEEDS, seeded=seeded, runtime=runtime)
    except ConfigError as error:
        options.usage_error(args, error)


def _print_results(
    args: argparse.Namespace, plan: Plan, corpus: Subject, outcomes: list[Outcome], predicted_s: float | None
) -> None:
    """The table of the ladder or of the step checks; with --json the record; nothing if no run is finished."""
    from prequential.sweeps.ladder import diverged_runs, read_ladder, step_checks_of
    from prequential.sweeps.ladder_text import format_ladder, format_step_checks
    from prequential.sweeps.records import ladder_record

    has_runs = any(outcome.run for outcome in outcomes)
    checks = None
    if args.check_steps:
        checks = step_checks_of(outcomes, options.learner_config(args), _warn_incomplete) if has_runs else []
    ladder = read_ladder(args.runs, trust_runs=args.trust_runs) if has_runs and not args.check_steps else None
    diverged = diverged_runs(ladder) if ladder else {}
    if args.json:
        record = ladder_record(plan, corpus, outcomes, diverged=diverged, step_checks=checks, predicted_s=predicted_s)
        print(json.dumps(record, allow_nan=False))
    elif checks:
        print("\n" + format_step_checks(checks))
    elif ladder:
        print("\n" + format_ladder(ladder, diverged))


def _warn_incomplete(error: ConfigError) -> None:
    warn(f"{error}: this size is left out")
