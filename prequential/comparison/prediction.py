"""The interval of the expected difference of two runs on texts like one: with a trend and long memory.

Two learners differ by a curve, because both learn: every text repeats it. Around it, in natural text, the variance of a mean of m
cells falls like m^(2H - 2) with H above 1/2, more slowly than 1 / m. H is unknown, and every value of HURST counts with the
weight that the text gives it:

    cells        differences of n = 64 to 127 equal cells of the text
    transforms   X = W' cells. W (n, q) spans the slowest variation, cosines of up to N_COSINES half waves, without the mean and
                 without the trend: the first N_TREND principal shapes of all laws (t + s)^-b. A difference of any two such laws
                 is in the span of these shapes but for 1 % of its size, so nothing has to be fitted.
    model        cells are a trend and fractional Gaussian noise with unknown H and scale (Mandelbrot and Van Ness 1968). For
                 each H, the covariance S_H of X and the variance v_H of the text's mean follow, up to the scale.
    posterior    weight of H ~ |S_H|^(-1/2) (X' S_H^-1 X)^(-q/2): flat over HURST and in the logarithm of the scale
    interval     given H, (mean - expectation) / sqrt(v_H X' S_H^-1 X / q) has Student's t distribution with q degrees of freedom
                 (X counts as independent of the mean)

Source: U. Müller and M. Watson (2016), "Measuring uncertainty about long-run predictions", Review of Economic Studies 83, with
other models for the slow variation. docs/MEASURES.md says what is assumed, and how often the intervals hold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prequential.evaluation.curves import Curve

Values = NDArray[np.float64]

MIN_CELLS = 64  # with fewer there is no interval
HURST = (0.5, 0.6, 0.7, 0.8, 0.9, 0.96)  # 0.5: no memory. The last one makes intervals hold at 0.9
N_COSINES, N_TREND = 32, 4
N_TRANSFORMS = N_COSINES - N_TREND
EXPONENTS = np.linspace(0.0501, 2.0001, 40)  # of the laws; 1 is not among them
SHIFTS = np.concatenate([[1e-5], np.geomspace(1e-3, 1.0, 25)])  # as shares of the text


def text_cells(terms: Sequence[tuple[float, Sequence[Curve]]]) -> Values | None:
    """The sum of weight * mean of curves over the same bytes, in equal cells (n,), MIN_CELLS <= n < 2 MIN_CELLS.

    Bits of each as if the complete text cost as much; their mean is the text's. A cell is a multiple of the longest step of a
    curve. None if there would be fewer than MIN_CELLS.
    """
    every = [curve for _, curves in terms for curve in curves]
    n_bytes = int(every[0].n_bytes[-1])
    longest = max(int(np.diff(curve.n_bytes, prepend=0).max()) for curve in every)
    if n_bytes < MIN_CELLS * longest:
        return None
    cell_bytes = longest * (n_bytes // (longest * MIN_CELLS))
    edges = cell_bytes * np.arange(n_bytes // cell_bytes + 1)
    means = [weight * np.diff([curve.at(edges) for curve in curves]).mean(0) for weight, curves in terms]
    return np.asarray(np.sum(means, 0) * (n_bytes / cell_bytes))


@dataclass(frozen=True, kw_only=True)
class Variance:
    """The variance of a mean over texts, in squared units of the cells: of each H of HURST, and the probability of that H."""

    weights: Values
    values: Values

    def half_width(self, confidence: float) -> float:
        """Half the width of the interval of the expectation."""
        from scipy.optimize import brentq  # not every command compares
        from scipy.special import stdtrit

        if not (largest := float(np.sqrt(self.values).max())):
            return 0.0
        most = float(stdtrit(N_TRANSFORMS, (1 + confidence) / 2))
        return float(largest * brentq(lambda half: self.p_value(half * largest) - (1 - confidence), 0.0, 1.01 * most))

    def p_value(self, bits: float) -> float:
        """The probability of a mean as far from an expectation of 0: 1 less the confidence whose interval ends there."""
        from scipy.special import stdtr

        if not self.values.all():
            return float(bits == 0)
        return float(self.weights @ (2 * stdtr(N_TRANSFORMS, -abs(bits) / np.sqrt(self.values))))


def mean_variance(cells: Values) -> Variance:
    """The variance of the mean of these cells (n,), 64 <= n < 128, over texts. Exactly equal for -cells."""
    slow, shapes = transforms(cells), _shapes(len(cells))
    squares = np.array([slow @ inverse @ slow for inverse, _, _ in shapes])  # X' S_H^-1 X
    ratios = np.array([ratio for _, _, ratio in shapes])
    if squares.all():
        log_weights = -0.5 * np.array([log_size for _, log_size, _ in shapes]) - N_TRANSFORMS / 2 * np.log(squares)
    else:
        log_weights = np.zeros(len(HURST))
    weights = np.exp(log_weights - log_weights.max())
    return Variance(weights=weights / weights.sum(), values=ratios * squares / N_TRANSFORMS)


def transforms(cells: Values) -> Values:
    """X (q,): the slow variation of cells (n,) without their trend."""
    return np.asarray(cells @ _weights(len(cells)))


def draw_noise(cells: Values, n_draws: int, random: np.random.Generator) -> Values:
    """Noise as these cells (n,) have it, (n, n_draws). Exponent and scale are drawn as likely as the cells make them."""
    from scipy.linalg import cholesky, toeplitz

    n, variance = len(cells), mean_variance(cells)
    of_mean = np.array([ratio for _, _, ratio in _shapes(n)])
    exponents = random.choice(len(HURST), n_draws, p=variance.weights)
    scales = np.sqrt((variance.values / of_mean)[exponents] * N_TRANSFORMS / random.chisquare(N_TRANSFORMS, n_draws))
    drawn = scales * random.standard_normal((n, n_draws))
    for i, hurst in enumerate(HURST):
        mixing = cholesky(toeplitz(noise_covariances(n, hurst)), lower=True)
        drawn[:, exponents == i] = mixing @ drawn[:, exponents == i]
    return drawn


@lru_cache(maxsize=MIN_CELLS)
def _weights(n: int) -> Values:
    """W: an orthonormal basis (n, q) of what is left of the cosines without the trend."""
    places, edges = (np.arange(n) + 0.5) / n, np.linspace(0.0, 1.0, n + 1)
    cosines = math.sqrt(2 / n) * np.cos(np.pi * np.outer(places, np.arange(1, N_COSINES + 1)))
    shapes = cell_means(EXPONENTS, SHIFTS, edges)
    shapes -= shapes.mean(1, keepdims=True)
    trend = np.linalg.svd(shapes / np.linalg.norm(shapes, axis=1, keepdims=True), full_matrices=False)[2][:N_TREND].T
    left = cosines - trend @ (trend.T @ cosines)
    return np.asarray(np.linalg.svd(left, full_matrices=False)[0][:, :N_TRANSFORMS])


@lru_cache(maxsize=MIN_CELLS)
def _shapes(n: int) -> tuple[tuple[Values, float, float], ...]:
    """For each H: the inverse of S_H (q, q), log |S_H|, and v_H, of cells with variance 1."""
    from scipy.linalg import toeplitz

    shapes = []
    for covariances in (toeplitz(noise_covariances(n, hurst)) for hurst in HURST):
        of_transforms = _weights(n).T @ covariances @ _weights(n)
        log_size = float(np.linalg.slogdet(of_transforms)[1])
        shapes.append((np.linalg.inv(of_transforms), log_size, float(covariances.mean())))
    return tuple(shapes)


def noise_covariances(n: int, hurst: float) -> Values:
    """The autocovariances (n,), from lag 0 on, of fractional Gaussian noise with variance 1. Means of it are such noise, too."""
    lags = np.arange(n, dtype=np.float64)
    power = 2 * hurst
    return np.asarray(((lags + 1) ** power - 2 * lags**power + np.abs(lags - 1) ** power) / 2, np.float64)


# ---- the law that expected costs are taken to follow: E + A (t + s)^-b bits for the byte at place t, a share of the text


def integral(exponent: Values, shift: Values, start: Values | float, end: Values) -> Values:
    """The integral of (t + s)^-b from start to end; b is not 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = (end + shift) ** (1 - exponent) - (start + shift) ** (1 - exponent)
    return np.asarray(powers / (1 - exponent))


def cell_means(exponents: Values, shifts: Values, edges: Values) -> Values:
    """The mean of (t + s)^-b over each cell between edges (m + 1,), for every pair of an exponent and a shift: (pairs, m)."""
    exponent, shift = (grid.reshape(-1, 1) for grid in np.meshgrid(exponents, shifts, indexing="ij"))
    with np.errstate(divide="ignore"):
        means = integral(exponent, shift, edges[:-1], edges[1:]) / np.diff(edges)
    return np.where(np.isfinite(means).all(1, keepdims=True), means, 1.0)  # b >= 1 without a shift has no mean
