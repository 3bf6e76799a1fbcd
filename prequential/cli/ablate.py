"""prequential ablate: what each feature of a configuration saves, at two sizes or more."""

from __future__ import annotations

import argparse

from prequential.cli import options
from prequential.cli.plans import add_plan, check_seeds, run_study
from prequential.errors import ConfigError

SUMMARY = "measure what each feature of a learner saves, at several sizes"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "ablate",
        description="Add the features of a configuration to its base one by one, at several sizes of the GPT, and measure "
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
        "--confidence", type=float, default=0.9, metavar="P", help="level of the intervals (default: %(default)s)"
    )
    parser.set_defaults(run=run, runs="runs")


def run(args: argparse.Namespace) -> int:
    """Plans, runs and summarises; returns the exit code. Impossible options end the program with a usage error."""
    check_seeds(args)
    from prequential.comparison.intervals import Bootstrap
    from prequential.sweeps.ablate import plan_ablation
    from prequential.sweeps.finished import corpus_key

    runtime, config = options.runtime(args), options.learner_config(args)
    try:
        ablation = plan_ablation(
            config,
            sizes=args.sizes,
            features=args.features,
            seeds=args.seeds,
            runtime=runtime,
            bootstrap=Bootstrap(confidence=args.confidence),
        )
    except ConfigError as error:
        options.usage_error(args, error)
    return run_study(args, ablation.study, runtime, corpus_key(args.source, args.limit))
