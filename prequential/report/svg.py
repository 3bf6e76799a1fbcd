"""Panels as SVG in an HTML page. Colours are classes of page.css. No scripts, no ids, and nothing that a viewer must load.

A drawing is as wide as its place: horizontal places are percentages, heights and letters are pixels. So letters have one size at
every width. Ticks and names of lines stand in the margins that page.css leaves beside it.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prequential.report.markup import Html, element, join
from prequential.report.panels import (
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
HEIGHT, BOTTOM = 270.0, 220.0  # of a drawing, and of the plotting area in it, in pixels
UNITS = 1000.0  # of the width of the plotting area
MARGIN = 0.04  # of the range of the values, above and below them
LABEL_HEIGHT, MAX_LABEL, SHORT_LABEL = 16.0, 19, 6  # of the name at the end of a line, in pixels and in letters
MIN_GAP = 0.2  # of the width, between two ticks that have their labels on narrow pages, too


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title, and the names that are cut or left out."""
    cut = [line.name for line in panel.series if _cut(line.name) != line.name]
    notes = [panel.note] * bool(panel.note) + [f"In full: {', '.join(cut)}."] * bool(cut)
    small = (element("small", note) for note in notes)
    kind = "plot short" if all(len(line.name) <= SHORT_LABEL for line in panel.series) else "plot"
    return element("figure", element("figcaption", panel.title), inline_svg(panel), *small, class_=kind)


def inline_svg(panel: Panel) -> Html:
    """The panel as one <svg> element. Its title, for screen readers, says where each line ends."""
    ends = "; ".join(f"{line.name} ends at {short_number(line.y[-1])}" for line in panel.series)
    title = f"{panel.title}: {panel.y.title} against {panel.x.title}; {ends}"
    x, y = _Scale(panel.x, panel.x_values(), 0.0, 1.0), _Scale(panel.y, panel.y_values(), BOTTOM, 0.0, MARGIN)
    lines = (part for line in reversed(panel.series) for part in _line(line, x, y))  # the first series is on top
    box = {"viewBox": f"0 0 {UNITS:.0f} {BOTTOM:.0f}", "preserveAspectRatio": "none"}
    area = element("svg", *lines, width="100%", height=BOTTOM, **box)
    drawing = join(*_grid(panel, x, y), area, *_end_labels(panel.series, x, y))
    return element("svg", drawing, width="100%", height=HEIGHT, role="img", aria_label=title)


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
    for tick in y.ticks:
        yield element("text", short_number(tick), x=-6, y=f"{y(tick) + 4:.1f}", text_anchor="end")
    apart = _ticks_apart(x)
    for tick in x.ticks:
        place = f"{x(tick):.2%}"
        width = None if tick in apart else "wide"
        yield element("line", x1=place, x2=place, y1=0, y2=BOTTOM, class_="grid")
        yield element("text", short_number(tick), x=place, y=BOTTOM + 17, text_anchor="middle", class_=width)
    yield element("text", panel.x.title, x="50%", y=HEIGHT - 8, text_anchor="middle")


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


def _end_labels(series: Sequence[Series], x: _Scale, y: _Scale) -> Iterator[Html]:
    """The names of the lines on the right of the plotting area, each joined to the end of its line."""
    ends = [y(float(line.y[-1])) for line in series]
    for line, end, place in zip(series, ends, spread(ends, LABEL_HEIGHT, 4.0, BOTTOM), strict=True):
        height = f"{end:.1f}"
        reach = {"x1": f"{x(float(line.x[-1])):.2%}", "x2": "100%", "y1": height, "y2": height}
        yield element("line", **reach, class_=f"leader s{line.colour}")
        name = element("text", _cut(line.name), x=11, y=f"{place + 4:.1f}", class_=f"name t{line.colour}")
        bend = element("path", d=f"M0 {height}L8 {place:.1f}", class_=f"leader s{line.colour}")
        yield element("svg", bend, name, x="100%", overflow="visible")


def _cut(name: str) -> str:
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"
