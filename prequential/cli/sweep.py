"""Measure a grid of configurations on one corpus, or a ladder of sizes.

Every combination of the given values is run; the options of the learner give everything else in the configurations. With
--ladder, the learner's GPT is run at several sizes instead, to forecast a larger one. Finished runs are not repeated
(docs/STUDIES.md), and equal commands on one folder share the work.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options, streams
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.sweeps.plans import Plan, RunOutcome

SCHEMA = 1
OF_GRID = ("replay", "width", "layers", "update_size")
OWN = {
    "source: CORPUS": "file, folder, sample:NAME, hf:NAME or shards:FOLDER",
    **options.LIMIT,
    "--runs FOLDER *": "folder for new run folders, and of finished ones to use again (default: runs; with --ladder: ladder)",
    "--seeds SEEDS *": "seeds; results are averaged over them",
    **options.JOBS,
    "--part K/N": "make only this part of the work, such as 1/4: one for each task of an array of jobs (docs/MACHINES.md)",
    "--dry-run *": "print the plan and run nothing",
}
GRID = {
    "--replay NUMBERS": "positions trained on for each symbol read",
    "--width INTEGERS *": "width of the GPT",
    "--layers INTEGERS *": "layers of the GPT",
    "--update-size INTEGERS": "symbols between two optimiser steps",
}
LADDER = {
    "--ladder *": "run the learner at several sizes, with seeds 0,1,2 by default",
    "--sizes SIZES": "sizes WIDTHxLAYERS (default: 24x2,32x2,48x2,64x2,96x2)",
    "--seeded SIZES": "sizes that run with all seeds (default: the second and the second to last); the others run with the first "
    "seed",
}
OPTIONS = (
    options.Group(OWN),
    options.FORMATS,
    *options.LEARNER,
    options.Group(GRID, "grid (each is a list such as 1,2,4; default: the value of the configuration)"),
    options.Group(LADDER, "ladder (each run contains the runs over every prefix of the corpus)"),
)


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    from prequential.evaluation.summary import run_figures
    from prequential.machine.facts import usable_memory_bytes
    from prequential.online.source import check_outside
    from prequential.sweeps.ladder import Rung, diverged_runs, ladder_of
    from prequential.sweeps.plans import corpus_key, finished_runs, format_plan
    from prequential.sweeps.sweep import summarise

    args.runs = args.runs or ("ladder" if args.ladder else "runs")
    check_outside(args.runs, args.source)  # also of a plan that is only printed
    runtime = options.runtime(args)
    plan = _plan(args, runtime)
    plan = plan.part(*args.part) if args.part else plan
    corpus, bad = corpus_key(args.source, args.limit), list[Exception]()
    memory = [each.memory_bytes(corpus.n_bytes, runtime) for each in plan.variants]
    if (needed := (args.jobs or 0) * max(memory, default=0)) > (usable := usable_memory_bytes()):
        there_is = f"the {usable >> 20:,} MiB that this process may use"
        raise ConfigError(f"--jobs {args.jobs} may need {needed >> 20:,} MiB, more than {there_is}: choose fewer")
    n_finished = len(finished_runs(args.runs, corpus, plan.configs, bad.append))
    for error in bad:
        streams.report_failure(None, error, verbose=args.verbose)
    if streams.is_text(args) or (args.dry_run and not args.json):
        print(streams.fitted(streams.in_options(format_plan(plan, corpus, n_finished, runtime))), flush=True)
    outcomes = [] if args.dry_run else _run_all(args, plan, runtime)
    made = [outcome.run for outcome in outcomes if outcome.run]
    record = {
        "schema": SCHEMA,
        "kind": "ladder" if args.ladder else "sweep",
        "corpus": corpus._asdict(),
        "plan": [
            {"name": each.name, "memory_bytes": n_bytes, "configs": [one.to_dict() for one in each.configs]}
            for each, n_bytes in zip(plan.variants, memory, strict=True)
        ],
        "refused": [{"name": name, "reason": reason} for name, reason in plan.refusals.items()],
        "flops": plan.flops(corpus.n_bytes),
        "runs": [outcome.to_record() for outcome in outcomes],
    }
    text, figure, rows = "", "", lambda: [run_figures(run.path, run.record) for run in made]
    if made and args.ladder:
        ladder = ladder_of(map(Rung, made))
        text, record["diverged"] = ladder.to_text(), diverged_runs(ladder)
    elif made:
        summary = summarise(plan, outcomes)
        text, rows = summary.to_text(), summary.to_frame
        figure = f"{min(result.bits_per_byte for result in summary.results):.4f}"
        record |= asdict(summary)
    if made or args.json:
        streams.print_result(args, f"\n{text}", record, figure=figure, rows=rows)
    return streams.EXIT_FAILURE if bad or any(outcome.error for outcome in outcomes) else 0


def _check_usage(args: argparse.Namespace) -> None:
    """Ends the program with a usage error if options of a grid and of a ladder, or of two kinds of seeds, meet."""
    if args.seed is not None and (args.ladder or args.seeds is not None):
        args.parser.error("--seeds gives all seeds: leave out --seed")
    if args.ladder:
        options.refuse(args, options.given_of(args, *OF_GRID), "a ladder has its own options")
    else:
        options.refuse(args, options.given_of(args, "sizes", "seeded"), "without --ladder there are no sizes")


def _plan(args: argparse.Namespace, runtime: Runtime) -> Plan:
    """The plan of the options. Raises ConfigError for an impossible one."""
    from prequential.sweeps.ladder import DEFAULT_SIZES, Size, ladder_plan
    from prequential.sweeps.plans import sweep_plan

    base = options.learner_config(args)
    if args.ladder:
        sizes, repeated = ([Size(*size) for size in given or ()] for given in (args.sizes, args.seeded))
        seeds = args.seeds or (0, 1, 2)
        return ladder_plan(base, sizes or DEFAULT_SIZES, seeds=seeds, repeated=repeated or None, runtime=runtime)
    grid = {"replay": args.replay, "widths": args.width, "layers": args.layers, "update_symbols": args.update_size}
    return sweep_plan(base, **grid, seeds=args.seeds, runtime=runtime)


def _run_all(args: argparse.Namespace, plan: Plan, runtime: Runtime) -> list[RunOutcome]:
    """Every run of the plan in order, new or finished already. Prints each as soon as it is finished."""
    from prequential.machine.jobs import Jobs
    from prequential.sweeps.plans import RunOutcome, run_plan

    outcomes, progress = list[RunOutcome](), partial(streams.progress_bar, quiet=args.quiet)
    try:
        with Jobs(args.jobs) if args.jobs else nullcontext() as executor:
            chosen = {"limit_bytes": args.limit, "runtime": runtime, "executor": executor, "open_progress": progress}
            made = run_plan(args.source, plan, args.runs, **chosen)
            while True:
                with progress(f"{len(outcomes)} of {len(plan.runs)} runs") if executor else nullcontext():
                    outcome = next(made, None)
                if not outcome:
                    return outcomes
                outcomes.append(outcome)
                if outcome.error:
                    streams.report_failure(outcome.name, outcome.error, verbose=args.verbose)
                elif streams.is_text(args):
                    print(streams.fitted(outcome.to_text()), flush=True)
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note("finished runs are kept: the same command continues with the others")
        raise


EXAMPLE = "book.txt --width 64,128 --seeds 1,2"
COMMAND = options.Command("sweep", __doc__, EXAMPLE, options=OPTIONS, run=run, inputs=("source",))
