"""prequential ladder: one learner at several sizes over one corpus, from which a larger run can be forecast."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import EXIT_FAILURE
from prequential.cli.options import Parser, config, runtime
from prequential.cli.plans import add_plan, integers, outcome_record, run_plan
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.measure.study.ladder import Ladder, Size, StepCheck
    from prequential.measure.study.sweep import Outcome, Plan, Subject
    from prequential.online.runtime import Runtime

SCHEMA = 1
DEFAULT_SEEDS = (0, 1, 2)
PROBE_BYTES = 1 << 14
STEP_CHECK_BYTES = 100_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "ladder",
        help="run one learner at several sizes, to forecast a larger one",
        description="Run a learner's GPT at several sizes over one corpus. A run contains the runs over every prefix, so that "
        "sizes and seeds are all there is to run. Runs that are there already are not made again.",
    )
    add_plan(parser, folder="ladder")
    parser.add_argument("--sizes", metavar="LIST", help="WIDTHxLAYERS (default: 24x2,32x2,48x2,64x2,96x2)")
    parser.add_argument("--seeds", type=integers, metavar="LIST", help="default: 0,1,2")
    parser.add_argument(
        "--seeded", metavar="LIST", help="sizes that run under all seeds (default: the second and second to last)"
    )
    parser.add_argument(
        "--check-steps",
        action="store_true",
        help="measure the rule of steps instead: smallest, middle and largest size with steps halved and doubled, over "
        f"--limit (default here: {STEP_CHECK_BYTES}), in FOLDER/steps",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plans, runs and sums up; returns the exit code."""
    from prequential import __version__
    from prequential.measure.study.sweep import finished_runs, subject

    if args.check_steps:
        args.limit, args.runs = args.limit or STEP_CHECK_BYTES, f"{args.runs}/steps"
    machine = runtime(args)
    plan, sizes = _plan(args, machine)
    about, says = subject(args.source, args.limit), not (args.json or args.quiet)
    there = set(finished_runs(args.runs, about, __version__))
    seconds = _probed_seconds(args, plan, about, there, machine) if args.dry_run else None
    if says or (args.dry_run and not args.json):
        print(format_plan(plan, about, there, seconds), flush=True)
    outcomes = [] if args.dry_run else run_plan(args, plan, machine)
    _show(args, plan, sizes, about, outcomes, seconds)
    return EXIT_FAILURE if any(outcome.error for outcome in outcomes) else 0


def _plan(args: argparse.Namespace, machine: Runtime) -> tuple[Plan, list[Size]]:
    """The runs of the options, and the sizes; what cannot be ends the program as an error of usage."""
    from prequential.measure.study.ladder import DEFAULT_SIZES, ladder_plan, parse_size, step_plan

    parser: Parser = args.parser

    def sizes(text: str | None) -> list[Size] | None:
        try:
            return None if text is None else [parse_size(part) for part in text.split(",")]
        except ValueError:
            parser.error(f"{text!r} is no list of sizes, such as 32x2,64x2")

    if args.seed is not None:
        parser.error("--seeds says all about the seeds: leave out --seed")
    base, all_sizes, seeded = config(args), sizes(args.sizes) or list(DEFAULT_SIZES), sizes(args.seeded)
    limits: Any = {"max_memory_bytes": args.max_memory, "runtime": machine}
    try:
        if args.check_steps:
            chosen = list(dict.fromkeys([all_sizes[0], all_sizes[len(all_sizes) // 2], all_sizes[-1]]))
            return step_plan(base, chosen, **limits), chosen
        if set(seeded or ()) - set(all_sizes):
            parser.error("--seeded names sizes that --sizes does not")
        return ladder_plan(base, all_sizes, seeds=args.seeds or DEFAULT_SEEDS, seeded=seeded, **limits), all_sizes
    except ConfigError as error:
        parser.error(str(error))


def _probed_seconds(
    args: argparse.Namespace, plan: Plan, about: Subject, there: set[str], machine: Runtime
) -> float | None:
    """Wall time of the runs that are not there, from a short run of the smallest and of the largest size, in s."""
    from dataclasses import replace

    from prequential import api
    from prequential.measure.study.ladder import predicted_seconds
    from prequential.measure.study.sweep import config_key

    left = [s for s in plan.settings if any(config_key(c.to_dict()) not in there for c in s.configs)]
    if not left:
        return 0.0
    n_probe, probes = min(PROBE_BYTES, about.n_bytes), []
    for one in dict.fromkeys([plan.settings[0].configs[0], plan.settings[-1].configs[0]]):
        done = api.evaluate(args.source, config=one, limit_bytes=n_probe, baselines=(), runtime=machine)
        probes.append((one, n_probe, done.wall_s))
    kept = tuple(replace(s, configs=tuple(c for c in s.configs if config_key(c.to_dict()) not in there)) for s in left)
    return predicted_seconds(replace(plan, settings=kept), about.n_bytes, probes)


def _show(
    args: argparse.Namespace,
    plan: Plan,
    sizes: list[Size],
    about: Subject,
    outcomes: list[Outcome],
    seconds: float | None,
) -> None:
    from prequential.measure.study.ladder import anomalies, check_steps, n_weights, read_ladder, step_drift

    done = [outcome for outcome in outcomes if outcome.run]
    checks: list[StepCheck] = []
    ladder, diverged = None, {}
    if done and args.check_steps:
        factors = [float(outcome.setting.name.split(" x ")[1]) for outcome in done]
        bits = [outcome.run.record["code_bits_per_byte"] for outcome in done if outcome.run]
        names = [outcome.setting.name.split(",")[0] for outcome in done]
        by_name = {str(size): size for size in sizes}
        checks = check_steps({(by_name[n], f): b for n, f, b in zip(names, factors, bits, strict=True)}, config(args))
    elif done:
        ladder = read_ladder(args.runs)
        diverged = anomalies(ladder)
    if args.json:
        record = {
            "schema": SCHEMA,
            "kind": "step check" if args.check_steps else "ladder",
            "corpus": about._asdict(),
            "plan": [
                {"size": s.name, "n_weights": n_weights(c.gpt), "config": c.to_dict()}
                for s in plan.settings
                for c in s.configs
                if c.gpt
            ],
            "flops": plan.flops(about.n_bytes),
            "predicted_wall_s": seconds,
            "runs": [outcome_record(outcome) for outcome in outcomes],
            "diverged": diverged,
            "step_checks": [asdict(check) for check in checks],
            "step_drift": step_drift(checks) if checks else None,
        }
        print(json.dumps(record, allow_nan=False))
    elif checks:
        print("\n" + format_steps(checks, step_drift(checks)))
    elif ladder:
        print("\n" + format_ladder(ladder, diverged))


# ---- what is shown


def format_plan(plan: Plan, about: Subject, there: set[str], seconds: float | None) -> str:
    """What is going to be run. there: keys (`config_key`) of finished runs; seconds: of the others, None if not probed."""
    from prequential.measure.study.ladder import n_weights
    from prequential.measure.study.sweep import config_key
    from prequential.measure.table import format_table
    from prequential.online.flops import flops_per_byte

    rows = [
        (
            setting.name,
            f"{n_weights(gpt):,}",
            ", ".join(str(one.seed) for one in setting.configs),
            f"{flops_per_byte(setting.configs[0], about.n_bytes).total:,.0f}",
        )
        for setting in plan.settings
        if (gpt := setting.configs[0].gpt)
    ]
    n_there = sum(config_key(one.to_dict()) in there for one in plan.configs)
    takes = "" if seconds is None else f", some {seconds:,.0f} s by a short probe"
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {about.n_bytes:,} bytes, which contain those over every prefix; {n_there} there "
            f"already; {plan.flops(about.n_bytes):.3g} FLOPs in all{takes}",
            format_table(("size", "weights", "seeds", "FLOPs/byte"), rows),
            "",
        ]
    )


def format_ladder(ladder: Ladder, diverged: dict[str, str]) -> str:
    """Bits per byte of every run over every prefix."""
    from prequential.measure.table import format_table

    prefixes = ladder.prefixes()
    rows = [
        (rung.name, f"{rung.n_weights:,}", *(f"{rate:.4f}" for rate in rung.curve.at(prefixes) / prefixes))
        for rung in ladder.rungs
    ]
    return "\n".join(
        [
            format_table(("bits/byte over", "weights", *(f"{n:,}" for n in prefixes)), rows),
            *(f"looks diverged: {name}: {why}" for name, why in diverged.items()),
        ]
    )


def format_steps(checks: list[StepCheck], drift: float | None) -> str:
    """What the rule loses at each size."""
    from prequential.measure.table import format_table

    factors = checks[0].factors
    rows = [
        (
            str(c.size),
            f"{c.n_weights:,}",
            *(f"{bits:.4f}" for bits in c.bits_per_byte),
            "-" if c.best_factor is None else f"{c.best_factor:.2f}",
            f"{c.loss_percent:.2f} %",
        )
        for c in checks
    ]
    titles = ("bits/byte, steps", "weights", *(f"x {factor:g}" for factor in factors), "best factor", "loss of x 1")
    moves = "unknown: fewer than 3 sizes have a best factor" if drift is None else f"{drift:+.2f} doublings"
    return "\n".join(
        [
            format_table(titles, rows),
            f"drift of the best factor for each doubling of the weights: {moves}",
            *(f"{c.size}: {c.note}" for c in checks if c.note),
        ]
    )
