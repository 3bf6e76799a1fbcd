"""Where the level of a learning curve changes, because the text becomes another kind of text.

A change from prose to code looks like learning, and noise with long memory looks like changes. So steps are searched for beside a
law, one after another. One is taken if it raises the likelihood by MIN_GAIN nats, with and without it under the Hurst exponent
that suits best.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from prequential.evaluation.law import Values

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
