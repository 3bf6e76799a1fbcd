"""Panels in an HTML page: lines as SVG, text as HTML. No ids, and nothing that a viewer must load.

A drawing is a grid of page.css. The browser makes its outer columns as wide as their widest tick and name, in whatever font it
has, and every line of text as high as LABEL_HEIGHT. Horizontal places are shares of the width, heights are pixels.
The attributes data-x (kind and ends of the axis) and data-y (two values and their heights) are for page.js.
"""

import math
from collections.abc import Callable

import numpy as np

from prequential.report.markup import Html, element
from prequential.report.run_panels import Panel, Series, spread

BOTTOM = 220.0  # of the plotting area, in pixels, as in page.css
WIDTH = 1000.0  # of the plotting area, in the units of its lines
MAX_DATES = 4  # ticks of an axis of dates
MARGIN = 0.04  # of the range of the values, above and below them
LABEL_HEIGHT = 16.0  # of the name at the end of a line, in pixels, as in page.css
PREFIXES = ((1e9, " G"), (1e6, " M"), (1e3, " k"))

Scale = Callable[[float], float]  # from a value of an axis to its place


def html_figure(panel: Panel) -> Html:
    """The panel as an HTML <figure> with its title, and the names that are left out."""
    notes = [element("small", panel.note)] if panel.note else []
    return element("figure", element("figcaption", panel.title), drawing(panel), *notes, class_="plot")


def drawing(panel: Panel) -> Html:
    """The panel as one <div> element. Its title, for screen readers, says where each line ends."""
    last = "; ".join(f"{line.name} ends at {short_number(line.y[-1])}" for line in panel.series)
    title = f"{panel.title}: {panel.y_title} against {panel.x_title}; {last}"
    x_values = np.concatenate([panel.x_range or (), *(line.x for line in panel.series)])
    ends = float(x_values.min()), float(x_values.max())
    if panel.dates:  # whole days
        ends = math.floor(ends[0]), math.floor(ends[1]) + 1
    x_ticks, x = (_date_scale if panel.dates else _log_scale)(*ends)
    y_values = np.concatenate([*(line.y for line in panel.series), panel.references])
    y_ticks, y = _linear_scale(float(y_values.min()), float(y_values.max()))
    lines = (_line(line, x, y) for line in reversed(panel.series))  # the first series is on top
    box = {"viewBox": f"0 0 {WIDTH:.0f} {BOTTOM:.0f}", "preserveAspectRatio": "none"}
    axes = {
        "data_x": f"{'date' if panel.dates else 'log'} {ends[0]} {ends[1]}",
        "data_y": " ".join(f"{tick} {y(tick)}" for tick in (y_ticks[0], y_ticks[-1])),
    }
    area = element("svg", *lines, width="100%", height=BOTTOM, class_="area", **box, **axes)
    levels = [(f"{y(value):.1f}", "grid") for value in y_ticks]
    levels += [(f"{y(value):.1f}", "reference") for value in panel.references]
    grid = [element("line", x1=0, x2="100%", y1=at, y2=at, class_=kind) for at, kind in levels]
    ticks = [
        (str(np.datetime64(round(tick), "D")) if panel.dates else short_number(tick), f"{x(tick):.2%}")
        for tick in x_ticks
    ]
    grid += [element("line", x1=at, x2=at, y1=0, y2=BOTTOM, class_="grid") for _, at in ticks]
    heights = [y(float(line.y[-1])) for line in panel.series]
    leaders, names = list[Html](), list[Html]()
    for line, end, place in zip(panel.series, heights, spread(heights, LABEL_HEIGHT, 4.0, BOTTOM), strict=True):
        leaders += _leader(line, end, place, x)
        names.append(element("span", line.name, title=line.name, class_=f"name t{line.colour}", style=_beside(place)))
    shown = element("svg", *grid, area, *leaders, width="100%", height=BOTTOM)
    labels = [element("span", short_number(tick), class_="y", style=_beside(y(tick))) for tick in y_ticks]
    for i, (tick, at) in enumerate(ticks):
        kind = "x more" if i % 2 else "x"  # every other one not on narrow pages
        labels.append(element("span", tick, class_=kind, style=f"left: {at}"))
    axis = element("span", panel.x_title, class_="axis")
    return element("div", shown, *labels, axis, *names, class_="drawing", role="img", aria_label=title)


def _line(line: Series, x: Scale, y: Scale) -> Html:
    points = [f"{WIDTH * x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    kind = "line own" if line.is_own else "line"
    if len(points) == 1:
        points.append("h0.1")  # with round line ends: a dot
        kind += " dot"
    return element("path", d="M" + " ".join(points), class_=f"{kind} s{line.colour}")


def _leader(line: Series, end: float, place: float, x: Scale) -> list[Html]:
    """From the end of the line, at the height `end`, to its name on the right of the plotting area, at the height `place`."""
    reach = {"x1": f"{x(float(line.x[-1])):.2%}", "x2": "100%", "y1": f"{end:.1f}", "y2": f"{end:.1f}"}
    bend = element("path", d=f"M0 {end:.1f}L8 {place:.1f}", class_=f"leader s{line.colour}")
    return [
        element("line", **reach, class_=f"leader s{line.colour}"),
        element("svg", bend, x="100%", overflow="visible"),
    ]


def _beside(height: float) -> str:
    """The style of a label whose middle is at this height of the plotting area."""
    return f"top: {height - LABEL_HEIGHT / 2:.1f}px"


# ---- scales


def _log_scale(low: float, high: float) -> tuple[list[float], Scale]:
    """The ticks of a logarithmic axis over these values, and its scale, from 0 to 1."""
    first, last = math.log(low), math.log(max(high, low * 1.01))
    return log_ticks(low, high), lambda value: (math.log(value) - first) / (last - first)


def _date_scale(low: float, high: float) -> tuple[list[float], Scale]:
    """At most MAX_DATES ticks of an axis over these days, each a whole day; its scale, from 0 to 1."""
    days = [day for day in dict.fromkeys(map(math.ceil, linear_ticks(low, high))) if low <= day <= high]
    return [*map(float, days[:: math.ceil(len(days) / MAX_DATES)])], lambda value: (value - low) / (high - low)


def _linear_scale(low: float, high: float) -> tuple[list[float], Scale]:
    """The ticks of a linear axis over these values with a margin, and its scale, from BOTTOM to 0."""
    low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
    ticks = linear_ticks(low, high)
    if len(inside := [tick for tick in ticks if low <= tick <= high]) > 1:
        ticks = inside
    else:
        low, high = ticks[0], ticks[-1]
    return ticks, lambda value: BOTTOM - BOTTOM * (value - low) / (high - low)


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
    """Powers of ten from low to high, 0 < low <= high. If they are few: also 2 and 5 times them, or those of a linear axis."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= 4:
            return ticks
    return max(ticks, [tick for tick in linear_ticks(low, high) if low <= tick <= high], key=len) or [low]


def short_number(value: float) -> str:
    """The value with at most four significant digits and a unit prefix, never in scientific notation: 1500000 is "1.5 M"."""
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), (1.0, ""))
    return np.format_float_positional(value / size, precision=4, fractional=False, trim="-") + prefix
