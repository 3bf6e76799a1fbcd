"""What a picture or a table shows. Back ends draw it: svg.py (in pages), figures.py (matplotlib), markup.py (tables)."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

# Colours in light: s0 to s7 of lines, h0 to h5 of what a character cost. markup.py has those in dark.
LIGHT = {
    "ink": "#1a1a1a", "soft": "#5c5c5c", "rule": "#d9d9d9", "paper": "#fff", "tint": "#f4f5f7", "link": "#0b57a4",
    "s0": "#000", "s1": "#0072b2", "s2": "#c44e00", "s3": "#007f5c", "s4": "#b4558c", "s5": "#8f6b00", "s6": "#2f8ec4",
    "s7": "#7050a8", "rest": "#b3b3b3",
    "h0": "#fff", "h1": "#fdf0df", "h2": "#fbdcb4", "h3": "#f8bf83", "h4": "#f39c5b", "h5": "#e8743b",
}  # fmt: skip
LINE_COLOURS = tuple(LIGHT[f"s{i}"] for i in range(8))
MAX_FULL = 5  # lines that a reader can tell apart
N_COLOURS, N_DASHES = len(LINE_COLOURS), 3


class Role(Enum):
    """What a line is in its picture."""

    OWN = "the line that the picture is about: thick"
    NAMED = "in a colour, and with its name at its end"
    GREY = "without a colour; its name stands below the picture, and it may leave the vertical range"


@dataclass(frozen=True)
class Series:
    """A line through the points (x, y), (n,) float64, finite; a dot if n = 1. style: N_COLOURS + i is colour i, other dashes."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int = 0
    role: Role = Role.NAMED

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
    """One picture. references: values of y at which a horizontal line is drawn."""

    title: str
    series: Sequence[Series]
    x: Axis = Axis("bytes of the original", log=True)
    y: Axis = Axis("bits/byte")
    references: Sequence[float] = ()

    @property
    def full(self) -> list[Series]:
        """The lines that have a colour."""
        return [line for line in self.series if line.role != Role.GREY]

    @property
    def note(self) -> str:
        """The names of the grey lines; empty if there are none."""
        names = [line.name for line in self.series if line.role == Role.GREY]
        return f"Grey: {', '.join(names)}." if names else ""

    def x_values(self) -> NDArray[np.float64]:
        """All values that the horizontal axis encloses, (n,)."""
        return np.concatenate([line.x for line in self.series])

    def y_values(self) -> NDArray[np.float64]:
        """All values that the vertical axis encloses, (n,)."""
        lines = [line.y for line in self.full or self.series]
        return np.concatenate([*lines, self.references])


@dataclass(frozen=True)
class Table:
    """Columns of equal lengths under their titles. The first one names the rows. strong: places of the rows in bold type."""

    title: str
    columns: Mapping[str, Sequence[object]]
    caption: str = ""
    strong: Collection[int] = ()


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
    """The value with at most four significant digits and a unit prefix: 1500000 is "1.5 M"."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
