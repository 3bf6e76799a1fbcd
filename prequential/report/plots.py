"""Matplotlib figures, for notebooks and PNG files. They need matplotlib (the extra `plots`)."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.errors import MissingDependencyError
from prequential.files import output_file, writing
from prequential.matrix.matrix import short_names
from prequential.printable import printable
from prequential.report import monorepo_picture, run_panels
from prequential.report.names import distinct
from prequential.report.passages import ColouredText
from prequential.report.style import LIGHT
from prequential.report.style import LINE_COLOURS as COLOURS
from prequential.report.svg import DASHES, N_COLOURS, Axes, Panel, Series, spread, svg_file
from prequential.report.ticks import date_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from prequential.evaluation.runs import Run
    from prequential.files import PathLike
    from prequential.matrix.matrix import Matrix
    from prequential.sweeps.sweep import Summary

MAX_NAME = 80  # letters
NAME_HEIGHT = 0.055  # of the name at the end of a line, as a share of the plot
GREY = LIGHT["rest"]


def learning_curves(curves: run_panels.Curves, title: str = "") -> Figure:
    """Bits per byte up to each position. curves: of an Evaluation or a Run. Raises MissingDependencyError without matplotlib."""
    return _titled(run_panels.learning(curves), title)


def regret(curves: run_panels.Curves, title: str = "") -> Figure:
    """The regret with its sign changed: cumulative bits that the model saves against each other curve.

    Raises MissingDependencyError without matplotlib.
    """
    return _titled(run_panels.saved(curves), title)


def long_tail(table: Mapping[str, Any], title: str = "") -> Figure:
    """Bits per byte at the k-th occurrence. Raises MissingDependencyError without matplotlib.

    table: "trigram_occurrences" or "trigram_learning" in the tables of an Evaluation or a record.
    """
    return _titled(run_panels.tail(table), title)


def costs(table: Mapping[str, Any], title: str = "") -> Figure:
    """Bars for each row of a table of where the bits went: its share of the bytes and of the bits, and its bits per byte.

    table: of the tables of an Evaluation or a record. Raises MissingDependencyError without matplotlib.
    """
    rows = [row for row in table["rows"] if row["n_bytes"]]
    parts = list(rows[0]["bits"])
    n_bytes = np.array([row["n_bytes"] for row in rows], np.float64)
    bits = {part: np.array([row["bits"][part] for row in rows]) for part in parts}
    shares = {
        "of bytes": 100 * n_bytes / n_bytes.sum(),
        "of bits": 100 * bits[parts[0]] / (bits[parts[0]].sum() or 1.0),
    }
    made = new_figure(11.0, 1.4 + 0.34 * len(rows))
    left, right = made.subplots(1, 2, sharey=True)
    _bars(left, shares, "share, %", ("#b8bec6", COLOURS[0]))
    _bars(right, {part: bits[part] / n_bytes for part in parts}, "bits/byte", COLOURS)
    left.set_yticks(range(len(rows)), [_short(row["name"]) for row in rows], parse_math=False)
    left.invert_yaxis()
    if title:
        made.suptitle(_short(title), parse_math=False)
    return made


def front(summary: Summary, title: str = "") -> Figure:
    """The results of a sweep: bits per byte against operations per byte, or seconds. A line joins those on the front.

    Raises MissingDependencyError without matplotlib.
    """
    results = sorted(summary.results, key=lambda result: result.cost)
    made = new_figure(8.0, 4.6)
    plot = made.subplots()
    groups = {"front": [r for r in results if r.on_front], "others": [r for r in results if not r.on_front]}
    for (name, group), style in zip(groups.items(), ("o-", "o"), strict=True):
        colour = COLOURS[0] if name == "front" else GREY
        plot.plot([r.cost for r in group], [r.bits_per_byte for r in group], style, color=colour, label=name)
    for result in results:
        place = (result.cost, result.bits_per_byte)
        plot.annotate(
            _short(result.name), place, (5, 5), textcoords="offset points", fontsize="x-small", parse_math=False
        )
    known = all(result.flops_per_byte is not None for result in results)
    plot.set(xscale="log", xlabel="operations per byte" if known else "seconds per byte", ylabel="bits/byte")
    plot.set_title(_short(title), fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    plot.margins(x=0.25, y=0.12)
    plot.legend(fontsize="small")
    return made


def text(passages: Sequence[Mapping[str, Any]]) -> ColouredText:
    """Passages of the corpus, each character coloured by its bits, for a notebook. passages: of an Evaluation or a record."""
    return ColouredText(passages)


def matrix(found: Matrix) -> Figure:
    """Two maps: the share of each corpus's bits that another one saves, and distances. Raises MissingDependencyError."""
    size = 3.0 + 0.6 * len(found.givens)
    made = new_figure(2 * size, size)
    maps = (
        ("bits of the row that the column saves, %", 100 * found.saved, found.givens, "{:.0f}"),
        ("distance", found.distances, found.names, "{:.2f}"),
    )
    for plot, (title, values, columns, form) in zip(made.subplots(1, 2), maps, strict=True):
        others = np.where(np.eye(*values.shape) == 1, np.nan, values)  # a corpus given itself has no colour
        low, high = float(np.nanmin(others)), float(np.nanmax(others))
        plot.imshow(others, cmap="Blues" if form == "{:.0f}" else "Blues_r", vmin=low, vmax=high)
        plot.set_xticks(
            range(len(columns)), map(_short, short_names(columns)), rotation=40, ha="right", parse_math=False
        )
        plot.set_yticks(range(len(found.names)), map(_short, short_names(found.names)), parse_math=False)
        plot.set_title(title, fontsize="medium")
        for i, j in np.argwhere(~np.isnan(others)):
            share = (others[i, j] - low) / max(high - low, 1e-9)
            is_dark = (share if form == "{:.0f}" else 1 - share) > 0.6
            plot.text(j, i, form.format(others[i, j]), ha="center", va="center", color="white" if is_dark else "black")
    return made


def monorepo(records: Sequence[Mapping[str, Any]]) -> Figure:
    """The monorepo losses of a series over time, all documents and by kind. records: of `read_series`.

    Raises CorpusError for an empty series, MissingDependencyError without matplotlib.
    """
    return figure(monorepo_picture.heading(records), monorepo_picture.panels(records))


def save_figure(found: Figure, path: PathLike, *, overwrite: bool = False, mode: int = 0o777) -> None:
    """Writes a figure in the format that the name ends in. mode: permissions that it has at most. Raises OutputError."""
    memory = io.BytesIO()
    found.savefig(memory, format=Path(path).suffix.removeprefix("."))
    with output_file(path, overwrite=overwrite, mode=mode) as sink:
        sink.write(memory.getvalue())


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


def _titled(panel: Panel, title: str) -> Figure:
    return figure("", [replace(panel, title=title or panel.title)])


def figure(heading: str, panels: Sequence[Panel]) -> Figure:
    """The heading and the panels, from top to bottom. Raises MissingDependencyError without matplotlib."""
    found = new_figure(8.0, 0.8 + 4.2 * len(panels))
    if heading:
        found.suptitle(_short(heading), parse_math=False)
    for plot, panel in zip(found.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        draw(plot, panel.series, panel.axes, panel.title)
        if panel.note:
            plot.text(
                0.0, -0.2, _short(panel.note), transform=plot.transAxes, fontsize="small", va="top", parse_math=False
            )
    return found


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches. Raises MissingDependencyError without matplotlib."""
    try:
        _import_matplotlib()
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'prequential[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _import_matplotlib() -> None:
    """Imports matplotlib. A variable MPLBACKEND that it does not know would end the import, and our pictures use no backend."""
    if "matplotlib" in sys.modules:
        return
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        with _no_settings_of_this_folder():
            import matplotlib
            import matplotlib.figure
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = backend  # for the other pictures of a notebook


@contextmanager
def _no_settings_of_this_folder() -> Iterator[None]:
    """While the body imports matplotlib, a file matplotlibrc in the current folder is not found. It may be a stranger's."""
    found = os.path.exists
    os.path.exists = lambda path: path != "matplotlibrc" and found(path)
    try:
        yield
    finally:
        os.path.exists = found


def draw(plot: Any, series: Sequence[Series], axes: Axes, title: str) -> None:
    """Draws the series in `plot`, the matplotlib Axes of a Figure, with the names of the full lines at their ends.

    The range of y is that of the full lines.
    """
    full = [line for line in series if line.full]
    for line in full or series:
        _draw_line(plot, line)
    if axes.zero:
        plot.axhline(0.0, color="#888888", linewidth=0.8)
    plot.set(xscale="log" if axes.log_x else "linear", yscale="log" if axes.log_y else "linear")
    plot.set(xlabel=axes.x_title, ylabel=axes.y_title, ylim=plot.get_ylim())
    for line in series if full else ():
        if not line.full:
            _draw_line(plot, line)
    if axes.dates and series:
        x = np.concatenate([line.x for line in series])
        plot.set_xticks(*date_ticks(float(x.min()), float(x.max())))
    plot.set_title(_short(title), fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    _draw_names(plot, full)


def _draw_names(plot: Any, series: Sequence[Series]) -> None:
    """The names of the lines on the right of the plot, at the heights where the lines end."""
    to_share = plot.transData + plot.transAxes.inverted()
    ends = [float(to_share.transform((line.x[-1], line.y[-1]))[1]) for line in series]
    for line, place in zip(series, spread(ends, NAME_HEIGHT, 0.0, 1.0), strict=True):
        height = float(to_share.inverted().transform((1.0, place))[1])
        colour, where = COLOURS[line.style % N_COLOURS], ("axes fraction", "data")
        plot.annotate(
            _short(line.name), (1.01, height), xycoords=where, color=colour, fontsize="small", va="center", parse_math=False,
            annotation_clip=False,
        )  # fmt: skip


def _short(name: str) -> str:
    """The name as far as there is room for it."""
    name = printable(name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."


def _draw_line(plot: Any, line: Series) -> None:
    dashes = ("solid", "dashed", "dotted")[line.style // N_COLOURS % len(DASHES)]
    colour, marker = COLOURS[line.style % N_COLOURS] if line.full else GREY, "o" if len(line.x) == 1 else None
    width = 2.2 if line.own else 1.4 if line.full else 0.9
    order = 2 if line.full else 1  # the grey lines are below the others
    plot.plot(line.x, line.y, color=colour, linestyle=dashes, marker=marker, linewidth=width, zorder=order)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file. Equal figures give equal bytes."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name with letters that no font has, or without room
        figure.savefig(file, format="png", dpi=150)
    return file.getvalue()


def save_plots(runs: Sequence[Run], folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
    """Writes FOLDER/RUN-PANEL.png and .svg for every panel of every run; returns the paths. Equal runs give equal files.

    A file has at most the permissions of its run. Raises MissingDependencyError without matplotlib, CorpusError if the curves of
    a run cannot be read, and OutputError if a file exists, unless `overwrite`.
    """
    panels = [run_panels.panels_for_files(run) for run in runs]  # before anything is written
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    names = distinct(run.path.resolve().name for run in runs)
    for run, name, found in zip(runs, names, panels, strict=True):
        for panel_name, panel in found.items():
            for kind, content in _picture_files(run.path.resolve().name, panel).items():
                paths.append(Path(folder) / f"{name}-{panel_name}.{kind}")
                with output_file(paths[-1], overwrite=overwrite, mode=run.mode) as sink:
                    sink.write(content)
    return paths


def _picture_files(heading: str, panel: Panel) -> dict[str, bytes]:
    return {"png": png(figure(heading, [panel])), "svg": svg_file(heading, [panel]).encode("utf-8", "replace")}
