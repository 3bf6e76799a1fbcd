"""Backtests: an origin sees only smaller and shorter runs, and calibrated intervals cover."""

import math
from pathlib import Path

import numpy as np
import pytest
from planted_ladder import N_BYTES, SIZES, make_run

from prequential import Curve
from prequential.measure.study.backtest import (
    QUANTITIES,
    Cell,
    calibrate,
    loss_bits_per_byte,
    rolling_origins,
    seed_deviation,
)
from prequential.measure.study.ladder import Ladder, Rung


def test_losses_are_the_mean_over_all_bytes_and_over_the_last_window() -> None:
    curve = Curve(n_bytes=np.array([700, 800]), bits=np.array([2100.0, 2600.0]))
    assert loss_bits_per_byte(curve, np.array([800.0]), "total_bits")[0] == 2600 / 800
    assert loss_bits_per_byte(curve, np.array([800.0]), "final_bits_per_byte")[0] == 5.0  # an eighth is 100 bytes


def test_an_origin_forecasts_only_hidden_runs(ladder: Ladder) -> None:
    cells = rolling_origins(ladder, forms=["additive"])
    widths = {str(size): size.width for size in SIZES}
    assert {cell.quantity for cell in cells} == set(QUANTITIES)
    assert len({cell.origin for cell in cells}) >= 8
    for cell in cells:
        assert cell.compute_ratio >= 2
        assert cell.target_bytes >= cell.fitted_bytes
        assert widths[cell.target_size] >= widths[cell.fitted_size]
        assert (cell.target_size, cell.target_bytes) != (cell.fitted_size, cell.fitted_bytes)


def test_an_origin_does_not_depend_on_the_runs_that_it_hides(tmp_path: Path, ladder: Ladder) -> None:
    rungs = [r for r in ladder.rungs if r.size != SIZES[-1]] + [Rung(make_run(tmp_path, SIZES[-1], noise=0.3))]
    other = Ladder(tuple(rungs), ladder.subject)
    before, after = (
        [c for c in rolling_origins(each, forms=["additive"]) if c.fitted_size == "32x1" and c.target_size == "48x1"]
        for each in (ladder, other)
    )
    assert before == after != []


def cells_with(errors: list[float]) -> list[Cell]:
    """A cell of its own origin for each error."""
    return [
        Cell(
            quantity="total_bits",
            fitted_size=f"{i}x1",
            fitted_bytes=1000,
            target_size="99x1",
            target_bytes=2000,
            compute_ratio=3.0,
            error={"additive": error},
            deviation={"additive": 0.01},
        )
        for i, error in enumerate(errors)
    ]


def test_calibrated_intervals_cover_nine_in_ten() -> None:
    random = np.random.default_rng(1)
    calibration = calibrate(cells_with(random.normal(0, 0.04, 400).tolist()), "total_bits", "additive", 0.0)
    assert calibration.is_calibrated
    assert calibration.factor == pytest.approx(4 * 1.645, rel=0.15)  # the deviations are four times too small
    assert calibration.coverage is not None
    assert 0.86 <= calibration.coverage <= 0.94
    assert calibration.n_origins == 400


def test_too_few_cells_are_reported_as_not_calibrated() -> None:
    calibration = calibrate(cells_with([0.5] * 3), "total_bits", "additive", 0.0)
    assert not calibration.is_calibrated
    assert calibration.factor == pytest.approx(1.6449, rel=1e-3)


def test_the_seed_deviation_is_pooled_over_the_sizes_with_several_seeds(ladder: Ladder) -> None:
    logs = [math.log(rung.curve.bits[-1] / N_BYTES) for rung in ladder.rungs if rung.size == SIZES[1]]
    assert len(logs) == 3
    assert seed_deviation(ladder, "total_bits") == pytest.approx(float(np.std(logs, ddof=1)))
