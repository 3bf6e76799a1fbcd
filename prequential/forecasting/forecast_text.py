"""Forecasts as text: a frozen forecast, and its score."""

from typing import Any

from prequential.printable import printable
from prequential.records.table import format_table


def format_forecast(record: dict[str, Any]) -> str:
    """The target, each forecast with its interval, the naive forecasts, and what weakens the forecast."""
    target = record["target"]
    forecasts = record["forecasts"]
    naive_names = list(next(iter(forecasts.values()))["naive"])
    rows = []
    for quantity, forecast in forecasts.items():
        values = (forecast["point"], forecast["low"], forecast["high"], *forecast["naive"].values())
        rows.append((quantity, *(format(value, _digits(quantity)) for value in values)))
    gpt, identity, proxy = target["config"]["gpt"], record["identity"], record["proxy"]
    return "\n".join(
        [
            f"target: {gpt['width']}x{gpt['n_layers']}, {target['n_weights']:,} weights, {target['n_bytes']:,} bytes, "
            f"{record['compute']['ratio']:.1f} times the operations of the largest run fitted",
            f"form: {record['form']}; proxy: {printable(proxy['name']) if proxy else 'none'}",
            format_table(("", "forecast", "90 % from", "to", *map(_title, naive_names)), rows),
            *(_backtest(quantity, record["form"], made["calibration"]) for quantity, made in forecasts.items()),
            f"check: the sum of the law of the loss ({identity['form']}) differs from total_bits by "
            f"{identity['disagreement_percent']:+.2f} %",
            *(f"warning: {line}" for line in forecast_warnings(record)),
            f"frozen: {record['blake2b']}",
        ]
    )


def _backtest(quantity: str, form: str, calibration: dict[str, Any]) -> str:
    """How near this way of forecasting came to the ladder's own larger runs."""
    if not calibration["n_cells"]:
        return f"backtest of {quantity}: none, no run of the ladder takes twice the operations of the fitted ones"
    return (
        f"backtest of {quantity}: rms {100 * calibration['rmse'][form]:.2f} %, {calibration['n_hit']} of "
        f"{calibration['n_cells']} intervals hit, from {calibration['n_origins']} origins, worth "
        f"{calibration['n_effective']:.1f} independent errors"
    )


def forecast_warnings(record: dict[str, Any]) -> list[str]:
    """What weakens a forecast: bounds that bind, intervals that were calibrated nearer, an identity that fails."""
    lines = []
    for quantity, forecast in record["forecasts"].items():
        if forecast["fit"]["binding"]:
            lines.append(f"{quantity}: the fit lies at a bound: {'; '.join(forecast['fit']['binding'])}")
        calibration, ratio = forecast["calibration"], record["compute"]["ratio"]
        if not calibration["is_calibrated"]:
            lines.append(
                f"{quantity}: the interval is not calibrated: {calibration['n_cells']} hidden runs are too few"
            )
        elif not calibration["reaches_target"]:
            low, high = calibration["compute_ratios"]
            lines.append(
                f"{quantity}: the interval is calibrated at {low:.1f} to {high:.1f} times the operations, and the target is at "
                f"{ratio:.1f}: no backtest reaches as far"
            )
    if not record["identity"]["holds"]:
        lines.append("the two ways to the total bits disagree: at least one of the two laws is wrong for the target")
    return lines


def format_score(record: dict[str, Any]) -> str:
    """Error, interval and skill of each forecast."""
    naive_names = list(record["scores"][0]["skill"])
    rows = []
    for score in record["scores"]:
        values = (score["point"], score["low"], score["high"], score["actual"])
        rows.append(
            (
                score["quantity"],
                *(format(value, _digits(score["quantity"])) for value in values),
                f"{score['percent']:+.2f} %",
                "hit" if score["hit"] else "missed",
                f"{score['interval_score_percent']:.2f} %",
                *(_share(score["skill"].get(name)) for name in naive_names),
            )
        )
    notes = ["after the fact: this does not count as a forecast"] if record["after_the_fact"] else []
    skills = [f"skill: {_title(name)}" for name in naive_names]
    titles = ("", "forecast", "90 % from", "to", "actual", "error", "interval", "interval score", *skills)
    return "\n".join([format_table(titles, rows), *notes])


def _title(naive: str) -> str:
    return printable(naive.replace("_", " "))


def _digits(quantity: str) -> str:
    return ",.0f" if quantity == "total_bits" else ".4f"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
