"""prequential score: the error of a frozen forecast, from the run that was forecast."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.plans import add_trust
from prequential.cli.progress import progress_bar
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run

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
    add_trust(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("forecast",))


def run(args: argparse.Namespace) -> int:
    """Scores the forecast; returns the exit code."""
    from prequential.files import common_mode
    from prequential.forecasting.forecast_text import format_score
    from prequential.forecasting.score import append_score, find_target_run, score
    from prequential.forecasting.sealed import read_forecast

    forecast = read_forecast(args.forecast)
    mode = common_mode(args.forecast)
    if args.source:
        run = _make_run(args, forecast, mode)
    else:
        run = find_target_run(args.runs, forecast, trust_runs=args.trust_runs)
    record = score(forecast, run)
    path = append_score(args.runs, record, mode & run.mode)
    if args.json:
        print(json.dumps(record, allow_nan=False))
    elif not args.quiet:
        print(f"{format_score(record)}\nappended to {printable(str(path))}")
    return 0


def _make_run(args: argparse.Namespace, forecast: dict[str, Any], mode: int) -> Run:
    """The target's run over the corpus: a finished one, or a new one. mode: the permissions of the forecast.

    Raises CorpusError for another corpus than the ladder's, OutputError if the score could not be appended.
    """
    from prequential.files import writing
    from prequential.files.append import check_appendable
    from prequential.forecasting.score import check_prefix, scores_path
    from prequential.model.config import Config
    from prequential.online.source import mode_of
    from prequential.sweeps.finished import corpus_key
    from prequential.sweeps.plan_runs import run_plan
    from prequential.sweeps.plans import Plan, Variant

    check_prefix(forecast, corpus_key(args.source, forecast["corpus"]["n_bytes"]))
    scores = scores_path(args.runs)
    with writing(scores):
        scores.parent.mkdir(parents=True, exist_ok=True)
    check_appendable(scores, mode & mode_of(args.source))  # before the work, not after it
    config = Config.from_record(forecast["target"]["config"])
    (outcome,) = run_plan(
        args.source,
        Plan(variants=(Variant(name="target", configs=(config,)),)),
        args.runs,
        limit_bytes=forecast["target"]["n_bytes"],
        runtime=options.runtime(args),
        open_progress=partial(progress_bar, quiet=args.quiet),
        trust_runs=args.trust_runs,
    )
    if outcome.error:
        raise outcome.error
    assert outcome.run
    return outcome.run
