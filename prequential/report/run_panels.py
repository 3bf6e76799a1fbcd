"""What a picture of runs, or of a monorepo series, shows: lines with their names and colours. svg.py and plots.py draw it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER

from prequential.comparison.compare import group_labels, group_learner
from prequential.comparison.data_multiple import equal_loss as equal_losses
from prequential.errors import CorpusError
from prequential.evaluation.curves import GPT, GROUP, MIXER, MODEL, Curve
from prequential.evaluation.summary import Record, without_common_arguments
from prequential.records import LOSSES

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run

STYLE_SHEET = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
LIGHT: dict[str, str] = dict(re.findall(r"--(\w+): (#\w+);", STYLE_SHEET.partition("@media")[0]))  # colours by name
LINE_COLOURS = tuple(LIGHT[f"s{i}"] for i in range(17))
# The colours of lines by the names of their curves, the same in every picture. Other names have the colours after these.
OTHERS = ("ppmd", "bzip2", "xz", "zstd", "brotli", "gzip", "order3-static", "order2", "order0")
COLOURS = {name: colour for colour, name in enumerate((MODEL, GPT, MIXER, *OTHERS))}
PARTS = {GPT: "GPT alone", MIXER: "mixer alone"}
MAX_FULL = 5  # lines that a reader can tell apart
MAX_DOTS = 12  # names that stand beside a picture
N_POINTS = 200  # of a line; more cannot be seen
DAY_S = 86400

Curves = Mapping[str, Curve]
Points = tuple[NDArray[Any], NDArray[np.float64]]


@dataclass(frozen=True)
class Series:
    """A line through (x, y), (n,) float64, finite; a dot if n = 1. colour: place in LINE_COLOURS. is_own: it is thick."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: int = 0
    is_own: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture. dates: values of x are days since 1970; otherwise they are positive, and their axis is logarithmic.

    x_range: the ends of this axis; None: those of the lines. references: values of y at which a horizontal line is drawn.
    omitted: names of lines that are not drawn.
    """

    title: str
    series: Sequence[Series]
    x_title: str = "bytes of the original"
    y_title: str = "bits/byte"
    dates: bool = False
    x_range: tuple[float, float] | None = None
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


def distinct(names: Iterable[str]) -> list[str]:
    """The names; one that is repeated gets a number."""
    numbers, numbered = Counter[str](), []
    for name in names:
        numbers[name] += 1
        numbered.append(f"{name} ({numbers[name]})" if numbers[name] > 1 else name)
    return numbered


def full_name(name: str, config: Record) -> str:
    """The name of a run's learner beside other programs: ours is called prequential, too."""
    return name if OTHER in config else f"prequential {name}"


def group_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, equal for runs of one configuration with different seeds."""
    labels = group_labels(runs)
    learners = {label: group_learner(run) for label, run in zip(labels, runs, strict=True)}
    names = dict(zip(learners, distinct(without_common_arguments(learners.values())), strict=True))
    return [names[label] for label in labels]


# ---- curves


def learning(curves: Curves, labels: Mapping[str, str] = {}) -> Panel:
    """Cumulative bits / bytes, up to each position. labels: what lines are called, by the names of their curves."""
    return _panel("Bits per byte up to each position", curves, _rates(curves), labels)


def saved(curves: Curves, labels: Mapping[str, str] = {}) -> Panel:
    """Bits that the model, or else the first curve, saves against each other one, up to each position of that one."""
    own = _own(curves)
    others = {name: other for name, other in curves.items() if name != own and not name.startswith(GROUP)}
    lines = {name: (other.n_bytes, other.bits - curves[own].at(other.n_bytes)) for name, other in others.items()}
    title = f"Bits that {labels.get(own, own)} saves against others"
    return _panel(title, curves, lines, labels, y_title="bits saved", references=(0.0,))


def equal_loss(curves: Curves, labels: Mapping[str, str] = {}) -> Panel:
    """How many times the data of the first training run each other one needs for its losses, along that (`equal_loss`)."""
    own = _own(curves)
    ratios = {name: equal_losses(other, curves[own]) for name, other in curves.items() if name != own}
    lines = {name: (each.n_bytes, each.ratios) for name, each in ratios.items() if each and len(each.ratios)}
    title = f"Times the data of {labels.get(own, own)} for the same loss"
    return _panel(title, curves, lines, labels, y_title="times the data", references=(1.0,))


def against_time(curves: Curves, costs: Mapping[str, tuple[float | None, float]]) -> Panel:
    """The seconds, if known, and the bits per byte of each result as a dot, with the colour of its curve."""
    names = [name for name, (seconds, _) in costs.items() if seconds]
    points = {name: np.array(costs[name], np.float64).reshape(2, 1) for name in names[:MAX_DOTS]}
    dots = [Series(name, x, y, _colours(curves).get(name, 0)) for name, (x, y) in points.items()]
    seconds = [float(x[0]) for x, _ in points.values()] or [1.0]
    ends = min(seconds) / 1.2, max(seconds) * 1.2
    return Panel("Bits per byte against time", dots, "seconds", x_range=ends, omitted=names[MAX_DOTS:])


def _rates(curves: Curves) -> dict[str, Points]:
    return {name: (line.n_bytes, line.bits / line.n_bytes) for name, line in curves.items()}


def _colours(curves: Curves) -> dict[str, int]:
    """The colour of each curve, and of each baseline."""
    others = (name for name in curves if name not in COLOURS)
    return COLOURS | dict(zip(others, cycle(range(len(COLOURS), len(LINE_COLOURS))), strict=False))


def _panel(title: str, curves: Curves, lines: Mapping[str, Points], labels: Mapping[str, str], **more: Any) -> Panel:
    """First the own curve, its parts, and the others by their last rate: the same ones, over the same bytes, in all panels."""
    own, colours, rates = _own(curves), _colours(curves), _rates(curves)
    ranked = sorted(curves, key=lambda name: (name != own, name not in PARTS, rates[name][1][-1]))
    begins, series = _beginnings({name: rates[name] for name in ranked[:MAX_FULL]}), []
    for name, (x, y) in ((name, lines[name]) for name in begins if name in lines):
        points = _thinned(x[x >= begins[name]], y[x >= begins[name]])
        series.append(Series(labels.get(name, name), *points, colours[name], name == own))
    ends = float(min(begins.values())), float(max(curves[name].n_bytes[-1] for name in begins))
    return Panel(title, series, x_range=ends, omitted=[labels.get(name, name) for name in ranked[MAX_FULL:]], **more)


def _beginnings(rates: Mapping[str, Points]) -> dict[str, int]:
    """From which byte on each of several curves is drawn: the last three quarters of the bytes take half of the height."""
    late_byte = max(x[-1] for x, _ in rates.values()) / 4
    late = np.concatenate([np.append(y[x >= late_byte], y[-1]) for x, y in rates.values()])
    margin, begins = float(np.ptp(late)) / 2 if len(rates) > 1 else np.inf, {}
    for name, (x, y) in rates.items():
        outside = np.flatnonzero((y < late.min() - margin) | (y > late.max() + margin))
        begins[name] = int(x[outside[-1] + 1 if len(outside) else 0])
    return begins


def _own(curves: Curves) -> str:
    """The name of the curve that a picture is about: that of the model, or else the first."""
    return MODEL if MODEL in curves else next(iter(curves))


def _thinned(x: NDArray[Any], y: NDArray[np.float64]) -> Points:
    """At most N_POINTS of the points, log-spaced, the first and the last included."""
    wanted = np.geomspace(x[0], x[-1], N_POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(x, wanted), len(x) - 1))
    return x[chosen].astype(np.float64), y[chosen]


# ---- monorepo series


def monorepo(records: Sequence[Record]) -> Panel:
    """The losses of a series over all documents of each window, where it has bytes. Raises CorpusError if it is empty."""
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
