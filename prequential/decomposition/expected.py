"""The expected curve: the law of a learning curve, with intervals that know that text has long memory.

The cost of a byte at position t is r(t) = E + A (t + s)^-b + noise, with A >= 0, 0.05 <= b <= 2 and
s >= 0. The mean over cells of equal length is fitted by least squares. E and A are linear; b and s come from a grid. The fit
is no forecast: it is used inside the text, where neighbouring nodes give nearly the same curve.

Text has long memory, and one text cannot show how much. So the intervals come from replicates whose noise is fractional Gaussian
(Mandelbrot & Van Ness 1968), with Hurst exponents of 0.5 to 0.9 in equal shares. The noise has the variance of the residuals,
corrected for what the fit takes away. Each replicate is fitted again.

Where the text changes its kind, a step is fitted together with the law. The steps have mean zero, so r(t) is the
cost at the mean level of the text. How much of a step is learning cannot be told from one order of the text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular, toeplitz

from prequential.evaluation.curves import Curve, Values, cell_means, integral

# ---- where the level changes
#
# A change from prose to code looks like learning, and noise with long memory looks like changes. So steps are searched for beside
# a law, one after another. One is taken if it raises the likelihood by MIN_GAIN nats, with and without it under the Hurst
# exponent that suits best.

HURST = (0.5, 0.6, 0.7, 0.8, 0.9)
MIN_GAIN = 11.0  # fractional noise of any of these exponents gains so much in one of 50 texts
MARGIN = 1 / 16  # of the text: a step so near to an end, or to another step, cannot be told from learning
MAX_CHANGES = 8


@cache
def noise_root(n: int, hurst: float) -> Values:
    """The lower triangle that makes fractional Gaussian noise of variance 1 of n independent draws, (n, n)."""
    powers = np.abs(np.arange(n)[:, None] + np.array([-1.0, 0.0, 1.0])) ** (2 * hurst)
    return np.asarray(np.linalg.cholesky(toeplitz(powers @ [0.5, -1.0, 0.5])))


def steps(n: int, places: Sequence[int]) -> Values:
    """A step of 1 at each of these cells, with mean zero, (n, places)."""
    found = (np.arange(n)[:, None] >= np.array(places, int)).astype(np.float64)
    return np.asarray(found - found.mean(0))


def change_places(rates: Values, shapes: Values) -> list[int]:
    """The cells at which the level of rates (n,) changes, beside a law of one of the shapes (k, n); the clearest first."""
    found: list[int] = []
    while len(found) < MAX_CHANGES:
        gain, place = _clearest(rates, shapes, found)
        if gain < MIN_GAIN:
            break
        found.append(place)
    return found


def _clearest(rates: Values, shapes: Values, found: Sequence[int]) -> tuple[float, int]:
    """The gain of one more step, in nats, and its cell."""
    n, n_shapes = len(rates), len(shapes)
    places = np.arange(n)
    places = places[np.abs(np.subtract.outer(places, [0, n, *found])).min(1) >= n * MARGIN]
    columns = np.column_stack([rates, shapes.T, steps(n, places.tolist()), steps(n, found), np.ones(n)])
    without, best, place = -np.inf, -np.inf, 0
    for hurst in HURST:
        root = noise_root(n, hurst)
        white = solve_triangular(root, columns, lower=True)
        known = np.linalg.qr(white[:, 1 + n_shapes + len(places) :])[0]
        white -= known @ (known.T @ white)
        lengths = np.sqrt(np.square(white).sum(0))
        units = np.where(lengths > 1e-9, white / np.maximum(lengths, 1e-9), 0.0)
        along = white[:, 0] @ units
        of_shape, of_step = along[1 : 1 + n_shapes], along[1 + n_shapes : 1 + n_shapes + len(places), None]
        common = units[:, 1 + n_shapes : 1 + n_shapes + len(places)].T @ units[:, 1 : 1 + n_shapes]
        both = of_shape**2 + (of_step - common * of_shape) ** 2 / np.maximum(1 - common**2, 1e-9)
        squares = np.where(of_shape > of_step * common, both, of_step**2)  # a law that would rise is left out
        total, scale = lengths[0] ** 2, np.log(np.diag(root)).sum()
        without = max(without, _likelihood(total - np.maximum(of_shape, 0).max() ** 2, n, scale))
        if (likelihood := _likelihood(total - squares.max(), n, scale)) > best:
            best, place = likelihood, int(places[squares.max(1).argmax()])
    return best - without, place


def _likelihood(squares: float, n: int, scale: float) -> float:
    """Log-likelihood, but for a constant. scale: the logarithms of the diagonal of the noise's root, summed."""
    return float(-n / 2 * np.log(max(squares, 1e-300)) - scale)


# ---- the law

N_CELLS, MIN_CELLS = 256, 64  # no interval with fewer cells, as in comparison
SEGMENTS_PER_CELL = 2  # at least: a curve has no points within a segment
LEVEL = 0.9
N_REPLICATES = 1000
EXPONENTS = np.linspace(0.05, 2.0, 104)  # 1 is not among them
SHIFTS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 41)])  # s, as shares of the text
COARSE = slice(None, None, 6), slice(None, None, 4)  # of the grid: enough to find changes
N_PARAMETERS = 4


@dataclass(frozen=True)
class Bounded:
    """A figure and its interval of level LEVEL; the ends are None with fewer than MIN_CELLS cells."""

    point: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ExpectedCurve:
    """The law of a learning curve of n_bytes and code_bits, fitted to n_cells. Row 0 is the fit; the other rows fit replicates.

    nodes (R,): places in the grid. floors, factors (R,): E and A, in bits per byte for t and s as shares of the text. changes:
    the byte of each change of the text's level, and by how many bits per byte.
    """

    n_bytes: int
    code_bits: float
    n_cells: int
    nodes: NDArray[np.int64]
    floors: Values
    factors: Values
    changes: tuple[tuple[int, float], ...] = ()

    @cached_property
    def _final_rates(self) -> Values:
        return self.floors + self.factors * (1.0 + self._shifts) ** -self._exponents

    @property
    def final_rate(self) -> Bounded:
        """r(n): what a further byte would be expected to cost, in bits."""
        return self._estimate(self._final_rates)

    @property
    def learning_bits(self) -> Bounded:
        """The code length less n r(n): the area between the learning curve and its expected end, in bits."""
        return self._estimate(self.code_bits - self.n_bytes * self._final_rates)

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
        return self.floors * ends + self.factors * integral(self._exponents, self._shifts, 0.0, ends)

    def _estimate(self, values: Values) -> Bounded:
        """The interval of the middle LEVEL of the replicates."""
        point = float(values[0])
        if len(values) == 1:
            return Bounded(point, None, None)
        low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        return Bounded(point, float(low), float(high))


def expected_curve(curve: Curve, *, is_shuffled: bool = False) -> ExpectedCurve:
    """Fits the law to a learning curve, whose points are ends of segments. Equal curves give equal results.

    is_shuffled: the pieces of the text were shuffled, so the noise has little memory and the level does not change.
    """
    n_bytes, code_bits = int(curve.n_bytes[-1]), float(curve.bits[-1])
    n_cells = min(N_CELLS, len(curve.n_bytes) // SEGMENTS_PER_CELL, n_bytes)
    n_cells = n_cells if n_cells >= 3 else 1  # no law has so few points
    edges = np.linspace(0.0, n_bytes, n_cells + 1)
    rates = np.diff(curve.at(edges)) / np.diff(edges)
    shapes = cell_means(EXPONENTS, SHIFTS, edges / n_bytes)
    coarse = shapes.reshape(len(EXPONENTS), len(SHIFTS), n_cells)[COARSE].reshape(-1, n_cells)
    places = sorted(change_places(rates, coarse)) if n_cells >= MIN_CELLS and not is_shuffled else []
    levels = steps(n_cells, places)
    nodes, floors, factors = _fit(shapes, rates[:, None], levels)
    fitted = floors[0] + factors[0] * shapes[nodes[0]]
    jumps = np.linalg.lstsq(levels, rates - fitted, rcond=None)[0]
    if n_cells >= MIN_CELLS:
        tangents = _tangents(shapes, int(nodes[0]), levels)
        noise = _noise(rates - fitted - levels @ jumps, tangents, HURST[:2] if is_shuffled else HURST)
        fits = zip((nodes, floors, factors), _fit(shapes, fitted[:, None] + noise, levels), strict=True)
        nodes, floors, factors = (np.concatenate(parts) for parts in fits)
    return ExpectedCurve(
        n_bytes=n_bytes,
        code_bits=code_bits,
        n_cells=n_cells,
        nodes=nodes,
        floors=floors,
        factors=factors,
        changes=tuple((round(edges[place]), float(jump)) for place, jump in zip(places, jumps, strict=True)),
    )


def _fit(shapes: Values, rates: Values, levels: Values) -> tuple[NDArray[np.int64], Values, Values]:
    """The best node, E and A for each column of rates (cells, R), beside steps `levels` (cells, k)."""
    known = np.linalg.qr(levels)[0]
    centred = shapes - shapes.mean(1, keepdims=True)
    centred -= (centred @ known) @ known.T
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


def _tangents(shapes: Values, node: int, levels: Values) -> Values:
    """An orthonormal basis of what a fit near this node and with steps (cells, k) can follow, (cells, N_PARAMETERS + k)."""
    row, column = divmod(node, len(SHIFTS))
    rows = np.clip([row - 1, row + 1], 0, len(EXPONENTS) - 1)
    columns = np.clip([column - 1, column + 1], 0, len(SHIFTS) - 1)
    near = [shapes[node], *shapes[rows * len(SHIFTS) + column], *shapes[row * len(SHIFTS) + columns]]
    found = [np.ones(shapes.shape[1]), *((shape - shape.mean()) / (shape.std() or 1.0) for shape in near), *levels.T]
    return np.asarray(np.linalg.svd(np.stack(found, 1), full_matrices=False)[0][:, : N_PARAMETERS + levels.shape[1]])


def _noise(residuals: Values, tangents: Values, hurst_exponents: Sequence[float]) -> Values:
    """Fractional Gaussian noise of the residuals' size, (cells, N_REPLICATES), in equal shares for each Hurst exponent."""
    n_cells, random = len(residuals), np.random.default_rng(0)
    parts = []
    for hurst in hurst_exponents:
        root = noise_root(n_cells, hurst)
        left = n_cells - np.square(root.T @ tangents).sum()  # expected sum of squares after a fit
        scale = math.sqrt(float(np.square(residuals).sum()) / left)
        parts.append(scale * (root @ random.standard_normal((n_cells, N_REPLICATES // len(hurst_exponents)))))
    return np.concatenate(parts, axis=1)
