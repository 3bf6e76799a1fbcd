"""prequential ablate: what each feature of a configuration saves, at two sizes or more."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import EXIT_FAILURE, in_options
from prequential.cli.plans import add_plan, check_seeds, prints_text, report_bad_runs, run_plan
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.comparison.intervals import Bootstrap
    from prequential.online.runtime import Runtime
    from prequential.sweeps.ablate import Ablation

SUMMARY = "measure what each feature of a learner saves, at several sizes"
DIRECTIONS = {"base": ("base",), "full": ("full",), "both": ("base", "full")}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "ablate",
        description="Switch the features of a configuration on (or off) one by one, at several sizes of the GPT, and measure "
        "with intervals how many bits each saves. The options of the learner give the full configuration. Finished runs are not "
        "repeated (docs/STUDIES.md).",
    )
    add_plan(parser)
    grid = parser.add_argument_group("ablation")
    grid.add_argument(
        "--sizes",
        type=options.gpt_sizes,
        default=[(64, 1), (128, 2)],
        metavar="LIST",
        help="sizes WIDTHxLAYERS (default: 64x1,128x2)",
    )
    grid.add_argument(
        "--features",
        type=lambda text: [name.strip() for name in text.split(",")],
        metavar="LIST",
        help="features to switch (default: all features except mlp and mixer; --dry-run lists them)",
    )
    grid.add_argument(
        "--from",
        dest="direction",
        choices=tuple(DIRECTIONS),
        default="base",
        help="base: add each feature to the learner without any; full: remove each from the full learner; both: do both "
        "(default: %(default)s)",
    )
    grid.add_argument(
        "--seeds", type=options.non_negative_integers, metavar="LIST", help="seeds; the results are averaged over them"
    )
    grid.add_argument(
        "--confidence", type=float, default=0.9, metavar="P", help="level of the intervals (default: %(default)s)"
    )
    parser.set_defaults(run=run, inputs=("source",))


def run(args: argparse.Namespace) -> int:
    """Plans, runs and summarises; returns the exit code."""
    from prequential.sweeps.ablate import summarise_ablation
    from prequential.sweeps.ablate_text import format_plan, format_summary
    from prequential.sweeps.plans import finished_runs, subject_of
    from prequential.sweeps.records import ablation_record

    runtime = options.runtime(args)
    ablation, bootstrap = _ablation(args, runtime)
    corpus, has_bad_runs = subject_of(args.source, args.limit), report_bad_runs(args)
    finished = finished_runs(args.runs, corpus, ablation.plan, trust_runs=args.trust_runs).keys()
    if prints_text(args) or (args.dry_run and not args.json):
        print(in_options(format_plan(ablation, corpus, finished)), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, ablation.plan, runtime)
    has_runs = any(outcome.run for outcome in outcomes)
    summary = summarise_ablation(ablation, outcomes, bootstrap) if has_runs else None
    if args.json:
        print(json.dumps(ablation_record(ablation, corpus, outcomes, summary), allow_nan=False))
    elif summary:
        print(("\n" if prints_text(args) else "") + format_summary(ablation, summary))
    return EXIT_FAILURE if has_bad_runs or any(outcome.error for outcome in outcomes) else 0


def _ablation(args: argparse.Namespace, runtime: Runtime) -> tuple[Ablation, Bootstrap]:
    """The plan and the resampling of the options; impossible ones end the program with a usage error."""
    from prequential.comparison.intervals import Bootstrap
    from prequential.sweeps.ablate import plan_ablation

    check_seeds(args)
    config = options.learner_config(args)
    try:
        bootstrap = Bootstrap(confidence=args.confidence)
        ablation = plan_ablation(
            config,
            sizes=args.sizes,
            features=args.features,
            directions=DIRECTIONS[args.direction],
            seeds=args.seeds,
            runtime=runtime,
        )
    except ConfigError as error:
        options.usage_error(args, error)
    return ablation, bootstrap
