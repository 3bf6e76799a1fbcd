"""Plots of runs: which lines there are, and two ways to draw them, as inline SVG of our own or as matplotlib figures.

A line is a Series. `learning`, `stretches`, `windows`, `regrets`, `differences` and `tail` say what the lines of a run are;
`svg` draws them for a page and needs nothing; `learning_curves`, `regret` and `long_tail` return matplotlib figures, for files
and notebooks, and need the extra `plots`.
"""

from __future__ import annotations

import html
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prequential.errors import MissingDependencyError
from prequential.files import output_file, writing
from prequential.measure.curves import Curve, prefixes
from prequential.measure.trace import GPT, MIXER, MODEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prequential.measure.compare import Comparison
    from prequential.measure.runs import Run

N_POINTS = 200  # of a line: more cannot be seen
N_STYLES = 9  # colours; from the tenth line on they come again, with other dashes
DASHES = ("", "7 3", "2 3")
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f5fb0", "#808080")


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y), each (n,) float64 and finite, n >= 1. style: equal on all plots of a run."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What a plot's axes are. log_x, log_y: x or y must be positive. zero: a line at y = 0."""

    x_title: str = "bytes of the original"
    y_title: str = "bits/byte"
    log_x: bool = True
    log_y: bool = False
    zero: bool = False


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

    table: one of measure/breakdown.py, whose rows of occurrences have a mean_k.
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


class Html(str):
    """Markup; any other string is text."""


def element(tag: str, *content: str, **attributes: object) -> Html:
    """`<tag attributes>content</tag>`: text and attributes escaped, markup as it stands.

    Attribute names: a final _ goes, others become hyphens. None leaves the attribute out.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    start = "".join(f' {name}="{html.escape(str(value))}"' for name, value in pairs)
    return Html(f"<{tag}{start}>{join(*content)}</{tag}>")


def join(*content: str) -> Html:
    """One piece of markup of several: text is escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in content))


WIDTH, HEIGHT = 480.0, 300.0  # of a drawing, in units of about a pixel
LEFT, RIGHT, TOP, BOTTOM = 70.0, 460.0, 12.0, 254.0  # of the plot in it


class _Scale:
    """From values of one axis to places: `start` for the lowest tick, `stop` for the highest."""

    def __init__(self, values: ArrayLike, start: float, stop: float, *, log: bool) -> None:
        finite = np.asarray(values, np.float64)
        self._log, self._start, self._stop = log, start, stop
        low, high = float(finite.min()), float(finite.max())
        self.ticks = log_ticks(low, high) if log else linear_ticks(low, high)
        low, high = (low, max(high, low * 1.01)) if log else (min(low, self.ticks[0]), max(high, self.ticks[-1]))
        self._low, self._high = self._place(low), self._place(high)

    def _place(self, value: float) -> float:
        return math.log(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._place(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def linear_ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers, a step of 1, 2 or 5 times a power of ten apart, that enclose low <= high."""
    span, size = high - low, max(abs(low), abs(high))
    if span <= max(1e-9 * size, 1e-200):  # no more than rounding: ticks as far apart as the values are large
        span = size if size > 1e-200 else 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, 0 < low <= high; with 2 and 5 times them where these would be fewer than four."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= 4:
            return ticks
    return ticks or [low]


def short_number(value: float) -> str:
    """1500000 as 1.5 M: four significant digits at most."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def svg(series: Sequence[Series], axes: Axes, title: str) -> Html:
    """The lines as one inline <svg> without ids, scripts or references; colours are the classes s0, s1 ... of the page.

    `title` is what a screen reader says.
    """
    x = _Scale(np.concatenate([line.x for line in series]), LEFT, RIGHT, log=axes.log_x)
    values = np.concatenate([line.y for line in series])
    y = _Scale(np.append(values, 0.0) if axes.zero else values, BOTTOM, TOP, log=axes.log_y)
    return element(
        "svg",
        element("title", title),
        *_grid(x, y, axes),
        *(_line(line, x, y) for line in reversed(series)),  # the first on top
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        role="img",
        aria_label=title,
    )


def _grid(x: _Scale, y: _Scale, axes: Axes) -> Iterator[Html]:
    for tick in y.ticks:
        at = y(tick)
        kind = "zero" if axes.zero and tick == 0 else "grid"
        yield element("path", d=f"M{LEFT} {at:.1f}H{RIGHT}", class_=kind)
        yield element("text", short_number(tick), x=LEFT - 6, y=f"{at + 4:.1f}", text_anchor="end")
    for tick in x.ticks:
        at = x(tick)
        yield element("path", d=f"M{at:.1f} {TOP}V{BOTTOM}", class_="grid")
        yield element("text", short_number(tick), x=f"{at:.1f}", y=BOTTOM + 17, text_anchor="middle")
    middle = (TOP + BOTTOM) / 2
    yield element("text", axes.x_title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle")
    yield element("text", axes.y_title, transform=f"translate(13 {middle}) rotate(-90)", text_anchor="middle")


def _line(line: Series, x: _Scale, y: _Scale) -> Html:
    points = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(line.x.tolist(), line.y.tolist(), strict=True)]
    if len(points) == 1:
        points.append("h0.1")  # with round ends: a dot
    return element(
        "path",
        element("title", line.name),
        d="M" + " ".join(points),
        class_=style_class(line),
        stroke_dasharray=_dashes(line),
    )


def style_class(line: Series) -> str:
    """The class of a line's colour, in a drawing and in its legend."""
    return f"line s{line.style % N_STYLES}" + ("" if line.style else " own")


def _dashes(line: Series) -> str | None:
    return DASHES[line.style // N_STYLES % len(DASHES)] or None


def legend(series: Sequence[Series]) -> Html:
    """The names of the lines, with a stroke as each is drawn: HTML, which wraps where the screen is narrow."""

    def key(line: Series) -> Html:
        stroke = element("path", d="M1 5H27", class_=style_class(line), stroke_dasharray=_dashes(line))
        return element("svg", stroke, viewBox="0 0 28 10", class_="key", aria_hidden="true")

    return element("ul", *(element("li", key(line), line.name) for line in series), class_="legend")


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


def _figure(series: Sequence[Series], axes: Axes, title: str) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'prequential[plots]'") from error
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    plot = figure.add_subplot()
    handles = [_drawn_line(plot, line) for line in series]
    if axes.zero:
        plot.axhline(0.0, color="#888888", linewidth=0.8)
    plot.set(xscale="log" if axes.log_x else "linear", yscale="log" if axes.log_y else "linear")
    plot.set(xlabel=axes.x_title, ylabel=axes.y_title)
    plot.set_title(title, fontsize="medium", parse_math=False)
    plot.grid(visible=True, linewidth=0.4)
    if series:
        texts = plot.legend(handles, [line.name for line in series], fontsize="small").get_texts()
        for text in texts:
            text.set_parse_math(False)
    return figure


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
                    sink.write(_drawn(figure, kind))
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


def _drawn(figure: Figure, kind: str) -> bytes:
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "prequential"}):
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()
