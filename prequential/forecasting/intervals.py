"""The form of a law and the width of its intervals, from the errors of a backtest.

An interval is the point divided and multiplied by exp(factor * deviation). The factor makes the errors of the backtest, in units
of their deviations, as wide as their intervals. Its evidence is thin: all cells are of one text, cells of one origin share a
fit, and cells of one target share an actual loss. So

- each cell is judged by the form that the cells of the other origins choose, not by one that its own error helped to choose;
- the factor is Student's t with as many degrees of freedom as the cells are worth (`effective_size`), not as they are;
- the factor is never below that of the normal distribution: errors that happen to be small do not shrink an interval.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from prequential.forecasting.backtest import Cell, loss_bits_per_byte
from prequential.sweeps.ladder import Ladder

CONFIDENCE = 0.9
NOMINAL_FACTOR = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # 1.64
MIN_CELLS = 8  # with fewer cells, the factor is the nominal one, and is not calibrated
LEAST_DEVIATION = 1e-4  # of the logarithm of a loss: curves without noise, as means of a log are, say no more
GOOD_FORMS = 2.0  # forms up to this factor above the error of the chosen one count for the spread of forms


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The errors of a backtest, for the form that was chosen.

    rmse: root mean square of log(forecast / actual), by form. factor: an interval extends this many deviations to either side.
    n_hit: how many of the n_cells intervals contain the actual loss, each with the factor and the form of the other origins.
    n_effective: how many independent errors they are worth. is_calibrated: False for too few cells, which have the nominal
    factor. compute_ratios: lowest and highest. interval_score: the mean of log(loss), in hundredths; None without cells.
    """

    form: str
    rmse: Mapping[str, float]
    factor: float
    n_cells: int
    n_origins: int
    n_effective: float
    n_hit: int
    is_calibrated: bool
    compute_ratios: tuple[float, float] | None
    interval_score: float | None


def root_mean_square(values: Sequence[float]) -> float:
    """The root of the mean square of one or more values."""
    return math.sqrt(sum(value**2 for value in values) / len(values))


def choose_form(cells: Sequence[Cell]) -> str:
    """The form with the least error; `additive` without cells."""
    rmse = errors_by_form(cells)
    return min(rmse, key=lambda form: rmse[form], default="additive")


def errors_by_form(cells: Sequence[Cell]) -> dict[str, float]:
    errors = [cell.error for cell in cells]
    return {form: root_mean_square([error[form] for error in errors]) for form in errors[0]} if errors else {}


def combined_deviation(
    form: str, logs: Mapping[str, float], rmse: Mapping[str, float], bootstrap: float, seeds: float
) -> float:
    """The deviation of the logarithm of a forecast, from independent parts: bootstrap, spread of the good forms, and seeds.

    logs: the logarithm of the forecast, up to a common constant, by form. rmse: of the forms in the backtest; if it is empty,
    all forms are good.
    """
    good = [f for f in logs if f != form and (not rmse or rmse[f] <= GOOD_FORMS * rmse[form])]
    spread = root_mean_square([logs[f] - logs[form] for f in good]) if good else 0.0
    return max(LEAST_DEVIATION, math.sqrt(bootstrap**2 + spread**2 + seeds**2))


@dataclass(frozen=True)
class _Judged:
    """A cell with the error and the deviation of the form that the other origins choose."""

    cell: Cell
    error: float
    deviation: float

    @property
    def score(self) -> float:
        """The error in deviations."""
        return self.error / self.deviation


def calibrate(cells: Sequence[Cell], seed_deviation: float) -> Calibration:
    """The factor of the intervals. Coverage and interval score judge each origin by the form and the factor of the others.

    Neighbouring origins are not independent, and all are of one text: this is weaker evidence than the count suggests.
    """
    origins = list(dict.fromkeys(cell.origin for cell in cells))
    judged = {origin: _judge(cells, seed_deviation, origin) for origin in origins}
    factors = {o: _factor([j for other in origins if other != o for j in judged[other]]) for o in origins}
    every = [j for origin in origins for j in judged[origin]]
    ratios = [j.cell.compute_ratio for j in every]
    reaches = [factors[j.cell.origin] * j.deviation for j in every]
    scores = [interval_score(-reach, reach, j.error) for j, reach in zip(every, reaches, strict=True)]
    return Calibration(
        form=choose_form(cells),
        rmse=errors_by_form(cells),
        factor=_factor(every),
        n_cells=len(every),
        n_origins=len(origins),
        n_effective=_effective(every),
        n_hit=sum(abs(j.error) <= reach for j, reach in zip(every, reaches, strict=True)),
        is_calibrated=len(every) >= MIN_CELLS,
        compute_ratios=(min(ratios), max(ratios)) if ratios else None,
        interval_score=100 * math.fsum(scores) / len(scores) if scores else None,
    )


def _judge(cells: Sequence[Cell], seed_deviation: float, origin: tuple[str, int]) -> list[_Judged]:
    """The cells of an origin, with the form that the cells of the other origins choose."""
    others = [cell for cell in cells if cell.origin != origin]
    chosen, rmse = choose_form(others), errors_by_form(others)
    return [
        _Judged(
            cell,
            cell.error[chosen],
            combined_deviation(chosen, cell.error, rmse, cell.deviation[chosen], seed_deviation),
        )
        for cell in cells
        if cell.origin == origin
    ]


def _factor(judged: Sequence[_Judged]) -> float:
    """Student's t for the effective number of errors, times their root mean square in deviations; at least NOMINAL_FACTOR."""
    if len(judged) < MIN_CELLS:
        return NOMINAL_FACTOR
    from scipy.special import stdtrit  # not every command needs it

    scale = root_mean_square([j.score for j in judged])
    return max(NOMINAL_FACTOR, scale * float(stdtrit(_effective(judged), (1 + CONFIDENCE) / 2)))


def _effective(judged: Sequence[_Judged]) -> float:
    cells = [j.cell for j in judged]
    return effective_size([j.score for j in judged], [c.origin for c in cells], [c.target for c in cells])


def effective_size(scores: Sequence[float], origins: Sequence[Hashable], targets: Sequence[Hashable]) -> float:
    """The number of independent errors with mean 0 that have as uncertain a sum as these: from 1 to the number of origins.

    The variance of a sum of errors that depend on each other within each origin and within each target is estimated as in
    Cameron, Gelbach and Miller (2011, "Robust inference with multiway clustering"), without subtracting the mean: a common bias
    is dependence. Each pair of origin and target occurs once. 0 without errors.
    """
    if not len(scores):
        return 0.0
    values = np.asarray(scores, np.float64)
    alone = float((values**2).sum())
    together = _squared_sums(values, origins) + _squared_sums(values, targets) - alone
    most = float(len(set(origins)))
    return min(most, max(1.0, len(values) * alone / together)) if together > 0 else most


def _squared_sums(values: NDArray[np.float64], groups: Sequence[Hashable]) -> float:
    places = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return float((np.bincount([places[group] for group in groups], values) ** 2).sum())


def interval_score(low: float, high: float, actual: float) -> float:
    """The interval score: the width, and 2 / (1 - CONFIDENCE) times the distance of an actual value outside. Less is better.

    Its expectation is least for the true quantiles, so neither wide nor narrow intervals win (Winkler 1972, "A decision-theoretic
    approach to interval estimation"; Gneiting and Raftery 2007, "Strictly proper scoring rules", equation 43).
    """
    outside = max(low - actual, actual - high, 0.0)
    return high - low + 2 / (1 - CONFIDENCE) * outside


def seed_deviation(ladder: Ladder) -> float:
    """The deviation over seeds of the logarithm of the loss at the ladder's end, pooled over sizes; 0 without several seeds."""
    end = np.array([ladder.corpus.n_bytes])
    squares, freedom = 0.0, 0
    for size in ladder.sizes:
        rungs = [rung for rung in ladder.rungs if rung.size == size]
        logs = [math.log(loss_bits_per_byte(rung.curve, end)[0]) for rung in rungs]
        squares += len(logs) * float(np.var(logs))
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0
