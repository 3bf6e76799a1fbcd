"""Measure a grid of configurations on one corpus, or a ladder of sizes.

Every combination of the given values is run, one after another; the options of the learner give everything else in the
configurations. With --ladder, the learner's GPT is run at several sizes instead, to forecast a larger one. Finished runs are not
repeated (docs/STUDIES.md).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import EXIT_FAILURE, fitted, in_options, progress_bar, report_failure

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plan_runs import RunOutcome
    from prequential.sweeps.plans import CorpusKey, Plan

SCHEMA = 1
DEFAULT_SEEDS = (0, 1, 2)  # of a ladder
OF_LADDER = "each run contains the runs over every prefix of the corpus"
OF_GRID = ("replay", "width", "layers", "update_size")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="CORPUS", help="file, folder, sample:NAME, hf:NAME or shards:FOLDER")
    own = {
        "--runs FOLDER": "folder for new run folders, and of finished ones to use again (default: runs; with --ladder: ladder)",
        "--seeds SEEDS": "seeds; results are averaged over them",
        "--dry-run": "print the plan and run nothing",
    }
    options.add(parser, {**options.LIMIT, **own, **options.JSON})
    options.add_learner(parser)
    parser.set_defaults(inputs=("source",))
    options.add(
        parser.add_argument_group("grid (each is a list such as 1,2,4; default: the value of the configuration)"),
        {
            "--replay NUMBERS": "positions trained on for each symbol read",
            "--width INTEGERS": "width of the GPT",
            "--layers INTEGERS": "layers of the GPT",
            "--update-size INTEGERS": "symbols between two optimiser steps",
        },
    )
    options.add(
        parser.add_argument_group("ladder (each run contains the runs over every prefix of the corpus)"),
        {
            "--ladder": "run the learner at several sizes, with seeds 0,1,2 by default",
            "--sizes SIZES": "sizes WIDTHxLAYERS (default: 24x2,32x2,48x2,64x2,96x2)",
            "--seeded SIZES": "sizes that run with all seeds (default: the second and the second to last); the others run with "
            "the first seed",
        },
    )


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    from prequential.sweeps.plans import corpus_key

    args.runs = args.runs or ("ladder" if args.ladder else "runs")
    runtime = options.runtime(args)
    plan = _plan(args, runtime)
    return _run_plan(args, plan, runtime, corpus_key(args.source, args.limit))


def _check_usage(args: argparse.Namespace) -> None:
    """Ends the program with a usage error if options of a grid and of a ladder, or of two kinds of seeds, meet."""
    if args.seed is not None and (args.ladder or args.seeds is not None):
        args.parser.error("--seeds gives all seeds: leave out --seed")
    if args.ladder:
        options.refuse(args, options.given_of(args, *OF_GRID), "a ladder has its own options")
    elif wrong := options.given_of(args, "sizes", "seeded"):
        args.parser.error(f"{wrong[0]} needs --ladder")


def _plan(args: argparse.Namespace, runtime: Runtime) -> Plan:
    """The plan of the options; an impossible one ends the program with a usage error."""
    from prequential.sweeps.ladder import DEFAULT_SIZES, Size, ladder_plan
    from prequential.sweeps.plans import sweep_plan

    with options.usage_errors(args):
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


def _run_plan(args: argparse.Namespace, plan: Plan, runtime: Runtime, corpus: CorpusKey) -> int:
    from prequential.sweeps.ladder import Ladder, Rung, diverged_runs, ladder_of
    from prequential.sweeps.plans import finished_runs, format_plan, plan_record
    from prequential.sweeps.sweep import summarise

    prints = not (args.json or args.quiet)
    bad: list[Exception] = []
    finished = finished_runs(args.runs, corpus, plan, on_bad=bad.append).keys()
    for error in bad:
        report_failure(None, error, verbose=args.verbose)
    if prints or (args.dry_run and not args.json):
        print(
            fitted(in_options(format_plan(plan, corpus, len(finished), OF_LADDER if args.ladder else ""))), flush=True
        )
    outcomes = [] if args.dry_run else run_all(args, args.source, plan, runtime, args.limit)
    made = [outcome.run for outcome in outcomes if outcome.run]
    summary = (ladder_of(map(Rung, made)) if args.ladder else summarise(plan, outcomes)) if made else None
    if args.json:
        record = {"schema": SCHEMA, "kind": "ladder" if args.ladder else "sweep", **plan_record(plan, corpus)}
        record["runs"] = [outcome.to_record() for outcome in outcomes]
        shown = (
            {"diverged": diverged_runs(summary)} if isinstance(summary, Ladder) else asdict(summary) if summary else {}
        )
        print(json.dumps(record | shown, allow_nan=False))
    elif summary:
        print(("\n" if prints else "") + fitted(summary.to_text()))
    return EXIT_FAILURE if bad or any(outcome.error for outcome in outcomes) else 0


def run_all(
    args: argparse.Namespace, source: str | Path, plan: Plan, runtime: Runtime, limit_bytes: int | None
) -> list[RunOutcome]:
    """Every run of the plan in order, new or finished already. Prints each as soon as it is finished."""
    from prequential.sweeps.plan_runs import run_plan

    outcomes = []
    try:
        for outcome in run_plan(
            source,
            plan,
            args.runs,
            limit_bytes=limit_bytes,
            runtime=runtime,
            open_progress=partial(progress_bar, quiet=args.quiet),
        ):
            outcomes.append(outcome)
            if outcome.error:
                report_failure(outcome.name, outcome.error, verbose=args.verbose)
            elif not (args.json or args.quiet):
                print(fitted(outcome.to_text()), flush=True)
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note("finished runs are kept: the same command continues with the others")
        raise
    return outcomes
