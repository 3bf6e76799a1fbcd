"""Backtests: an origin sees only smaller and shorter runs, and a law of the loss is fitted to every byte after its start."""

from pathlib import Path

import numpy as np
from planted_ladder import SIZES, make_run

from prequential import Curve
from prequential.forecasting.backtest import (
    QUANTITIES,
    block_starts,
    fitted_losses,
    loss_bits_per_byte,
    rolling_origins,
)
from prequential.sweeps.ladder import Ladder, Rung


def test_losses_are_the_mean_over_all_bytes_and_over_the_last_window() -> None:
    curve = Curve(n_bytes=np.array([700, 800]), bits=np.array([2100.0, 2600.0]))
    assert loss_bits_per_byte(curve, np.array([800.0]), "total_bits")[0] == 2600 / 800
    assert loss_bits_per_byte(curve, np.array([800.0]), "final_bits_per_byte")[0] == 5.0  # an eighth is 100 bytes


def test_the_blocks_of_the_law_of_the_loss_follow_each_other_and_have_the_bits_of_the_curve() -> None:
    curve = Curve(n_bytes=np.array([500, 707, 1000, 1414]), bits=np.array([3000.0, 4000.0, 5000.0, 6200.0]))
    prefixes = np.array([707, 1000, 1414])
    assert block_starts(prefixes).tolist() == [500, 707, 1000]
    assert fitted_losses(curve, prefixes, "final_bits_per_byte").tolist() == [1000 / 207, 1000 / 293, 1200 / 414]
    assert fitted_losses(curve, prefixes, "total_bits").tolist() == [4000 / 707, 5000 / 1000, 6200 / 1414]


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
    other = Ladder(tuple(rungs), ladder.corpus)
    before, after = (
        [c for c in rolling_origins(each, forms=["additive"]) if c.fitted_size == "32x1" and c.target_size == "48x1"]
        for each in (ladder, other)
    )
    assert before == after != []
