"""`prequential.plots`: results as matplotlib figures. Without the extra `plots`, functions raise MissingDependencyError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.evaluation.summary import learner_label
from prequential.files import writing
from prequential.matrix import short_names
from prequential.report import run_panels
from prequential.report.figures import PLAIN, draw, figure, new_figure, png, save_png, short
from prequential.report.panels import LINE_COLOURS, Axis, Panel, Series
from prequential.report.sections import ColouredText, corpus_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from prequential.evaluation.runs import Run
    from prequential.files import PathLike
    from prequential.matrix import Matrix
    from prequential.sweeps.sweep import Summary

__all__ = [
    "costs", "draw", "figure", "front", "learning_curves", "matrix", "monorepo", "new_figure", "png", "regret",
    "save_plots", "save_png", "text",
]  # fmt: skip


def learning_curves(curves: run_panels.Curves, title: str = "") -> Figure:
    """Bits per byte up to each position. curves: of an Evaluation or a Run."""
    return _titled(run_panels.learning(curves), title)


def regret(curves: run_panels.Curves, title: str = "") -> Figure:
    """The regret with its sign changed: cumulative bits that the model saves against each other curve."""
    return _titled(run_panels.saved(curves), title)


def front(summary: Summary, title: str = "") -> Figure:
    """The results of a sweep: bits per byte against operations per byte, or seconds. A line joins those on the front."""
    best = sorted((result.cost, result.bits_per_byte) for result in summary.results if result.on_front)
    x, y = np.array(best, np.float64).reshape(-1, 2).T
    known = all(result.flops_per_byte is not None for result in summary.results)
    cost = Axis("operations per byte" if known else "seconds per byte", log=True)
    found = figure("", [Panel(title, [Series("front", x, y)], cost)])
    plot = found.axes[0]
    for result in summary.results:
        at = result.cost, result.bits_per_byte
        plot.plot(*at, "o", color=LINE_COLOURS[0])
        plot.annotate(short(result.name), at, (5, 5), textcoords="offset points", **PLAIN)
    plot.autoscale()
    plot.margins(x=0.25, y=0.12)
    return found


def costs(table: Mapping[str, Any], title: str = "") -> Figure:
    """Bars for each row of a table of an Evaluation or a record: its share of the bytes and of the bits, its bits per byte."""
    rows = [row for row in table["rows"] if row["n_bytes"]]
    parts = list(rows[0]["bits"])
    n_bytes = np.array([row["n_bytes"] for row in rows], np.float64)
    bits = {part: np.array([row["bits"][part] for row in rows]) for part in parts}
    of_bits = 100 * bits[parts[0]] / (bits[parts[0]].sum() or 1.0)
    made = new_figure(11.0, 1.4 + 0.34 * len(rows))
    left, right = made.subplots(1, 2, sharey=True)
    _bars(
        left, {"of bytes": 100 * n_bytes / n_bytes.sum(), "of bits": of_bits}, "share, %", ("#b8bec6", LINE_COLOURS[0])
    )
    _bars(right, {part: bits[part] / n_bytes for part in parts}, "bits/byte", LINE_COLOURS)
    left.set_yticks(range(len(rows)), [short(row["name"]) for row in rows], parse_math=False)
    left.invert_yaxis()
    if title:
        made.suptitle(short(title), parse_math=False)
    return made


def _bars(plot: Any, values: Mapping[str, NDArray[np.float64]], name: str, colours: Sequence[str]) -> None:
    height = 0.8 / len(values)
    for k, (label, lengths) in enumerate(values.items()):
        places = np.arange(len(lengths)) + (k - (len(values) - 1) / 2) * height
        plot.barh(places, lengths, height, label=label, color=colours[k % len(colours)])
    plot.set(xlabel=name)
    plot.grid(visible=True, axis="x", linewidth=0.4)
    plot.set_axisbelow(True)
    for label in plot.legend(fontsize="small").get_texts():
        label.set_parse_math(False)


def text(passages: Sequence[Mapping[str, Any]]) -> ColouredText:
    """Passages of the corpus, each character coloured by its bits, for a notebook. passages: of an Evaluation or a record."""
    return ColouredText(passages)


def matrix(found: Matrix) -> Figure:
    """Two maps: the bits of a byte of each corpus that another one saves, and distances."""
    size = 3.0 + 0.6 * len(found.givens)
    made = new_figure(2 * size, size)
    maps = (
        ("bits of a byte of the row that the column saves", found.saved_per_byte, found.givens, "Blues"),
        ("distance", found.distances, found.names, "Blues_r"),
    )
    for plot, (title, values, columns, colours) in zip(made.subplots(1, 2), maps, strict=True):
        others = np.where(np.eye(*values.shape) == 1, np.nan, values)  # a corpus given itself has no colour
        low, high = float(np.nanmin(others)), float(np.nanmax(others))
        plot.imshow(others, cmap=colours, vmin=low, vmax=high)
        plot.set_xticks(
            range(len(columns)), map(short, short_names(columns)), rotation=40, ha="right", parse_math=False
        )
        plot.set_yticks(range(len(found.names)), map(short, short_names(found.names)), parse_math=False)
        plot.set_title(title, fontsize="medium")
        for i, j in np.argwhere(~np.isnan(others)):
            share = (others[i, j] - low) / max(high - low, 1e-9)
            is_dark = (share if colours == "Blues" else 1 - share) > 0.6
            plot.text(j, i, f"{others[i, j]:.2f}", ha="center", va="center", color="white" if is_dark else "black")
    return made


def monorepo(records: Sequence[Mapping[str, Any]]) -> Figure:
    """The monorepo losses of a series over time, all documents and by kind. records: of `read_series`, at least one."""
    panels, n_points = run_panels.monorepo(records), len(records)
    return figure(f"{records[-1]['test']['name']}: monorepo loss, {n_points} point{'s' * (n_points > 1)}", panels)


def _titled(panel: Panel, title: str) -> Figure:
    return figure("", [replace(panel, title=title or panel.title)])


def save_plots(runs: Sequence[Run], folder: PathLike, *, overwrite: bool = False) -> list[Path]:
    """Writes FOLDER/RUN-PANEL.png for every panel of every run; returns the paths. Equal runs give equal files.

    A file has at most the permissions of its run. Raises CorpusError if the curves of a run cannot be read, and OutputError if a
    file exists, unless `overwrite`.
    """
    panels = [run_panels.panels_for_files(run) for run in runs]  # before anything is written
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    names = run_panels.distinct(run.path.resolve().name for run in runs)
    for run, name, found in zip(runs, names, panels, strict=True):
        record = run.record
        learner = run_panels.full_name(learner_label(record["config"]), record)
        heading = f"{learner} learns {corpus_name(run)}, {record['corpus']['n_bytes']:,} bytes"
        for panel_name, panel in found.items():
            paths.append(Path(folder) / f"{name}-{panel_name}.png")
            save_png(figure(heading, [panel]), paths[-1], overwrite=overwrite, mode=run.mode)
    return paths
