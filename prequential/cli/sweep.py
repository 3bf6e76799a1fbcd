"""prequential sweep: a grid of configurations over one corpus: bits against operations, and data efficiency."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import EXIT_FAILURE, in_options
from prequential.cli.plans import add_plan, check_seeds, prints_text, report_bad_runs, run_plan
from prequential.cli.streams import foreign_code
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plans import Plan

SUMMARY = "measure a grid of configurations on one corpus"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "sweep",
        description="Measure every combination of the given values on one corpus, one run after another. The options of the "
        "learner give everything else in the configurations. Finished runs are not repeated (docs/STUDIES.md).",
    )
    add_plan(parser)
    grid = parser.add_argument_group("grid (each is a list such as 1,2,4; default: the value of the configuration)")
    grid.add_argument(
        "--replay", type=options.positive_numbers, metavar="LIST", help="positions trained on for each symbol read"
    )
    grid.add_argument("--width", type=options.positive_integers, metavar="LIST", help="width of the GPT")
    grid.add_argument("--layers", type=options.positive_integers, metavar="LIST", help="layers of the GPT")
    grid.add_argument(
        "--update-size", type=options.positive_integers, metavar="LIST", help="symbols between two optimiser steps"
    )
    grid.add_argument(
        "--seeds", type=options.non_negative_integers, metavar="LIST", help="seeds; the results are averaged over them"
    )
    options.add_other_learner(parser, several="give NAME several times to vary it")
    parser.add_argument("--baseline", metavar="RUN", help="run folder that the data multiples refer to")
    parser.set_defaults(run=run, inputs=("source",))


def run(args: argparse.Namespace) -> int:
    """Plans, runs and summarises; returns the exit code."""
    check_seeds(args)
    from prequential.evaluation.runs import read_run
    from prequential.sweeps.plans import finished_runs, subject_of
    from prequential.sweeps.records import sweep_record
    from prequential.sweeps.sweep import check_baseline, summarise
    from prequential.sweeps.sweep_text import format_plan, format_summary

    runtime = options.runtime(args)
    plan = _plan(args, runtime)
    corpus, has_bad_runs = subject_of(args.source, args.limit), report_bad_runs(args)
    baseline = read_run(args.baseline) if args.baseline else None
    if baseline:
        check_baseline(baseline, corpus)  # before the work, not after it
    finished = finished_runs(args.runs, corpus, plan, trust_runs=args.trust_runs).keys()
    if prints_text(args) or (args.dry_run and not args.json):
        print(in_options(format_plan(plan, corpus, finished)), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, plan, runtime)
    summary = summarise(plan, outcomes, baseline) if any(outcome.run for outcome in outcomes) else None
    if args.json:
        print(json.dumps(sweep_record(plan, corpus, outcomes, summary), allow_nan=False))
    elif summary:
        print(("\n" if prints_text(args) else "") + format_summary(summary))
    return EXIT_FAILURE if has_bad_runs or any(outcome.error for outcome in outcomes) else 0


def _plan(args: argparse.Namespace, runtime: Runtime) -> Plan:
    """The grid of the options; an impossible grid ends the program with a usage error."""
    from prequential.sweeps.sweep import learner_plan, sweep_plan

    try:
        if (grid := options.other_learner_grid(args)) is not None:
            if any(values is not None for values in (args.replay, args.width, args.layers, args.update_size)):
                args.parser.error(
                    "--replay, --width, --layers and --update-size are of the GPT: --learner has --learner-arg"
                )
            with foreign_code():
                return learner_plan(args.learner, grid, args.seeds)
        return sweep_plan(
            options.learner_config(args),
            replay=args.replay,
            widths=args.width,
            layers=args.layers,
            update_symbols=args.update_size,
            seeds=args.seeds,
            runtime=runtime,
        )
    except ConfigError as error:
        options.usage_error(args, error)
