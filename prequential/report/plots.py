"""Plots of runs: which lines there are, and matplotlib figures of them.

A line is a Series. `learning`, `stretches`, `windows`, `regrets`, `differences` and `tail` say what the lines of a run are; a
page draws them by report/svg.py. `learning_curves`, `regret` and `long_tail` return matplotlib figures, for files and
notebooks, and need the extra `plots`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import MissingDependencyError
from prequential.files import output_file, writing
from prequential.measure.evaluation.curves import Curve, prefixes
from prequential.measure.evaluation.trace import GPT, MIXER, MODEL
from prequential.report.svg import DASHES, N_STYLES, Axes, Series, date_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prequential.measure.evaluation.runs import Run
    from prequential.measure.study.compare import Comparison

N_POINTS = 200  # of a line: more cannot be seen
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f5fb0", "#808080")


LEARNING = Axes()
WINDOWS = Axes(log_x=False)
REGRET = Axes(y_title="bits, the model's less the other's", zero=True)
DIFFERENCE = Axes(y_title="bits, less those of the reference", zero=True)
TAIL = Axes(x_title="occurrence k of a trigram", y_title="bits/byte at it", log_y=True)
Curves_ = Mapping[str, Curve]


def learning(curves: Curves_) -> list[Series]:
    """Bits per byte of all up to each position: cumulative bits over bytes."""
    lines = ((name, _thinned(curve), style) for style, (name, curve) in enumerate(curves.items()))
    return [
        Series(name, line.n_bytes.astype(np.float64), line.bits / line.n_bytes, style) for name, line, style in lines
    ]


def stretches(curves: Curves_) -> list[Series]:
    """Bits per byte of each stretch between two log-spaced positions (those of the baselines), drawn at its end."""
    ends = prefixes(_n_bytes(curves))
    return [Series(name, *_rates(curve, ends), style) for style, (name, curve) in enumerate(curves.items())]


def windows(curves: Curves_, n_windows: int = 64) -> list[Series]:
    """Bits per byte of each of n_windows equal windows: of the model and its parts, whose positions lie close enough."""
    rates = ((name, curve.windows(n_windows), style) for style, (name, curve) in enumerate(curves.items()))
    return [
        Series(name, rate.n_bytes.astype(np.float64), rate.bits, style)
        for name, rate, style in rates
        if name in (MODEL, GPT, MIXER)
    ]


def regrets(curves: Curves_, n_closest: int = 6) -> list[Series]:
    """Bits that the model has spent more than each other up to each position of that other; below 0 the model is ahead.

    Of those n_closest that are closest to it in the end: the others would press these together.
    """
    model = curves[MODEL]
    gaps = {name: abs(float(curve.bits[-1] - model.bits[-1])) for name, curve in curves.items() if name != MODEL}
    closest = sorted(gaps, key=lambda name: gaps[name])[:n_closest]
    return [
        Series(name, *_regret(model, _thinned(other)), style)
        for style, (name, other) in enumerate(curves.items())
        if name in closest
    ]


def differences(comparison: Comparison) -> list[Series]:
    """Bits that each group of runs has spent more than the reference up to each byte; below 0 it is ahead."""
    lines = []
    for style, found in enumerate(comparison.differences, 1):
        line = _thinned(Curve(n_bytes=found.n_bytes[1:], bits=found.running_bits[1:]))
        name = f"{found.other.label} - {found.reference.label}"
        lines.append(Series(name, line.n_bytes.astype(np.float64), line.bits, style))
    return lines


def tail(table: Mapping[str, Any]) -> list[Series]:
    """Bits per byte against the occurrence, and the fitted power law of each part, if it is such a table; else no line.

    table: one of measure/evaluation/breakdown.py, whose rows of occurrences have a mean_k.
    """
    rows = [row for row in table["rows"] if row.get("mean_k")]
    lines = []
    for style, part in enumerate(rows[0]["bits"] if rows else ()):
        points = [(row["mean_k"], row["bits"][part] / row["n_bytes"]) for row in rows if row["bits"][part] > 0]
        if not points:
            continue
        k, rate = np.array(points, np.float64).T
        lines.append(Series(part, k, rate, style))
        if fit := table.get("fits", {}).get(part):
            label = f"{part}: {fit['factor']:.3g} k^{fit['exponent']:.3f}"
            lines.append(Series(label, k, fit["factor"] * k ** fit["exponent"], style + N_STYLES))
    return lines


def _regret(model: Curve, other: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The positions of `other` and the model's bits less the other's there; the model is known from the first byte on."""
    return other.n_bytes.astype(np.float64), model.at(other.n_bytes) - other.bits


def _thinned(curve: Curve) -> Curve:
    """At most N_POINTS of its points, log-spaced, with the first and the last."""
    wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
    return Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


def _rates(curve: Curve, ends: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    marks = np.concatenate(([0], ends[ends <= curve.n_bytes[-1]]))
    return marks[1:].astype(np.float64), np.diff(curve.at(marks)) / np.diff(marks)


def _n_bytes(curves: Curves_) -> int:
    return max(int(curve.n_bytes[-1]) for curve in curves.values())


def learning_curves(curves: Curves_, title: str = "") -> Figure:
    """Bits per byte so far against bytes, a matplotlib Figure. curves: of an Evaluation or a Run.

    Raises MissingDependencyError without matplotlib.
    """
    return _figure(learning(curves), LEARNING, title)


def regret(curves: Curves_, title: str = "") -> Figure:
    """The model's cumulative bits less those of each other curve, a matplotlib Figure. Raises MissingDependencyError."""
    return _figure(regrets(curves), REGRET, title)


def long_tail(table: Mapping[str, Any], title: str = "") -> Figure:
    """Bits per byte at the k-th occurrence with fitted power laws, a matplotlib Figure.

    table: "trigram_occurrences" or "trigram_learning" of an Evaluation's or a record's tables. Raises MissingDependencyError.
    """
    return _figure(tail(table), TAIL, title)


def new_figure(width: float, height: float) -> Figure:
    """An empty matplotlib Figure, in inches. Raises MissingDependencyError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'prequential[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _figure(series: Sequence[Series], axes: Axes, title: str) -> Figure:
    figure = new_figure(8.0, 5.0)
    draw(figure.add_subplot(), series, axes, title)
    return figure


def draw(plot: Any, series: Sequence[Series], axes: Axes, title: str) -> None:
    """The lines, in the axes of a matplotlib Figure."""
    handles = [_drawn_line(plot, line) for line in series]
    if axes.zero:
        plot.axhline(0.0, color="#888888", linewidth=0.8)
    plot.set(xscale="log" if axes.log_x else "linear", yscale="log" if axes.log_y else "linear")
    plot.set(xlabel=axes.x_title, ylabel=axes.y_title)
    if axes.dates and series:
        x = np.concatenate([line.x for line in series])
        plot.set_xticks(*date_ticks(float(x.min()), float(x.max())))
    plot.set_title(title, fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    if series:
        texts = plot.legend(handles, [line.name for line in series], fontsize="small").get_texts()
        for text in texts:
            text.set_parse_math(False)


def _drawn_line(plot: Any, line: Series) -> Any:
    dashes = ("solid", "dashed", "dotted")[line.style // N_STYLES % len(DASHES)]
    colour, marker = COLOURS[line.style % N_STYLES], "o" if len(line.x) == 1 else None
    width = 1.4 if line.style else 2.0
    return plot.plot(line.x, line.y, color=colour, linestyle=dashes, marker=marker, linewidth=width)[0]


def save_plots(runs: Sequence[Run], folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
    """Every figure of every run as FOLDER/RUN-FIGURE.png and .svg; returns the paths. Equal runs give equal files.

    Raises MissingDependencyError, CorpusError, and OutputError where a file exists, unless `overwrite`.
    """
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for run, name in zip(runs, names(runs), strict=True):
        for figure_name, figure in figures(run).items():
            for kind in ("png", "svg"):
                paths.append(Path(folder) / f"{name}-{figure_name}.{kind}")
                with output_file(paths[-1], overwrite=overwrite) as sink:
                    sink.write(file_of(figure, kind))
    return paths


def figures(run: Run) -> dict[str, Figure]:
    """All figures of a run, by name. Raises MissingDependencyError, CorpusError."""
    name = run.path.resolve().name
    found = {"learning": learning_curves(run.curves, name)}
    if len(run.curves) > 1:
        found["regret"] = regret(run.curves, name)
    for table_name, table in run.record["tables"].items():
        if tail(table):
            found[table_name] = long_tail(table, name)
    return found


def names(runs: Sequence[Run]) -> list[str]:
    """The runs' folder names; where there are equal ones, with a number."""
    found: list[str] = []
    for run in runs:
        name = run.path.resolve().name
        found.append(name if name not in found else f"{name} ({len(found) + 1})")
    return found


def file_of(figure: Figure, kind: str) -> bytes:
    """The figure as a file, png or svg; equal figures give equal files."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "prequential"}):
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()
