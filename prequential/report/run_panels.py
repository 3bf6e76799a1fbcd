"""The panels of runs: learning curves, bits saved, and cost at the k-th occurrence of a trigram.

`look` gives the lines their names and colours; without one, a line has the name of its curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.evaluation.breakdown import LEARNING, OCCURRENCES
from prequential.evaluation.curves import GPT, MIXER, MODEL, Curve, prefixes
from prequential.report.names import Look, learner_label, page_look, run_look
from prequential.report.svg import MAX_FULL, Axes, Panel, Series

if TYPE_CHECKING:
    from prequential.comparison.compare import Comparison
    from prequential.evaluation.runs import Run

N_POINTS = 200  # of a line; more cannot be seen
RATE = Axes()
WINDOWS = Axes(log_x=False)
SAVED = Axes(y_title="bits saved", zero=True)
TAIL = Axes(x_title="occurrence k of a trigram", y_title="bits/byte at the k-th", log_y=True)
PLAIN = Look()

Curves = Mapping[str, Curve]
Points = tuple[NDArray[np.float64], NDArray[np.float64]]


def learning(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits per byte up to each position: cumulative bits divided by bytes."""
    thinned = {name: _thinned(curve) for name, curve in curves.items()}
    points = {name: (line.n_bytes.astype(np.float64), line.bits / line.n_bytes) for name, line in thinned.items()}
    return Panel("Bits/byte up to each position", _lines(curves, points, look), RATE)


def intervals(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits per byte of each interval between two log-spaced positions (those of the baselines), drawn at its end."""
    ends = prefixes(max(int(curve.n_bytes[-1]) for curve in curves.values()))
    points = {name: _rates(curve, ends) for name, curve in curves.items()}
    return Panel("Bits/byte of successive intervals, two per doubling", _lines(curves, points, look), RATE)


def windows(curves: Curves, look: Look = PLAIN, n_windows: int = 64) -> Panel:
    """Bits per byte of n_windows equal windows: of the model and its parts only, whose positions are close enough."""
    rates = {name: curve.windows(n_windows) for name, curve in curves.items() if name in (MODEL, GPT, MIXER)}
    points = {name: (rate.n_bytes.astype(np.float64), rate.bits) for name, rate in rates.items()}
    return Panel(f"Bits/byte of {n_windows} equal windows", _lines(curves, points, look), WINDOWS)


def saved(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits that the model saves against each other curve, up to each position of that curve. Above 0 the model is better."""
    model = curves[MODEL]
    others = {name: _thinned(curve) for name, curve in curves.items() if name != MODEL}
    points = {
        name: (other.n_bytes.astype(np.float64), other.bits - model.at(other.n_bytes)) for name, other in others.items()
    }
    title = f"Bits that {look.label(MODEL)} saves against others"
    return Panel(title, _lines(curves, points, look), SAVED)


def saved_by_groups(comparison: Comparison, look: Look = PLAIN) -> Panel:
    """Bits that each group of runs saves against the reference, up to each position. Above 0 the group is better."""
    points = {}
    for found in comparison.differences:
        line = _thinned(Curve(n_bytes=found.n_bytes[1:], bits=-found.running_bits[1:]))
        points[found.other.label] = line.n_bytes.astype(np.float64), line.bits
    best = sorted(comparison.differences, key=lambda found: found.bits)
    full = {found.other.label for found in best[:MAX_FULL]}
    series = [_series(name, place, points[name], look, name in full) for place, name in enumerate(points, 1)]
    return Panel(f"Bits saved against {comparison.groups[0].label}", series, SAVED)


def tail(table: Mapping[str, Any], title: str = "Cost at the k-th occurrence", look: Look = PLAIN) -> Panel:
    """Bits per byte against the occurrence k.

    table: one of evaluation/breakdown.py. Its rows of occurrences have a mean_k; without such rows there are no series.
    """
    rows = [row for row in table["rows"] if row.get("mean_k") and row["n_bytes"]]
    parts = list(rows[0]["bits"]) if rows else []
    series = []
    for place, part in enumerate(parts):
        costs = [(row["mean_k"], row["bits"][part] / row["n_bytes"]) for row in rows if row["bits"][part] > 0]
        if costs:
            k, rate = np.array(costs, np.float64).T
            series.append(_series(part, place, (k, rate), look, place < MAX_FULL - 1))
    return Panel(title, series, TAIL)


def _lines(curves: Curves, points: Mapping[str, Points], look: Look) -> list[Series]:
    """A series for each curve that has points. MAX_FULL curves are full: the first, its parts, and the best others."""
    first = MODEL if MODEL in curves else next(iter(curves))
    rates = {name: float(curve.bits[-1] / curve.n_bytes[-1]) for name, curve in curves.items()}
    ranked = sorted(curves, key=lambda name: (name != first, name not in (GPT, MIXER), rates[name]))
    full = set(ranked[:MAX_FULL])
    return [
        _series(name, place, points[name], look, name in full)
        for place, name in enumerate(curves)
        if name in points and len(points[name][0])
    ]


def _series(name: str, place: int, points: Points, look: Look, full: bool) -> Series:
    style = look.styles.get(name, place) if full else 0  # grey lines have no dashes
    return Series(look.label(name), *points, style, full, own=name == MODEL)


def _thinned(curve: Curve) -> Curve:
    """At most N_POINTS of the curve's points, log-spaced, the first and the last included."""
    wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
    return Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


def _rates(curve: Curve, ends: NDArray[np.int64]) -> Points:
    """The ends that the curve reaches, and bits per byte between each and the one before it."""
    marks = np.concatenate(([0], ends[ends <= curve.n_bytes[-1]]))
    return marks[1:].astype(np.float64), np.diff(curve.at(marks)) / np.diff(marks)


def panels_for_files(run: Run) -> dict[str, Panel]:
    """The panels that `report --plots` writes, by file name: "learning", "regret" (bits saved) if there are other curves, tails.

    Raises CorpusError if the curves cannot be read.
    """
    name, tables = learner_label(run.record["config"]), run.record["tables"]
    look = run_look(page_look([name], [run]), name)
    found = {"learning": learning(run.curves, look), "regret": saved(run.curves, look)}
    # a record may name anything
    found |= {name: tail(tables[name], look=look) for name in (OCCURRENCES, LEARNING) if name in tables}
    return {name: panel for name, panel in found.items() if panel.series}
