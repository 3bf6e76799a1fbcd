"""Forecasts by several assumptions, and their backtests: laws fitted to the smaller runs of a ladder forecast the larger ones.

What lies ahead in a text, a ladder does not show. A proxy, a cheap run over all of it, shows how hard it is there, but not how
the learner's loss follows. So the link to a proxy is an assumption, like the form of the law:

    ratio         the loss changes with the text by the same factor as the proxy's
    difference    it changes by as many bits
    none          the text ahead is as hard as the ladder's

With each link, the losses are corrected to the text of the whole ladder, a law of size and length is fitted to them, and the
law's loss is corrected to the text of the target.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import CorpusError
from prequential.evaluation.curves import Curve
from prequential.forecasting.scaling import FORMS, MIN_PREFIXES, MIN_SIZES, Floats, Projection
from prequential.sweeps.ladder import Ladder, Rung

MAX_LOSS = 2.0**10  # bits per byte
MIN_COMPUTE_RATIO = 2.0  # of a hidden run to the largest fitted run: a nearer one is not an extrapolation
LEAST_SHARE = 0.05  # of a loss that is left if a difference takes more than all of it

Lengths = NDArray[np.int64] | Floats  # in bytes


def loss_bits_per_byte(curve: Curve, n_bytes: Lengths) -> Floats:
    """The mean loss (P,) over the first n_bytes (P,). Raises CorpusError for a loss that no run has."""
    ends = np.asarray(n_bytes, np.int64)
    losses = np.asarray(curve.at(ends) / ends, np.float64)
    wrong = ends[(losses < UNIT_BITS) | (losses > MAX_LOSS)]
    if len(wrong):
        raise CorpusError(f"a curve has an impossible loss up to byte {wrong[0]}: its run is damaged")
    return losses


# ---- assumptions


@dataclass(frozen=True)
class Link:
    """How the loss follows the text: `none`, or `ratio` or `difference` to the proxy of this name."""

    kind: str
    proxy_name: str = ""
    proxy: Curve | None = None

    def corrected(self, losses: Floats, n_bytes: Lengths, to: int, *, back: bool = False) -> Floats:
        """Mean losses (..., P) over n_bytes (P,), as if the text were as hard as its first `to` bytes. back: the inverse."""
        if self.proxy is None:
            return losses
        here, ahead = loss_bits_per_byte(self.proxy, n_bytes), loss_bits_per_byte(self.proxy, np.array([to]))
        if back:
            ahead, here = here, ahead
        moved = losses * ahead / here if self.kind == "ratio" else losses + ahead - here
        return np.asarray(np.maximum(moved, LEAST_SHARE * losses), np.float64)


def links(proxies: Sequence[tuple[str, Curve]]) -> list[Link]:
    """`none`, then a ratio and a difference to each proxy, given by name."""
    return [Link("none"), *(Link(kind, *proxy) for proxy in proxies for kind in ("ratio", "difference"))]


def forecast_losses(
    rungs: Sequence[Rung], prefixes: Lengths, targets: Sequence[tuple[float, int]], assumed: Sequence[Link]
) -> Floats:
    """The losses (L, F, T) of T targets, N and bytes of each, by each link and form. Raises ConfigError for too few sizes."""
    n_weights = np.array([rung.n_weights for rung in rungs], np.float64)
    losses = np.array([loss_bits_per_byte(rung.curve, prefixes) for rung in rungs])
    to, ends = int(prefixes[-1]), np.array([n_bytes for _, n_bytes in targets])
    forecasts = np.empty((len(assumed), len(FORMS), len(targets)))
    for i, link in enumerate(assumed):
        corrected = link.corrected(losses, prefixes, to)
        for j, form in enumerate(FORMS.values()):
            fit = Projection(form, n_weights, np.asarray(prefixes, np.float64), corrected).fit()
            forecasts[i, j] = link.corrected(np.array([fit.at(*target) for target in targets]), ends, to, back=True)
    return forecasts


# ---- rolling origins


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The forecast of one hidden run from smaller sizes and shorter prefixes. errors: (L, F), log(forecast / actual)."""

    origin: tuple[str, int]  # the largest fitted size and length; cells of one origin share their fits
    target: tuple[str, int]  # size and length of the hidden run; cells of one target share the actual loss
    compute_ratio: float
    errors: Floats


def rolling_origins(ladder: Ladder, assumed: Sequence[Link]) -> list[Cell]:
    """The forecasts of all hidden runs, for every way to fit at least 3 sizes and 3 prefixes and hide the others."""
    fitted = product(range(MIN_SIZES, len(ladder.sizes) + 1), range(MIN_PREFIXES, len(ladder.prefixes()) + 1))
    return [cell for n_sizes, n_prefixes in fitted for cell in _cells(ladder, n_sizes, n_prefixes, assumed)]


def _cells(ladder: Ladder, n_sizes: int, n_prefixes: int, assumed: Sequence[Link]) -> Iterator[Cell]:
    """The forecasts of every hidden run of MIN_COMPUTE_RATIO or more, from the smallest sizes and the shortest prefixes."""
    sizes, prefixes = ladder.sizes, ladder.prefixes()
    last, end = ladder.first_rung(sizes[n_sizes - 1]), int(prefixes[n_prefixes - 1])
    hidden = product(map(ladder.first_rung, sizes[n_sizes - 1 :]), prefixes[n_prefixes - 1 :].tolist())
    ratios = [(rung, n_bytes, rung.operations(n_bytes) / last.operations(end)) for rung, n_bytes in hidden]
    targets = [target for target in ratios if target[2] >= MIN_COMPUTE_RATIO]
    if not targets:
        return
    rungs = [rung for rung in ladder.rungs if rung.size in sizes[:n_sizes]]
    places = [(float(rung.n_weights), n_bytes) for rung, n_bytes, _ in targets]
    forecasts = forecast_losses(rungs, prefixes[:n_prefixes], places, assumed)
    for i, (rung, n_bytes, ratio) in enumerate(targets):
        actual = float(loss_bits_per_byte(rung.curve, np.array([n_bytes]))[0])
        origin, target, errors = (str(last.size), end), (str(rung.size), n_bytes), np.log(forecasts[:, :, i] / actual)
        yield Cell(origin=origin, target=target, compute_ratio=ratio, errors=errors)


# ---- naive forecasts


def naive_losses(ladder: Ladder, target_flops: float, n_bytes: int, proxies: Sequence[Curve] = ()) -> dict[str, float]:
    """Forecasts of the mean loss over n_bytes without a fit, in bits per byte, by name: a forecast must beat them.

    last_rung: the loss of the largest rung, carried over. line: the straight line through the last two rungs, over the
    logarithms of operations and loss, at target_flops. With each proxy also both `_with_proxy`: the same for the ratio of the
    loss to the proxy's, times the proxy's loss on the target.
    """
    end = ladder.corpus.n_bytes
    last_two = [ladder.first_rung(size) for size in ladder.sizes[-2:]]
    y0, y1 = (float(loss_bits_per_byte(rung.curve, np.array([end]))[0]) for rung in last_two)
    x0, x1 = (rung.operations(end) for rung in last_two)
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    losses = plain = {"last_rung": y1, "line": y1 * (target_flops / x1) ** slope}
    for i, proxy in enumerate(proxies):
        there, here = loss_bits_per_byte(proxy, np.array([end, n_bytes]))
        # dividing both points by a constant moves a line in logarithms as a whole
        end_of_name = f"_with_proxy_{i + 1}" if i else "_with_proxy"
        losses = losses | {name + end_of_name: float(loss * here / there) for name, loss in plain.items()}
    return losses


# ---- intervals


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

    @property
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

    @cached_property
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
        reach = min(MAX_REACH, self.quantile * math.hypot(spread, seeds, drift))
        return {"spread": spread, "seeds": seeds, "drift": drift, "t": self.quantile, "reach": reach}

    def n_hit(self, seeds: float) -> int:
        """How many cells lie in their intervals, with the drift of the other origins."""
        n = 0
        for cell, mean, spread in self._judged:
            others = np.array([r for r, c in zip(self.rates, self.cells, strict=True) if c.origin != cell.origin])
            drift = root_mean_square(others) * growth(cell.compute_ratio) if len(others) else 0.0
            n += abs(mean) <= self.quantile * math.hypot(spread, seeds, drift)
        return n


def mean_and_spread(values: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted mean and deviation of values (L, F)."""
    mean = float((weights * values).sum())
    return mean, math.sqrt(float((weights * (values - mean) ** 2).sum()))


def effective_size(scores: Floats, origins: Sequence[Hashable], targets: Sequence[Hashable]) -> float:
    """The number of independent errors with mean 0 that have as uncertain a sum as these: from 1 to the number of origins.

    Errors depend on each other within an origin and within a target: Cameron, Gelbach and Miller (2011, "Robust inference with
    multiway clustering"), without subtracting the mean, as a common bias is dependence. Each pair occurs once. 0 without errors.
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

    Least in expectation for the true quantiles (Gneiting and Raftery 2007, "Strictly proper scoring rules", equation 43).
    """
    return high - low + 2 / (1 - CONFIDENCE) * max(low - actual, actual - high, 0.0)


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
