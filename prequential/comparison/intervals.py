"""Confidence intervals of the expectation of a sum over a text, by resampling. clusters.py has those of losses over documents.

Blocks of neighbouring cells are resampled (Künsch 1989, "The jackknife and the bootstrap for general stationary observations",
Annals of Statistics 17), so dependence within a block is kept. Longer dependence is lost: see prediction.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError
from prequential.evaluation.curves import Curve

MIN_CELLS, MAX_CELLS = 64, 4096  # of the grid that is resampled; with fewer cells there is no interval
CHUNK_RESAMPLES = 256  # resamples at a time, which take 8 MiB each


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How an interval is made. Raises ConfigError for a value out of range."""

    confidence: float = 0.95
    n_resamples: int = 1999
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ConfigError(f"the confidence {self.confidence} is outside (0, 1): 0.95 is usual")
        if self.seed < 0:
            raise ConfigError(f"the seed {self.seed} is negative")
        if self.n_outside < 1:
            enough = math.ceil(2 / (1 - self.confidence)) - 1
            raise ConfigError(
                f"{self.n_resamples} resamples are too few for confidence {self.confidence}: take at least {enough}"
            )

    @property
    def n_outside(self) -> int:
        """The rank of the resample that bounds the interval, counted from either end."""
        return math.floor(round((self.n_resamples + 1) * (1 - self.confidence) / 2, 6))

    def widening(self, freedom: float) -> float:
        """The quantile of Student's t with `freedom` degrees, divided by that of the normal distribution."""
        from scipy.special import stdtrit  # not every command compares

        level = (1 + self.confidence) / 2
        return float(stdtrit(freedom, level)) / NormalDist().inv_cdf(level)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A two-sided confidence interval of an expected difference, in bits. It holds if dependence ends within a block."""

    low_bits: float
    high_bits: float
    bootstrap: Bootstrap
    cell_bytes: int
    n_cells: int
    block_bytes: int


def letters(i: int) -> str:
    """The i-th label of A ... Z, A2 ... Z2, A3 ..."""
    repeat, letter = divmod(i, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(repeat + 1) if repeat else "")


def cell_grid(curves: Sequence[Curve]) -> NDArray[np.int64] | None:
    """The edges of equal cells (n + 1,) in bytes; None if there would be fewer than MIN_CELLS.

    A cell is as long as the longest step of a curve, or the multiple that gives MAX_CELLS.
    """
    n_bytes = int(curves[0].n_bytes[-1])
    longest = max(int(np.diff(curve.n_bytes, prepend=0).max()) for curve in curves)
    cell_bytes = longest * math.ceil(n_bytes / (longest * MAX_CELLS))
    n_cells = n_bytes // cell_bytes
    return None if n_cells < MIN_CELLS else cell_bytes * np.arange(n_cells + 1)


def bounds(deviations: NDArray[np.float64], bootstrap: Bootstrap) -> tuple[float, float]:
    """The lower and the upper bound among the resampled deviations (n_resamples,)."""
    low, high = np.sort(deviations)[[bootstrap.n_outside - 1, -bootstrap.n_outside]]
    return float(low), float(high)


def block_length(series: NDArray[np.float64]) -> int:
    """How many cells to resample together for the mean of a dependent series (m,): 1 to min(m / 3, 3 sqrt(m)).

    Twice the rule of Politis and White (2004), corrected by Patton, Politis and White (2009): (2 G^2 / D)^(1/3) m^(1/3). G and D
    are from the autocovariances with a flat-top window, which ends at twice the lag after which none is significant. The rule
    minimises the error of the variance, but its bias reduces coverage. Twice its length halves the bias.
    """
    m = len(series)
    covariances, n_significant = _significant_covariances(series)
    if not n_significant:
        return 1
    width = min(2 * n_significant, len(covariances) - 1)
    lags = np.arange(1, width + 1)
    weighted = np.minimum(1, 2 * (1 - lags / width)) * covariances[1 : width + 1]
    g, spectrum = 2 * lags @ weighted, covariances[0] + 2 * weighted.sum()
    longest = max(1, math.floor(min(3 * math.sqrt(m), m / 3)))
    if spectrum <= 0:
        return longest
    return min(longest, max(1, round(2 * (1.5 * (g / spectrum) ** 2 * m) ** (1 / 3))))


def _significant_covariances(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """The autocovariances of a series (m,) by lag, and the lag after which none is significant."""
    m = len(series)
    centred = series - series.mean()
    n_quiet = max(5, math.ceil(math.sqrt(math.log10(m))))
    n_lags = min(math.ceil(math.sqrt(m)) + n_quiet, m - 1)
    covariances = np.array([centred[lag:] @ centred[: m - lag] for lag in range(n_lags + 1)]) / m
    if covariances[0] <= 0:
        return covariances, 0
    quiet = np.abs(covariances[1:] / covariances[0]) < 2 * math.sqrt(math.log10(m) / m)
    runs = np.convolve(quiet, np.ones(n_quiet), "valid") == n_quiet  # n_quiet insignificant lags in a row
    return covariances, int(np.argmax(runs)) if runs.any() else n_lags


Cells = tuple[NDArray[np.float64], Sequence[int]]  # bits of each cell, (S, m), and the S seeds


def cell_deviations(reference: Cells, other: Cells, block: int, bootstrap: Bootstrap) -> NDArray[np.float64]:
    """Resampled mean differences per cell, minus the mean difference: (n_resamples,), in bits.

    Seeds are resampled, and within each seed moving blocks of `block` cells. All runs get the same blocks, because all coded the
    same text. Groups with equal seeds are resampled in pairs, others independently. S seeds and m / b blocks give only estimates
    of the variances, so the deviations are widened from the normal distribution to Student's t.
    """
    n_cells = reference[0].shape[1]
    widening = bootstrap.widening(n_cells / block - 1)
    random = np.random.default_rng([bootstrap.seed])
    sides = [
        (cells, _seed_weights(len(seeds), np.random.default_rng([bootstrap.seed, *seeds, len(seeds)]), bootstrap))
        for cells, seeds in (reference, other)
    ]
    deviations = np.empty(bootstrap.n_resamples)
    for start in range(0, bootstrap.n_resamples, CHUNK_RESAMPLES):
        chunk = slice(start, min(start + CHUNK_RESAMPLES, bootstrap.n_resamples))
        places = random.integers(0, n_cells - block + 1, (chunk.stop - start, math.ceil(n_cells / block)))
        theirs, ours = (_deviation(cells, weights[chunk], places, block, widening) for cells, weights in sides)
        deviations[chunk] = ours - theirs
    return deviations


def _seed_weights(n_seeds: int, random: np.random.Generator, bootstrap: Bootstrap) -> NDArray[np.float64]:
    """The weight of each seed in each resample: (n_resamples, S), with row sums of 1 and column means of about 1/S.

    S draws with replacement have (S - 1) / S of the true variance. The weights are widened to correct this (Rao and Wu 1988).
    """
    if n_seeds == 1:
        return np.ones((bootstrap.n_resamples, 1))
    drawn = random.multinomial(n_seeds, [1 / n_seeds] * n_seeds, bootstrap.n_resamples) / n_seeds
    factor = math.sqrt(n_seeds / (n_seeds - 1)) * bootstrap.widening(n_seeds - 1)
    return 1 / n_seeds + (drawn - 1 / n_seeds) * factor


def _deviation(
    cells: NDArray[np.float64], weights: NDArray[np.float64], places: NDArray[np.int64], block: int, widening: float
) -> NDArray[np.float64]:
    """Resampled means per cell minus the mean: (R,). cells: (S, m). weights: (R, S). places: (R, k), where the k blocks begin.

    The variance of m / b blocks is too small, as for seeds, here by the factor (m - b) / m. And k * b cells are drawn, not m.
    """
    n_cells, n_drawn = cells.shape[1], places.shape[1] * block
    sums = np.cumsum(np.pad(cells, ((0, 0), (1, 0))), 1)  # (S, m + 1)
    means = (sums[:, block:] - sums[:, :-block]) / block  # (S, m - b + 1), the mean of every block
    levels = means.mean(1)  # (S,)
    text = np.stack([mean[places].mean(1) for mean in means], 1) - levels  # (R, S)
    text *= widening * math.sqrt(n_drawn / (n_cells - block))
    return np.asarray((weights * (levels + text)).sum(1) - levels.mean(), np.float64)
