"""prequential ablate: what each feature of a configuration buys, at two sizes or more."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import EXIT_FAILURE
from prequential.cli.options import Parser, config, runtime
from prequential.cli.plans import add_plan, check_seeds, integers, outcome_record, run_plan
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.measure.study.ablate import Ablation, AblationSummary, Contrast, FeatureResult
    from prequential.measure.study.compare import Bootstrap
    from prequential.measure.study.sweep import Outcome, Subject
    from prequential.online.runtime import Runtime

SCHEMA = 1
DIRECTIONS = {"base": ("base",), "full": ("full",), "both": ("base", "full")}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "ablate",
        help="measure what each feature of a learner buys, at several sizes",
        description="Switch the features of a configuration on (or off) one by one at several sizes of the GPT, and say with "
        "intervals what each saves. The learner's options give the full configuration. Finished runs are not made again.",
    )
    add_plan(parser)
    grid = parser.add_argument_group("ablation")
    grid.add_argument(
        "--sizes", type=_sizes, default=_sizes("64x1,128x2"), metavar="LIST", help="WIDTHxLAYERS (default: 64x1,128x2)"
    )
    grid.add_argument(
        "--features",
        type=_names,
        metavar="LIST",
        help="(default: all there are, but mlp and mixer; --dry-run shows them)",
    )
    grid.add_argument(
        "--from",
        dest="direction",
        choices=tuple(DIRECTIONS),
        default="base",
        help="base: add each to what is left without all; full: take each away (default: %(default)s)",
    )
    grid.add_argument("--seeds", type=integers, metavar="LIST", help="seeds, over which results are averaged")
    grid.add_argument("--confidence", type=float, default=0.9, metavar="P", help="of intervals (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plans, runs and sums up; returns the exit code."""
    from prequential import __version__
    from prequential.measure.study.ablate import summarise_ablation
    from prequential.measure.study.sweep import finished_runs, subject

    machine = runtime(args)
    ablation, bootstrap = _ablation(args, machine)
    about, says = subject(args.source, args.limit), not (args.json or args.quiet)
    there = set(finished_runs(args.runs, about, __version__))
    if says or (args.dry_run and not args.json):
        print(format_ablation(ablation, about, there), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, ablation.plan, machine)
    done = any(outcome.run for outcome in outcomes)
    summary = summarise_ablation(ablation, outcomes, bootstrap) if done else None
    if args.json:
        print(json.dumps(ablation_record(ablation, about, outcomes, summary), allow_nan=False))
    elif summary:
        print(("\n" if says else "") + format_summary(ablation, summary))
    return EXIT_FAILURE if any(outcome.error for outcome in outcomes) else 0


def _ablation(args: argparse.Namespace, machine: Runtime) -> tuple[Ablation, Bootstrap]:
    """What the options ask for; what cannot be ends the program as an error of usage."""
    from prequential.measure.study.ablate import plan_ablation
    from prequential.measure.study.compare import Bootstrap

    parser: Parser = args.parser
    check_seeds(args)
    full = config(args)
    try:
        bootstrap = Bootstrap(confidence=args.confidence)
        ablation = plan_ablation(
            full,
            sizes=args.sizes,
            features=args.features,
            directions=DIRECTIONS[args.direction],
            seeds=args.seeds,
            max_memory_bytes=args.max_memory,
            runtime=machine,
        )
    except ConfigError as error:
        parser.error(str(error))
    return ablation, bootstrap


# ---- what is shown


def format_ablation(ablation: Ablation, about: Subject, there: set[str]) -> str:
    """What is going to be run. there: keys (`config_key`) of the runs that are there already."""
    from prequential.measure.study.ablate import FEATURES
    from prequential.measure.study.sweep import config_key
    from prequential.measure.table import format_table

    plan = ablation.plan
    n_there = sum(config_key(config.to_dict()) in there for config in plan.configs)
    rows = [(name, FEATURES[name].what.ljust(60)) for name in ablation.features]
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {about.n_bytes:,} bytes: {len(plan.settings)} configurations, sizes "
            f"{', '.join(ablation.sizes)}, seeds of each: {len(plan.settings[0].configs)}; {n_there} there already; "
            f"{plan.flops(about.n_bytes):.3g} FLOPs in all",
            format_table(("feature", "what it is".ljust(60)), rows),
            *(f"refused: {refusal.name}: {refusal.reason}" for refusal in plan.refusals),
            "",
        ]
    )


def format_summary(ablation: Ablation, summary: AblationSummary) -> str:
    """Effects and verdicts of each direction, then all features together."""
    percent = f"{100 * summary.confidence:g} %"
    parts = []
    for direction in ablation.directions:
        results = [result for result in summary.results if result.direction == direction]
        if results:
            parts += _direction(direction, results, percent)
    parts.append(_together(summary, percent))
    parts.append(
        f"Saved: bits/byte without the feature less with it, above 0 where it helps. {percent} intervals, each on its own: "
        f"of {summary.population}.\nThe best of these {summary.n_runs} runs, if chosen by this ablation, costs log2 "
        f"{summary.n_runs} = {summary.choice_bits:.2f} bits more."
    )
    return "\n\n".join(part for part in parts if part)


def _direction(direction: str, results: list[FeatureResult], percent: str) -> list[str]:
    from prequential.measure.table import format_table

    title = {"base": "Added to base, one at a time", "full": "Taken from full, one at a time"}[direction]
    effects = [
        [
            result.feature, effect.size, f"{effect.saved.bits_per_byte:+.4f}", _interval(effect.saved),
            f"{effect.percent:+.2f}", f"{effect.late.bits_per_byte:+.4f}", _interval(effect.late),
            f"{effect.flops_ratio:.2f}", f"{effect.wall_ratio:.2f}",
        ]
        for result in results
        for effect in result.effects
    ]  # fmt: skip
    titles = ("feature", "size", "saved", percent, "%", "2nd half", percent, "FLOPs x", "time x")
    growth = [
        [result.feature, *_growth(result.growth), result.verdict] for result in results
    ]  # the difference between the ends
    return [
        f"{title}:\n{format_table(titles, effects)}",
        format_table(("feature", "more saved at the largest", percent, "verdict"), growth),
    ]


def _growth(growth: Contrast | None) -> tuple[str, str]:
    return ("-", "-") if growth is None else (f"{growth.bits_per_byte:+.4f}", _interval(growth))


def _together(summary: AblationSummary, percent: str) -> str:
    from prequential.measure.table import format_table

    rows = []
    for one in summary.together:
        row = [one.size, f"{one.saved.bits_per_byte:+.4f}", _interval(one.saved)]
        for figure in (one.singles, one.interaction):
            row += ["-", "-"] if figure is None else [f"{figure.bits_per_byte:+.4f}", _interval(figure)]
        rows.append(row)
    titles = ("size", "all at once", percent, "sum of singles", percent, "interaction", percent)
    return f"All features against base:\n{format_table(titles, rows)}" if rows else ""


def _interval(found: Contrast) -> str:
    bounds = found.interval_per_byte
    return "-" if bounds is None else f"[{bounds[0]:+.4f}, {bounds[1]:+.4f}]"


def ablation_record(
    ablation: Ablation, about: Subject, outcomes: list[Outcome], summary: AblationSummary | None
) -> dict[str, Any]:
    """All of it as JSON values; of a dry run the plan alone. Figures are of bits, as in measure/study/ablate.py."""
    plan = ablation.plan
    record = {
        "schema": SCHEMA,
        "kind": "ablation",
        "corpus": about._asdict(),
        "sizes": list(ablation.sizes),
        "features": list(ablation.features),
        "plan": [{"name": s.name, "configs": [c.to_dict() for c in s.configs]} for s in plan.settings],
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(about.n_bytes),
        "runs": [outcome_record(outcome) for outcome in outcomes],
    }
    if summary:
        record |= asdict(summary) | {"choice_bits": summary.choice_bits}
    return record


# ---- lists


def _sizes(text: str) -> list[tuple[int, int]]:
    """Such as 64x1,128x2."""
    sizes = []
    for part in text.split(","):
        width, _, layers = part.partition("x")
        if not all(number.isascii() and number.isdigit() and int(number) for number in (width, layers)):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of sizes WIDTHxLAYERS, such as 64x1,128x2")
        sizes.append((int(width), int(layers)))
    return sizes


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
