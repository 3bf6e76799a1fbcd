"""One law of size and length, its links to proxies, and the interval that its backtest on the ladder gives (docs/STUDIES.md).

    L = E + A N^-a + B D^-b + C N^-a D^-b        after Hoffmann et al. (2022); larger learners may learn more from each byte

For each pair of exponents on a grid, the coefficients are solved by least squares of relative residuals. Their signs are free: a
loss that is corrected by a proxy may rise with the bytes. With a proxy, a cheap run over all of the target's bytes, the loss
follows the text by the same *ratio* as the proxy's, or by the same *difference*. Both err in opposite directions, so the
forecast is the mean of their logarithms. Without one, the text ahead is as hard as the ladder's.

Letters: R runs of a ladder, P prefixes, T targets. Losses are means over the first bytes, in bits per byte.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve

Floats = NDArray[np.float64]
Proxy = Callable[[Floats], Floats]  # bytes (T,) -> loss (T,)

CONFIDENCE = 0.9
DEVIATIONS = 1.645  # of a normal distribution, from the middle to either end of a 90 % interval
FLOOR = 0.02  # rms error of this law on the 16 targets that it was chosen with, added in quadrature
UNTESTED = 0.05  # in place of the backtest's rms error, where no run could be hidden: a choice, not measured
EXPONENTS_N, EXPONENTS_D = np.geomspace(0.1, 2, 10), np.geomspace(0.1, 1, 8)
MIN_SIZES = 3  # fewer are too little evidence for the law
MIN_PREFIXES = 4  # that an origin of the backtest has seen
MIN_RATIO = 2.0  # operations of a hidden run over those of the largest one seen: a nearer one is no extrapolation
LEAST_LOSS, MAX_LOSS = 1e-2, 2.0**10
LEAST_SHARE = 0.05  # of a loss that is left if a difference takes more than all of it


class Losses(NamedTuple):
    """The runs of a ladder, from the smallest size to the largest, at the prefixes."""

    sizes: Sequence[Hashable]  # (R,), equal for the seeds of one size
    n_weights: Floats  # (R,)
    n_bytes: Floats  # (P,)
    losses: Floats  # (R, P)
    operations: Floats  # (R, P)

    def first_rows(self) -> list[int]:
        """The row of the first seed of each size."""
        return [self.sizes.index(size) for size in dict.fromkeys(self.sizes)]


class Estimate(NamedTuple):
    """The loss of a target with its 90 % interval.

    by_link: of ratio and difference to each proxy, or of the law alone. at_largest_size: the forecast for the ladder's largest
    size after the target's bytes. rms: of the errors of the backtest's n_hidden runs, as logarithms; None without any.
    """

    low: float
    point: float
    high: float
    by_link: list[float]
    at_largest_size: float
    rms: float | None
    n_hidden: int


def mean_losses(curve: Curve, n_bytes: Floats) -> Floats:
    """The losses (P,) over the first n_bytes (P,). Raises CorpusError for a loss that no run has."""
    losses = np.asarray(curve.at(n_bytes.astype(np.int64)) / n_bytes, np.float64)
    wrong = n_bytes[(losses < UNIT_BITS) | (losses > MAX_LOSS)]
    if len(wrong):
        raise CorpusError(f"a curve has an impossible loss up to byte {wrong[0]:.0f}: its run is damaged")
    return losses


def law(seen: Losses, at_n: Floats, at_d: Floats) -> Floats:
    """The losses (T,) of sizes at_n after at_d bytes, by the law that fits the runs seen best."""
    n_unit, d_unit = (float(np.exp(np.log(x).mean())) for x in (seen.n_weights, seen.n_bytes))
    least, best = math.inf, at_d
    for a, b in product(EXPONENTS_N, EXPONENTS_D):
        x, y = (seen.n_weights[:, None] / n_unit) ** -a, (seen.n_bytes[None] / d_unit) ** -b
        terms = np.stack(np.broadcast_arrays(1.0, x, y, x * y), -1).reshape(-1, 4) / seen.losses.reshape(-1, 1)
        c = np.linalg.lstsq(terms, np.ones(len(terms)), rcond=None)[0]
        squares = float(np.square(terms @ c - 1).sum())
        if squares < least:
            x, y = (at_n / n_unit) ** -a, (at_d / d_unit) ** -b
            least, best = squares, c[0] + c[1] * x + c[2] * y + c[3] * x * y
    return np.maximum(best, LEAST_LOSS)


def forecast_losses(seen: Losses, proxies: Sequence[Proxy], at_n: Floats, at_d: Floats) -> Floats:
    """The losses (L, T) by ratio and by difference to each proxy in turn; without one, by the law alone."""
    rows = [] if proxies else [law(seen, at_n, at_d)]
    for proxy in proxies:
        here, there, end = proxy(seen.n_bytes), proxy(at_d), proxy(seen.n_bytes[-1:])[0]
        moved = np.maximum(seen.losses + end - here, LEAST_SHARE * seen.losses)
        rows.append(law(seen._replace(losses=seen.losses * end / here), at_n, at_d) * there / end)
        rows.append(law(seen._replace(losses=moved), at_n, at_d) + there - end)
    return np.maximum(rows, LEAST_LOSS)


def backtest(ladder: Losses, proxies: Sequence[Proxy]) -> Floats:
    """log(forecast / actual) of every hidden run of MIN_RATIO times the operations or more, from each origin.

    An origin is the smallest sizes, at least MIN_SIZES, at the shortest prefixes, at least MIN_PREFIXES.
    """
    errors, first, n_prefixes = [], ladder.first_rows(), len(ladder.n_bytes)
    for k, p in product(range(MIN_SIZES, len(first) + 1), range(MIN_PREFIXES, n_prefixes + 1)):
        least = MIN_RATIO * ladder.operations[first[k - 1], p - 1]
        cells = [c for c in product(first[k - 1 :], range(p - 1, n_prefixes)) if ladder.operations[c] >= least]
        if cells:
            i, j = np.transpose(cells)
            known = {ladder.sizes[row] for row in first[:k]}
            rows = [row for row, size in enumerate(ladder.sizes) if size in known]
            losses = ladder.losses[rows][:, :p]
            seen = ladder._replace(n_weights=ladder.n_weights[rows], n_bytes=ladder.n_bytes[:p], losses=losses)
            forecast = np.log(forecast_losses(seen, proxies, ladder.n_weights[i], ladder.n_bytes[j])).mean(0)
            errors.extend(forecast - np.log(ladder.losses[i, j]))
    return np.array(errors)


def estimate(ladder: Losses, proxies: Sequence[Proxy], n_weights: float, n_bytes: float) -> Estimate:
    """The forecast of a target of n_weights after n_bytes. Raises ConfigError for a ladder of too few sizes.

    The interval has the backtest's rms error and FLOOR. Its upper end also allows for all that the law gains from models larger
    than the ladder's: no ladder shows whether these help.
    """
    if (n_sizes := len(ladder.first_rows())) < MIN_SIZES:
        raise ConfigError(f"a law of size and length needs {MIN_SIZES} sizes; here are {n_sizes}")
    at_n = np.array([n_weights, ladder.n_weights[-1]])
    losses = forecast_losses(ladder, proxies, at_n, np.array([n_bytes, n_bytes], np.float64))
    logs, errors = np.log(losses).mean(0), backtest(ladder, proxies)
    rms = float(np.sqrt(np.mean(errors**2))) if len(errors) else None
    below = DEVIATIONS * math.hypot(FLOOR, UNTESTED if rms is None else rms)
    above = math.hypot(below, max(logs[1] - logs[0], 0.0))
    point, at_largest = np.exp(logs).tolist()
    ends = point * math.exp(-below), point * math.exp(above)
    return Estimate(ends[0], point, ends[1], losses[:, 0].tolist(), at_largest, rms, len(errors))


def line(ladder: Losses, proxies: Sequence[Proxy], operations: float, n_bytes: float) -> float:
    """The loss by a straight line through the last two sizes, over logarithms of operations and loss: a forecast must beat it.

    With a proxy, times the ratio of the proxy's losses.
    """
    last = ladder.first_rows()[-2:]
    (y0, y1), (x0, x1) = ladder.losses[last, -1], ladder.operations[last, -1]
    loss = float(y1 * (operations / x1) ** (math.log(y1 / y0) / math.log(x1 / x0)))
    for proxy in proxies[:1]:
        loss *= float(proxy(np.array([n_bytes]))[0] / proxy(ladder.n_bytes[-1:])[0])
    return loss


def interval_score(low: float, high: float, actual: float) -> float:
    """The width, and 2 / (1 - CONFIDENCE) times the distance of an actual value outside. Less is better.

    Its expectation is least for the true quantiles, so neither wide nor narrow intervals win (Winkler 1972; Gneiting and Raftery
    2007, equation 43).
    """
    return high - low + 2 / (1 - CONFIDENCE) * max(low - actual, actual - high, 0.0)
