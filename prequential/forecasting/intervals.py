"""Which assumptions count, and how wide the interval is, from the errors of a backtest.

The forecast is the mean, over the logarithm, of the forecasts by all assumptions that count. Each link has equal weight: a
backtest within the ladder's text cannot tell how the loss follows a proxy on other text. The interval has three parts:

- the spread of these forecasts;
- the deviation over seeds;
- the drift: the errors of the backtest, which grow with the distance in operations (`growth`), at the distance of the target.

Their root sum of squares is multiplied by Student's t. The degrees of freedom are the number of independent errors that the cells
are worth (`effective_size`): all cells are of one text, cells of one origin share their fits, and cells of one target share an
actual loss. Each cell is judged by what the cells of the other origins say.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prequential.forecasting.backtest import Cell, loss_bits_per_byte
from prequential.forecasting.scaling import Floats
from prequential.sweeps.ladder import Ladder

CONFIDENCE = 0.9
MAX_REACH = 20.0  # of the logarithm: a ladder of nonsense has no wider interval
MIN_CELLS = 8  # fewer are no calibration
GOOD_FORMS = 2.0  # a form counts up to this factor above the error of the best form of its link
# Errors grow as this power of the logarithm of operations. With 1, intervals of homogeneous simulations were too narrow.
GROWTH = 1.25
GOOD_LINKS = 5.0  # a link counts up to this factor above the error of the best link: a backtest says little about links


def growth(compute_ratio: float) -> float:
    """How large errors are at so many times the operations, relative to e times."""
    return math.log(compute_ratio) ** GROWTH


def root_mean_square(values: Floats | Sequence[float]) -> float:
    """The root of the mean square of one or more values."""
    return float(np.sqrt(np.mean(np.square(values))))


def weights_of(cells: Sequence[Cell], n_links: int, n_forms: int) -> Floats:
    """The weights (L, F) of the assumptions. `none` is the first link: it counts only if it was better than every proxy."""
    if not cells:
        good = np.ones((n_links, n_forms), np.bool_)
        good[0] = n_links == 1
    else:
        rms = np.sqrt(np.mean(np.square([cell.errors for cell in cells]), 0))
        best = np.maximum(rms.min(1), 1e-12)
        counts = best <= GOOD_LINKS * best.min()
        counts[0] = best[0] == best.min()
        good = (rms <= GOOD_FORMS * best[:, None]) & counts[:, None]
    return np.asarray(good / np.maximum(good.sum(1, keepdims=True), 1) / good.any(1).sum(), np.float64)


@dataclass(frozen=True)
class Calibration:
    """What the cells say about forecasts by these links and forms."""

    cells: Sequence[Cell] = field(repr=False)
    n_links: int
    n_forms: int

    @cached_property
    def weights(self) -> Floats:
        return weights_of(self.cells, self.n_links, self.n_forms)

    @cached_property
    def _judged(self) -> list[tuple[Cell, float, float]]:
        """Each cell with the mean of its errors, and their spread, by the weights of the cells of the other origins."""
        weights = {
            origin: weights_of([cell for cell in self.cells if cell.origin != origin], self.n_links, self.n_forms)
            for origin in {cell.origin for cell in self.cells}
        }
        return [(cell, *mean_and_spread(cell.errors, weights[cell.origin])) for cell in self.cells]

    @cached_property
    def rates(self) -> Floats:
        """The error of each cell, as it would be at e times the operations."""
        return np.array([mean / growth(cell.compute_ratio) for cell, mean, _ in self._judged])

    @property
    def rms(self) -> float | None:
        return root_mean_square([mean for _, mean, _ in self._judged]) if self.cells else None

    @property
    def compute_ratios(self) -> tuple[float, float] | None:
        """Lowest and highest."""
        ratios = [cell.compute_ratio for cell in self.cells]
        return (min(ratios), max(ratios)) if ratios else None

    @property
    def is_calibrated(self) -> bool:
        return len(self.cells) >= MIN_CELLS

    def quantile(self) -> float:
        """Student's t for as many degrees of freedom as the cells are worth; 1.64 without cells."""
        from scipy.special import stdtrit  # not every command needs it

        return float(stdtrit(self.n_effective if self.cells else 1e9, (1 + CONFIDENCE) / 2))

    @property
    def n_effective(self) -> float:
        """How many independent errors the cells are worth."""
        return effective_size(self.rates, [c.origin for c in self.cells], [c.target for c in self.cells])

    def deviations(self, spread: float, seeds: float, compute_ratio: float) -> dict[str, float]:
        """The parts of the deviation of the logarithm of a forecast, and how far its interval reaches."""
        drift = root_mean_square(self.rates) * growth(compute_ratio) if self.cells else 0.0
        t = self.quantile()
        return {
            "spread": spread,
            "seeds": seeds,
            "drift": drift,
            "t": t,
            "reach": min(MAX_REACH, t * math.hypot(spread, seeds, drift)),
        }

    def n_hit(self, seeds: float) -> int:
        """How many cells lie in their intervals, with the drift of the other origins."""
        n = 0
        for cell, mean, spread in self._judged:
            others = np.array([r for r, c in zip(self.rates, self.cells, strict=True) if c.origin != cell.origin])
            drift = root_mean_square(others) * growth(cell.compute_ratio) if len(others) else 0.0
            n += abs(mean) <= self.quantile() * math.hypot(spread, seeds, drift)
        return n


def mean_and_spread(values: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted mean and deviation of values (L, F)."""
    mean = float((weights * values).sum())
    return mean, math.sqrt(float((weights * (values - mean) ** 2).sum()))


def effective_size(scores: Floats, origins: Sequence[Hashable], targets: Sequence[Hashable]) -> float:
    """The number of independent errors with mean 0 that have as uncertain a sum as these: from 1 to the number of origins.

    The variance of a sum of errors that depend on each other within each origin and within each target is estimated as in
    Cameron, Gelbach and Miller (2011, "Robust inference with multiway clustering"), without subtracting the mean: a common bias
    is dependence. Each pair of origin and target occurs once. 0 without errors.
    """
    if not len(scores):
        return 0.0
    alone = float((scores**2).sum())
    together = _squared_sums(scores, origins) + _squared_sums(scores, targets) - alone
    most = float(len(set(origins)))
    return min(most, max(1.0, len(scores) * alone / together)) if together > 0 else most


def _squared_sums(values: NDArray[np.float64], groups: Sequence[Hashable]) -> float:
    places = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return float((np.bincount([places[group] for group in groups], values) ** 2).sum())


def interval_score(low: float, high: float, actual: float) -> float:
    """The interval score: the width, and 2 / (1 - CONFIDENCE) times the distance of an actual value outside. Less is better.

    Its expectation is least for the true quantiles, so neither wide nor narrow intervals win (Winkler 1972, "A decision-theoretic
    approach to interval estimation"; Gneiting and Raftery 2007, "Strictly proper scoring rules", equation 43).
    """
    outside = max(low - actual, actual - high, 0.0)
    return high - low + 2 / (1 - CONFIDENCE) * outside


def _logs_by_size(ladder: Ladder) -> list[list[float]]:
    """The logarithm of the loss at the ladder's end, of each run of each size."""
    end = np.array([ladder.corpus.n_bytes])
    return [
        [math.log(loss_bits_per_byte(rung.curve, end)[0]) for rung in ladder.rungs if rung.size == size]
        for size in ladder.sizes
    ]


def seed_deviation(ladder: Ladder) -> float:
    """The deviation over seeds of the logarithm of the loss at the ladder's end, pooled over sizes; 0 without several seeds."""
    logs = _logs_by_size(ladder)
    freedom = sum(len(each) - 1 for each in logs)
    return math.sqrt(sum(len(each) * float(np.var(each)) for each in logs) / freedom) if freedom else 0.0


def size_effect(ladder: Ladder) -> float | None:
    """By how many deviations of a seed the largest size is better than the smallest one; None without several seeds."""
    logs, deviation = _logs_by_size(ladder), seed_deviation(ladder)
    return float(np.mean(logs[0]) - np.mean(logs[-1])) / deviation if deviation else None
