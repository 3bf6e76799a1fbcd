"""prequential sweep: a grid of configurations over one corpus, or with --ladder one learner at several sizes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.plans import add_plan, check_seeds, run_study
from prequential.cli.streams import foreign_code
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plan_runs import Study
    from prequential.sweeps.plans import Plan

SUMMARY = "measure a grid of configurations on one corpus, or a ladder of sizes"
DEFAULT_SEEDS = (0, 1, 2)  # of a ladder
OF_GRID = ("replay", "width", "layers", "update_size")
OF_LADDER = ("sizes", "seeded")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "sweep",
        description="Measure every combination of the given values on one corpus, one run after another. The options of the "
        "learner give everything else in the configurations. With --ladder, run the learner's GPT at several sizes instead, to "
        "forecast a larger one. Finished runs are not repeated (docs/STUDIES.md).",
    )
    add_plan(parser, folder="runs; with --ladder: ladder", seeds=" (default with --ladder: 0,1,2)")
    grid = parser.add_argument_group("grid (each is a list such as 1,2,4; default: the value of the configuration)")
    for name, numbers, what in (
        ("--replay", options.positive_numbers, "positions trained on for each symbol read"),
        ("--width", options.positive_integers, "width of the GPT"),
        ("--layers", options.positive_integers, "layers of the GPT"),
        ("--update-size", options.positive_integers, "symbols between two optimiser steps"),
    ):
        grid.add_argument(name, type=numbers, metavar="LIST", help=what)
    ladder = parser.add_argument_group("ladder (each run contains the runs over every prefix of the corpus)")
    ladder.add_argument("--ladder", action="store_true", help="run the learner at several sizes")
    ladder.add_argument(
        "--sizes", type=options.gpt_sizes, metavar="LIST", help="sizes WIDTHxLAYERS (default: 24x2,32x2,48x2,64x2,96x2)"
    )
    ladder.add_argument(
        "--seeded",
        type=options.gpt_sizes,
        metavar="LIST",
        help="sizes that run with all seeds (default: the second and the second to last); the others run with the first seed",
    )
    options.add_other_learner(parser, several="give NAME several times to vary it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plans, runs and summarises; returns the exit code."""
    _check_usage(args)
    from prequential.sweeps.finished import corpus_key
    from prequential.sweeps.ladder import ladder_study
    from prequential.sweeps.sweep import sweep_study

    args.runs = args.runs or ("ladder" if args.ladder else "runs")
    runtime = options.runtime(args)
    plan = _plan(args, runtime)
    study: Study = ladder_study(plan) if args.ladder else sweep_study(plan)
    return run_study(args, study, runtime, corpus_key(args.source, args.limit))


def _check_usage(args: argparse.Namespace) -> None:
    """Ends the program with a usage error if options of a grid and of a ladder, or of two kinds of seeds, meet."""
    check_seeds(args, has_default=args.ladder)
    wrong = (*OF_GRID, "learner") if args.ladder else OF_LADDER
    for name in wrong:
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            args.parser.error(
                f"{option} is not of a ladder: leave it out" if args.ladder else f"{option} needs --ladder"
            )


def _plan(args: argparse.Namespace, runtime: Runtime) -> Plan:
    """The plan of the options; an impossible one ends the program with a usage error."""
    from prequential.sweeps.ladder import DEFAULT_SIZES, Size, ladder_plan
    from prequential.sweeps.plans import learner_plan, sweep_plan

    try:
        if (grid := options.other_learner_grid(args)) is not None:
            if any(getattr(args, name) is not None for name in OF_GRID):
                args.parser.error(
                    "--replay, --width, --layers and --update-size are of the GPT: --learner has --learner-arg"
                )
            with foreign_code():
                return learner_plan(args.learner, grid, args.seeds)
        base = options.learner_config(args)
        if args.ladder:
            sizes, repeated = ([Size(*size) for size in given or ()] for given in (args.sizes, args.seeded))
            seeds = args.seeds or DEFAULT_SEEDS
            return ladder_plan(base, sizes or DEFAULT_SIZES, seeds=seeds, repeated=repeated or None, runtime=runtime)
        return sweep_plan(
            base,
            replay=args.replay,
            widths=args.width,
            layers=args.layers,
            update_symbols=args.update_size,
            seeds=args.seeds,
            runtime=runtime,
        )
    except ConfigError as error:
        options.usage_error(args, error)
