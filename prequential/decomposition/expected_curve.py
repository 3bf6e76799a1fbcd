"""The expected learning curve: a smooth, falling law through the noisy costs of a text, and what it says, with intervals.

The cost of a byte at position t is taken as

    r(t) = E + A (t + s)^-b + noise        A >= 0, 0.05 <= b <= 2, s >= 0

The mean over cells of equal length is fitted by least squares. E and A are linear; b and s are taken from a grid, for the fit is
used inside the text, where neighbouring nodes give nearly the same curve (it is no forecast).

Text has long memory: an easy or hard passage has easy or hard ones around it, at every scale, and one text cannot show how much.
So the intervals come from replicates whose noise is fractional Gaussian (Mandelbrot & Van Ness 1968), with Hurst exponents of 0.5
to 0.9 in equal shares. Its variance is that of the residuals, corrected for what the fit takes away. Each replicate is fitted
again. benchmarks/learning_cost.py measures how often the intervals hold.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from prequential.evaluation.curves import Curve

N_CELLS, MIN_CELLS = 256, 64  # no interval with fewer cells, as in comparison
SEGMENTS_PER_CELL = 2  # at least: a curve has no points within a segment
LEVEL = 0.9
N_REPLICATES = 1000
EXPONENTS = np.linspace(0.05, 2.0, 104)  # 1 is none of them
SHIFTS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 41)])  # s, as shares of the text
HURST = (0.5, 0.6, 0.7, 0.8, 0.9)
N_PARAMETERS = 4

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Bounded:
    """A figure within its interval of level LEVEL; low and high are None where the text is too short for one."""

    point: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ExpectedCurve:
    """The law that was fitted to a learning curve of n_bytes and code_bits.

    Row 0 is the fit, the others are fits of replicates; without them there are no intervals. nodes (R,): places in the grid;
    floors, factors (R,): E and A, in bits per byte for t and s as shares of the text. n_cells: of the fit.
    """

    n_bytes: int
    code_bits: float
    n_cells: int
    nodes: NDArray[np.int64]
    floors: Values
    factors: Values

    @cached_property
    def final_rates(self) -> Values:
        """r(n) of the fit and of each replicate, bits per byte, (R,)."""
        return self.floors + self.factors * (1.0 + self._shifts) ** -self._exponents

    @property
    def final_rate(self) -> Bounded:
        """r(n): what a further byte would be expected to cost, in bits."""
        return self._estimate(self.final_rates)

    @property
    def learning_bits(self) -> Bounded:
        """The code length less n r(n): the area between the learning curve and its expected end, in bits."""
        return self._estimate(self.code_bits - self.n_bytes * self.final_rates)

    def surplus_bits(self, epsilon: float) -> Bounded:
        """The area of the expected curve above epsilon bits per byte, in bits. Source: Whitney et al. 2020."""
        ends = self._ends(epsilon)
        return self._estimate(self.n_bytes * (self._areas(ends) - epsilon * ends))

    @property
    def _exponents(self) -> Values:
        return np.asarray(EXPONENTS[self.nodes // len(SHIFTS)])

    @property
    def _shifts(self) -> Values:
        return np.asarray(SHIFTS[self.nodes % len(SHIFTS)])

    def _ends(self, epsilon: float) -> Values:
        """The share of the text with an expected cost above epsilon, (R,)."""
        above = epsilon - self.floors
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = (self.factors / above) ** (1 / self._exponents) - self._shifts
        return np.asarray(np.where(above <= 0, 1.0, np.clip(np.nan_to_num(ends, posinf=1.0), 0.0, 1.0)))

    def _areas(self, ends: Values) -> Values:
        """The integral of r from 0 to `ends` (R,), shares of the text."""
        return self.floors * ends + self.factors * _integral(self._exponents, self._shifts, 0.0, ends)

    def _estimate(self, values: Values) -> Bounded:
        """The interval of the middle LEVEL of the replicates."""
        point = float(values[0])
        if len(values) == 1:
            return Bounded(point, None, None)
        low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        return Bounded(point, float(low), float(high))


def expected_curve(curve: Curve) -> ExpectedCurve:
    """Fits the law to a learning curve, whose points are ends of segments. Equal curves give equal results."""
    n_bytes, code_bits = int(curve.n_bytes[-1]), float(curve.bits[-1])
    n_cells = max(1, min(N_CELLS, len(curve.n_bytes) // SEGMENTS_PER_CELL, n_bytes))
    edges = np.linspace(0.0, n_bytes, n_cells + 1)
    rates = np.diff(curve.at(edges)) / np.diff(edges)
    places = edges / n_bytes
    if n_cells < 3:  # no law has so few points
        rate = np.array([code_bits / n_bytes])
        return ExpectedCurve(
            n_bytes=n_bytes,
            code_bits=code_bits,
            n_cells=n_cells,
            nodes=np.zeros(1, np.int64),
            floors=rate,
            factors=0 * rate,
        )
    shapes = _shapes(places)
    nodes, floors, factors = _fit(shapes, rates[:, None])
    if n_cells >= MIN_CELLS:
        fitted = floors[0] + factors[0] * shapes[nodes[0]]
        replicates = fitted[:, None] + _noise(rates - fitted, _tangents(shapes, int(nodes[0])))
        again = _fit(shapes, replicates)
        nodes, floors, factors = (
            np.concatenate([first, more]) for first, more in zip((nodes, floors, factors), again, strict=True)
        )
    return ExpectedCurve(
        n_bytes=n_bytes, code_bits=code_bits, n_cells=n_cells, nodes=nodes, floors=floors, factors=factors
    )


def _shapes(places: Values) -> Values:
    """The mean of (t + s)^-b over each cell, for each node of the grid, (nodes, cells)."""
    exponents, shifts = (grid.reshape(-1, 1) for grid in np.meshgrid(EXPONENTS, SHIFTS, indexing="ij"))
    with np.errstate(divide="ignore"):
        means = _integral(exponents, shifts, places[:-1], places[1:]) / np.diff(places)
    return np.where(np.isfinite(means).all(1, keepdims=True), means, 1.0)  # b >= 1 without a shift has no mean


def _integral(exponent: Values, shift: Values, start: "Values | float", end: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = (end + shift) ** (1 - exponent) - (start + shift) ** (1 - exponent)
    return np.asarray(powers / (1 - exponent))


def _fit(shapes: Values, rates: Values) -> tuple[NDArray[np.int64], Values, Values]:
    """The best node, E and A for each column of rates (cells, R)."""
    centred = shapes - shapes.mean(1, keepdims=True)
    squares = (centred**2).sum(1)
    products = centred @ (rates - rates.mean(0))
    gains = np.where(
        (products > 0) & (squares[:, None] > 1e-12), products**2 / np.maximum(squares, 1e-12)[:, None], 0.0
    )
    nodes = gains.argmax(0)
    columns = np.arange(rates.shape[1])
    factors = np.where(gains[nodes, columns] > 0, products[nodes, columns] / np.maximum(squares[nodes], 1e-12), 0.0)
    floors = rates.mean(0) - factors * shapes.mean(1)[nodes]
    return nodes, floors, factors


def _tangents(shapes: Values, node: int) -> Values:
    """An orthonormal basis of what a fit near this node can follow, (cells, N_PARAMETERS): constant, shape and its neighbours."""
    row, column = divmod(node, len(SHIFTS))
    rows = np.clip([row - 1, row + 1], 0, len(EXPONENTS) - 1)
    columns = np.clip([column - 1, column + 1], 0, len(SHIFTS) - 1)
    near = [shapes[node], *shapes[rows * len(SHIFTS) + column], *shapes[row * len(SHIFTS) + columns]]
    found = np.stack([np.ones(shapes.shape[1]), *((shape - shape.mean()) / (shape.std() or 1.0) for shape in near)], 1)
    return np.asarray(np.linalg.svd(found, full_matrices=False)[0][:, :N_PARAMETERS])


def _noise(residuals: Values, tangents: Values) -> Values:
    """Fractional Gaussian noise of the residuals' size, (cells, N_REPLICATES), in equal shares for each Hurst exponent."""
    n_cells, random = len(residuals), np.random.default_rng(0)
    distance = np.arange(n_cells, dtype=np.float64)
    parts = []
    for hurst in HURST:
        powers = np.abs(distance[:, None] + np.array([-1.0, 0.0, 1.0])) ** (2 * hurst)
        covariance = toeplitz(powers @ [0.5, -1.0, 0.5])
        left = n_cells - np.einsum("ij,ik,kj->", tangents, covariance, tangents)  # expected sum of squares after a fit
        scale = math.sqrt(float(np.square(residuals).sum()) / left)
        drawn = random.standard_normal((n_cells, N_REPLICATES // len(HURST)))
        parts.append(scale * (np.linalg.cholesky(covariance) @ drawn))
    return np.concatenate(parts, axis=1)
