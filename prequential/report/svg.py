"""Series drawn as SVG: inline in an HTML page, or as a file. No scripts, no ids, and nothing that a viewer must load."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prequential.report.markup import Html, element, join
from prequential.report.style import LINE_COLOURS, SVG_FILE_STYLE
from prequential.report.ticks import date_ticks, linear_ticks, log_ticks, short_number

N_COLOURS = len(LINE_COLOURS)  # style N_COLOURS + i has the colour of style i and other dashes
DASHES = ("", "7 3", "2 3")

WIDTH, HEIGHT = 480.0, 300.0  # of a drawing, in pixels
LEFT, RIGHT, TOP, BOTTOM = 70.0, 460.0, 12.0, 254.0  # of the plotting area in it
DATE_LABEL_WIDTH = 80.0
TITLE_HEIGHT, KEY_HEIGHT, KEYS_PER_ROW = 26.0, 18.0, 2  # in SVG files


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y): each (n,) float64 and finite, n >= 1. style: colour and dashes, >= 0."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0


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


class _Scale:
    """Maps the values of one axis to pixels: the low end of the axis to `start`, the high end to `stop`."""

    def __init__(self, values: ArrayLike, start: float, stop: float, *, log: bool, dates: bool = False) -> None:
        numbers = np.asarray(values, np.float64)
        self._log, self._start, self._stop = log, start, stop
        low, high = float(numbers.min()), float(numbers.max())
        if dates:
            self.ticks, self.labels = date_ticks(low, high)
        else:
            self.ticks = log_ticks(low, high) if log else linear_ticks(low, high)
            self.labels = [short_number(tick) for tick in self.ticks]
        low, high = (low, max(high, low * 1.01)) if log else (min(low, self.ticks[0]), max(high, self.ticks[-1]))
        self._low, self._high = self._linear(low), self._linear(high)

    def _linear(self, value: float) -> float:
        return math.log(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._linear(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def drawing(panel: Panel) -> Html:
    """The grid and the lines of a panel: WIDTH by HEIGHT pixels, to be placed in an <svg>."""
    series, axes = panel.series, panel.axes
    x = _Scale(np.concatenate([line.x for line in series]), LEFT, RIGHT, log=axes.log_x, dates=axes.dates)
    values = np.concatenate([line.y for line in series])
    y = _Scale(np.append(values, 0.0) if axes.zero else values, BOTTOM, TOP, log=axes.log_y)
    lines = (_line(line, x, y) for line in reversed(series))  # the first series is on top
    return join(*_horizontal_grid(y, axes), *_vertical_grid(x, axes), *_axis_titles(axes), *lines)


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
    if len(points) == 1:
        points.append("h0.1")  # with round line ends: a dot
    return _stroke(line, "M" + " ".join(points), element("title", line.name))


def _stroke(line: Series, path: str, *content: Html) -> Html:
    """A path in the colour and with the dashes of a series."""
    colour = f"line s{line.style % N_COLOURS}" + ("" if line.style else " own")
    dashes = DASHES[line.style // N_COLOURS % len(DASHES)] or None
    return element("path", *content, d=path, class_=colour, stroke_dasharray=dashes)


# ---- in a page


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title and a legend. Colours are the classes s0, s1, ... of report/style.py."""
    caption = element("figcaption", panel.title)
    return element("figure", caption, inline_svg(panel), _legend(panel.series))


def inline_svg(panel: Panel) -> Html:
    """The panel as one <svg> element. Its title, for screen readers, says where each line ends."""
    ends = "; ".join(f"{line.name} ends at {line.y[-1]:,.4g}" for line in panel.series)
    title = f"{panel.title}: {panel.axes.y_title} against {panel.axes.x_title}; {ends}"
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return element("svg", element("title", title), drawing(panel), viewBox=box, role="img", aria_label=title)


def _legend(series: Sequence[Series]) -> Html:
    """Names of the lines with a stroke of each, as an HTML list that wraps on narrow screens."""

    def key(line: Series) -> Html:
        return element("svg", _stroke(line, "M1 5H27"), viewBox="0 0 28 10", class_="key", aria_hidden="true")

    return element("ul", *(element("li", key(line), line.name) for line in series), class_="legend")


# ---- as a file


def svg_file(heading: str, panels: Sequence[Panel]) -> str:
    """A complete SVG document: the heading, then each panel with its legend, from top to bottom.

    It is light or dark, as the viewer prefers.
    """
    parts: list[Html] = []
    top = TITLE_HEIGHT + 8
    for panel in panels:
        parts.append(element("g", *_file_panel(panel), transform=f"translate(0 {top:.0f})"))
        top += TITLE_HEIGHT + HEIGHT + 16 + -(-len(panel.series) // KEYS_PER_ROW) * KEY_HEIGHT
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


def _file_panel(panel: Panel) -> Iterator[Html]:
    yield element("text", panel.title, x=8, y=16, class_="title")
    yield element("g", drawing(panel), transform=f"translate(0 {TITLE_HEIGHT:.0f})")
    for number, line in enumerate(panel.series):
        row, column = divmod(number, KEYS_PER_ROW)
        x, y = 8 + column * WIDTH / KEYS_PER_ROW, TITLE_HEIGHT + HEIGHT + 10 + row * KEY_HEIGHT
        yield _stroke(line, f"M{x:.0f} {y:.0f}h20")
        yield element("text", line.name, x=f"{x + 25:.0f}", y=f"{y + 4:.0f}", class_="key")
