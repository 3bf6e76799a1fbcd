"""Markup that escapes itself, and lines drawn as inline SVG: no ids, no scripts, nothing to fetch, no dependency."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

N_STYLES = 9  # colours; from the tenth line on they come again, with other dashes
DASHES = ("", "7 3", "2 3")


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y), each (n,) float64 and finite, n >= 1. style: equal on all plots of a run."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What a plot's axes are. log_x, log_y: x or y must be positive. zero: a line at y = 0. dates: x is seconds since 1970."""

    x_title: str = "bytes of the original"
    y_title: str = "bits/byte"
    log_x: bool = True
    log_y: bool = False
    zero: bool = False
    dates: bool = False


class Html(str):
    """Markup; any other string is text."""


def element(tag: str, *content: str, **attributes: object) -> Html:
    """`<tag attributes>content</tag>`: text and attributes escaped, markup as it stands.

    Attribute names: a final _ goes, others become hyphens. None leaves the attribute out.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    start = "".join(f' {name}="{html.escape(str(value))}"' for name, value in pairs)
    return Html(f"<{tag}{start}>{join(*content)}</{tag}>")


def join(*content: str) -> Html:
    """One piece of markup of several: text is escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in content))


WIDTH, HEIGHT = 480.0, 300.0  # of a drawing, in units of about a pixel
LEFT, RIGHT, TOP, BOTTOM = 70.0, 460.0, 12.0, 254.0  # of the plot in it


class _Scale:
    """From values of one axis to places: `start` for the lowest tick, `stop` for the highest."""

    def __init__(self, values: ArrayLike, start: float, stop: float, *, log: bool, dates: bool = False) -> None:
        finite = np.asarray(values, np.float64)
        self._log, self._start, self._stop = log, start, stop
        low, high = float(finite.min()), float(finite.max())
        if dates:
            self.ticks, self.labels = date_ticks(low, high)
        else:
            self.ticks = log_ticks(low, high) if log else linear_ticks(low, high)
            self.labels = [short_number(tick) for tick in self.ticks]
        low, high = (low, max(high, low * 1.01)) if log else (min(low, self.ticks[0]), max(high, self.ticks[-1]))
        self._low, self._high = self._place(low), self._place(high)

    def _place(self, value: float) -> float:
        return math.log(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._place(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def linear_ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers, a step of 1, 2 or 5 times a power of ten apart, that enclose low <= high."""
    span, size = high - low, max(abs(low), abs(high))
    if span <= max(1e-9 * size, 1e-200):  # no more than rounding: ticks as far apart as the values are large
        span = size if size > 1e-200 else 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, 0 < low <= high; with 2 and 5 times them where these would be fewer than four."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= 4:
            return ticks
    return ticks or [low]


_DATE_STEPS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400)
_DATE_STEPS_MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
MAX_DATE_STEPS, DATE_WIDTH = 3, 80.0  # labels are long


def date_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Moments (UTC) that enclose low <= high, in seconds since 1970 and from then on, and what to call them.

    From a minute to a fortnight, or from a month to a century apart; beginnings of months and years where they are so far apart.
    """
    for step in _DATE_STEPS_S:
        first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
        if last - first <= MAX_DATE_STEPS:
            ticks = [float(step * i) for i in range(first, last + 1)]
            return ticks, [
                datetime.fromtimestamp(t, UTC).strftime("%m-%d %H:%M" if step < 86400 else "%Y-%m-%d") for t in ticks
            ]
    begin, end = datetime.fromtimestamp(low, UTC), datetime.fromtimestamp(high, UTC)
    month, end_month = 12 * begin.year + begin.month - 1, 12 * end.year + end.month  # the latter begins after `high`
    for step in _DATE_STEPS_MONTHS:
        first, last = month // step, -(-end_month // step)
        if last - first <= MAX_DATE_STEPS:
            break
    starts = [datetime(step * i // 12, step * i % 12 + 1, 1, tzinfo=UTC) for i in range(first, last + 1)]
    return [start.timestamp() for start in starts], [start.strftime("%Y-%m") for start in starts]


def short_number(value: float) -> str:
    """1500000 as 1.5 M: four significant digits at most."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def svg(series: Sequence[Series], axes: Axes, title: str) -> Html:
    """The lines as one inline <svg> without ids, scripts or references; colours are the classes s0, s1 ... of the page.

    `title` is what a screen reader says.
    """
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return element("svg", element("title", title), drawing(series, axes), viewBox=box, role="img", aria_label=title)


def drawing(series: Sequence[Series], axes: Axes) -> Html:
    """Grid and lines, to stand in an <svg>: WIDTH by HEIGHT from its origin on."""
    x = _Scale(np.concatenate([line.x for line in series]), LEFT, RIGHT, log=axes.log_x, dates=axes.dates)
    values = np.concatenate([line.y for line in series])
    y = _Scale(np.append(values, 0.0) if axes.zero else values, BOTTOM, TOP, log=axes.log_y)
    return join(*_grid(x, y, axes), *(_line(line, x, y) for line in reversed(series)))  # the first on top


def _grid(x: _Scale, y: _Scale, axes: Axes) -> Iterator[Html]:
    for tick, label in zip(y.ticks, y.labels, strict=True):
        at = y(tick)
        kind = "zero" if axes.zero and tick == 0 else "grid"
        yield element("path", d=f"M{LEFT} {at:.1f}H{RIGHT}", class_=kind)
        yield element("text", label, x=LEFT - 6, y=f"{at + 4:.1f}", text_anchor="end")
    for tick, label in zip(x.ticks, x.labels, strict=True):
        at = x(tick)
        yield element("path", d=f"M{at:.1f} {TOP}V{BOTTOM}", class_="grid")
        middle = min(at, WIDTH - DATE_WIDTH / 2) if axes.dates else at
        yield element("text", label, x=f"{middle:.1f}", y=BOTTOM + 17, text_anchor="middle")
    middle = (TOP + BOTTOM) / 2
    yield element("text", axes.x_title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle")
    yield element("text", axes.y_title, transform=f"translate(13 {middle}) rotate(-90)", text_anchor="middle")


def _line(line: Series, x: _Scale, y: _Scale) -> Html:
    points = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    if len(points) == 1:
        points.append("h0.1")  # with round ends: a dot
    return element(
        "path",
        element("title", line.name),
        d="M" + " ".join(points),
        class_=style_class(line),
        stroke_dasharray=_dashes(line),
    )


def style_class(line: Series) -> str:
    """The class of a line's colour, in a drawing and in its legend."""
    return f"line s{line.style % N_STYLES}" + ("" if line.style else " own")


def _dashes(line: Series) -> str | None:
    return DASHES[line.style // N_STYLES % len(DASHES)] or None


def legend(series: Sequence[Series]) -> Html:
    """The names of the lines, with a stroke as each is drawn: HTML, which wraps where the screen is narrow."""

    def key(line: Series) -> Html:
        stroke = element("path", d="M1 5H27", class_=style_class(line), stroke_dasharray=_dashes(line))
        return element("svg", stroke, viewBox="0 0 28 10", class_="key", aria_hidden="true")

    return element("ul", *(element("li", key(line), line.name) for line in series), class_="legend")
