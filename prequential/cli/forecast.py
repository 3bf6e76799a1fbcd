"""prequential forecast: the cost of a larger run, forecast and frozen before the run."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.plans import add_trust
from prequential.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from prequential.sweeps.ladder import Ladder

SUMMARY = "forecast a larger run from a ladder, and freeze the forecast"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "forecast",
        description="Fit a scaling law (code length against size and length) to the runs of `sweep --ladder`, forecast the "
        "code length of a larger run with a 90 % interval, and freeze the forecast in a file before that run. "
        "`prequential score` scores it (docs/STUDIES.md).",
    )
    parser.add_argument("runs", metavar="DIR", help="folder of the runs of the ladder, or file of packed runs")
    target = parser.add_argument_group("target")
    target.add_argument("--target-width", type=options.positive_integer, metavar="W", help="width of the GPT")
    target.add_argument(
        "--target-layers",
        type=options.positive_integer,
        metavar="L",
        help="layers of the GPT (default: those of the largest size of the ladder)",
    )
    target.add_argument(
        "--target-bytes", type=options.byte_count, metavar="D", help="length of the corpus that it reads"
    )
    target.add_argument("--target-seed", type=int, default=0, metavar="N", help="its seed (default: 0)")
    parser.add_argument("-o", "--output", metavar="FILE", help="file of the frozen forecast; it is never overwritten")
    parser.add_argument(
        "--corpus",
        metavar="CORPUS",
        help="corpus of the target: freeze its digest, and check that it begins like the ladder's",
    )
    parser.add_argument(
        "--proxy",
        metavar="RUN",
        help="cheap run over the bytes of the target: fit the law to ratios to this run (needs --corpus)",
    )
    parser.add_argument(
        "--form",
        metavar="NAME",
        help="form of the scaling law: additive, crossed or shared (default: the one with the least backtest error)",
    )
    add_trust(parser)
    parser.add_argument("--with-diverged", action="store_true", help="also use runs that look diverged")
    parser.add_argument(
        "--after-the-fact", action="store_true", help="allow a target that has been run; the file records this"
    )
    parser.add_argument(
        "--backtest",
        action="store_true",
        help="print every forecast of the ladder's own larger runs from its smaller ones",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("runs",))


def run(args: argparse.Namespace) -> int:
    """Backtests, forecasts or both; returns the exit code."""
    has_target = _check_usage(args)
    from prequential.sweeps.ladder import read_ladder

    ladder = read_ladder(args.runs, trust_runs=args.trust_runs)
    record: dict[str, Any] = {}
    if args.backtest:
        record["backtest"] = _backtest(args, ladder)
    if has_target:
        record["forecast"] = _forecast(args, ladder)
    if args.json:
        print(json.dumps(record, allow_nan=False))
    return 0


def _check_usage(args: argparse.Namespace) -> bool:
    """Whether there is a target to forecast; wrong options end the program with a usage error."""
    from prequential.forecasting.scaling import FORMS

    has_target = args.target_width is not None or args.target_bytes is not None
    if not (has_target or args.backtest):
        args.parser.error("give --target-width and --target-bytes for a forecast, or --backtest")
    if has_target and (args.target_width is None or not args.target_bytes or not args.output):
        args.parser.error("a forecast needs --target-width, --target-bytes and -o FILE")
    if args.proxy and not args.corpus:
        args.parser.error("--proxy needs --corpus, because both must have the same bytes")
    if args.form not in (None, *FORMS):
        args.parser.error(f"there is no form {args.form!r}; the forms are {', '.join(FORMS)}")
    return has_target


def _forecast(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    """Makes the forecast, writes it and prints it."""
    from prequential.evaluation.runs import mode_of_all, read_run
    from prequential.files import check_output, output_file
    from prequential.forecasting.forecast import Target, forecast, target_digest, target_runs
    from prequential.forecasting.forecast_text import format_forecast
    from prequential.online.source import mode_of
    from prequential.sweeps.ladder import Size

    check_output(args.output, overwrite=False)
    size = Size(args.target_width, args.target_layers or ladder.sizes[-1].n_layers)
    target = Target(size=size, n_bytes=args.target_bytes, seed=args.target_seed)
    if not args.after_the_fact and (runs := target_runs(args.runs, target, ladder.base)):
        raise ConfigError(
            f"the target has been run already: {str(runs[0].path)!r}; to forecast it nevertheless, give --after-the-fact, which "
            "the file records"
        )
    proxy = read_run(args.proxy) if args.proxy else None
    digest = target_digest(args.corpus, ladder, target) if args.corpus else None
    if proxy and (proxy.record["corpus"]["n_bytes"], proxy.record["corpus"]["blake2b"]) != (target.n_bytes, digest):
        raise CorpusError(
            f"the proxy {args.proxy!r} did not read the target's {target.n_bytes} bytes of {args.corpus!r}"
        )
    record = forecast(
        ladder,
        target,
        proxy=proxy,
        target_blake2b=digest,
        form=args.form,
        with_diverged=args.with_diverged,
        after_the_fact=args.after_the_fact,
    )
    mode = mode_of(args.corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *([proxy] if proxy else [])])
    with output_file(args.output, mode=mode) as sink:
        sink.write(json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")
    if not (args.json or args.quiet):
        print(format_forecast(record))
    return record


def _backtest(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    """Forecasts the ladder's own larger runs, and prints the errors."""
    from dataclasses import asdict

    from prequential.evaluation.curves import MODEL
    from prequential.evaluation.runs import read_run
    from prequential.forecasting.backtest import QUANTITIES, rolling_origins
    from prequential.forecasting.forecast_text import format_backtest
    from prequential.forecasting.intervals import calibrate, seed_deviation

    cells = rolling_origins(ladder, read_run(args.proxy).curves[MODEL] if args.proxy else None)
    calibrations = {q: calibrate(cells, q, args.form, seed_deviation(ladder, q)) for q in QUANTITIES}
    if not args.json:
        for quantity, calibration in calibrations.items():
            print(format_backtest(quantity, calibration) + "\n")
    return {quantity: asdict(calibration) for quantity, calibration in calibrations.items()}
