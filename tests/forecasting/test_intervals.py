"""Intervals: their factor never shrinks below the nominal one, dependent errors count less, and forms are chosen elsewhere."""

import math
from dataclasses import replace

import numpy as np
import pytest
from planted_ladder import N_BYTES, SIZES

from prequential.forecasting.backtest import Cell
from prequential.forecasting.intervals import NOMINAL_FACTOR, calibrate, effective_size, interval_score, seed_deviation
from prequential.sweeps.ladder import Ladder


def cells_with(errors: list[float]) -> list[Cell]:
    """A cell of its own origin and target for each error."""
    return [
        Cell(
            fitted_size=f"{i}x1",
            fitted_bytes=1000,
            target_size=f"{i}x2",
            target_bytes=2000,
            compute_ratio=3.0 + i % 2,
            error={"additive": error},
            deviation={"additive": 0.01},
        )
        for i, error in enumerate(errors)
    ]


def test_calibrated_intervals_cover_nine_in_ten() -> None:
    random = np.random.default_rng(1)
    calibration = calibrate(cells_with(random.normal(0, 0.04, 400).tolist()), 0.0)
    assert calibration.is_calibrated
    assert calibration.factor == pytest.approx(4 * 1.645, rel=0.15)  # the deviations are four times too small
    assert 0.86 <= calibration.n_hit / calibration.n_cells <= 0.94
    assert calibration.n_origins == 400
    assert calibration.compute_ratios == (3.0, 4.0)


@pytest.mark.parametrize(("errors", "is_calibrated"), [([0.001, -0.001] * 20, True), ([0.5] * 3, False)])
def test_small_errors_and_too_few_cells_leave_the_nominal_factor(errors: list[float], is_calibrated: bool) -> None:
    calibration = calibrate(cells_with(errors), 0.0)
    assert (calibration.is_calibrated, calibration.factor) == (is_calibrated, NOMINAL_FACTOR)
    assert pytest.approx(1.6449, rel=1e-4) == NOMINAL_FACTOR


def test_errors_that_are_copies_within_origins_widen_the_interval_and_count_as_one_each() -> None:
    random = np.random.default_rng(2)
    errors = random.normal(0, 0.04, 8)
    alone = cells_with(errors.tolist())
    copies = [replace(cell, target_size=f"{i}x{copy}") for copy in range(5) for i, cell in enumerate(alone)]
    calibration = calibrate(copies, 0.0)
    assert (calibration.n_cells, calibration.n_origins) == (40, 8)
    assert calibration.n_effective == pytest.approx(8)
    assert calibration.factor == pytest.approx(calibrate(alone, 0.0).factor)
    other = calibrate(cells_with(np.repeat(errors, 5).tolist()), 0.0)
    assert calibration.factor > 1.05 * other.factor  # the same errors, if each had its own origin


def test_the_effective_size_is_that_of_the_variance_of_the_sum() -> None:
    """Simulated: 12 origins forecast the same 4 targets. Errors have a part of the target, one of the origin, and their own."""
    random = np.random.default_rng(3)
    origins, targets = np.repeat(np.arange(12), 4), np.tile(np.arange(4), 12)
    found, sums, squares = [], [], []
    for _ in range(2000):
        scores = random.normal(0, 1, 4)[targets] + 0.5 * random.normal(0, 1, 12)[origins] + random.normal(0, 0.3, 48)
        found.append(effective_size(scores.tolist(), origins.tolist(), targets.tolist()))
        sums.append(scores.sum())
        squares.append((scores**2).mean())
    # the mean of k independent errors has 1 / k of their variance
    truth = 48**2 * float(np.mean(squares)) / float(np.var(sums))
    assert 4.3 < truth < 5.5
    assert np.mean(found) == pytest.approx(truth, rel=0.15)


def test_a_form_is_judged_by_cells_that_did_not_choose_it() -> None:
    """Each origin's own error is 0 under a form that only this origin favours: chosen there, every interval would hit."""
    forms = [f"form {i}" for i in range(10)]
    cells = [
        replace(
            cell,
            error={form: 0.0 if i == k else 0.1 for k, form in enumerate(forms)},
            deviation=dict.fromkeys(forms, 0.01),
        )
        for i, cell in enumerate(cells_with([0.0] * 10))
    ]
    deviation = math.hypot(0.01, 0.1 / 3)  # of the nine other forms, one differs by 0.1
    calibration = calibrate(cells, 0.0)
    assert calibration.factor == pytest.approx(0.1 / deviation * 1.8125, rel=1e-3)  # ten errors of 0.1, Student's t


def test_the_interval_score_is_the_width_and_twenty_times_a_miss() -> None:
    assert interval_score(1.0, 3.0, 2.0) == 2.0
    assert interval_score(1.0, 3.0, 3.5) == pytest.approx(2.0 + 20 * 0.5)
    assert interval_score(1.0, 3.0, 0.5) == pytest.approx(2.0 + 20 * 0.5)


def test_the_seed_deviation_is_pooled_over_the_sizes_with_several_seeds(ladder: Ladder) -> None:
    logs = [math.log(rung.curve.bits[-1] / N_BYTES) for rung in ladder.rungs if rung.size == SIZES[1]]
    assert len(logs) == 3
    assert seed_deviation(ladder) == pytest.approx(float(np.std(logs, ddof=1)))
