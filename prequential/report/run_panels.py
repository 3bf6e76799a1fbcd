"""The panels of runs and of monorepo series: their lines, and how these are called and coloured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

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

# Colours in light: s0 to s16 of lines, h0 to h5 of what a character cost. markup.py has those in dark. run_panels.py says which
# line has which colour.
LIGHT = {
    "ink": "#1a1a1a", "soft": "#5c5c5c", "rule": "#d9d9d9", "paper": "#fff", "tint": "#f4f5f7", "link": "#0b57a4",
    "shadow": "#0003",
    "s0": "#111", "s1": "#0070c0", "s2": "#c84c00", "s3": "#00803c", "s4": "#b0259a", "s5": "#6b52d6", "s6": "#d01c4a",
    "s7": "#7d7000", "s8": "#875238", "s9": "#00808a", "s10": "#7a0f52", "s11": "#5f6f80", "s12": "#1b2f8a", "s13": "#3c5a00",
    "s14": "#8e1a10", "s15": "#9a35e0", "s16": "#4a3a2a",
    "h0": "#fff", "h1": "#fdf0df", "h2": "#fbdcb4", "h3": "#f8bf83", "h4": "#f39c5b", "h5": "#e8743b",
}  # fmt: skip
LINE_COLOURS = tuple(LIGHT[f"s{i}"] for i in range(17))
UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
MAX_FULL = 5  # lines that a reader can tell apart
N_COLOURS, N_DASHES = len(LINE_COLOURS), 3


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y), (n,) float64, finite; a dot if n = 1. style: N_COLOURS + i is colour i, other dashes.

    is_own: the picture is about this line, which is thick. also: styles of other lines that lie on this one, without a line.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0
    is_own: bool = False
    also: tuple[int, ...] = ()

    @property
    def colour(self) -> int:
        """The place of the line's colour in LINE_COLOURS."""
        return self.style % N_COLOURS

    @property
    def dashes(self) -> int:
        """0: none; 1: long; 2: short."""
        return self.style // N_COLOURS % N_DASHES


@dataclass(frozen=True)
class Axis:
    """The title and the scale of an axis. log: values must be positive. dates: values are days since 1970."""

    title: str
    log: bool = False
    dates: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture. references: values of y at which a horizontal line is drawn. omitted: names of lines that are not drawn."""

    title: str
    series: Sequence[Series]
    x: Axis = Axis("bytes of the original", log=True)
    y: Axis = Axis("bits/byte")
    references: Sequence[float] = ()
    omitted: Sequence[str] = ()

    @property
    def note(self) -> str:
        """The names of the lines that are not drawn; empty if there are none."""
        return f"Not drawn: {', '.join(self.omitted)}." if self.omitted else ""

    def x_values(self) -> NDArray[np.float64]:
        """All values that the horizontal axis encloses, (n,)."""
        return np.concatenate([line.x for line in self.series])

    def y_values(self) -> NDArray[np.float64]:
        """All values that the vertical axis encloses, (n,)."""
        return np.concatenate([*(line.y for line in self.series), self.references])


@dataclass(frozen=True)
class Table:
    """Columns of equal lengths under their titles. The first one names the rows. strong: places of the rows in bold type.

    n_narrow: how many columns a narrow page shows; None: all.
    """

    title: str
    columns: Mapping[str, Sequence[object]]
    caption: str = ""
    strong: Collection[int] = ()
    n_narrow: int | None = None


def spread(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """The places (n,), moved so that they differ by `distance` and none exceeds `high`; nor is below `low` if there is room."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    found, least = list(places), low
    for i in order:
        found[i] = max(found[i], least)
        least = found[i] + distance
    most = high
    for i in reversed(order):
        found[i] = min(found[i], most)
        most = found[i] - distance
    return found


# ---- ticks


def linear_ticks(low: float, high: float) -> list[float]:
    """Two to twelve round numbers that enclose low <= high. Their step is 1, 2 or 5 times a power of ten."""
    span, size = high - low, max(abs(low), abs(high))
    if span <= max(1e-9 * size, 1e-200):  # rounding error only: space the ticks by the size of the values
        span = size if size > 1e-200 else 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, 0 < low <= high. If they are fewer than four, 2 and 5 times them are added."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= 4:
            return ticks
    return ticks or [low]


def short_number(value: float) -> str:
    """The value with at most four significant digits and a unit prefix, never in scientific notation: 1500000 is "1.5 M"."""
    size, unit = next(((size, unit) for size, unit in UNITS if abs(value) >= size), (1.0, ""))
    return np.format_float_positional(value / size, precision=4, fractional=False, trim="-") + unit


PARTS = {GPT: "GPT alone", MIXER: "mixer alone"}
# The colours of lines by the names of their curves, the same in every picture. Other names have the colours after these.
COLOURS = {
    name: style
    for style, name in enumerate(
        (MODEL, GPT, MIXER, "ppmd", "bzip2", "xz", "zstd", "brotli", "gzip", "order3-static", "order2", "order0")
    )
}
N_POINTS = 200  # of a line; more cannot be seen
SAME = 0.01  # of the vertical range: lines that are nowhere farther apart coincide
SAVED = Axis("bits saved")
DAY_S = 86400
DATE = Axis("date of the window's last commit (UTC)", dates=True)
MAX_LANGUAGES, MIN_SHARE = MAX_FULL, 0.02  # at most so many languages, each with this share of the bytes or more

Curves = Mapping[str, Curve]
Values = NDArray[np.float64]
Points = tuple[Values, Values]
Record = Mapping[str, Any]


class Look(NamedTuple):
    """Labels and styles of lines by the name of their curve. Without an entry it has its name, and its colour of COLOURS."""

    labels: Mapping[str, str] = {}
    styles: Mapping[str, int] = COLOURS

    def label(self, name: str) -> str:
        """What the line of this curve is called."""
        return self.labels.get(name, name)

    def style(self, name: str, place: int) -> int:
        """The style of this curve, which is number `place` of its picture."""
        return self.styles.get(name, free_style(place))


def free_style(place: int) -> int:
    """A colour that no name of COLOURS has, by its place among these."""
    return len(COLOURS) + place % (N_COLOURS - len(COLOURS))


PLAIN = Look()


# ---- names


def distinct(names: Iterable[str], places: Iterable[object] | None = None) -> list[str]:
    """The names; one that is repeated in the same place gets a number."""
    taken: set[tuple[object, str]] = set()
    found = list(names)
    for i, (name, place) in enumerate(zip(found, places or [None] * len(found), strict=True)):
        numbered = (f"{name} ({number})" if number > 1 else name for number in range(1, len(found) + 1))
        found[i] = next(each for each in numbered if (place, each) not in taken)
        taken.add((place, found[i]))
    return found


def run_names(labels: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """The label of each run's learner, with a number if it is repeated on the same bytes."""
    return distinct(without_common_arguments(labels), [run.record["corpus"]["blake2b"] for run in runs])


def full_name(name: str, record: Record) -> str:
    """The name of a run's learner beside other programs: ours is called prequential, too."""
    return name if OTHER in record["config"] else f"prequential {name}"


def group_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, equal for runs of one configuration with different seeds."""
    labels = group_labels(runs)
    learners = {label: group_learner(run) for label, run in zip(labels, runs, strict=True)}
    names = dict(zip(learners, distinct(without_common_arguments(learners.values())), strict=True))
    return [names[label] for label in labels]


def page_look(names: Iterable[str], runs: Iterable[Run]) -> Look:
    """One style for each name on a page. `names`, of several learners, and then other curves have the free colours."""
    others = [name for run in runs for name in run.curves if name not in COLOURS]
    free = {name: free_style(place) for place, name in enumerate(dict.fromkeys([*names, *others]))}
    return Look(PARTS, free | COLOURS)


def run_look(look: Look, name: str) -> Look:
    """The look of a page in the section of one run: there the curve "model" is the learner of this name."""
    return Look({**look.labels, MODEL: name}, look.styles)


# ---- curves


def learning(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits per byte up to each position: cumulative bits divided by bytes. It is about the model, or else the first curve."""
    points = {name: (line.n_bytes.astype(np.float64), line.bits / line.n_bytes) for name, line in _all_thinned(curves)}
    lines, omitted = _lines(curves, points, look)
    return Panel("Bits per byte up to each position", lines, omitted=omitted)


def saved(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits that the model, or else the first curve, saves against each other one, up to each position of that one."""
    own = _own(curves)
    points = {
        name: (other.n_bytes.astype(np.float64), other.bits - curves[own].at(other.n_bytes))
        for name, other in _all_thinned(curves)
        if name != own
    }
    lines, omitted = _lines(curves, points, look, MAX_FULL - 1)  # the others of `learning`
    title = f"Bits that {look.label(own)} saves against others"
    return Panel(title, lines, y=SAVED, references=(0.0,), omitted=omitted)


def _lines(
    curves: Curves, points: Mapping[str, Points], look: Look, most: int = MAX_FULL
) -> tuple[list[Series], list[str]]:
    """`_drawn`, of the own curve first, then its parts, then the others by their last rate."""
    own = _own(curves)
    ranked = sorted(points, key=lambda name: (name != own, name not in (GPT, MIXER), _final_rate(curves[name])))
    styles = {name: look.style(name, place) for place, name in enumerate(curves)}
    return _drawn({name: points[name] for name in ranked}, Look(look.labels, styles), own, most=most)


def _drawn(
    points: Mapping[str, Points],
    look: Look,
    own: str = MODEL,
    heights: Callable[[Values], Values] = np.asarray,
    most: int = MAX_FULL,
) -> tuple[list[Series], list[str]]:
    """Lines through the points, and what the others are called. Lines that coincide are one.

    heights: makes heights in the picture of values.
    """
    drawn = {name: (x, heights(y)) for name, (x, y) in points.items()}
    span = np.ptp(np.concatenate([y for _, y in [*drawn.values()][:most]])) if drawn else 0.0
    groups: list[list[str]] = []
    for name in drawn:
        same = (group for group in groups if _coincide(drawn[group[0]], drawn[name], SAME * span))
        if group := next(same, None):
            group.append(name)
        else:
            groups.append([name])
    places = {name: place for place, name in enumerate(points)}
    lines = []
    for group in groups[:most]:
        style, *also = (look.style(name, places[name]) for name in group)
        name = " and ".join(map(look.label, group))
        lines.append(Series(name, *points[group[0]], style, group[0] == own, tuple(also)))
    return lines, [look.label(name) for group in groups[most:] for name in group]


def _own(curves: Curves) -> str:
    """The name of the curve that a picture is about: that of the model, or else the first."""
    return MODEL if MODEL in curves else next(iter(curves))


def _coincide(line: Points, other: Points, distance: float) -> bool:
    """Whether the points of `other` are at most this far above or below the line."""
    (x, y), (other_x, other_y) = line, other
    inside = (other_x >= x[0]) & (other_x <= x[-1])
    return bool(inside[-1] and (np.abs(np.interp(other_x, x, y) - other_y)[inside] <= distance).all())


def _final_rate(curve: Curve) -> float:
    return float(curve.bits[-1] / curve.n_bytes[-1])


def _all_thinned(curves: Curves) -> Iterator[tuple[str, Curve]]:
    """Each curve by its name, with at most N_POINTS of its points, log-spaced, the first and the last included."""
    for name, curve in curves.items():
        wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
        chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
        yield name, Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


# ---- monorepo series


def monorepo(records: Sequence[Record]) -> dict[str, Panel]:
    """The panels of a series (`read_series`): documents (all), kinds (new files, added lines), languages; dynamic is dashed.

    A line omits the points at which it has no bytes. Raises CorpusError if the series is empty.
    """
    if not records:
        raise CorpusError("the series has no points yet: there is nothing to draw")
    wholes = {loss: (loss, "documents") for loss in LOSSES} | {
        "frozen, clean documents": ("frozen", "clean"),
        "frozen, novel bytes": ("frozen", "novel"),
    }
    kinds = dict.fromkeys(group["name"] for record in records for group in record["frozen"]["kinds"])
    whole = [
        _over_time(name, style, records, [record[loss][group] for record in records])
        for style, (name, (loss, group)) in enumerate(wholes.items())
    ]
    new_and_added = _part_lines(records, "kinds", sorted(kinds, reverse=True))
    panels = {
        "documents": ("All documents of the windows", whole),
        "kinds": ("New files, and lines added to existing files", new_and_added),
        "languages": ("Languages", _part_lines(records, "languages", _main_languages(records))),
    }
    found = {key: Panel(title, [line for line in lines if len(line.x)], DATE) for key, (title, lines) in panels.items()}
    return {key: panel for key, panel in found.items() if panel.series}


def _main_languages(records: Sequence[Record]) -> list[str]:
    """Names of the languages with the most bytes, at most MAX_LANGUAGES, without those below MIN_SHARE."""
    n_bytes = Counter[str]()
    for record in records:
        n_bytes.update({group["name"]: group["n_bytes"] for group in record["frozen"]["languages"]})
    large = [name for name in n_bytes if n_bytes[name] >= MIN_SHARE * sum(n_bytes.values())]
    return sorted(large, key=lambda name: (-n_bytes[name], name))[:MAX_LANGUAGES]


def _part_lines(records: Sequence[Record], part: str, names: Sequence[str]) -> list[Series]:
    """Two lines for each name: frozen, and dynamic with dashes. Of many names only the frozen ones."""
    losses = ("frozen", "dynamic") if 2 * len(names) <= MAX_FULL else ("frozen",)
    return [
        _over_time(
            f"{name}, {loss}", style + dashes * N_COLOURS, records, [named(r[loss][part], name) for r in records]
        )
        for style, name in enumerate(names)
        for dashes, loss in enumerate(losses)
    ]


def named(groups: Iterable[Record], name: str) -> Record | None:
    """The group of this name, if there is one."""
    return next((group for group in groups if group["name"] == name), None)


def _over_time(name: str, style: int, records: Sequence[Record], groups: Sequence[Record | None]) -> Series:
    """Bits per byte of one group in each record, at the dates where the group has bytes."""
    found = [
        (datetime.fromisoformat(record["test"]["until_date"]).timestamp() / DAY_S, group["bits"] / group["n_bytes"])
        for record, group in zip(records, groups, strict=True)
        if group and group["n_bytes"]
    ]
    x, y = np.array(found, np.float64).reshape(-1, 2).T
    return Series(name, x, y, style)
