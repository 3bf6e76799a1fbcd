"""Panels as SVG in an HTML page. Colours are classes of page.css. No scripts, no ids, and nothing that a viewer must load."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prequential.report.markup import Html, element, join
from prequential.report.panels import Axis, Panel, Role, Series, linear_ticks, log_ticks, short_number, spread

DASHES = (None, "7 3", "2 3")
WIDTH, HEIGHT = 540.0, 300.0  # of a drawing, in pixels
# Of the plotting area in it. The names of the lines are on its right.
LEFT, RIGHT, TOP, BOTTOM = 62.0, 384.0, 12.0, 254.0
MARGIN = 0.04  # of the range of the values, above and below them
LABEL_HEIGHT, MAX_LABEL = 14.0, 23  # of the name at the end of a line, in pixels and in letters


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title and the names of grey lines."""
    note = [element("small", panel.note)] if panel.note else []
    return element("figure", element("figcaption", panel.title), inline_svg(panel), *note)


def inline_svg(panel: Panel) -> Html:
    """The panel as one <svg> element. Its title, for screen readers, says where each line ends."""
    ends = "; ".join(f"{line.name} ends at {line.y[-1]:,.4g}" for line in panel.series)
    title = f"{panel.title}: {panel.y.title} against {panel.x.title}; {ends}"
    x, y = _Scale(panel.x, panel.x_values(), LEFT, RIGHT), _Scale(panel.y, panel.y_values(), BOTTOM, TOP, MARGIN)
    grey = [_line(line, x, y) for line in panel.series if line.role == Role.GREY]
    lines = (_line(line, x, y) for line in reversed(panel.full))  # the first series is on top
    drawing = join(*_grid(panel, x, y), _clipped(*grey), *lines, *_end_labels(panel.full, x, y))
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return element("svg", element("title", title), drawing, viewBox=box, role="img", aria_label=title)


class _Scale:
    """Maps the values of one axis to pixels: the low end of the axis to `start`, the high end to `stop`."""

    def __init__(self, axis: Axis, values: NDArray[np.float64], start: float, stop: float, margin: float = 0.0) -> None:
        self._log, self._start, self._stop = axis.log, start, stop
        low, high = float(values.min()), float(values.max())
        if axis.log:
            self.ticks, high = log_ticks(low, high), max(high, low * 1.01)
        else:
            low, high, self.ticks = _linear_range(low, high, margin)
        self.labels = [short_number(tick) for tick in self.ticks]
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


def _clipped(*lines: Html) -> Html:
    """The parts of the lines that are inside the plotting area."""
    place = {"x": LEFT, "y": TOP, "width": RIGHT - LEFT, "height": BOTTOM - TOP}
    return element("svg", *lines, **place, viewBox=" ".join(map(str, place.values()))) if lines else Html()


def _grid(panel: Panel, x: _Scale, y: _Scale) -> Iterator[Html]:
    for tick, label in zip(y.ticks, y.labels, strict=True):
        yield element("path", d=f"M{LEFT} {y(tick):.1f}H{RIGHT}", class_="grid")
        yield element("text", label, x=LEFT - 6, y=f"{y(tick) + 4:.1f}", text_anchor="end")
    for value in panel.references:
        yield element("path", d=f"M{LEFT} {y(value):.1f}H{RIGHT}", class_="reference")
    for tick, label in zip(x.ticks, x.labels, strict=True):
        yield element("path", d=f"M{x(tick):.1f} {TOP}V{BOTTOM}", class_="grid")
        yield element("text", label, x=f"{x(tick):.1f}", y=BOTTOM + 17, text_anchor="middle")
    turned = f"translate(13 {(TOP + BOTTOM) / 2}) rotate(-90)"
    yield element("text", panel.x.title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle")
    yield element("text", panel.y.title, transform=turned, text_anchor="middle")


def _line(line: Series, x: _Scale, y: _Scale) -> Html:
    points = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    kind = "line own" if line.role == Role.OWN else "line"
    if len(points) == 1:
        points.append("h0.1")  # with round line ends: a dot
        kind = "line dot"
    colour = "rest" if line.role == Role.GREY else f"s{line.colour}"
    path = "M" + " ".join(points)
    title = element("title", line.name)
    return element("path", title, d=path, class_=f"{kind} {colour}", stroke_dasharray=DASHES[line.dashes])


def _end_labels(series: Sequence[Series], x: _Scale, y: _Scale) -> Iterator[Html]:
    """The names of the lines on the right of the plotting area, each joined to the end of its line."""
    ends = [y(float(line.y[-1])) for line in series]
    for line, end, place in zip(series, ends, spread(ends, LABEL_HEIGHT, TOP, BOTTOM), strict=True):
        path = f"M{x(float(line.x[-1])):.1f} {end:.1f}L{RIGHT + 8} {place:.1f}"
        yield element("path", d=path, class_=f"leader s{line.colour}")
        name = line.name if len(line.name) <= MAX_LABEL else f"{line.name[: MAX_LABEL - 1]}…"
        title, height = element("title", line.name), f"{place + 4:.1f}"
        yield element("text", name, title, x=RIGHT + 11, y=height, class_=f"name t{line.colour}")
