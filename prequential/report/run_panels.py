"""What a picture of runs, or of a monorepo series, shows: lines with their names and colours. svg.py and plots.py draw it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER

from prequential.comparison.compare import group_labels, group_learner
from prequential.errors import CorpusError
from prequential.evaluation.curves import GPT, MIXER, MODEL, Curve
from prequential.evaluation.summary import without_common_arguments
from prequential.records import LOSSES

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run

STYLE_SHEET = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
LIGHT: dict[str, str] = dict(re.findall(r"--(\w+): (#\w+);", STYLE_SHEET.partition("@media")[0]))  # colours by name
LINE_COLOURS = tuple(LIGHT[f"s{i}"] for i in range(17))
# The colours of lines by the names of their curves, the same in every picture. Other names have the colours after these.
COLOURS = {
    name: colour
    for colour, name in enumerate(
        (MODEL, GPT, MIXER, "ppmd", "bzip2", "xz", "zstd", "brotli", "gzip", "order3-static", "order2", "order0")
    )
}
PARTS = {GPT: "GPT alone", MIXER: "mixer alone"}
MAX_FULL = 5  # lines that a reader can tell apart
N_POINTS = 200  # of a line; more cannot be seen
SAME = 0.01  # of the vertical range: lines that are nowhere farther apart coincide
DAY_S = 86400

Curves = Mapping[str, Curve]
Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y), (n,) float64, finite; a dot if n = 1. colour: its place in LINE_COLOURS.

    is_own: the picture is about this line, which is thick. also: colours of other lines that lie on this one, without a line.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: int = 0
    is_own: bool = False
    also: tuple[int, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One picture. dates: values of x are days since 1970; otherwise they are positive, and their axis is logarithmic.

    references: values of y at which a horizontal line is drawn. omitted: names of lines that are not drawn.
    """

    title: str
    series: Sequence[Series]
    x_title: str = "bytes of the original"
    y_title: str = "bits/byte"
    dates: bool = False
    references: Sequence[float] = ()
    omitted: Sequence[str] = ()

    @property
    def note(self) -> str:
        """The names of the lines that are not drawn; empty if there are none."""
        return f"Not drawn: {', '.join(self.omitted)}." if self.omitted else ""


def spread(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """The places (n,), moved so that they differ by `distance` and none exceeds `high`; nor is below `low` if there is room."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved, least, most = list(places), low, high
    for i in order:
        moved[i] = max(moved[i], least)
        least = moved[i] + distance
    for i in reversed(order):
        moved[i] = min(moved[i], most)
        most = moved[i] - distance
    return moved


# ---- names and colours


def distinct(names: Iterable[str], places: Iterable[object] | None = None) -> list[str]:
    """The names; one that is repeated in the same place gets a number."""
    names = list(names)
    numbers, numbered = Counter[tuple[object, str]](), []
    for name, place in zip(names, places or [None] * len(names), strict=True):
        numbers[place, name] += 1
        numbered.append(f"{name} ({numbers[place, name]})" if numbers[place, name] > 1 else name)
    return numbered


def run_names(labels: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """The label of each run's learner, with a number if it is repeated on the same bytes."""
    return distinct(without_common_arguments(labels), [run.record["corpus"]["blake2b"] for run in runs])


def full_name(name: str, config: Record) -> str:
    """The name of a run's learner beside other programs: ours is called prequential, too."""
    return name if OTHER in config else f"prequential {name}"


def group_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, equal for runs of one configuration with different seeds."""
    labels = group_labels(runs)
    learners = {label: group_learner(run) for label, run in zip(labels, runs, strict=True)}
    names = dict(zip(learners, distinct(without_common_arguments(learners.values())), strict=True))
    return [names[label] for label in labels]


def line_colours(names: Iterable[str]) -> dict[str, int]:
    """The colours of lines by name: those of COLOURS; the other names of a page have the free ones, in their order."""
    others = [name for name in dict.fromkeys(names) if name not in COLOURS]
    n_free = len(LINE_COLOURS) - len(COLOURS)
    return COLOURS | {name: len(COLOURS) + place % n_free for place, name in enumerate(others)}


# ---- curves


def learning(curves: Curves, labels: Mapping[str, str] = {}, colours: Mapping[str, int] | None = None) -> Panel:
    """Bits per byte up to each position: cumulative bits divided by bytes. It is about the model, or else the first curve.

    labels: what lines are called by the names of their curves. colours: as `line_colours` of all names of a page.
    """
    points = {name: (line.n_bytes.astype(np.float64), line.bits / line.n_bytes) for name, line in _all_thinned(curves)}
    series, omitted = _lines(curves, points, labels, colours)
    return Panel("Bits per byte up to each position", series, omitted=omitted)


def saved(curves: Curves, labels: Mapping[str, str] = {}, colours: Mapping[str, int] | None = None) -> Panel:
    """Bits that the model, or else the first curve, saves against each other one, up to each position of that one."""
    own = _own(curves)
    points = {
        name: (other.n_bytes.astype(np.float64), other.bits - curves[own].at(other.n_bytes))
        for name, other in _all_thinned(curves)
        if name != own
    }
    series, omitted = _lines(curves, points, labels, colours, MAX_FULL - 1)  # the others of `learning`
    title = f"Bits that {labels.get(own, own)} saves against others"
    return Panel(title, series, y_title="bits saved", references=(0.0,), omitted=omitted)


def _lines(
    curves: Curves,
    points: Mapping[str, Points],
    labels: Mapping[str, str],
    colours: Mapping[str, int] | None,
    most: int = MAX_FULL,
) -> tuple[list[Series], list[str]]:
    """Lines through the points, and what those are called that are not drawn. Lines that coincide are one.

    First the own curve, then its parts, then the others by their last rate.
    """
    own, colour_of = _own(curves), line_colours(curves) if colours is None else colours
    rates = {name: float(curve.bits[-1] / curve.n_bytes[-1]) for name, curve in curves.items()}
    ranked = sorted(points, key=lambda name: (name != own, name not in PARTS, rates[name]))
    span = np.ptp(np.concatenate([points[name][1] for name in ranked[:most]])) if ranked else 0.0
    groups: list[list[str]] = []
    for name in ranked:
        same = (group for group in groups if _coincide(points[group[0]], points[name], SAME * span))
        if group := next(same, None):
            group.append(name)
        else:
            groups.append([name])
    lines = []
    for group in groups[:most]:
        colour, *also = (colour_of[name] for name in group)
        name = " and ".join(labels.get(name, name) for name in group)
        lines.append(Series(name, *points[group[0]], colour, group[0] == own, tuple(also)))
    return lines, [labels.get(name, name) for group in groups[most:] for name in group]


def _own(curves: Curves) -> str:
    """The name of the curve that a picture is about: that of the model, or else the first."""
    return MODEL if MODEL in curves else next(iter(curves))


def _coincide(line: Points, other: Points, distance: float) -> bool:
    """Whether the points of `other` are at most this far above or below the line."""
    (x, y), (other_x, other_y) = line, other
    inside = (other_x >= x[0]) & (other_x <= x[-1])
    return bool(inside[-1] and (np.abs(np.interp(other_x, x, y) - other_y)[inside] <= distance).all())


def _all_thinned(curves: Curves) -> Iterator[tuple[str, Curve]]:
    """Each curve by its name, with at most N_POINTS of its points, log-spaced, the first and the last included."""
    for name, curve in curves.items():
        wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
        chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
        yield name, Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


# ---- monorepo series


def monorepo(records: Sequence[Record]) -> Panel:
    """The losses of a series (`read_series`) over all documents of each window. A line omits windows in which it has no bytes.

    Raises CorpusError if the series is empty.
    """
    if not records:
        raise CorpusError("the series has no points yet: there is nothing to draw")
    lines = {loss: (loss, "documents") for loss in LOSSES}
    lines |= {"frozen, clean documents": ("frozen", "clean"), "frozen, novel bytes": ("frozen", "novel")}
    dates = [datetime.fromisoformat(record["test"]["until_date"]).timestamp() / DAY_S for record in records]
    series = []
    for colour, (name, (loss, part)) in enumerate(lines.items()):
        groups = [(date, record[loss][part]) for date, record in zip(dates, records, strict=True)]
        points = [(date, group["bits"] / group["n_bytes"]) for date, group in groups if group and group["n_bytes"]]
        if points:
            x, y = np.array(points, np.float64).T
            series.append(Series(name, x, y, colour))
    return Panel("All documents of the windows", series, "date of the window's last commit (UTC)", dates=True)
