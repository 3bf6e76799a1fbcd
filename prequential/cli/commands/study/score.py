"""prequential score: the error of a frozen forecast, from the run that was forecast."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.progress import progress_bar
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.measure.evaluation.runs import Run

SUMMARY = "make the run that was forecast, and score the forecast"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "score",
        description="Find the run that was forecast, or make it, and append a line to scores.jsonl in the folder of the "
        "run: errors, interval hits and scores, and skill over naive forecasts. No line of that file is ever removed "
        "(docs/STUDIES.md).",
    )
    parser.add_argument("forecast", metavar="FORECAST", help="a file that `prequential forecast` wrote")
    parser.add_argument(
        "source",
        nargs="?",
        metavar="CORPUS",
        help="corpus of the target: make the run if there is none, and check its bytes",
    )
    parser.add_argument(
        "--runs",
        metavar="DIR",
        default="runs",
        help="folder of the run and of scores.jsonl, or file of packed runs, with scores.jsonl beside (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the line instead of a table")
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("forecast",))


def run(args: argparse.Namespace) -> int:
    """Scores the forecast; returns the exit code."""
    from prequential.measure.study.forecasting.score import append_score, find_target_run, score
    from prequential.measure.study.forecasting.sealed import read_forecast
    from prequential.measure.study.text.forecast import format_score

    forecast = read_forecast(args.forecast)
    record = score(forecast, _make_run(args, forecast) if args.source else find_target_run(args.runs, forecast))
    path = append_score(args.runs, record)
    if args.json:
        print(json.dumps(record, allow_nan=False))
    elif not args.quiet:
        print(f"{format_score(record)}\nappended to {printable(str(path))}")
    return 0


def _make_run(args: argparse.Namespace, forecast: dict[str, Any]) -> Run:
    """The target's run over the corpus: a finished one, or a new one. Raises CorpusError for another corpus than the ladder's."""
    from prequential.measure.study.forecasting.score import check_prefix
    from prequential.measure.study.plans import Plan, Setting, run_plan, subject_of
    from prequential.model.config import Config

    check_prefix(forecast, subject_of(args.source, forecast["corpus"]["n_bytes"]))
    config = Config.from_record(forecast["target"]["config"])
    (outcome,) = run_plan(
        args.source,
        Plan(settings=(Setting(name="target", configs=(config,)),), refusals=()),
        args.runs,
        limit_bytes=forecast["target"]["n_bytes"],
        runtime=options.runtime(args),
        open_progress=partial(progress_bar, quiet=args.quiet),
    )
    if outcome.error:
        raise outcome.error
    assert outcome.run
    return outcome.run
