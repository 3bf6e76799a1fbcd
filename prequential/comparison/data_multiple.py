"""The data multiple: how many times the data one learner needs for what another learns, from two curves over the same bytes.

The expected curves are taken as one law of the form of evaluation/curves.py, read at two speeds: E + A (c t + s)^-b and, of the
baseline, E + A (t + s)^-b. What is hard or easy in the text is so for both. It is in the mean of the two curves, and hardly in
their difference. So the law is fitted to mean and difference, each weighted by how little it varies without its trend
(`prediction.transforms`). Exchanging the curves inverts c.

The interval: the noise of mean and of difference are drawn as comparison/prediction.py assumes them, with long memory. A draw
moves log c as in a fit that is linear near the result.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from prequential.comparison.prediction import MIN_CELLS, Values, draw_noise, integral, text_cells, transforms
from prequential.evaluation.curves import Curve

LEVEL = 0.9
MAX_MULTIPLE = 16.0
N_DRAWS = 1000
N_RATES, LAST, N_MEDIAN = 512, 0.2, 21  # of `equal_loss`
MAX_WEIGHT = 1e6  # of a difference that does not vary
EXPONENTS = np.linspace(0.0501, 2.0001, 14)  # where the fit may begin; b, s and log c move continuously from there
SHIFTS = np.geomspace(1e-4, 1.0, 9)
LOG_MULTIPLES = np.linspace(-1.0, 1.0, 33) * math.log(MAX_MULTIPLE)


@dataclass(frozen=True, kw_only=True)
class DataMultiple:
    """c: the baseline needs c times the data. low, high: its interval of level LEVEL, over texts."""

    point: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.point:.2f} ({self.low:.2f} to {self.high:.2f})"


def data_multiple(curve: Curve, baseline: Curve) -> DataMultiple | None:
    """The bytes that the baseline needs, divided by the bytes that `curve` needs to learn as much.

    None if there are fewer than MIN_CELLS cells, if the curves do not fall, or if c is not within 1 / 16 and 16.
    """
    mean = text_cells([(0.5, [curve]), (0.5, [baseline])])
    difference = text_cells([(1.0, [curve]), (-1.0, [baseline])])
    if mean is None or difference is None:
        return None
    varies, differs = (float(np.square(transforms(each)).sum()) for each in (mean, difference))
    root = math.sqrt(min(MAX_WEIGHT, varies / differs)) if differs else math.sqrt(MAX_WEIGHT)
    if (fitted := _fit(mean - mean.mean(), difference, root)) is None:
        return None
    log_multiple, movement = fitted
    random = np.random.default_rng(0)
    noises = [draw_noise(each, N_DRAWS, random) for each in (mean, difference)]
    moved = movement @ np.concatenate([noises[0] - noises[0].mean(0), root * noises[1]])
    half = float(np.quantile(np.abs(moved), LEVEL))
    low, point, high = (math.exp(log_multiple + way * half) for way in (-1, 0, 1))
    return DataMultiple(point=point, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class EqualLoss:
    """Where two training runs have one loss, in bits per byte: the reference after `ratio` times the bytes of the other.

    n_bytes, ratios (n,): the same along the run of the other, where the reference reaches its loss.
    """

    ratio: float
    bits_per_byte: float
    n_bytes: Values
    ratios: Values


def equal_loss(reference: Curve, other: Curve) -> EqualLoss | None:
    """The last loss of the run that ends higher, and where both runs have it. It assumes no law, but shuffled data.

    `data_multiple` is for text in its order. A loss is that of the last fifth of what was read so far, so a curve that is
    compressed in its bytes by k gives k. None if a curve has fewer than MIN_CELLS points, if one run never reaches the last loss
    of the other, or has it from its beginning on.
    """
    if min(len(reference.n_bytes), len(other.n_bytes)) < MIN_CELLS:
        return None
    (x, theirs), (t, ours) = (_trailing_rates(curve) for curve in (reference, other))
    level = max(theirs[-1], ours[-1])
    ends = _reached(x, theirs, np.array([level])), _reached(t, ours, np.array([level]))
    if not np.isfinite(ends).all():
        return None
    ratios = _reached(x, theirs, ours) / t
    known = np.isfinite(ratios)
    ratio = float(ends[0][0] / ends[1][0])
    return EqualLoss(ratio=ratio, bits_per_byte=float(level), n_bytes=t[known], ratios=ratios[known])


def _trailing_rates(curve: Curve) -> tuple[Values, Values]:
    """Positions, in equal ratios, and the bits per byte of the last fifth before each: the median of N_MEDIAN parts of it."""
    end = float(curve.n_bytes[-1])
    positions = np.geomspace(float(curve.n_bytes[MIN_CELLS // 2]), end, N_RATES)
    edges = positions[:, None] * np.linspace(1 - LAST, 1.0, N_MEDIAN + 1)
    return positions, np.median(np.diff(curve.at(edges)) / np.diff(edges), axis=1)  # so that a spike changes little


def _reached(positions: Values, rates: Values, levels: Values) -> Values:
    """From where on a run stays at or below each level (n,): NaN if never, or from its beginning on."""
    lowest = np.maximum.accumulate(rates[::-1])[::-1]  # the highest rate from here on: it falls
    reached = np.exp(np.interp(-levels, -lowest, np.log(positions)))
    return np.where((levels >= lowest[-1]) & (levels < lowest[0]), reached, np.nan)


def _fit(mean: Values, difference: Values, root: float) -> tuple[float, Values] | None:
    """log c, and how much it moves for each unit of mean (n,) and of root * difference (n,). None: no such law fits."""
    from scipy.optimize import least_squares

    n, wanted = len(mean), np.concatenate([mean, root * difference])
    exponents, shifts, logs, means, differences = _starts(n)
    products = means @ mean + root**2 * (differences @ difference)
    sizes = np.square(means).sum(1) + root**2 * np.square(differences).sum(1)
    best = int(np.argmax(np.where(products > 0, products**2 / sizes, 0.0)))
    if products[best] <= 0:
        return None
    scale = products[best] / sizes[best]

    def model(values: Values) -> Values:
        factor, exponent, log_shift, log_multiple = values
        shapes = _shapes(n, np.array([[exponent]]), np.exp([[log_shift]]), np.array([[log_multiple]]))
        return np.asarray(scale * factor * np.concatenate([shapes[0][0], root * shapes[1][0]]))

    ends = math.log(SHIFTS[0] / 2), math.log(2 * SHIFTS[-1]), 1.01 * LOG_MULTIPLES[-1]
    fitted = least_squares(
        lambda values: model(values) - wanted,
        [1.0, exponents[best], math.log(shifts[best]), logs[best]],
        bounds=([0.0, 0.01, ends[0], -ends[2]], [np.inf, 2.5, ends[1], ends[2]]),
        x_scale=[0.1, 0.1, 0.5, 0.1],
        xtol=1e-10,
        ftol=1e-12,
    )
    log_multiple = float(fitted.x[3])
    if abs(log_multiple) > LOG_MULTIPLES[-1]:
        return None
    return log_multiple, np.linalg.pinv(fitted.jac, rcond=1e-6)[3]


def _shapes(n: int, exponents: Values, shifts: Values, logs: Values) -> tuple[Values, Values]:
    """Mean, less its own mean, and difference of both speeds of (t + s)^-b, in n cells: (k, n) for k laws (k, 1)."""
    edges = np.linspace(0.0, 1.0, n + 1)
    fast, slow = (
        integral(exponents, shifts, speed * edges[:-1], speed * edges[1:]) * n / speed
        for speed in (np.exp(logs / 2), np.exp(-logs / 2))
    )
    mean = (fast + slow) / 2
    return mean - mean.mean(1, keepdims=True), fast - slow


@lru_cache(maxsize=4)
def _starts(n: int) -> tuple[Values, Values, Values, Values, Values]:
    """The laws where a fit may begin: exponents, shifts, logarithms of c (k,), and their shapes (k, n)."""
    laws = [each.reshape(-1, 1) for each in np.meshgrid(EXPONENTS, SHIFTS, LOG_MULTIPLES, indexing="ij")]
    exponents, shifts, logs = (each[:, 0] for each in laws)
    return exponents, shifts, logs, *_shapes(n, *laws)
