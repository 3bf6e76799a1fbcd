"""What a picture or a table shows. Back ends draw it: svg.py (in pages), figures.py (matplotlib), markup.py (tables)."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
