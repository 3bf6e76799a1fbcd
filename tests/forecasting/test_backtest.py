"""Backtests: an origin sees only smaller and shorter runs, and a law of the loss is fitted to every byte after its start.

Naive forecasts: the last rung, the line through the last two, and both with what the proxy knows about the text.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from planted_ladder import BASE, N_BYTES, SIZES, TARGET, make_run

from prequential import Curve
from prequential.forecasting.backtest import (
    block_losses,
    block_starts,
    loss_bits_per_byte,
    naive_losses,
    rolling_origins,
)
from prequential.online.costs import total_flops
from prequential.sweeps.ladder import Ladder, Rung, Size, scaled

FLOPS = total_flops(scaled(BASE, TARGET.size), TARGET.n_bytes).total


def test_the_blocks_of_the_law_of_the_loss_follow_each_other_and_have_the_bits_of_the_curve() -> None:
    curve = Curve(n_bytes=np.array([500, 707, 1000, 1414]), bits=np.array([3000.0, 4000.0, 5000.0, 6200.0]))
    prefixes = np.array([707, 1000, 1414])
    assert block_starts(prefixes).tolist() == [500, 707, 1000]
    assert block_losses(curve, prefixes).tolist() == [1000 / 207, 1000 / 293, 1200 / 414]
    assert loss_bits_per_byte(curve, prefixes).tolist() == [4000 / 707, 5000 / 1000, 6200 / 1414]


def test_an_origin_forecasts_only_hidden_runs(ladder: Ladder) -> None:
    cells = rolling_origins(ladder, forms=["additive"])
    widths = {str(size): size.width for size in SIZES}
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


def test_naive_forecasts_are_the_last_rung_and_the_line_through_the_last_two(ladder: Ladder) -> None:
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes)
    rungs = {rung.config.gpt.width: rung for rung in ladder.rungs if rung.seed == 0 and rung.config.gpt}
    last, before = (float(rungs[width].curve.bits[-1]) / N_BYTES for width in (64, 48))
    flops = [total_flops(rungs[width].config, N_BYTES).total for width in (48, 64)]
    slope = math.log(last / before) / math.log(flops[1] / flops[0])
    assert found == {"last_rung": last, "line": pytest.approx(last * (FLOPS / flops[1]) ** slope)}


def test_with_a_proxy_both_are_moved_by_what_the_proxy_loses_between_ladder_and_target(
    ladder: Ladder, tmp_path: Path
) -> None:
    proxy = make_run(tmp_path, Size(20, 1), TARGET.n_bytes, text=0.05).curves["model"]
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes, proxy)
    there, here = loss_bits_per_byte(proxy, np.array([N_BYTES, TARGET.n_bytes]))
    assert abs(here / there - 1) > 0.01
    for name in ("last_rung", "line"):
        assert found[f"{name}_with_proxy"] == pytest.approx(found[name] * here / there)
