"""Forecasts as text: the backtest of a ladder, a frozen forecast, and its score."""

from math import expm1
from typing import Any

from prequential.measure.study.backtest import Calibration
from prequential.measure.table import format_table
from prequential.printable import printable

SCORE_TITLES = (
    "", "forecast", "90 % from", "to", "actual", "error", "interval", "in seed deviations", "skill: last rung", "skill: line",
    "of remaining gain",
)  # fmt: skip


def format_backtest(quantity: str, calibration: Calibration) -> str:
    """Each forecast of a finished run of the ladder, and how many intervals contain the actual loss."""
    if not calibration.cells:
        return (
            f"{quantity}: no run to hide: with 3 sizes and 3 prefixes fitted, no other run takes twice the operations of the "
            "fitted ones"
        )
    rows = [
        (
            f"{cell.fitted_size}, {cell.fitted_bytes:,}",
            f"{cell.target_size}, {cell.target_bytes:,}",
            f"{cell.compute_ratio:.1f}",
            *(f"{100 * expm1(error):+.2f} %" for error in cell.error.values()),
        )
        for cell in calibration.cells
    ]
    rows.append(("rms", "", "", *(f"{100 * error:.2f} %" for error in calibration.rmse.values())))
    calibrated = "" if calibration.is_calibrated else ", of the normal distribution: too few origins to calibrate"
    return "\n".join(
        [
            format_table((f"{quantity}: fitted up to", "target", "compute", *calibration.rmse), rows),
            f"form: {calibration.form}; 90 % intervals, each with the factor of the other origins, hit {calibration.n_hit} of "
            f"{calibration.n_cells} ({calibration.coverage or 0.0:.0%}), from {calibration.n_origins} origins; factor "
            f"{calibration.factor:.2f}{calibrated}",
        ]
    )


def format_forecast(record: dict[str, Any]) -> str:
    """The target, each forecast with its interval, and the naive forecasts."""
    target = record["target"]
    rows = []
    for quantity, forecast in record["forecasts"].items():
        naive = forecast["naive"]
        values = (forecast["point"], forecast["low"], forecast["high"], naive["last_rung"], naive["line"])
        rows.append((quantity, *(format(value, _digits(quantity)) for value in values)))
    gpt, identity, proxy = target["config"]["gpt"], record["identity"], record["proxy"]
    return "\n".join(
        [
            f"target: {gpt['width']}x{gpt['n_layers']}, {target['n_weights']:,} weights, {target['n_bytes']:,} bytes, "
            f"{record['compute']['ratio']:.1f} times the operations of the largest run fitted",
            f"form: {record['form']} ({record['form_chosen_by']}); proxy: {printable(proxy['name']) if proxy else 'none'}",
            format_table(("", "forecast", "90 % from", "to", "last rung", "line"), rows),
            f"total bits by the law of final windows ({identity['form']}): {identity['disagreement_percent']:+.2f} %",
            f"frozen: {record['blake2b']}",
        ]
    )


def format_score(record: dict[str, Any]) -> str:
    """Error, interval and skill of each forecast."""
    rows = []
    for score in record["scores"]:
        values = (score["point"], score["low"], score["high"], score["actual"])
        rows.append(
            (
                score["quantity"],
                *(format(value, _digits(score["quantity"])) for value in values),
                f"{score['percent']:+.2f} %",
                "hit" if score["hit"] else "missed",
                _share(score["seed_deviations"]),
                *(_share(score["skill"][name]) for name in ("last_rung", "line")),
                _share(score["of_remaining_gain"]),
            )
        )
    notes = ["after the fact: this does not count as a forecast"] if record["after_the_fact"] else []
    return "\n".join([format_table(SCORE_TITLES, rows), *notes])


def _digits(quantity: str) -> str:
    return ",.0f" if quantity == "total_bits" else ".4f"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
