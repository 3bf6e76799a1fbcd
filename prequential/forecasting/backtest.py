"""Backtests: a law of size and length is fitted to the smaller runs of a ladder, and forecasts the larger ones.

Rolling origins hide larger sizes and longer prefixes in every possible way. The errors of these forecasts decide which form the
law takes, and how wide the interval of a real forecast must be (intervals.py).

What is forecast is the mean loss over all bytes. With a proxy, a cheap run over the same text, the law is fitted to the ratio of
the losses. A second law, of the loss itself, is fitted to blocks, each from one prefix to the next: its integral is comparable to
the mean loss.

Naive forecasts have no fit. A forecast must beat them. They may use what it uses: the proxy over the target's bytes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import CorpusError
from prequential.evaluation.curves import Curve
from prequential.forecasting.projection import HIGHEST_B, HIGHEST_B_OF_MEANS, Projection
from prequential.forecasting.scaling import FORMS, MIN_PREFIXES, MIN_SIZES, Fit, Floats, Observations
from prequential.model.config import Config
from prequential.online.costs import total_flops
from prequential.sweeps.ladder import PREFIX_RATIO, Ladder, Rung, Size

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
    """A form fitted to rungs at prefixes, and its forecasts for T targets.

    loss_bits_per_byte: (T,), also if the law is of ratios to a proxy. deviation: (T,), of the logarithm of the loss over a
    bootstrap; zeros without one.
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
    projection = Projection(FORMS[form], _observed(rungs, prefixes, losses), HIGHEST_B_OF_MEANS)
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
    return Projection(FORMS[form], _observed(rungs, middles, losses), HIGHEST_B).fit()


def _observed(rungs: Sequence[Rung], n_bytes: Lengths, losses: Floats) -> Observations:
    n_weights = np.array([rung.n_weights for rung in rungs], np.float64)
    return Observations(n_weights=n_weights, n_bytes=np.asarray(n_bytes, np.float64), losses=losses)


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


@lru_cache(maxsize=1024)
def _operations(config: Config, n_bytes: int) -> float:
    return total_flops(config, n_bytes).total


@dataclass(frozen=True)
class _Origin:
    """The part of a ladder that is fitted: its smallest n_sizes and shortest n_prefixes."""

    ladder: Ladder
    n_sizes: int
    n_prefixes: int

    @property
    def sizes(self) -> list[Size]:
        return self.ladder.sizes[: self.n_sizes]

    @property
    def rungs(self) -> list[Rung]:
        return [rung for rung in self.ladder.rungs if rung.size in self.sizes]

    @property
    def prefixes(self) -> NDArray[np.int64]:
        return self.ladder.prefixes()[: self.n_prefixes]

    def compute_ratio(self, rung: Rung, n_bytes: int) -> float:
        """Operations of a run over n_bytes, divided by those of the largest fitted run."""
        largest = self.ladder.first_rung(self.sizes[-1])
        return _operations(rung.config, n_bytes) / _operations(largest.config, int(self.prefixes[-1]))

    def targets(self) -> list[tuple[Rung, int]]:
        """Rung and length of every hidden run that takes MIN_COMPUTE_RATIO times the operations or more."""
        rungs = [self.ladder.first_rung(size) for size in self.ladder.sizes[self.n_sizes - 1 :]]
        lengths = [int(n) for n in self.ladder.prefixes()[self.n_prefixes - 1 :]]
        return [(rung, n) for rung in rungs for n in lengths if self.compute_ratio(rung, n) >= MIN_COMPUTE_RATIO]

    def cells(self, forms: Sequence[str], proxy: Curve | None) -> Iterator[Cell]:
        """The forecasts of all targets."""
        targets = self.targets()
        if not targets:
            return
        places = [(float(rung.n_weights), n_bytes) for rung, n_bytes in targets]
        laws = {form: fit_law(self.rungs, self.prefixes, places, form, proxy=proxy) for form in forms}
        for i, (rung, n_bytes) in enumerate(targets):
            actual = float(loss_bits_per_byte(rung.curve, np.array([n_bytes]))[0])
            yield Cell(
                fitted_size=str(self.sizes[-1]),
                fitted_bytes=int(self.prefixes[-1]),
                target_size=str(rung.size),
                target_bytes=n_bytes,
                compute_ratio=self.compute_ratio(rung, n_bytes),
                error={form: math.log(law.loss_bits_per_byte[i] / actual) for form, law in laws.items()},
                deviation={form: float(law.deviation[i]) for form, law in laws.items()},
            )


def rolling_origins(ladder: Ladder, proxy: Curve | None = None, forms: Sequence[str] = tuple(FORMS)) -> list[Cell]:
    """The forecasts of all hidden runs, for every way to fit at least 3 sizes and 3 prefixes and hide the others."""
    return [
        cell
        for n_sizes in range(MIN_SIZES, len(ladder.sizes) + 1)
        for n_prefixes in range(MIN_PREFIXES, len(ladder.prefixes()) + 1)
        for cell in _Origin(ladder, n_sizes, n_prefixes).cells(forms, proxy)
    ]


# ---- naive forecasts


def naive_losses(ladder: Ladder, target_flops: float, n_bytes: int, proxy: Curve | None = None) -> dict[str, float]:
    """Forecasts of the mean loss over n_bytes, in bits per byte, by name.

    last_rung: the loss of the largest rung, carried over. line: the straight line through the last two rungs, over the
    logarithms of operations and loss, at target_flops. With a proxy also both `_with_proxy`: the same for the ratio of the loss
    to the proxy's, times the proxy's loss on the target.
    """
    end = ladder.corpus.n_bytes
    last_two = [ladder.first_rung(size) for size in ladder.sizes[-2:]]
    losses = [float(loss_bits_per_byte(rung.curve, np.array([end]))[0]) for rung in last_two]
    points = [(total_flops(rung.config, end).total, loss) for rung, loss in zip(last_two, losses, strict=True)]
    found = {"last_rung": points[-1][1], "line": line_in_logs(points, target_flops)}
    if proxy:
        there, here = loss_bits_per_byte(proxy, np.array([end, n_bytes]))
        # dividing both points by a constant moves a line in logarithms as a whole
        found |= {name + WITH_PROXY: float(loss * here / there) for name, loss in found.items()}
    return found


def line_in_logs(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at x of the straight line through two points (x, y) > 0, on logarithmic axes."""
    (x0, y0), (x1, y1) = points
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    return y1 * (x / x1) ** slope
