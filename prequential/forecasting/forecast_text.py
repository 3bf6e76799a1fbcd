"""Forecasts as text: a frozen forecast, and its score."""

from typing import Any

from prequential.printable import format_table, printable


def format_forecast(record: dict[str, Any]) -> str:
    """The target, the forecast with its interval, the naive forecasts, the backtest, and what weakens the forecast."""
    target, made = record["target"], record["forecasts"]["total_bits"]
    values = (made["point"], made["low"], made["high"], *made["naive"].values())
    gpt, proxy = target["config"]["gpt"], record["proxy"]
    titles = ("", "forecast", "90 % from", "to", *map(_title, made["naive"]))
    return "\n".join(
        [
            f"target: {gpt['width']}x{gpt['n_layers']}, {target['n_weights']:,} weights, {target['n_bytes']:,} bytes, "
            f"{record['compute']['ratio']:.1f} times the operations of the largest run fitted",
            f"form: {record['form']}; proxy: {printable(proxy['name']) if proxy else 'none'}",
            format_table(titles, [("total bits", *(f"{value:,.0f}" for value in values))]),
            _backtest(record["form"], made["calibration"]),
            f"check: the sum of the law of the loss differs by {record['identity']['disagreement_percent']:+.2f} %",
            *(f"warning: {line}" for line in forecast_warnings(record)),
            f"frozen: {record['blake2b']}",
        ]
    )


def _backtest(form: str, calibration: dict[str, Any]) -> str:
    """How near this way of forecasting came to the ladder's own larger runs."""
    if not calibration["n_cells"]:
        return "backtest: none, no run of the ladder takes twice the operations of the fitted ones"
    return (
        f"backtest: rms {100 * calibration['rmse'][form]:.2f} %, {calibration['n_hit']} of {calibration['n_cells']} intervals "
        f"hit, from {calibration['n_origins']} origins, worth {calibration['n_effective']:.1f} independent errors"
    )


def forecast_warnings(record: dict[str, Any]) -> list[str]:
    """What weakens a forecast: bounds that bind, an interval that was calibrated nearer, an identity that fails."""
    lines, made, ratio = [], record["forecasts"]["total_bits"], record["compute"]["ratio"]
    calibration = made["calibration"]
    if made["fit"]["binding"]:
        lines.append(f"the fit lies at a bound: {'; '.join(made['fit']['binding'])}")
    if not calibration["is_calibrated"]:
        lines.append(f"the interval is not calibrated: {calibration['n_cells']} hidden runs are too few")
    elif not calibration["reaches_target"]:
        low, high = calibration["compute_ratios"]
        lines.append(
            f"the interval is calibrated at {low:.1f} to {high:.1f} times the operations, and the target is at {ratio:.1f}: no "
            "backtest reaches as far"
        )
    if not record["identity"]["holds"]:
        lines.append("the two ways to the total bits disagree: at least one of the two laws is wrong for the target")
    return lines


def format_score(record: dict[str, Any]) -> str:
    """Error, interval and skill of a forecast."""
    (score,) = record["scores"]
    row = (
        "total bits",
        *(f"{score[name]:,.0f}" for name in ("point", "low", "high", "actual")),
        f"{score['percent']:+.2f} %",
        "hit" if score["hit"] else "missed",
        f"{score['interval_score_percent']:.2f} %",
        *("-" if skill is None else f"{skill:+.2f}" for skill in score["skill"].values()),
    )
    skills = [f"skill: {_title(name)}" for name in score["skill"]]
    titles = ("", "forecast", "90 % from", "to", "actual", "error", "interval", "interval score", *skills)
    notes = ["after the fact: this does not count as a forecast"] if record["after_the_fact"] else []
    return "\n".join([format_table(titles, [row]), *notes])


def _title(naive: str) -> str:
    return printable(naive.replace("_", " "))
