"""Forecast a larger run and freeze the forecast, or score it.

Scaling laws (code length against size and length) are fitted to the runs of `sweep --ladder`, or of a training loop at several
sizes. They forecast the code length of a larger run with a 90 % interval, and the forecast is frozen in a file before that run.
--score finds or makes that run, and appends the forecast's errors to scores.jsonl (docs/STUDIES.md).
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import fitted, progress_bar
from prequential.errors import ConfigError, CorpusError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run
    from prequential.forecasting.forecast import Target
    from prequential.sweeps.ladder import Ladder

TARGET = {
    "--target-width N": "width of the GPT",
    "--target-layers N": "layers of the GPT (default: those of the largest size of the ladder)",
    "--target-parameters N": "for a ladder of training loops: parameters of the model",
    "--target-bytes BYTES": "length of the corpus that it reads",
    "--target-seed INTEGER [0]": "its seed",
}
FORECAST = {
    "-o, --output FILE": "file of the frozen forecast; it is never overwritten",
    "--after-the-fact": "allow a target that has been run; the file records this",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="DIR",
        help="folder of the runs of the ladder, or file of packed runs; with --score, of the run that was forecast: "
        "scores.jsonl is in the folder, or beside the file",
    )
    options.add(parser.add_argument_group("target"), TARGET)
    options.add(
        parser,
        {
            **FORECAST,
            "--corpus CORPUS": "corpus of the target: freeze its digest, and check that it begins like the ladder's; with "
            "--score, make the run if there is none",
            **options.TRUST,
            "--score FORECAST": "score this frozen forecast instead of making one",
            **options.JSON,
        },
    )
    parser.add_argument(
        "--proxy",
        metavar="RUN",
        action="append",
        help="cheap run over the bytes of the target, which shows how hard they are; may be given several times (needs --corpus, "
        "but not for training loops)",
    )
    options.add_runtime(parser)
    parser.set_defaults(inputs=_inputs)


def _inputs(args: argparse.Namespace) -> tuple[str, ...]:
    """The arguments that must exist: with --score, DIR may be new."""
    return ("runs",) if args.score is None else ("score", "corpus")


def run(args: argparse.Namespace) -> int:
    if args.score is not None:
        return _score(args)
    if (args.target_width is None) == (args.target_parameters is None) or not args.target_bytes or not args.output:
        args.parser.error("a forecast needs --target-width or --target-parameters, --target-bytes, and -o FILE")
    if args.proxy and not (args.corpus or args.target_parameters):
        args.parser.error("--proxy needs --corpus, because both must have the same bytes")
    if args.target_parameters:
        options.refuse(
            args, options.given_of(args, "corpus", "target_layers", "target_seed"), "training loops read no corpus"
        )
    record = _forecast(args)
    if args.json:
        print(json.dumps({"forecast": record}, allow_nan=False))
    return 0


def _forecast(args: argparse.Namespace) -> dict[str, Any]:
    """Makes the forecast, writes it and prints it."""
    from prequential.evaluation.runs import mode_of_all, read_run
    from prequential.files import check_output, output_file
    from prequential.forecasting.forecast import forecast, format_forecast, target_digest, target_runs
    from prequential.forecasting.members import read_ladder
    from prequential.online.source import mode_of

    ladder, left_out = read_ladder(args.runs, trust_runs=args.trust_runs)
    check_output(args.output, overwrite=False)
    target = _target(args, ladder)
    if not args.after_the_fact and (runs := target_runs(args.runs, target, ladder)):
        raise ConfigError(
            f"the target has been run already: {str(runs[0].path)!r}; to forecast it nevertheless, give --after-the-fact, which "
            "the file records"
        )
    proxies = [read_run(name) for name in args.proxy or ()]
    digest = target_digest(args.corpus, ladder, target) if args.corpus else None
    for proxy in proxies if digest else ():
        if (proxy.record["corpus"]["n_bytes"], proxy.record["corpus"]["blake2b"]) != (target.n_bytes, digest):
            raise CorpusError(
                f"the proxy {str(proxy.path)!r} did not read the target's {target.n_bytes} bytes of {args.corpus!r}"
            )
    record = forecast(
        ladder, target, proxies=proxies, target_blake2b=digest, after_the_fact=args.after_the_fact, left_out=left_out
    )
    mode = mode_of(args.corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *proxies])
    with output_file(args.output, mode=mode) as sink:
        sink.write(json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")
    if not (args.json or args.quiet):
        print(fitted(format_forecast(record)))
    return record


def _target(args: argparse.Namespace, ladder: Ladder) -> Target:
    from prequential.forecasting.forecast import Target
    from prequential.sweeps.ladder import Parameters, Size

    if args.target_parameters:
        return Target(size=Parameters(args.target_parameters), n_bytes=args.target_bytes)
    n_layers = args.target_layers or getattr(ladder.sizes[-1], "n_layers", 1)
    return Target(size=Size(args.target_width, n_layers), n_bytes=args.target_bytes, seed=args.target_seed)


# ---- the score


def _score(args: argparse.Namespace) -> int:
    making = (
        "target_width",
        "target_parameters",
        "target_layers",
        "target_bytes",
        "target_seed",
        "output",
        "proxy",
        "after_the_fact",
    )
    options.refuse(args, options.given_of(args, *making), "--score makes no forecast")
    from prequential.files import common_mode
    from prequential.forecasting.sealed import append_score, find_target_run, format_score, read_forecast, score

    forecast = read_forecast(args.score)
    mode = common_mode(args.score)
    made = _make_run(args, forecast, mode) if args.corpus is not None else None
    run = made or find_target_run(args.runs, forecast, trust_runs=args.trust_runs)
    record = score(forecast, run)
    path = append_score(args.runs, record, mode & run.mode)
    if args.json:
        print(json.dumps(record, allow_nan=False))
    elif not args.quiet:
        print(fitted(f"{format_score(record)}\nappended to {printable(str(path))}"))
    return 0


def _make_run(args: argparse.Namespace, forecast: dict[str, Any], mode: int) -> Run:
    """The target's run over the corpus: a finished one, or a new one. mode: the permissions of the forecast."""
    from prequential.files.append import prepare_records
    from prequential.forecasting.sealed import check_prefix, scores_path
    from prequential.model.config import Config
    from prequential.online.source import mode_of
    from prequential.sweeps.finished import corpus_key
    from prequential.sweeps.plan_runs import run_plan
    from prequential.sweeps.plans import Plan, Variant

    if "gpt" not in forecast["target"]["config"]:
        raise ConfigError("the forecast is of a training loop, which no command can make: leave out --corpus")
    check_prefix(forecast, corpus_key(args.corpus, forecast["corpus"]["n_bytes"]))
    prepare_records(scores_path(args.runs), mode & mode_of(args.corpus))
    config = Config.from_record(forecast["target"]["config"])
    (outcome,) = run_plan(
        args.corpus,
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
