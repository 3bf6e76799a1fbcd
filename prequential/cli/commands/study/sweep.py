"""prequential sweep: a grid of configurations over one corpus: bits against operations, and data efficiency."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import EXIT_FAILURE
from prequential.cli.options import Parser, config, runtime
from prequential.cli.plans import add_plan, check_seeds, counts, integers, outcome_record, replays, run_plan
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.measure.study.sweep import Outcome, Plan, Result, Subject, Summary
    from prequential.online.runtime import Runtime

SCHEMA = 1
COLUMNS = ("", "seeds", "bits/byte", "spread", "FLOPs/byte", "kB/s", "data multiple", "front")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "sweep",
        help="measure a grid of configurations on one corpus",
        description="Measure every combination of the given values on one corpus, one run after another. The learner's options "
        "say what else the configurations are. Runs that are there already are not made again.",
    )
    add_plan(parser)
    grid = parser.add_argument_group("grid (each a list such as 1,2,4; default: what the configuration has)")
    grid.add_argument("--replay", type=replays, metavar="LIST", help="positions learned from for each symbol read")
    grid.add_argument("--width", type=counts, metavar="LIST", help="width of the GPT")
    grid.add_argument("--layers", type=counts, metavar="LIST", help="layers of the GPT")
    grid.add_argument("--update-size", type=counts, metavar="LIST", help="symbols between two steps of the GPT")
    grid.add_argument("--seeds", type=integers, metavar="LIST", help="seeds, over which results are averaged")
    parser.add_argument("--baseline", metavar="RUN", help="a run folder that data multiples are against")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plans, runs and sums up; returns the exit code."""
    from prequential import __version__
    from prequential.measure.evaluation.runs import read_run
    from prequential.measure.study.sweep import check_baseline, finished_runs, subject, summarise

    machine = runtime(args)
    the_plan = _plan(args, machine)
    about, says = subject(args.source, args.limit), not (args.json or args.quiet)
    baseline = read_run(args.baseline) if args.baseline else None
    if baseline:
        check_baseline(baseline, about)  # before the work, not after it
    there = set(finished_runs(args.runs, about, __version__))
    if says or (args.dry_run and not args.json):
        print(format_plan(the_plan, about, there), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, the_plan, machine)
    summary = summarise(the_plan, outcomes, baseline) if any(outcome.run for outcome in outcomes) else None
    if args.json:
        print(json.dumps(sweep_record(the_plan, about, outcomes, summary), allow_nan=False))
    elif summary:
        print(("\n" if says else "") + format_summary(summary))
    return EXIT_FAILURE if any(outcome.error for outcome in outcomes) else 0


def _plan(args: argparse.Namespace, machine: Runtime) -> Plan:
    """The grid of the options; what cannot be ends the program as an error of usage."""
    from prequential.measure.study.sweep import plan

    parser: Parser = args.parser
    check_seeds(args)
    base = config(args)
    try:
        return plan(
            base,
            replay=args.replay,
            widths=args.width,
            layers=args.layers,
            update_symbols=args.update_size,
            seeds=args.seeds,
            max_memory_bytes=args.max_memory,
            runtime=machine,
        )
    except ConfigError as error:
        parser.error(str(error))


# ---- what is shown


def format_plan(plan: Plan, about: Subject, there: set[str]) -> str:
    """What is going to be run. there: keys (`config_key`) of the runs that are there already."""
    from prequential.measure.study.sweep import config_key
    from prequential.measure.table import format_table
    from prequential.online.flops import flops_per_byte

    n_there = sum(config_key(config.to_dict()) in there for config in plan.configs)
    n_seeds = len(plan.settings[0].configs)
    rows = [(s.name, f"{flops_per_byte(s.configs[0], about.n_bytes).total:,.0f}") for s in plan.settings]
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {about.n_bytes:,} bytes: {len(plan.settings)} configurations, seeds of each: "
            f"{n_seeds}; {n_there} there already; {plan.flops(about.n_bytes):.3g} FLOPs in all",
            format_table(("", "FLOPs/byte"), rows),
            *(f"refused: {refusal.name}: {refusal.reason}" for refusal in plan.refusals),
            "",
        ]
    )


def format_summary(summary: Summary) -> str:
    """The table of settings, and what a choice among them costs."""
    from prequential.measure.table import format_table

    best = summary.best
    return "\n".join(
        [
            format_table(COLUMNS, [_row(result) for result in summary.results]),
            "",
            f"best: {best.name}, {best.bits_per_byte:.4f} bits/byte",
            f"choosing it among {summary.n_configs} configurations costs {summary.choice_bits:.2f} bits, a single run among "
            f"{summary.n_runs} {summary.run_choice_bits:.2f} bits",
            "front: no other has fewer bits for as few operations; spread: largest less smallest over seeds",
            f"data multiple: bytes that {summary.baseline} needs for the same loss, over those needed here",
            *(f"data multiple of {r.name}: none, {r.reason}" for r in summary.results if r.reason),
        ]
    )


def _row(result: Result) -> list[str]:
    return [
        result.name,
        str(result.n_seeds),
        f"{result.bits_per_byte:.4f}",
        "-" if result.spread is None else f"{result.spread:.4f}",
        f"{result.flops_per_byte:,.0f}",
        f"{result.bytes_per_s / 1e3:,.2f}",
        "-" if result.data_multiple is None else f"{result.data_multiple:.3f}",
        "*" if result.on_front else "",
    ]


def sweep_record(plan: Plan, about: Subject, outcomes: list[Outcome], summary: Summary | None) -> dict[str, Any]:
    """All of it as JSON values; of a dry run the plan alone. bits/byte, FLOPs and multiples as in measure/study/sweep.py."""
    record = {
        "schema": SCHEMA,
        "kind": "sweep",
        "corpus": about._asdict(),
        "plan": [
            {"name": setting.name, "configs": [c.to_dict() for c in setting.configs]} for setting in plan.settings
        ],
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(about.n_bytes),
        "runs": [outcome_record(outcome) for outcome in outcomes],
    }
    if summary:
        record |= asdict(summary) | {"choice_bits": summary.choice_bits, "run_choice_bits": summary.run_choice_bits}
    return record
