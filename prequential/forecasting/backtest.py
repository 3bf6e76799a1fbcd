"""Backtests: a law of size and length is fitted to the smaller runs of a ladder, and forecasts the larger ones.

What is forecast is the mean loss over all bytes, or, with a proxy (a cheap run over the same text), its ratio to the proxy's. A
second law, of the loss itself, is fitted to blocks, each from one prefix to the next. docs/STUDIES.md says what follows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import CorpusError
from prequential.evaluation.curves import Curve
from prequential.forecasting.scaling import (
    FORMS,
    HIGHEST_B,
    HIGHEST_B_OF_MEANS,
    MIN_PREFIXES,
    MIN_SIZES,
    Fit,
    Floats,
    Projection,
)
from prequential.sweeps.ladder import PREFIX_RATIO, Ladder, Rung

MAX_LOSS = 2.0**10  # bits per byte
MIN_COMPUTE_RATIO = 2.0  # of a hidden run to the largest fitted run: a nearer one is not an extrapolation
N_RESAMPLES = 40
WITH_PROXY = "_with_proxy"  # at the end of the name of a naive forecast

Lengths = NDArray[np.int64] | Floats  # in bytes


# ---- losses and laws


def loss_bits_per_byte(curve: Curve, n_bytes: Lengths) -> Floats:
    """The mean loss (P,) over the first n_bytes (P,). Raises CorpusError for a loss that no run has."""
    ends = np.asarray(n_bytes, np.int64)
    return _mean_losses(curve, np.zeros_like(ends), ends)


def block_losses(curve: Curve, prefixes: Lengths) -> Floats:
    """The mean loss (P,) over each block. Raises CorpusError for a loss that no run has."""
    return _mean_losses(curve, block_starts(prefixes), np.asarray(prefixes, np.int64))


def block_starts(prefixes: Lengths) -> NDArray[np.int64]:
    """Where the block of each prefix begins (P,): at the prefix before it; the first block has the same ratio."""
    ends = np.asarray(prefixes, np.int64)
    return np.concatenate([[round(float(ends[0]) * PREFIX_RATIO)], ends[:-1]]).astype(np.int64)


def _mean_losses(curve: Curve, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    losses = np.asarray((curve.at(ends) - curve.at(starts)) / (ends - starts), np.float64)
    wrong = ends[(losses < UNIT_BITS) | (losses > MAX_LOSS)]
    if len(wrong):
        raise CorpusError(f"a curve has an impossible loss up to byte {wrong[0]}: its run is damaged")
    return losses


@dataclass(frozen=True, kw_only=True)
class FittedLaw:
    """A form fitted to rungs at prefixes, and its forecasts for T targets: losses, also if the law is of ratios to a proxy.

    deviation: (T,), of the logarithm of the loss over a bootstrap; zeros without one.
    """

    fit: Fit
    loss_bits_per_byte: Floats
    deviation: Floats


def fit_law(
    rungs: Sequence[Rung],
    prefixes: Lengths,
    targets: Sequence[tuple[float, int]],
    form: str,
    *,
    proxy: Curve | None = None,
    n_resamples: int = N_RESAMPLES,
) -> FittedLaw:
    """A law of the mean loss. targets: N and bytes of each. Raises ConfigError for too few sizes or prefixes."""
    scale = loss_bits_per_byte(proxy, prefixes) if proxy else np.ones(len(prefixes))
    losses = np.array([loss_bits_per_byte(rung.curve, prefixes) for rung in rungs]) / scale
    projection = _projection(rungs, prefixes, losses, form, HIGHEST_B_OF_MEANS)
    fit, places = projection.fit(), np.array(targets, np.float64)
    deviation = np.zeros(len(targets))
    if n_resamples:
        deviation = np.log(np.maximum(projection.bootstrap(fit, places, n_resamples), 1e-9)).std(1)
    unit = loss_bits_per_byte(proxy, places[:, 1]) if proxy else 1.0
    return FittedLaw(
        fit=fit, loss_bits_per_byte=np.array([fit.at(n, d) for n, d in places]) * unit, deviation=deviation
    )


def fit_block_law(rungs: Sequence[Rung], prefixes: Lengths, form: str, proxy: Curve | None = None) -> Fit:
    """A law of the loss at each byte, or of its ratio to the proxy's, from the losses of blocks at their middles."""
    scale = block_losses(proxy, prefixes) if proxy else np.ones(len(prefixes))
    losses = np.array([block_losses(rung.curve, prefixes) for rung in rungs]) / scale
    middles = (block_starts(prefixes) + prefixes) / 2
    return _projection(rungs, middles, losses, form, HIGHEST_B).fit()


def _projection(rungs: Sequence[Rung], n_bytes: Lengths, losses: Floats, form: str, highest_b: float) -> Projection:
    n_weights = np.array([rung.n_weights for rung in rungs], np.float64)
    return Projection(FORMS[form], n_weights, np.asarray(n_bytes, np.float64), losses, highest_b)


# ---- rolling origins


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The forecast of one hidden run from smaller sizes and shorter prefixes.

    error: log(forecast / actual) by form. deviation: of the logarithm of the forecast over the bootstrap, by form.
    """

    fitted_size: str
    fitted_bytes: int
    target_size: str
    target_bytes: int
    compute_ratio: float
    error: Mapping[str, float]
    deviation: Mapping[str, float]

    @property
    def origin(self) -> tuple[str, int]:
        """The largest fitted size and length. Cells of one origin share the fit, so their errors depend on each other."""
        return self.fitted_size, self.fitted_bytes

    @property
    def target(self) -> tuple[str, int]:
        """Size and length of the hidden run. Cells of one target share the actual loss."""
        return self.target_size, self.target_bytes


def rolling_origins(ladder: Ladder, proxy: Curve | None = None, forms: Sequence[str] = tuple(FORMS)) -> list[Cell]:
    """The forecasts of all hidden runs, for every way to fit at least 3 sizes and 3 prefixes and hide the others."""
    return [
        cell
        for n_sizes in range(MIN_SIZES, len(ladder.sizes) + 1)
        for n_prefixes in range(MIN_PREFIXES, len(ladder.prefixes()) + 1)
        for cell in _cells(ladder, n_sizes, n_prefixes, forms, proxy)
    ]


def _cells(ladder: Ladder, n_sizes: int, n_prefixes: int, forms: Sequence[str], proxy: Curve | None) -> Iterator[Cell]:
    """The forecasts of every hidden run of MIN_COMPUTE_RATIO or more, from the smallest sizes and the shortest prefixes."""
    sizes, prefixes = ladder.sizes, ladder.prefixes()
    last, end = ladder.first_rung(sizes[n_sizes - 1]), int(prefixes[n_prefixes - 1])
    operations = last.operations(end)
    hidden = product(map(ladder.first_rung, sizes[n_sizes - 1 :]), prefixes[n_prefixes - 1 :].tolist())
    ratios = [(rung, n_bytes, rung.operations(n_bytes) / operations) for rung, n_bytes in hidden]
    targets = [target for target in ratios if target[2] >= MIN_COMPUTE_RATIO]
    if not targets:
        return
    rungs = [rung for rung in ladder.rungs if rung.size in sizes[:n_sizes]]
    places = [(float(rung.n_weights), n_bytes) for rung, n_bytes, _ in targets]
    laws = {form: fit_law(rungs, prefixes[:n_prefixes], places, form, proxy=proxy) for form in forms}
    for i, (rung, n_bytes, ratio) in enumerate(targets):
        actual = float(loss_bits_per_byte(rung.curve, np.array([n_bytes]))[0])
        yield Cell(
            fitted_size=str(last.size),
            fitted_bytes=end,
            target_size=str(rung.size),
            target_bytes=n_bytes,
            compute_ratio=ratio,
            error={form: math.log(law.loss_bits_per_byte[i] / actual) for form, law in laws.items()},
            deviation={form: float(law.deviation[i]) for form, law in laws.items()},
        )


# ---- naive forecasts


def naive_losses(ladder: Ladder, target_flops: float, n_bytes: int, proxy: Curve | None = None) -> dict[str, float]:
    """Forecasts of the mean loss over n_bytes without a fit, in bits per byte, by name: a forecast must beat them.

    last_rung: the loss of the largest rung, carried over. line: the straight line through the last two rungs, over the
    logarithms of operations and loss, at target_flops. With a proxy also both `_with_proxy`: the same for the ratio of the loss
    to the proxy's, times the proxy's loss on the target.
    """
    end = ladder.corpus.n_bytes
    last_two = [ladder.first_rung(size) for size in ladder.sizes[-2:]]
    y0, y1 = (float(loss_bits_per_byte(rung.curve, np.array([end]))[0]) for rung in last_two)
    x0, x1 = (rung.operations(end) for rung in last_two)
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    found = {"last_rung": y1, "line": y1 * (target_flops / x1) ** slope}
    if proxy:
        there, here = loss_bits_per_byte(proxy, np.array([end, n_bytes]))
        # dividing both points by a constant moves a line in logarithms as a whole
        found |= {name + WITH_PROXY: float(loss * here / there) for name, loss in found.items()}
    return found
