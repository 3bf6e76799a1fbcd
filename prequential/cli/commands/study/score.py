"""prequential score: runs what was forecast, or reads it, and writes down how far off the forecast was."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli.options import add_runtime, add_verbosity, runtime
from prequential.cli.progress import progress_bar

if TYPE_CHECKING:
    from prequential.measure.evaluation.runs import Run
    from prequential.model.config import Config


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "score",
        help="run what was forecast, and score the forecast",
        description="Read the run that was forecast, or make it, and append a line to scores.jsonl beside the forecast: errors, "
        "interval hits, skill over naive forecasts. Nothing is ever taken out of that file.",
    )
    parser.add_argument("forecast", metavar="FORECAST", help="a file of `prequential forecast`")
    parser.add_argument(
        "source", nargs="?", metavar="CORPUS", help="to make the run if it is not there, and to check it"
    )
    parser.add_argument(
        "--runs", metavar="DIR", default="runs", help="where the run is, or goes (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the line, not a table")
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scores the forecast; returns the exit code."""
    from prequential.measure.study.forecast import append_score, read_forecast, score
    from prequential.model.config import Config

    record = read_forecast(args.forecast)
    config = Config.from_record(record["target"]["config"])
    found = _made(args, record, config) if args.source else _found(args, record, config)
    line = score(record, found)
    path = append_score(args.forecast, line)
    if args.json:
        print(json.dumps(line, allow_nan=False))
    elif not args.quiet:
        print(format_score(line))
        print(f"appended to {path}")
    return 0


def _found(args: argparse.Namespace, record: dict[str, Any], config: Config) -> Run:
    """The newest run of the target in the folder."""
    from prequential.errors import CorpusError
    from prequential.measure.evaluation.runs import read_runs
    from prequential.measure.study.sweep import config_key

    key, n_bytes = config_key(config.to_dict()), record["target"]["n_bytes"]
    there = [
        one
        for one in read_runs(args.runs)
        if config_key(one.record["config"]) == key and one.record["corpus"]["n_bytes"] == n_bytes
    ]
    if not there:
        raise CorpusError(f"{args.runs!r} holds no run of the target: name the corpus, and it will be made")
    return there[-1]


def _made(args: argparse.Namespace, record: dict[str, Any], config: Config) -> Run:
    """The target's run over the corpus: the one that is there, or a new one. The corpus must be the ladder's."""
    from prequential import __version__, api
    from prequential.measure.study.forecast import check_prefix
    from prequential.measure.study.sweep import Plan, Setting, subject, sweep

    check_prefix(record, subject(args.source, record["corpus"]["n_bytes"]))
    plan = Plan(settings=(Setting(name="target", configs=(config,)),), refusals=(), max_memory_bytes=args.max_memory)
    (outcome,) = sweep(
        args.source,
        plan,
        args.runs,
        evaluate=api.evaluate,
        program_version=__version__,
        limit_bytes=record["target"]["n_bytes"],
        runtime=runtime(args),
        watching=partial(progress_bar, quiet=args.quiet),
    )
    if outcome.error:
        raise outcome.error
    assert outcome.run
    return outcome.run


def format_score(line: dict[str, Any]) -> str:
    """Error, interval, skill."""
    from prequential.measure.table import format_table

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:+.2f}"

    rows = []
    for one in line["scores"]:
        digits = ",.0f" if one["quantity"] == "total_bits" else ".4f"
        rows.append(
            (
                one["quantity"],
                *(format(one[name], digits) for name in ("point", "low", "high", "actual")),
                f"{one['percent']:+.2f} %",
                "hit" if one["hit"] else "missed",
                share(one["seed_deviations"]),
                *(share(skill) for skill in one["skill"].values()),
                share(one["of_remaining_gain"]),
            )
        )
    titles = ("", "forecast", "90 % from", "to", "actual", "error", "interval", "in seed deviations",
              "skill: last rung", "skill: line", "of remaining gain")  # fmt: skip
    notes = ["after the fact: this was no forecast"] if line["after_the_fact"] else []
    return "\n".join([format_table(titles, rows), *notes])
