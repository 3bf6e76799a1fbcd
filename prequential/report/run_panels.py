"""The panels of runs: learning curves, regret, differences of runs, and cost at the k-th occurrence of a trigram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.measure.evaluation.breakdown import LEARNING, OCCURRENCES
from prequential.measure.evaluation.curves import GPT, MIXER, MODEL, Curve, prefixes
from prequential.report.svg import N_COLOURS, Axes, Panel, Series

if TYPE_CHECKING:
    from prequential.measure.evaluation.runs import Run
    from prequential.measure.study.compare import Comparison

N_POINTS = 200  # of a line; more cannot be seen
RATE = Axes()
WINDOWS = Axes(log_x=False)
REGRET = Axes(y_title="bits: the model minus the other", zero=True)
DIFFERENCE = Axes(y_title="bits: the run minus the reference", zero=True)
TAIL = Axes(x_title="occurrence k of a trigram", y_title="bits/byte at the k-th", log_y=True)

Curves = Mapping[str, Curve]


def learning(curves: Curves) -> Panel:
    """Bits per byte up to each position: cumulative bits divided by bytes."""
    lines = ((name, _thinned(curve), style) for style, (name, curve) in enumerate(curves.items()))
    series = [
        Series(name, line.n_bytes.astype(np.float64), line.bits / line.n_bytes, style) for name, line, style in lines
    ]
    return Panel("Bits/byte up to each position", series, RATE)


def intervals(curves: Curves) -> Panel:
    """Bits per byte of each interval between two log-spaced positions (those of the baselines), drawn at its end."""
    ends = prefixes(max(int(curve.n_bytes[-1]) for curve in curves.values()))
    series = [Series(name, *_rates(curve, ends), style) for style, (name, curve) in enumerate(curves.items())]
    return Panel("Bits/byte of successive intervals, two per doubling", series, RATE)


def windows(curves: Curves, n_windows: int = 64) -> Panel:
    """Bits per byte of n_windows equal windows: of the model and its parts only, whose positions are close enough."""
    rates = ((name, curve.windows(n_windows), style) for style, (name, curve) in enumerate(curves.items()))
    series = [
        Series(name, rate.n_bytes.astype(np.float64), rate.bits, style)
        for name, rate, style in rates
        if name in (MODEL, GPT, MIXER)
    ]
    return Panel(f"Bits/byte of {n_windows} equal windows", series, WINDOWS)


def regret(curves: Curves, n_closest: int = 6) -> Panel:
    """Cumulative bits of the model minus those of another curve, at the positions of that curve. Below 0 the model is ahead.

    Only the n_closest curves that are closest to the model at the end: the others would compress the scale.
    """
    model = curves[MODEL]
    gaps = {name: abs(float(curve.bits[-1] - model.bits[-1])) for name, curve in curves.items() if name != MODEL}
    closest = sorted(gaps, key=lambda name: gaps[name])[:n_closest]
    series = [
        Series(name, *_regret(model, _thinned(other)), style)
        for style, (name, other) in enumerate(curves.items())
        if name in closest
    ]
    return Panel("Regret: bits of the model minus bits of another", series, REGRET)


def differences(comparison: Comparison) -> Panel:
    """Cumulative bits of each group of runs minus those of the reference. Below 0 the group is ahead."""
    series = []
    for style, found in enumerate(comparison.differences, 1):
        line = _thinned(Curve(n_bytes=found.n_bytes[1:], bits=found.running_bits[1:]))
        name = f"{found.other.label} - {found.reference.label}"
        series.append(Series(name, line.n_bytes.astype(np.float64), line.bits, style))
    return Panel("Difference to the reference", series, DIFFERENCE)


def tail(table: Mapping[str, Any], title: str = "Cost at the k-th occurrence") -> Panel:
    """Bits per byte against the occurrence k, with the fitted power law of each part.

    table: one of measure/evaluation/breakdown.py. Its rows of occurrences have a mean_k; without such rows there are no series.
    """
    rows = [row for row in table["rows"] if row.get("mean_k") and row["n_bytes"]]
    parts = rows[0]["bits"] if rows else ()
    fits = table.get("fits", {})
    series = [line for style, part in enumerate(parts) for line in _tail_lines(rows, part, fits.get(part), style)]
    return Panel(title, series, TAIL)


def _tail_lines(
    rows: Sequence[Mapping[str, Any]], part: str, fit: Mapping[str, float] | None, style: int
) -> list[Series]:
    """The measured line of a part, and the dashed line of its fit if there is one; no lines without a positive cost."""
    points = [(row["mean_k"], row["bits"][part] / row["n_bytes"]) for row in rows if row["bits"][part] > 0]
    if not points:
        return []
    k, rate = np.array(points, np.float64).T
    lines = [Series(part, k, rate, style)]
    if fit:
        name = f"{part}: {fit['factor']:.3g} k^{fit['exponent']:.3f}"
        lines.append(Series(name, k, fit["factor"] * k ** fit["exponent"], style + N_COLOURS))
    return lines


def _regret(model: Curve, other: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The positions of `other`, and the model's bits minus the other's at them."""
    return other.n_bytes.astype(np.float64), model.at(other.n_bytes) - other.bits


def _thinned(curve: Curve) -> Curve:
    """At most N_POINTS of the curve's points, log-spaced, the first and the last included."""
    wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
    return Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


def _rates(curve: Curve, ends: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends that the curve reaches, and bits per byte between each and the one before it."""
    marks = np.concatenate(([0], ends[ends <= curve.n_bytes[-1]]))
    return marks[1:].astype(np.float64), np.diff(curve.at(marks)) / np.diff(marks)


def panels_for_files(run: Run) -> dict[str, Panel]:
    """The panels that `report --plots` writes, by file name: "learning", "regret" if there are other curves, one per tail.

    Raises CorpusError if the curves cannot be read.
    """
    found = {"learning": learning(run.curves), "regret": regret(run.curves)}
    tables = run.record["tables"]
    found |= {
        name: tail(tables[name]) for name in (OCCURRENCES, LEARNING) if name in tables
    }  # a record may name anything
    return {name: panel for name, panel in found.items() if panel.series}


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Folder names of the runs. A repeated name gets a number."""
    found: list[str] = []
    for run in runs:
        name = run.path.resolve().name
        found.append(name if name not in found else f"{name} ({len(found) + 1})")
    return found
