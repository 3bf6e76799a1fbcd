"""Power laws by maximum likelihood: of a distribution of counts, and of a cost against occurrences.

A distribution (how many words occur x times) is treated as Clauset, Shalizi and Newman do (2009, "Power-law distributions in
empirical data", SIAM Review 51). The words that occur xmin times or more are independent draws from
P(x) = x**-alpha / zeta(alpha, xmin), where zeta is Hurwitz's. alpha maximises their likelihood. xmin minimises the Kolmogorov-
Smirnov distance between the draws and the law. Vuong's likelihood-ratio test (1989) compares the law with a lognormal
distribution, rounded to integers and cut at the same xmin.

The choice of xmin leaves of a lognormal distribution only a tail that resembles a power law, and often too few draws to tell them
apart. So both are also compared on all draws. A lognormal that is better there, and itself fits all draws, is preferred to a
power law that fits the tail only. A very wide lognormal comes arbitrarily near to a power law. So a power law can hardly be
better by a clear margin: `undecided` is the usual verdict for one.

A relation (mean bits y against occurrence k) has no such likelihood. Here the bits of single occurrences are independent gamma
variables with mean factor * k**exponent, and one shape for all k: the spread is proportional to the mean. factor and exponent
maximise their likelihood. For given means of rows they do not depend on the shape. Bits of neighbours are not independent, and
no law is exact. So standard errors come from the scatter of the rows about the law (McCullagh and Nelder 1989, chapter 8), not
from the number of occurrences. The alternative has a quadratic term of log k: the shape of a lognormal density.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# draws from xmin on: with fewer, neither alpha nor the comparison means much (Clauset et al., section 3.5)
MIN_TAIL = 50
MIN_ROWS = 5  # points of a relation: two parameters, three degrees of freedom
MAX_CANDIDATES = 500  # for xmin; if there are more different values, evenly spaced logarithms
LEAST_ALPHA, GREATEST_ALPHA = 1.2, 12.0  # a maximum at one of them is none
LEVEL = 0.05  # a comparison whose p is above it decides nothing
# a Kolmogorov-Smirnov distance of at most FITS / sqrt(n) does not refute a law (at 5 %; Kolmogorov's limit)
FITS = 1.36
CLOSE = 1.25  # a measured value is close to a fitted one if they differ at most by this factor
POWER_LAW, LOGNORMAL, UNDECIDED = "power law", "lognormal", "undecided"


class Tail(NamedTuple):
    """The draws from xmin on: their values (C,) float64, ascending, and how many there are of each (C,) float64."""

    values: Array
    counts: Array


def distribution_fit(values: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, Any] | None:
    """The power law of draws: counts[i] of them have the value values[i] >= 1, ascending. None if no xmin leaves MIN_TAIL draws.

    alpha, alpha_se: the exponent of P(x), and its standard error for this xmin (from the second derivative of the likelihood).
    xmin, n_tail, n_draws: the least value to which the law applies, the draws from it on, and all draws.
    ks: the Kolmogorov-Smirnov distance from xmin on.
    log_ratio, z, p: the log-likelihood of the law less that of the lognormal, in nats; divided by its standard deviation; and
    the probability of a greater |z| if both are equally far from the truth (Vuong). whole: the same for all draws, and `ks` of
    the lognormal. verdict: "power law" or "lognormal", whichever is better from xmin on at p <= LEVEL; or "lognormal" if it is
    better on all draws and fits them; else "undecided".
    exponent, exponent_se, factor: the same law by rank: value = factor * rank**exponent, exponent = -1 / (alpha - 1).
    """
    best: tuple[float, float, Tail] | None = None
    for start in _candidates(counts):
        tail = Tail(values[start:].astype(np.float64), counts[start:].astype(np.float64))
        alpha = _alpha(tail)
        if alpha is not None:
            distance = _distance(tail, alpha)
            if best is None or distance < best[0]:
                best = distance, alpha, tail
    if best is None:
        return None
    distance, alpha, tail = best
    alpha_se, n = _alpha_se(tail, alpha), float(tail.counts.sum())
    comparison = _against_lognormal(tail, alpha)
    whole = _on_all_draws(Tail(values.astype(np.float64), counts.astype(np.float64)))
    return {
        "method": "maximum likelihood",
        "alpha": alpha,
        "alpha_se": alpha_se,
        "xmin": int(tail.values[0]),
        "n_tail": int(n),
        "n_draws": int(counts.sum()),
        "ks": distance,
        **comparison,
        "whole": whole,
        "verdict": _verdict(comparison, whole, int(counts.sum())),
        "exponent": -1 / (alpha - 1),
        "exponent_se": alpha_se / (alpha - 1) ** 2,
        "factor": float(tail.values[0] * n ** (1 / (alpha - 1))),
    }


def _verdict(tail: dict[str, float], whole: dict[str, float] | None, n_draws: int) -> str:
    if tail["p"] <= LEVEL:
        return POWER_LAW if tail["z"] > 0 else LOGNORMAL
    if whole and whole["p"] <= LEVEL and whole["z"] < 0 and whole["ks"] <= FITS / n_draws**0.5:
        return LOGNORMAL
    return UNDECIDED


def _candidates(counts: NDArray[np.int64]) -> list[int]:
    """Indices of the values that may be xmin: MIN_TAIL draws and three different values are left."""
    left = np.cumsum(counts[::-1])[::-1]
    n = min(int((left >= MIN_TAIL).sum()), len(counts) - 2)
    if n <= MAX_CANDIDATES:
        return list(range(n))
    return sorted(set(np.geomspace(1, n, MAX_CANDIDATES).astype(int) - 1))


def _alpha(tail: Tail) -> float | None:
    """The alpha that maximises the likelihood; None if there is no maximum between the limits."""
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    mean_log = float(np.average(np.log(tail.values), weights=tail.counts))
    found = minimize_scalar(
        lambda alpha: np.log(zeta(alpha, tail.values[0])) + alpha * mean_log,
        bounds=(LEAST_ALPHA, GREATEST_ALPHA),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(found.x) if LEAST_ALPHA + 1e-3 < found.x < GREATEST_ALPHA - 1e-3 else None


def _alpha_se(tail: Tail, alpha: float) -> float:
    from scipy.special import zeta

    step = 1e-3
    at = np.log(zeta(np.array([alpha - step, alpha, alpha + step]), tail.values[0]))
    return float(1 / np.sqrt(tail.counts.sum() * (at[0] - 2 * at[1] + at[2]) / step**2))


def _distance(tail: Tail, alpha: float) -> float:
    """The Kolmogorov-Smirnov distance between the draws and the law."""
    from scipy.special import zeta

    whole = zeta(alpha, tail.values[0])
    return _largest_gap(tail, 1 - zeta(alpha, tail.values) / whole, 1 - zeta(alpha, tail.values + 1) / whole)


def _largest_gap(tail: Tail, before: Array, at: Array) -> float:
    """The largest difference of two distribution functions at any integer. before, at: (C,), P(X < x) and P(X <= x) of a law."""
    drawn = np.cumsum(tail.counts) / tail.counts.sum()
    return float(max(np.abs(at - drawn).max(), np.abs(before - np.concatenate([[0], drawn[:-1]])).max()))


def _against_lognormal(tail: Tail, alpha: float) -> dict[str, float]:
    """Vuong's test; see `distribution_fit`."""
    from scipy.special import erfc, zeta

    law = -alpha * np.log(tail.values) - np.log(zeta(alpha, tail.values[0]))
    difference, n = law - _lognormal(tail)[0], tail.counts.sum()
    mean = float(np.average(difference, weights=tail.counts))
    deviation = float(np.sqrt(np.average((difference - mean) ** 2, weights=tail.counts)))
    z = float(np.sqrt(n) * mean / max(deviation, 1e-12))
    return {"log_ratio": float(n * mean), "z": z, "p": float(erfc(abs(z) / np.sqrt(2)))}


def _on_all_draws(draws: Tail) -> dict[str, float] | None:
    """The comparison on all draws, with the distance of the lognormal; None if there is no power law of them."""
    alpha = _alpha(draws)
    return None if alpha is None else {**_against_lognormal(draws, alpha), "ks": _lognormal(draws)[1]}


def _lognormal(tail: Tail) -> tuple[Array, float]:
    """Of the lognormal with the greatest likelihood, rounded to integers and cut at xmin: log P(x) (C,), and its distance.

    With t = log(x / xmin), its density falls as exp(-slope * t - bend * t**2). A power law has no bend. In these parameters the
    maximum is well determined, also near a power law.
    """
    from scipy.optimize import minimize

    logs = np.log(tail.values / tail.values[0])
    spread = float(np.sqrt(np.average(logs**2, weights=tail.counts)))
    fits = [
        minimize(
            lambda at: -float(tail.counts @ _log_lognormal(tail, *at)[0]) / tail.counts.sum(),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-4, "fatol": 1e-10, "maxiter": 1000},
        )
        for start in ((1.0, -6.0), (0.0, -2 * np.log(spread) - 1))
    ]
    best = min(fits, key=lambda fit: fit.fun).x
    log_p, before, at = _log_lognormal(tail, *best)
    return log_p, _largest_gap(tail, before, at)


def _log_lognormal(tail: Tail, slope: float, log_bend: float) -> tuple[Array, Array, Array]:
    """log P(x), P(X < x) and P(X <= x), (C,): from the probability of x - 1/2 to x + 1/2, given at least xmin - 1/2."""
    from scipy.special import log_ndtr

    sigma = np.sqrt(0.5 / np.exp(np.clip(log_bend, -9.0, 5.0)))
    first = np.log(tail.values[0])
    low, high = ((np.log(tail.values + half) - first) / sigma + slope * sigma for half in (-0.5, 0.5))
    flipped = low + high > 0  # differences of small probabilities, on the side where they are small
    near, far = np.where(flipped, -low, high), np.where(flipped, -high, low)
    inside = log_ndtr(near) + np.log1p(-np.exp(np.minimum(log_ndtr(far) - log_ndtr(near), -1e-15)))
    whole = log_ndtr(-low[0])
    return inside - whole, 1 - np.exp(log_ndtr(-low) - whole), 1 - np.exp(log_ndtr(-high) - whole)


def relation_fit(x: Array, y: Array, weights: Array) -> dict[str, Any] | None:
    """The power law of means: y[i] is the mean of weights[i] values at x[i]; all (n,). None below MIN_ROWS points.

    Points whose x, y or weight is not positive are left out. Returns y = factor * x**exponent, and
    exponent_se: the standard error, from the scatter of the points about the law.
    bend, bend_p: the factor of log(x)**2 if such a term is added, and the probability of a greater gain in likelihood by chance
    (F-test, 1 and n - 3 degrees of freedom). A power law has no bend.
    close_share: the share of the weight whose y is within a factor CLOSE of the law.
    worst_x, worst_ratio: the point where y / fitted y is furthest from 1, and this ratio.
    """
    from scipy.special import fdtrc

    use = (x > 0) & (y > 0) & (weights > 0)
    n = int(use.sum())
    if n < MIN_ROWS:
        return None
    x, y, w = x[use], y[use], weights[use] / weights[use].sum()
    log_x = np.log(x)
    terms = np.stack([np.ones(n), log_x, log_x**2], axis=1)
    line, curve = (_gamma_fit(terms[:, :k], y, w) for k in (2, 3))
    log_law = terms[:, :2] @ line
    scatter = float((w * (y / np.exp(log_law) - 1) ** 2).sum()) / (n - 2)
    spread = terms[:, 1] - (w * log_x).sum()
    gain = _deviance(y, terms[:, :2] @ line, w) - (rest := _deviance(y, terms @ curve, w))
    ratio = np.log(y) - log_law
    worst = np.abs(ratio).argmax()
    return {
        "method": "maximum likelihood",
        "exponent": float(line[1]),
        "exponent_se": float(np.sqrt(scatter / (w * spread**2).sum())),
        "factor": float(np.exp(line[0])),
        "bend": float(curve[2]),
        "bend_p": float(fdtrc(1, n - 3, max(gain, 0.0) / max(rest / (n - 3), 1e-15))),
        "n_points": n,
        "close_share": float(w[np.abs(ratio) <= np.log(CLOSE)].sum()),
        "worst_x": float(x[worst]),
        "worst_ratio": float(np.exp(ratio[worst])),
    }


def _gamma_fit(terms: Array, y: Array, w: Array) -> Array:
    """The coefficients (k,) of log mean = terms (n, k) @ coefficients with the greatest gamma likelihood (Newton's method).

    The deviance is convex in them. Each step is halved until it does not raise the deviance.
    """
    at = np.linalg.lstsq(terms * np.sqrt(w)[:, None], np.log(y) * np.sqrt(w), rcond=None)[0]
    for _ in range(50):
        ratio = y / np.exp(terms @ at)
        step = np.linalg.lstsq((terms.T * (w * ratio)) @ terms, terms.T @ (w * (ratio - 1)), rcond=None)[0]
        before = _deviance(y, terms @ at, w)
        while _deviance(y, terms @ (at + step), w) > before and np.abs(step).max() > 1e-12:
            step = step / 2
        at = at + step
        if np.abs(step).max() <= 1e-12:
            break
    return at


def _deviance(y: Array, log_mean: Array, w: Array) -> float:
    """Weighted gamma deviance: 2 * sum of w * (y / mean - 1 - log(y / mean)); least where the likelihood is greatest."""
    log_ratio = np.log(y) - log_mean
    return float(2 * (w * (np.expm1(log_ratio) - log_ratio)).sum())
