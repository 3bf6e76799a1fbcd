"""Panels in an HTML page: lines as SVG, text as HTML. No scripts, no ids, and nothing that a viewer must load.

A drawing is a grid of page.css, which also has the colours. The browser makes its outer columns as wide as their widest tick and
name, in whatever font it has, and every line of text as high as LABEL_HEIGHT. Horizontal places are percentages, heights pixels.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from prequential.report.markup import Html, element
from prequential.report.run_panels import (
    N_COLOURS,
    Axis,
    Panel,
    Series,
    linear_ticks,
    log_ticks,
    short_number,
    spread,
)

DASHES = (None, "7 3", "2 3")
DASH = 9.0  # pixels of each colour of lines that coincide
BOTTOM = 220.0  # of the plotting area, in pixels, as in page.css
UNITS = 1000.0  # of the width of the plotting area
MARGIN = 0.04  # of the range of the values, above and below them
LABEL_HEIGHT, MAX_LABEL = 16.0, 19  # of the name at the end of a line: in pixels, as in page.css, and in letters
MIN_GAP = 0.3  # of the width, between two ticks that have their labels on narrow pages, too


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title, and the names that are cut or left out."""
    cut = [line.name for line in panel.series if _cut(line.name) != line.name]
    notes = [panel.note] * bool(panel.note) + [f"In full: {', '.join(cut)}."] * bool(cut)
    small = (element("small", note) for note in notes)
    return element("figure", element("figcaption", panel.title), drawing(panel), *small, class_="plot")


def drawing(panel: Panel) -> Html:
    """The panel as one <div> element. Its title, for screen readers, says where each line ends."""
    ends = "; ".join(f"{line.name} ends at {short_number(line.y[-1])}" for line in panel.series)
    title = f"{panel.title}: {panel.y.title} against {panel.x.title}; {ends}"
    x, y = _Scale(panel.x, panel.x_values(), 0.0, 1.0), _Scale(panel.y, panel.y_values(), BOTTOM, 0.0, MARGIN)
    lines = (part for line in reversed(panel.series) for part in _line(line, x, y))  # the first series is on top
    box = {"viewBox": f"0 0 {UNITS:.0f} {BOTTOM:.0f}", "preserveAspectRatio": "none"}
    ends_at = [y(float(line.y[-1])) for line in panel.series]
    places = spread(ends_at, LABEL_HEIGHT, 4.0, BOTTOM)
    area = element("svg", *lines, width="100%", height=BOTTOM, **box)
    leaders: list[Html] = []
    names: list[Html] = []
    for line, end, place in zip(panel.series, ends_at, places, strict=True):
        leaders += _leader(line, end, place, x)
        names.append(element("span", _cut(line.name), class_=f"name t{line.colour}", style=_beside(place)))
    shown = element("svg", *_grid(panel, x, y), area, *leaders, width="100%", height=BOTTOM)
    return element("div", shown, *_ticks(panel, x, y), *names, class_="drawing", role="img", aria_label=title)


class _Scale:
    """Maps the values of one axis to places: the low end of the axis to `start`, the high end to `stop`."""

    def __init__(self, axis: Axis, values: NDArray[np.float64], start: float, stop: float, margin: float = 0.0) -> None:
        self._log, self._start, self._stop = axis.log, start, stop
        low, high = float(values.min()), float(values.max())
        if axis.log:
            self.ticks, high = log_ticks(low, high), max(high, low * 1.01)
        else:
            low, high, self.ticks = _linear_range(low, high, margin)
        self._low, self._high = self._linear(low), self._linear(high)

    def _linear(self, value: float) -> float:
        return math.log(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._linear(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def _linear_range(low: float, high: float, margin: float) -> tuple[float, float, list[float]]:
    """The ends of an axis for values from low to high, with a margin, and the ticks between them."""
    low, high = low - margin * (high - low), high + margin * (high - low)
    ticks = linear_ticks(low, high)
    inside = [tick for tick in ticks if low <= tick <= high]
    return (low, high, inside) if len(inside) > 1 else (ticks[0], ticks[-1], ticks)


def _grid(panel: Panel, x: _Scale, y: _Scale) -> Iterator[Html]:
    for values, kind in ((y.ticks, "grid"), (panel.references, "reference")):
        for height in (f"{y(value):.1f}" for value in values):
            yield element("line", x1=0, x2="100%", y1=height, y2=height, class_=kind)
    for place in (f"{x(tick):.2%}" for tick in x.ticks):
        yield element("line", x1=place, x2=place, y1=0, y2=BOTTOM, class_="grid")


def _ticks(panel: Panel, x: _Scale, y: _Scale) -> Iterator[Html]:
    """The labels left of the plotting area and below it, and the title of the horizontal axis."""
    for tick in y.ticks:
        yield element("span", short_number(tick), class_="y", style=_beside(y(tick)))
    apart = _ticks_apart(x)
    for tick in x.ticks:
        kind = "x" if tick in apart else "x more"
        yield element("span", short_number(tick), class_=kind, style=f"left: {x(tick):.2%}")
    yield element("span", panel.x.title, class_="axis")


def _beside(height: float) -> str:
    """The style of a label whose middle is at this height of the plotting area."""
    return f"top: {height - LABEL_HEIGHT / 2:.1f}px"


def _ticks_apart(x: _Scale) -> set[float]:
    """Ticks that are MIN_GAP apart, powers of ten first."""
    found: set[float] = set()
    for tick in sorted(x.ticks, key=lambda tick: f"{tick:e}"[0] != "1"):
        if all(abs(x(tick) - x(other)) >= MIN_GAP for other in found):
            found.add(tick)
    return found


def _line(line: Series, x: _Scale, y: _Scale) -> Iterator[Html]:
    """The line, in the colours of all lines that it stands for by turns."""
    points = [f"{UNITS * x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    kind = "line own" if line.is_own else "line"
    if len(points) == 1:
        points.append("h0.1")  # with round line ends: a dot
        kind = "line dot"
    styles = (line.style, *line.also)
    for i, style in enumerate(styles):
        dashes: dict[str, str | None] = {"stroke_dasharray": DASHES[line.dashes]}
        if line.also:
            dashes = {"stroke_dasharray": f"{DASH:g} {DASH * len(line.also):g}", "stroke_dashoffset": f"{-DASH * i:g}"}
        yield element("path", d="M" + " ".join(points), class_=f"{kind} s{style % N_COLOURS}", **dashes)


def _leader(line: Series, end: float, place: float, x: _Scale) -> Iterator[Html]:
    """From the end of the line, at the height `end`, to its name on the right of the plotting area, at the height `place`."""
    reach = {"x1": f"{x(float(line.x[-1])):.2%}", "x2": "100%", "y1": f"{end:.1f}", "y2": f"{end:.1f}"}
    yield element("line", **reach, class_=f"leader s{line.colour}")
    bend = element("path", d=f"M0 {end:.1f}L8 {place:.1f}", class_=f"leader s{line.colour}")
    yield element("svg", bend, x="100%", overflow="visible")


def _cut(name: str) -> str:
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"
