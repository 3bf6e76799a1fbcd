"""Panels in matplotlib Axes: the back end of plots.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from prequential.errors import wrong_argument
from prequential.printable import printable
from prequential.report.panels import LINE_COLOURS, Panel, Series, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("solid", "dashed", "dotted")
MAX_NAME = 80  # letters
NAME_HEIGHT = 0.05  # of the name at the end of a line, as a share of the plot
LEADER = {"linewidth": 0.7, "alpha": 0.6}
PLAIN: dict[str, Any] = {"fontsize": "small", "parse_math": False}  # a name may look like a formula


def draw(plot: Axes, panel: Panel) -> None:
    """Draws a panel, with the names of its lines at their ends."""
    for line in panel.series:
        _draw_line(plot, line)
    for value in panel.references:
        plot.axhline(value, color="#888888", linewidth=0.8)
    plot.set(xscale="log" if panel.x.log else "linear", yscale="log" if panel.y.log else "linear")
    plot.set(xlabel=panel.x.title, ylabel=panel.y.title, ylim=plot.get_ylim())
    if panel.x.dates:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(tz=UTC, maxticks=8)
        plot.xaxis.set_major_locator(locator)
        plot.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    plot.set_title(short(panel.title), fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    _draw_names(plot, panel.series)
    if panel.note:
        plot.text(0.0, -0.2, short(panel.note), transform=plot.transAxes, va="top", **PLAIN)


def _draw_line(plot: Any, line: Series) -> None:
    width, order = (2.4, 2.1) if line.is_own else (1.4, 2.0)  # what the picture is about is on top
    looks = {"color": LINE_COLOURS[line.colour], "linestyle": DASHES[line.dashes], "linewidth": width, "zorder": order}
    plot.plot(line.x, line.y, marker="o" if len(line.x) == 1 else None, **looks)


def _draw_names(plot: Any, series: Sequence[Series]) -> None:
    """The names of the lines on the right of the plot, each joined to the end of its line."""
    plot.autoscale_view()
    to_share = plot.transData + plot.transAxes.inverted()
    ends = [to_share.transform((float(line.x[-1]), float(line.y[-1]))) for line in series]
    heights = [float(y) for _, y in ends]
    for line, (x, y), height in zip(series, ends, spread(heights, NAME_HEIGHT, 0.0, 1.0), strict=True):
        colour, at = LINE_COLOURS[line.colour], {"transform": plot.transAxes, "clip_on": False}
        plot.text(1.02, height, short(line.name), color=colour, va="center", **at, **PLAIN)
        if 0 <= x <= 1 and 0 <= y <= 1:
            plot.plot((x, 1.015), (y, height), color=colour, scalex=False, scaley=False, **LEADER, **at)


def short(name: str) -> str:
    """The name as far as there is room for it."""
    name = printable(name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."


def new_axes(ax: Axes | None = None, width: float = 8.0, height: float = 5.0) -> Axes:
    """`ax`, or the Axes of a new figure of pyplot, of this size in inches. Raises ConfigError for anything else."""
    from matplotlib import axes

    if isinstance(ax, axes.Axes):
        return ax
    if ax is not None:
        raise wrong_argument("ax", ax, "the Axes of a matplotlib figure, or None for a new one")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").subplots()
