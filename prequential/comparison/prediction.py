"""Intervals that allow long memory: of the expected difference of two runs, and of their difference on another text.

In natural text the variance of a mean of m cells falls like m^(2H - 2) with H above 1/2, more slowly than 1 / m. Here H is
unknown, and every value of HURST counts with the weight that the text gives it:

    cells        the differences of the cells, averaged to n = 64 to 127 coarse cells
    transforms   X_j = mean of sqrt(2) cos(pi j (t - 1/2) / n) * cell t, for j = 2 to 13. They show the slow variation. The mean
                 does not enter. Nor does j = 1, which has most of a learner's trend: it occurs in every text alike.
    model        cells are fractional Gaussian noise with unknown H and scale (Mandelbrot and Van Ness 1968). For each H, the
                 covariance S_H of X and the variance v_H of the text's mean follow, up to the scale.
    posterior    weight of H ~ |S_H|^(-1/2) (X' S_H^-1 X)^(-q/2): flat in H and in the logarithm of the scale
    interval     given H, (mean - expectation) / sqrt(v_H X' S_H^-1 X / q) has Student's t distribution with q degrees of freedom
                 (X counts as independent of the mean). Another text adds its own variance, which is equal: twice the variance.

Source: U. Müller and M. Watson (2016), "Measuring uncertainty about long-run predictions", Review of Economic Studies 83, with
other models for the slow variation. docs/MEASURES.md says what is assumed, and how often the intervals hold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.intervals import MIN_CELLS

HURST = (0.5, 0.6, 0.7, 0.8, 0.9)  # 0.5: no memory
N_TRANSFORMS = 12  # as in Müller and Watson's examples
N_LEFT_OUT = 1


@dataclass(frozen=True, kw_only=True)
class LongMemory:
    """Two intervals of a difference over a text, in bits: of the expected difference (mean_), and on another text (text_).

    mean_of, text_of: what each refers to. n_cells: the coarse cells, of cell_bytes each.
    """

    mean_low_bits: float
    mean_high_bits: float
    text_low_bits: float
    text_high_bits: float
    mean_of: str
    text_of: str
    confidence: float
    n_cells: int
    cell_bytes: int


@dataclass(frozen=True, kw_only=True)
class Variance:
    """For each H of HURST: its posterior probability (5,), and the variance of the mean, in squared units of the cells (5,)."""

    weights: NDArray[np.float64]
    variances: NDArray[np.float64]


def coarse_cells(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of equal numbers of neighbouring cells (m,), m >= MIN_CELLS: 64 to 127 values. The last cells may be left out."""
    each = len(cells) // MIN_CELLS
    return cells[: len(cells) // each * each].reshape(-1, each).mean(1)


def mean_variance(cells: NDArray[np.float64]) -> Variance:
    """The variance of the mean of these cells (n,), 64 <= n < 128, over texts. Exactly equal for -cells."""
    transforms = cells @ _cosines(len(cells))
    shapes = _shapes(len(cells))
    squares = np.array([transforms @ inverse @ transforms for inverse, _, _ in shapes])  # X' S_H^-1 X
    ratios = np.array([ratio for _, _, ratio in shapes])
    if not squares.all():
        return Variance(weights=np.full(len(HURST), 1 / len(HURST)), variances=np.zeros(len(HURST)))
    log_weights = -0.5 * np.array([log_size for _, log_size, _ in shapes]) - N_TRANSFORMS / 2 * np.log(squares)
    weights = np.exp(log_weights - log_weights.max())
    return Variance(weights=weights / weights.sum(), variances=ratios * squares / N_TRANSFORMS)


def half_width(
    text: Variance, confidence: float, *, n_texts: int, seeds_variance: float = 0.0, seeds_freedom: float = 1.0
) -> float:
    """Half the width of the interval: for the expectation with n_texts = 1, for another text with n_texts = 2.

    seeds_variance: of the mean over seeds, in the units of the text's variances, with seeds_freedom degrees of freedom. The
    degrees of freedom of a sum are those of Welch (1947) and Satterthwaite (1946).
    """
    from scipy.optimize import brentq  # not every command compares
    from scipy.special import stdtr, stdtrit

    ours, theirs = n_texts * text.variances, n_texts * seeds_variance
    totals = ours + theirs
    if not totals.any():
        return 0.0
    largest = totals.max()
    freedom = (totals / largest) ** 2 / ((ours / largest) ** 2 / N_TRANSFORMS + (theirs / largest) ** 2 / seeds_freedom)
    deviations = np.sqrt(totals / largest)

    def excess(half: float) -> float:
        return float(text.weights @ (2 * stdtr(freedom, half / deviations) - 1)) - confidence

    bound = float(stdtrit(freedom, (1 + confidence) / 2).sum())
    return math.sqrt(largest) * float(brentq(excess, 0.0, bound))


def seeds_variance(groups: Sequence[tuple[Sequence[int], Sequence[float]]]) -> tuple[float, float]:
    """The variance of the difference of two groups' means over seeds, and its degrees of freedom; (0, 1) for one run each.

    groups: the seeds and the bits of the runs of both, in the same order if the seeds are the same: then they are paired.
    """
    (a_seeds, a_bits), (b_seeds, b_bits) = groups
    if len(a_seeds) > 1 and tuple(a_seeds) == tuple(b_seeds):
        parts = [(_variance_of_mean(np.subtract(b_bits, a_bits)), len(a_seeds) - 1)]
    else:
        parts = [(_variance_of_mean(np.array(bits)), len(bits) - 1) for bits in (a_bits, b_bits) if len(bits) > 1]
    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0, 1.0
    return total, 1 / sum((variance / total) ** 2 / freedom for variance, freedom in parts)


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1)) / len(values)


@lru_cache(maxsize=MIN_CELLS)
def _cosines(n: int) -> NDArray[np.float64]:
    """The weights of the cells in the transforms: (n, q)."""
    places = (np.arange(n) + 0.5) / n
    return math.sqrt(2) / n * np.cos(np.pi * np.outer(places, N_LEFT_OUT + np.arange(1, N_TRANSFORMS + 1)))


@lru_cache(maxsize=MIN_CELLS)
def _shapes(n: int) -> tuple[tuple[NDArray[np.float64], float, float], ...]:
    """For each H: the inverse of S_H (q, q), log |S_H|, and v_H, of cells with variance 1."""
    from scipy.linalg import toeplitz

    found = []
    for hurst in HURST:
        covariances = toeplitz(noise_covariances(n, hurst))
        of_transforms = _cosines(n).T @ covariances @ _cosines(n)
        found.append(
            (np.linalg.inv(of_transforms), float(np.linalg.slogdet(of_transforms)[1]), float(covariances.mean()))
        )
    return tuple(found)


def noise_covariances(n: int, hurst: float) -> NDArray[np.float64]:
    """The autocovariances (n,), from lag 0 on, of fractional Gaussian noise with variance 1. Means of it are such noise, too."""
    lags = np.arange(n, dtype=np.float64)
    power = 2 * hurst
    return np.asarray(((lags + 1) ** power - 2 * lags**power + np.abs(lags - 1) ** power) / 2, np.float64)
