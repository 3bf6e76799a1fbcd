"""Forecast a larger run and register the forecast, or score it.

Scaling laws (code length against size and length) are fitted to the runs of `sweep --ladder`, or of a training loop at several
sizes. They forecast the code length of a larger run with a 90 % interval, in a file that is registered before that run.
--score finds or makes that run, and appends the forecast's errors to scores.jsonl (docs/STUDIES.md).
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import print_result, progress_bar
from prequential.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run

TARGET = {
    "--target-width N *": "width of the GPT",
    "--target-layers N *": "layers of the GPT (default: those of the largest size of the ladder)",
    "--target-parameters N *": "for a ladder of training loops: parameters of the model",
    "--target-bytes BYTES *": "length of the corpus that it reads",
    "--target-seed INTEGER [0]": "its seed",
}
FORECAST = {
    "runs: DIR": "folder of the runs of the ladder, or file of packed runs; with --score, of the run that was forecast: "
    "scores.jsonl is in the folder, or beside the file",
    "-o, --output FILE *": "file of the forecast; it is never overwritten",
    "--after-the-fact": "allow a target that has been run; the file records this",
    "--proxy RUN ... *": "cheap run over the bytes of the target, which shows how hard they are: a folder, latest, or the "
    "beginning of a name in runs/; repeatable (needs --corpus, but not for training loops)",
    "--corpus CORPUS *": "corpus of the target: record its digest, and check that it begins like the ladder's; with --score, "
    "make the run if there is none",
    "--score FORECAST *": "score this forecast instead of making one",
}
MADE = ("target_width", "target_layers", "target_parameters", "target_bytes", "target_seed", "after_the_fact")
OPTIONS = (options.Group(FORECAST), options.FORMATS, options.Group(TARGET, "target"), options.RUNTIME)


def run(args: argparse.Namespace) -> int:
    if args.score is not None:
        return _score(args)
    if (args.target_width is None) == (args.target_parameters is None) or not args.target_bytes or not args.output:
        args.parser.error("a forecast needs --target-width or --target-parameters, --target-bytes, and -o FILE")
    if args.proxy and not (args.corpus or args.target_parameters):
        args.parser.error("--proxy needs --corpus, because both must have the same bytes")
    if args.target_parameters:
        given = options.given_of(args, "corpus", "target_layers", "target_seed")
        options.refuse(args, given, "training loops read no corpus")
    from prequential.files import check_output
    from prequential.forecasting.forecast import forecast

    check_output(args.output, overwrite=None)
    arguments = {name: getattr(args, name) for name in (*MADE, "corpus")}
    made = forecast(args.runs, **arguments, proxies=args.proxy)
    made.save(args.output)
    figure = f"{made.record['forecasts']['total_bits']['point'] / args.target_bytes:.3f}"
    print_result(args, str(made), {"forecast": made.record}, figure=figure, rows=made.to_frame)
    return 0


def _score(args: argparse.Namespace) -> int:
    options.refuse(args, options.given_of(args, *MADE, "output", "proxy"), "--score makes no forecast")
    from prequential.forecasting.forecast import read_forecast
    from prequential.forecasting.registered import find_target_run, scores_path
    from prequential.records import append_record

    forecast = read_forecast(args.score)
    made = _make_run(args, forecast.record, forecast.mode) if args.corpus is not None else None
    run = made or find_target_run(args.runs, forecast.record)
    score = forecast.score(run)
    path = scores_path(args.runs)
    append_record(path, score.record, forecast.mode & run.mode)
    figure = f"{score.record['percent']:+.2f}"
    print_result(args, f"{score}\nappended to {path}", score.record, figure=figure, rows=score.to_frame)
    return 0


def _make_run(args: argparse.Namespace, forecast: dict[str, Any], mode: int) -> Run:
    """The target's run over the corpus: a finished one, or a new one. mode: the permissions of the forecast."""
    from prequential.files.outputs import prepare_records
    from prequential.forecasting.registered import scores_path
    from prequential.model.config import Config
    from prequential.online.source import mode_of
    from prequential.sweeps.plans import Plan, Variant, corpus_key, recorded_corpus, run_plan

    target = forecast["target"]
    if "gpt" not in target["config"]:
        raise ConfigError("the forecast is of a training loop, which no command can make: leave out --corpus")
    if corpus_key(args.corpus, forecast["corpus"]["n_bytes"]) != recorded_corpus(forecast):
        raise CorpusError(f"{args.corpus!r} does not begin with the bytes that the ladder read")
    prepare_records(scores_path(args.runs), mode & mode_of(args.corpus))
    plan = Plan(variants=(Variant(name="target", configs=(Config.from_record(target["config"]),)),))
    progress, runtime = partial(progress_bar, quiet=args.quiet), options.runtime(args)
    (outcome,) = run_plan(
        args.corpus, plan, args.runs, limit_bytes=target["n_bytes"], runtime=runtime, open_progress=progress
    )
    if outcome.error:
        raise outcome.error
    assert outcome.run
    return outcome.run


EXAMPLE = "ladder --target-width 192 --target-bytes 10M -o forecast.json"
COMMAND = options.Command(
    "forecast", __doc__, EXAMPLE, options=OPTIONS, run=run, inputs=("score", "corpus"), runs_of=("proxy",)
)
