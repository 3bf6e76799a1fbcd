"""Backtests: a law of size and length is fitted to the smaller runs of a ladder, and forecasts the larger ones.

Rolling origins hide larger sizes and longer prefixes in every possible way. The errors of these forecasts decide which form the
law takes, and how wide the interval of a real forecast must be.

Two quantities are forecast: the mean loss over all bytes (`total_bits`), and the loss of the last window
(`final_bits_per_byte`). With a proxy, a cheap run over the same text, the law is fitted to the ratio of the losses.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.bit_coder import UNIT_BITS
from prequential.errors import CorpusError
from prequential.measure.evaluation.curves import Curve
from prequential.measure.study.ladder import Ladder, Rung, Size
from prequential.measure.study.references import final_window_bytes
from prequential.measure.study.scaling import FORMS, MIN_PREFIXES, MIN_SIZES, Floats, Observations, Projection
from prequential.online.flops import total_flops

MAX_LOSS = 2.0**10  # bits per byte
CONFIDENCE = 0.9
MIN_COMPUTE_RATIO = 2.0  # of a hidden run to the largest fitted run: a nearer one is not an extrapolation
MIN_CELLS = 8  # with fewer cells, the interval is that of the normal distribution, and is not calibrated
N_RESAMPLES = 40
GOOD_FORMS = 2.0  # forms up to this factor above the error of the chosen one count for the spread of forms

Lengths = NDArray[np.int64] | Floats  # in bytes
Quantity = Literal["total_bits", "final_bits_per_byte"]
QUANTITIES: tuple[Quantity, ...] = ("total_bits", "final_bits_per_byte")


# ---- losses and laws


def loss_bits_per_byte(curve: Curve, n_bytes: Lengths, quantity: Quantity) -> Floats:
    """Loss (P,) after n_bytes (P,): the mean over all of them, or over their last window (`final_window_bytes`).

    Raises CorpusError for a loss that no run has.
    """
    ends = np.asarray(n_bytes, np.int64)
    windows = ends if quantity == "total_bits" else np.array([final_window_bytes(int(end)) for end in ends])
    losses = (curve.at(ends) - curve.at(ends - windows)) / windows
    wrong = ends[(losses < UNIT_BITS) | (losses > MAX_LOSS)]
    if len(wrong):
        raise CorpusError(f"a curve has an impossible loss up to byte {wrong[0]}: its run is damaged")
    return losses


def length_in_law(n_bytes: Lengths, quantity: Quantity) -> Floats:
    """The length D (P,) at which a law has the loss after n_bytes (P,): for the last window, the middle of the window."""
    if quantity == "total_bits":
        return np.asarray(n_bytes, np.float64)
    return np.array([end - final_window_bytes(int(end)) / 2 for end in n_bytes])


@dataclass(frozen=True, kw_only=True)
class FittedLaw:
    """A form fitted to rungs at prefixes, and its forecasts for T targets.

    record: the fit as JSON values. loss_bits_per_byte: (T,), also if the law is of ratios to a proxy. deviation: (T,), of the
    logarithm of the loss over a bootstrap. implied_mean: (T,), the mean loss by the identity of measure/study/scaling.py; None
    with a proxy, and for forms without the identity.
    """

    record: dict[str, Any]
    loss_bits_per_byte: Floats
    deviation: Floats
    implied_mean: Floats | None


def fit_law(
    rungs: Sequence[Rung],
    prefixes: Lengths,
    targets: Sequence[tuple[float, int]],
    quantity: Quantity,
    form: str,
    *,
    proxy: Curve | None = None,
    n_resamples: int = N_RESAMPLES,
) -> FittedLaw:
    """A law of this form. targets: N and bytes of each. Raises ConfigError for too few sizes or prefixes."""
    scale = loss_bits_per_byte(proxy, prefixes, quantity) if proxy else np.ones(len(prefixes))
    observed = Observations(
        n_weights=np.array([rung.n_weights for rung in rungs], np.float64),
        n_bytes=length_in_law(prefixes, quantity),
        losses=np.array([loss_bits_per_byte(rung.curve, prefixes, quantity) for rung in rungs]) / scale,
    )
    projection = Projection(FORMS[form], observed)
    fit = projection.fit()
    ends = np.array([n_bytes for _, n_bytes in targets], np.float64)
    places = np.stack([np.array([n for n, _ in targets], np.float64), length_in_law(ends, quantity)], 1)
    resampled = projection.bootstrap(fit, places, n_resamples)
    implied = [fit.mean_to(n, end) for (n, _), end in zip(targets, ends, strict=True)]
    unit = loss_bits_per_byte(proxy, ends, quantity) if proxy else 1.0
    return FittedLaw(
        record=fit.to_record() | {"floor": fit.floor},
        loss_bits_per_byte=np.array([fit.at(n, d) for n, d in places]) * unit,
        deviation=np.log(np.maximum(resampled, 1e-9)).std(1),
        implied_mean=None if proxy or None in implied else np.array(implied, np.float64),
    )


# ---- rolling origins


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The forecast of one hidden run from smaller sizes and shorter prefixes.

    error: log(forecast / actual) by form. deviation: of the logarithm of the forecast over the bootstrap, by form.
    """

    quantity: Quantity
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
        return total_flops(rung.config, n_bytes).total / total_flops(largest.config, int(self.prefixes[-1])).total

    def targets(self) -> list[tuple[Rung, int]]:
        """Rung and length of every hidden run that takes MIN_COMPUTE_RATIO times the operations or more."""
        rungs = [self.ladder.first_rung(size) for size in self.ladder.sizes[self.n_sizes - 1 :]]
        lengths = [int(n) for n in self.ladder.prefixes()[self.n_prefixes - 1 :]]
        return [(rung, n) for rung in rungs for n in lengths if self.compute_ratio(rung, n) >= MIN_COMPUTE_RATIO]

    def cells(self, forms: Sequence[str], proxy: Curve | None) -> Iterator[Cell]:
        """The forecasts of all targets."""
        targets = self.targets()
        places = [(float(rung.n_weights), n_bytes) for rung, n_bytes in targets]
        for quantity in QUANTITIES if targets else ():
            laws = {form: fit_law(self.rungs, self.prefixes, places, quantity, form, proxy=proxy) for form in forms}
            for i, (rung, n_bytes) in enumerate(targets):
                actual = float(loss_bits_per_byte(rung.curve, np.array([n_bytes]), quantity)[0])
                yield Cell(
                    quantity=quantity,
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


# ---- the form and the interval


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The errors of a backtest, for the form that was chosen.

    rmse: root mean square of log(forecast / actual), by form. factor: an interval extends this many deviations to either side.
    n_hit: how many of the n_cells intervals contain the actual loss, each with the factor of the other origins. is_calibrated:
    False for too few cells; then the factor is that of the normal distribution.
    """

    form: str
    rmse: Mapping[str, float]
    factor: float
    n_cells: int
    n_origins: int
    n_hit: int
    is_calibrated: bool
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def coverage(self) -> float | None:
        """The share of intervals that contain the actual loss; None without cells."""
        return self.n_hit / self.n_cells if self.n_cells else None


def root_mean_square(values: Sequence[float]) -> float:
    """The root of the mean square of one or more values."""
    return math.sqrt(sum(value**2 for value in values) / len(values))


def choose_form(cells: Sequence[Cell]) -> str:
    """The form with the least error in total bits; `additive` without cells."""
    errors = [cell.error for cell in cells if cell.quantity == "total_bits"]
    if not errors:
        return "additive"
    return min(errors[0], key=lambda form: root_mean_square([error[form] for error in errors]))


def combined_deviation(
    form: str, logs: Mapping[str, float], rmse: Mapping[str, float], bootstrap: float, seeds: float
) -> float:
    """The deviation of the logarithm of a forecast, from independent parts: bootstrap, spread of the good forms, and seeds.

    logs: the logarithm of the forecast, up to a common constant, by form. rmse: of the forms in the backtest; if it is empty,
    all forms are good.
    """
    good = [f for f in logs if f != form and (not rmse or rmse[f] <= GOOD_FORMS * rmse[form])]
    spread = root_mean_square([logs[f] - logs[form] for f in good]) if good else 0.0
    return math.sqrt(bootstrap**2 + spread**2 + seeds**2)


def calibrate(cells: Sequence[Cell], quantity: Quantity, form: str, seed_deviation: float) -> Calibration:
    """The factor that the share CONFIDENCE of the errors stays below, in deviations (split conformal quantile of the errors).

    Each origin's intervals are counted with the factor of the other origins. Cells of neighbouring origins are not independent,
    and all are of one text: the coverage is that of this ladder, and is weaker evidence for others than its count suggests.
    """
    chosen = [cell for cell in cells if cell.quantity == quantity]
    rmse = {f: root_mean_square([cell.error[f] for cell in chosen]) for f in chosen[0].error} if chosen else {}
    scores = []  # of each cell, with its origin: the error in deviations
    for cell in chosen:
        deviation = combined_deviation(form, cell.error, rmse, cell.deviation[form], seed_deviation)
        scores.append((cell.origin, abs(cell.error[form]) / deviation))
    factors = {
        origin: _factor([score for other, score in scores if other != origin])
        for origin in dict.fromkeys(origin for origin, _ in scores)
    }
    return Calibration(
        form=form,
        rmse=rmse,
        factor=_factor([score for _, score in scores]),
        n_cells=len(chosen),
        n_origins=len(factors),
        n_hit=sum(score <= factors[origin] for origin, score in scores),
        is_calibrated=len(chosen) >= MIN_CELLS,
        cells=tuple(chosen),
    )


def _factor(scores: Sequence[float]) -> float:
    """The ceil(0.9 (n + 1))-th smallest of n scores; for fewer than MIN_CELLS, the 1.64 of the normal distribution."""
    if len(scores) < MIN_CELLS:
        return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return sorted(scores)[min(len(scores), math.ceil(CONFIDENCE * (len(scores) + 1))) - 1]


def seed_deviation(ladder: Ladder, quantity: Quantity) -> float:
    """The deviation over seeds of the logarithm of the loss at the ladder's end, pooled over sizes; 0 without several seeds."""
    end = np.array([ladder.subject.n_bytes])
    squares, freedom = 0.0, 0
    for size in ladder.sizes:
        rungs = [rung for rung in ladder.rungs if rung.size == size]
        logs = [math.log(loss_bits_per_byte(rung.curve, end, quantity)[0]) for rung in rungs]
        squares += len(logs) * float(np.var(logs))
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0
