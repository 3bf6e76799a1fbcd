"""prequential forecast: what a larger run will cost, frozen before it is made."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from prequential.cli.options import add_verbosity, count, n_bytes

if TYPE_CHECKING:
    from prequential.measure.study.forecast import Calibration, Target
    from prequential.measure.study.ladder import Ladder


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "forecast",
        help="forecast a larger run from a ladder, and freeze the forecast",
        description="Fit a law of size and length to the runs of `prequential ladder`, say what a larger run will cost, with "
        "a 90 % interval, and freeze it in a file before that run is made. `prequential score` scores it.",
    )
    parser.add_argument("runs", metavar="DIR", help="the folder of the ladder's runs")
    target = parser.add_argument_group("target")
    target.add_argument("--target-width", type=count, metavar="W", help="its width")
    target.add_argument("--target-layers", type=count, metavar="L", help="its layers (default: as the largest rung)")
    target.add_argument("--target-bytes", type=n_bytes, metavar="D", help="over how many bytes of the corpus")
    target.add_argument("--target-seed", type=int, default=0, metavar="N", help="its seed (default: 0)")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the forecast is frozen; never overwritten")
    parser.add_argument(
        "--corpus", metavar="CORPUS", help="to freeze the digest of the target's bytes, and check prefixes"
    )
    parser.add_argument(
        "--proxy",
        metavar="RUN",
        help="a cheap run over the target's bytes: the law is of the ratio to it (needs --corpus)",
    )
    parser.add_argument("--form", metavar="NAME", help="of the law (default: the one of the least backtest error)")
    parser.add_argument("--with-diverged", action="store_true", help="use runs that look diverged")
    parser.add_argument(
        "--after-the-fact", action="store_true", help="although the target has been run; the file says so"
    )
    parser.add_argument("--backtest", action="store_true", help="show every forecast of the ladder's own larger runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Backtests, forecasts or both; returns the exit code."""
    from prequential.measure.study.ladder import read_ladder
    from prequential.measure.study.scaling import FORMS

    asked = args.target_width is not None or args.target_bytes is not None
    if not (asked or args.backtest):
        args.parser.error("say what to forecast: --target-width and --target-bytes; or --backtest")
    if asked and (args.target_width is None or not args.target_bytes or not args.output):
        args.parser.error("a forecast needs --target-width, --target-bytes and -o FILE")
    if args.proxy and not args.corpus:
        args.parser.error("--proxy needs --corpus: both must be of the same bytes")
    if args.form not in (None, *FORMS):
        args.parser.error(f"no form {args.form!r}; there are {', '.join(FORMS)}")
    ladder = read_ladder(args.runs)
    shown: dict[str, Any] = {}
    if args.backtest:
        shown["backtest"] = _backtest(args, ladder)
    if asked:
        shown["forecast"] = _frozen(args, ladder)
        if not (args.json or args.quiet):
            print(format_forecast(shown["forecast"]))
    if args.json:
        print(json.dumps(shown, allow_nan=False))
    return 0


def _frozen(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    """Makes the forecast and writes it."""
    from prequential import __version__
    from prequential.errors import ConfigError, CorpusError
    from prequential.files import check_output, output_file
    from prequential.measure.evaluation.runs import read_run
    from prequential.measure.study.forecast import Target, forecast, target_runs
    from prequential.measure.study.ladder import Size

    check_output(args.output, overwrite=False)
    size = Size(args.target_width, args.target_layers or ladder.sizes[-1].n_layers)
    target = Target(size=size, n_bytes=args.target_bytes, seed=args.target_seed)
    if not args.after_the_fact and (there := target_runs(args.runs, target, ladder.base)):
        raise ConfigError(
            f"the target has been run: {str(there[0].path)!r}; say --after-the-fact, and the file will say it too"
        )
    proxy = read_run(args.proxy) if args.proxy else None
    digest = _checked_digest(args, ladder, target)
    if proxy and (proxy.record["corpus"]["n_bytes"], proxy.record["corpus"]["blake2b"]) != (target.n_bytes, digest):
        raise CorpusError(f"the proxy {args.proxy!r} is not of the target's {target.n_bytes} bytes of {args.corpus!r}")
    record = forecast(
        ladder,
        target,
        program_version=__version__,
        proxy=proxy,
        target_blake2b=digest,
        form=args.form,
        with_diverged=args.with_diverged,
        after_the_fact=args.after_the_fact,
    )
    with output_file(args.output) as sink:
        sink.write(json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")
    return record


def _checked_digest(args: argparse.Namespace, ladder: Ladder, target: Target) -> str | None:
    """BLAKE2b of the target's bytes, if the corpus is named: it must begin as the ladder's did, and be long enough."""
    from prequential.errors import CorpusError
    from prequential.measure.study.sweep import subject

    if not args.corpus:
        return None
    if subject(args.corpus, ladder.about.n_bytes) != ladder.about:
        raise CorpusError(f"{args.corpus!r} does not begin with the bytes that the ladder read")
    about = subject(args.corpus, target.n_bytes)
    if about.n_bytes < target.n_bytes:
        raise CorpusError(f"{args.corpus!r} has {about.n_bytes} bytes, fewer than the target's {target.n_bytes}")
    return about.blake2b


def _backtest(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    from dataclasses import asdict

    from prequential.measure.evaluation.runs import read_run
    from prequential.measure.evaluation.trace import MODEL
    from prequential.measure.study.forecast import QUANTITIES, calibrate, choose_form, rolling_origins, seed_deviation

    cells = rolling_origins(ladder, read_run(args.proxy).curves[MODEL] if args.proxy else None)
    form = args.form or choose_form(cells)
    found = {q: calibrate(cells, q, form, seed_deviation(ladder, q)) for q in QUANTITIES}
    if not args.json:
        for quantity, calibration in found.items():
            print(format_backtest(quantity, calibration) + "\n")
    return {quantity: asdict(calibration) for quantity, calibration in found.items()}


# ---- what is shown


def format_backtest(quantity: str, calibration: Calibration) -> str:
    """Each forecast of a run that is there, and how many intervals hit."""
    from math import expm1

    from prequential.measure.table import format_table

    if not calibration.cells:
        return f"{quantity}: nothing to hide: of 3 sizes and 3 prefixes none is left that takes twice the operations"
    rows = [
        (
            f"{cell.fitted_size}, {cell.fitted_bytes:,}",
            f"{cell.target_size}, {cell.target_bytes:,}",
            f"{cell.compute_ratio:.1f}",
            *(f"{100 * expm1(error):+.2f} %" for error in cell.error.values()),
        )
        for cell in calibration.cells
    ]
    ends = ("rms", "", "", *(f"{100 * error:.2f} %" for error in calibration.rmse.values()))
    coverage = calibration.coverage or 0.0
    return "\n".join(
        [
            format_table((f"{quantity}: fitted up to", "target", "compute", *calibration.rmse), [*rows, ends]),
            f"form: {calibration.form}; 90 % intervals, each with the other origins' factor, hit {calibration.n_hit} of "
            f"{calibration.n_cells} ({coverage:.0%}), of {calibration.n_origins} origins; factor {calibration.factor:.2f}"
            + ("" if calibration.is_calibrated else ", the normal distribution's: too few to calibrate by"),
        ]
    )


def format_forecast(record: dict[str, Any]) -> str:
    """Point, interval, naive forecasts."""
    from prequential.measure.table import format_table

    target, rows = record["target"], []
    for quantity, made in record["forecasts"].items():
        digits = ",.0f" if quantity == "total_bits" else ".4f"
        values = (made["point"], made["low"], made["high"], made["naive"]["last_rung"], made["naive"]["line"])
        rows.append((quantity, *(format(value, digits) for value in values)))
    gpt, identity, proxy = target["config"]["gpt"], record["identity"], record["proxy"]
    return "\n".join(
        [
            f"target: {gpt['width']}x{gpt['n_layers']}, {target['n_weights']:,} weights, {target['n_bytes']:,} bytes, "
            f"{record['compute']['ratio']:.1f} times the operations of the largest run fitted",
            f"form: {record['form']} ({record['form_chosen_by']}); proxy: {proxy['name'] if proxy else 'none'}",
            format_table(("", "forecast", "90 % from", "to", "last rung", "line"), rows),
            f"total bits by the law of final windows ({identity['form']}): {identity['disagreement_percent']:+.2f} %",
            f"frozen: {record['blake2b']}",
        ]
    )
