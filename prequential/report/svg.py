"""Panels as SVG: inline in an HTML page, or as a file. No scripts, no ids, and nothing that a viewer must load.

A line is drawn in full, in its colour and with its name at its end, or it is grey and its name stands below the picture. The
range of the vertical axis is that of the full lines. Grey ones may leave it.
"""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prequential.report.markup import Html, element, join
from prequential.report.style import LINE_COLOURS, SVG_FILE_STYLE
from prequential.report.ticks import date_ticks, linear_ticks, log_ticks, short_number

MAX_FULL = 5  # lines that a reader can tell apart
N_COLOURS = len(LINE_COLOURS)  # style N_COLOURS + i has the colour of style i and other dashes
DASHES = ("", "7 3", "2 3")

WIDTH, HEIGHT = 540.0, 300.0  # of a drawing, in pixels
# Of the plotting area in it. The names of the lines are on its right.
LEFT, RIGHT, TOP, BOTTOM = 62.0, 384.0, 12.0, 254.0
MARGIN = 0.04  # of the range of the values, above and below them
DATE_LABEL_WIDTH = 80.0
LABEL_HEIGHT, MAX_LABEL = 14.0, 23  # of the name at the end of a line, in pixels and in letters
TITLE_HEIGHT, NOTE_HEIGHT, NOTE_LETTERS = 26.0, 16.0, 75  # in SVG files


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y): each (n,) float64 and finite, n >= 1. style: colour and dashes, >= 0.

    full: in its colour and with its name, or grey. own: the line that the picture is about.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0
    full: bool = True
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Titles and scales of a plot. log_x, log_y: values must be positive. zero: draw y = 0. dates: x is in seconds since 1970."""

    x_title: str = "bytes of the original"
    y_title: str = "bits/byte"
    log_x: bool = True
    log_y: bool = False
    zero: bool = False
    dates: bool = False


@dataclass(frozen=True)
class Panel:
    """One plot: its title, its series (at least one if it is drawn) and its axes."""

    title: str
    series: Sequence[Series]
    axes: Axes

    @property
    def full(self) -> list[Series]:
        """The lines that have a colour."""
        return [line for line in self.series if line.full]

    @property
    def note(self) -> str:
        """The names of the grey lines; empty if there are none."""
        names = [line.name for line in self.series if not line.full]
        return f"Grey: {', '.join(names)}." if names else ""


class _Scale:
    """Maps the values of one axis to pixels: the low end of the axis to `start`, the high end to `stop`."""

    def __init__(
        self, values: ArrayLike, start: float, stop: float, *, log: bool, dates: bool = False, margin: float = 0.0
    ) -> None:
        numbers = np.asarray(values, np.float64)
        self._log, self._start, self._stop = log, start, stop
        low, high = float(numbers.min()), float(numbers.max())
        if dates:
            self.ticks, self.labels = date_ticks(low, high)
            low, high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        elif log:
            self.ticks, high = log_ticks(low, high), max(high, low * 1.01)
        else:
            low, high, self.ticks = _linear_range(low, high, margin)
        if not dates:
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


def drawing(panel: Panel) -> Html:
    """The grid, the lines and their names: WIDTH by HEIGHT pixels, to be placed in an <svg>."""
    series, axes, full = panel.series, panel.axes, panel.full
    x = _Scale(np.concatenate([line.x for line in series]), LEFT, RIGHT, log=axes.log_x, dates=axes.dates)
    values = np.concatenate([line.y for line in full or series])
    y = _Scale(np.append(values, 0.0) if axes.zero else values, BOTTOM, TOP, log=axes.log_y, margin=MARGIN)
    grey = (_line(line, x, y) for line in series if not line.full)
    lines = (_line(line, x, y) for line in reversed(full))  # the first series is on top
    grid = (*_horizontal_grid(y, axes), *_vertical_grid(x, axes), *_axis_titles(axes))
    return join(*grid, _clipped(*grey), *lines, *_end_labels(full, x, y))


def _clipped(*lines: Html) -> Html:
    """The parts of the lines that are inside the plotting area."""
    place = {"x": LEFT, "y": TOP, "width": RIGHT - LEFT, "height": BOTTOM - TOP}
    return element("svg", *lines, **place, viewBox=" ".join(map(str, place.values()))) if lines else Html()


def _horizontal_grid(y: _Scale, axes: Axes) -> Iterator[Html]:
    for tick, label in zip(y.ticks, y.labels, strict=True):
        height = y(tick)
        kind = "zero" if axes.zero and tick == 0 else "grid"
        yield element("path", d=f"M{LEFT} {height:.1f}H{RIGHT}", class_=kind)
        yield element("text", label, x=LEFT - 6, y=f"{height + 4:.1f}", text_anchor="end")


def _vertical_grid(x: _Scale, axes: Axes) -> Iterator[Html]:
    for tick, label in zip(x.ticks, x.labels, strict=True):
        place = x(tick)
        yield element("path", d=f"M{place:.1f} {TOP}V{BOTTOM}", class_="grid")
        middle = min(place, WIDTH - DATE_LABEL_WIDTH / 2) if axes.dates else place
        yield element("text", label, x=f"{middle:.1f}", y=BOTTOM + 17, text_anchor="middle")


def _axis_titles(axes: Axes) -> Iterator[Html]:
    turned = f"translate(13 {(TOP + BOTTOM) / 2}) rotate(-90)"
    yield element("text", axes.x_title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle")
    yield element("text", axes.y_title, transform=turned, text_anchor="middle")


def _line(line: Series, x: _Scale, y: _Scale) -> Html:
    points = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    kind = "line" + (" own" if line.own else "")
    if len(points) == 1:
        points.append("h0.1")  # with round line ends: a dot
        kind = "line dot"
    colour = f"s{line.style % N_COLOURS}" if line.full else "rest"
    dashes = DASHES[line.style // N_COLOURS % len(DASHES)] or None
    path = "M" + " ".join(points)
    return element("path", element("title", line.name), d=path, class_=f"{kind} {colour}", stroke_dasharray=dashes)


def _end_labels(series: Sequence[Series], x: _Scale, y: _Scale) -> Iterator[Html]:
    """The names of the lines on the right of the plotting area, each joined to the end of its line."""
    ends = [y(float(line.y[-1])) for line in series]
    for line, end, place in zip(series, ends, spread(ends, LABEL_HEIGHT, TOP, BOTTOM), strict=True):
        colour = line.style % N_COLOURS
        path = f"M{x(float(line.x[-1])):.1f} {end:.1f}L{RIGHT + 8} {place:.1f}"
        yield element("path", d=path, class_=f"leader s{colour}")
        name = element("title", line.name)
        yield element("text", short(line.name), name, x=RIGHT + 11, y=f"{place + 4:.1f}", class_=f"name t{colour}")


def spread(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """The places (n,), moved so that they differ by `distance` and none exceeds `high`; nor is below `low` if there is room."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    found, least = list(places), low
    for i in order:
        found[i] = max(found[i], least)
        least = found[i] + distance
    most = high
    for i in reversed(order):
        found[i] = min(found[i], most)
        most = found[i] - distance
    return found


def short(name: str) -> str:
    """The name as far as there is room for it at the end of a line."""
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"


# ---- in a page


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title and the names of grey lines. Colours are classes of report/style.py."""
    note = [element("small", panel.note)] if panel.note else []
    return element("figure", element("figcaption", panel.title), inline_svg(panel), *note)


def inline_svg(panel: Panel) -> Html:
    """The panel as one <svg> element. Its title, for screen readers, says where each line ends."""
    ends = "; ".join(f"{line.name} ends at {line.y[-1]:,.4g}" for line in panel.series)
    title = f"{panel.title}: {panel.axes.y_title} against {panel.axes.x_title}; {ends}"
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return element("svg", element("title", title), drawing(panel), viewBox=box, role="img", aria_label=title)


# ---- as a file


def svg_file(heading: str, panels: Sequence[Panel]) -> str:
    """A complete SVG document: the heading, then each panel with the names of its grey lines, from top to bottom.

    It is light or dark, as the viewer prefers.
    """
    parts: list[Html] = []
    top = TITLE_HEIGHT + 8
    for panel in panels:
        notes = textwrap.wrap(panel.note, NOTE_LETTERS)
        parts.append(element("g", *_file_panel(panel, notes), transform=f"translate(0 {top:.0f})"))
        top += TITLE_HEIGHT + HEIGHT + 16 + len(notes) * NOTE_HEIGHT
    svg = element(
        "svg",
        element("title", heading),
        element("style", Html(SVG_FILE_STYLE)),
        element("rect", width="100%", height="100%", class_="paper"),
        element("text", heading, x=8, y=22, class_="title"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {top:.0f}",
        width=f"{WIDTH:.0f}",
        height=f"{top:.0f}",
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n'


def _file_panel(panel: Panel, notes: Sequence[str]) -> Iterator[Html]:
    yield element("text", panel.title, x=8, y=16, class_="title")
    yield element("g", drawing(panel), transform=f"translate(0 {TITLE_HEIGHT:.0f})")
    for number, note in enumerate(notes):
        yield element("text", note, x=8, y=TITLE_HEIGHT + HEIGHT + 12 + number * NOTE_HEIGHT, class_="note")
