"""`prequential.plots`: results in matplotlib Axes. Each function draws in `ax`, or in a new figure, and returns the Axes.

A new figure is one of pyplot: a notebook shows it, and `plots.learning_curves(run).figure.savefig("curves.png")` saves it. Names
of lines stand on the right, outside the Axes: make figures of several with `layout="constrained"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from prequential.errors import wrong_argument
from prequential.evaluation.curves import MODEL, Curve, Curves, table_of
from prequential.evaluation.evaluation import Evaluation
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import learner_label
from prequential.printable import printable
from prequential.report import run_panels
from prequential.report.run_panels import LINE_COLOURS, Panel
from prequential.report.sections import ColouredText

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["costs", "learning_curves", "monorepo", "regret", "text"]

MAX_NAME = 80  # letters
PLAIN: dict[str, Any] = {"fontsize": "small", "parse_math": False}  # a name may look like a formula


def draw(ax: Axes | None, panel: Panel) -> Axes:
    """Draws a panel, with the names of its lines beside it."""
    plot, lines = new_axes(ax), list[Any]()
    for line in panel.series:
        width, order = (2.4, 2.1) if line.is_own else (1.4, 2.0)  # what the picture is about is on top
        style: dict[str, Any] = {"color": LINE_COLOURS[line.colour], "linewidth": width, "zorder": order}
        lines += plot.plot(line.x, line.y, label=short(line.name), marker="o" if len(line.x) == 1 else None, **style)
    for value in panel.references:
        plot.axhline(value, color="#888888", linewidth=0.8)
    scale = "linear" if panel.dates else "log"
    plot.set(xscale=scale, xlabel=panel.x_title, ylabel=panel.y_title, ylim=plot.get_ylim())
    if panel.dates:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(tz=UTC, maxticks=8)
        plot.xaxis.set_major_locator(locator)
        plot.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    plot.set_title(short(panel.title), fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    names = plot.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    for name in names.get_texts():
        name.set_parse_math(False)
    if panel.note:
        plot.text(0.0, -0.2, short(panel.note), transform=plot.transAxes, va="top", **PLAIN)
    return plot


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


Measured: TypeAlias = Run | Evaluation
Runs: TypeAlias = Measured | Sequence[Measured] | Mapping[str, Measured | Curve]


def learning_curves(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Bits per byte up to each position, in bytes of the original.

    runs: one run, whose parts and baselines are drawn, too; or several, by their names in a mapping, each of which is one line.
    Lines begin where their rates come near those of the end.
    """
    return draw(ax, run_panels.learning(*_curves(runs)))


def regret(run: Measured | Mapping[str, Curve], *, ax: Axes | None = None) -> Axes:
    """The bits that the model saves up to each position against each other curve of the run: the regret with its sign changed.

    run: or curves by name; that which is called "model", or else the first, is compared with the others.
    """
    return draw(ax, run_panels.saved(*_curves(run)))


def costs(run: Measured, table: str = "byte_classes", *, ax: Axes | None = None) -> Axes:
    """Bits per byte of each kind of byte as bars, one for each part of the learner; a kind's name has its share of the bits.

    table: a name in `run.tables`. Raises ConfigError if there is none.
    """
    rows = [row for row in table_of(_record(run).get("tables", {}), table)["rows"] if row["n_bytes"]]
    parts = list(rows[0]["bits"])
    total = sum(row["bits"][parts[0]] for row in rows) or 1.0
    plot, height = new_axes(ax, 8.0, 1.4 + 0.34 * len(rows)), 0.8 / len(parts)
    for k, part in enumerate(parts):
        places = np.arange(len(rows)) + (k - (len(parts) - 1) / 2) * height
        rates = [row["bits"][part] / row["n_bytes"] for row in rows]
        plot.barh(places, rates, height, label=part, color=LINE_COLOURS[k % len(LINE_COLOURS)])
    names = [f"{short(row['name'])}, {100 * row['bits'][parts[0]] / total:.1f} % of the bits" for row in rows]
    plot.set_yticks(range(len(rows)), names, parse_math=False)
    plot.invert_yaxis()
    plot.set(xlabel="bits/byte")
    plot.grid(visible=True, axis="x", linewidth=0.4)
    plot.set_axisbelow(True)
    plot.legend(fontsize="small")
    return plot


def text(run: Measured) -> ColouredText:
    """Passages of the corpus, each character coloured by its bits, for a notebook."""
    return ColouredText(_record(run)["passages"])


def monorepo(records: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """The monorepo losses of a series over time, of all documents. records: of `read_series`. Raises CorpusError if none."""
    return draw(ax, run_panels.monorepo(records))


def _curves(runs: Runs) -> tuple[Curves, Mapping[str, str]]:
    """The curves that a picture of these runs shows, and what they are called."""
    if isinstance(runs, Run | Evaluation):
        config = _record(runs)["config"]
        name = run_panels.full_name(learner_label(config), config)
        return runs.curves, {**run_panels.PARTS, MODEL: name}
    if not isinstance(runs, Mapping):
        labels = [learner_label(_record(run)["config"]) for run in runs]
        runs = dict(zip(run_panels.distinct(labels), runs, strict=True))
    return {name: run if isinstance(run, Curve) else run.curves[MODEL] for name, run in runs.items()}, {}


def _record(run: Measured) -> Mapping[str, Any]:
    if not isinstance(run, Run | Evaluation):
        raise wrong_argument("runs", run, "runs of read_runs, or results of evaluate")
    return run.record
