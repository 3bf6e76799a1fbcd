"""Tick positions and tick labels of linear, logarithmic and date axes."""

import math
from datetime import UTC, datetime

DATE_STEPS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400)
DATE_STEPS_MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
MAX_DATE_STEPS = 3  # date labels are long


def linear_ticks(low: float, high: float) -> list[float]:
    """Two to twelve round numbers that enclose low <= high. Their step is 1, 2 or 5 times a power of ten."""
    span, size = high - low, max(abs(low), abs(high))
    if span <= max(1e-9 * size, 1e-200):  # rounding error only: space the ticks by the size of the values
        span = size if size > 1e-200 else 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, 0 < low <= high. If they are fewer than four, 2 and 5 times them are added."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= 4:
            return ticks
    return ticks or [low]


def date_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Dates (UTC) that enclose low <= high, in seconds since 1970, and their labels.

    The step is one minute to 14 days, or one month to a century. Steps of months begin on the first day of a month.
    """
    return _date_ticks_by_seconds(low, high) or _date_ticks_by_months(low, high)


def _date_ticks_by_seconds(low: float, high: float) -> tuple[list[float], list[str]] | None:
    for step in DATE_STEPS_S:
        first = math.floor(low / step)
        last = max(math.ceil(high / step), first + 1)
        if last - first <= MAX_DATE_STEPS:
            form = "%m-%d %H:%M" if step < 86400 else "%Y-%m-%d"
            ticks = [float(step * i) for i in range(first, last + 1)]
            return ticks, [datetime.fromtimestamp(tick, UTC).strftime(form) for tick in ticks]
    return None


def _date_ticks_by_months(low: float, high: float) -> tuple[list[float], list[str]]:
    begin, end = datetime.fromtimestamp(low, UTC), datetime.fromtimestamp(high, UTC)
    month, end_month = 12 * begin.year + begin.month - 1, 12 * end.year + end.month  # end_month begins after `high`
    for step in DATE_STEPS_MONTHS:
        first, last = month // step, -(-end_month // step)
        if last - first <= MAX_DATE_STEPS:
            break
    dates = [datetime(step * i // 12, step * i % 12 + 1, 1, tzinfo=UTC) for i in range(first, last + 1)]
    return [date.timestamp() for date in dates], [date.strftime("%Y-%m") for date in dates]


def short_number(value: float) -> str:
    """The value with at most four significant digits and a unit prefix: 1500000 is "1.5 M"."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
