"""Backtests: an origin sees only smaller and shorter runs, and a link to a proxy is undone after the forecast.

Naive forecasts: the last rung, the line through the last two, and both with what the proxy knows about the text.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from planted_ladder import BASE, N_BYTES, SIZES, TARGET, WIDE, make_run

from prequential import Curve
from prequential.forecasting.backtest import (
    links,
    loss_bits_per_byte,
    naive_losses,
    rolling_origins,
)
from prequential.online.costs import total_flops
from prequential.sweeps.ladder import Ladder, Rung, Size, scaled

FLOPS = total_flops(scaled(BASE, WIDE), TARGET.n_bytes)


def test_a_link_removes_the_difficulty_of_the_text_that_it_assumes_and_brings_it_back() -> None:
    ends = np.array([500, 1000, 4000])
    proxy = Curve(n_bytes=ends, bits=np.array([2.0, 4.0, 3.0]) * ends)
    none, ratio, difference = links({"cheap": proxy})
    assert (none.kind, ratio.kind, difference.kind, difference.proxy_name) == ("none", "ratio", "difference", "cheap")
    for link, losses in ((none, [1.0, 1.0, 1.0]), (ratio, [0.8, 1.6, 1.2]), (difference, [0.5, 2.5, 1.5])):
        corrected = link.corrected(np.array(losses), ends, 1000)
        assert corrected == pytest.approx(losses[1])  # a text that is as hard everywhere as its first 1,000 bytes
        assert link.restored(corrected, ends, 1000) == pytest.approx(losses)
    assert difference.corrected(np.array([0.5]), ends[1:2], 500) == pytest.approx(0.05 * 0.5)  # never below 0


def test_an_origin_forecasts_only_hidden_runs(ladder: Ladder) -> None:
    cells = rolling_origins(ladder, links({}))
    widths = {str(size): size.width for size in SIZES}
    assert len({cell.origin for cell in cells}) >= 8
    for cell in cells:
        assert cell.compute_ratio >= 2
        assert cell.target[1] >= cell.origin[1]
        assert widths[cell.target[0]] >= widths[cell.origin[0]]
        assert cell.target != cell.origin


@pytest.mark.thorough
def test_an_origin_does_not_depend_on_the_runs_that_it_hides(tmp_path: Path, ladder: Ladder) -> None:
    rungs = [r for r in ladder.rungs if r.size != SIZES[-1]] + [Rung(make_run(tmp_path, SIZES[-1], noise=0.3))]
    other = Ladder(tuple(rungs), ladder.corpus)
    found = [
        [cell for cell in rolling_origins(each, links({})) if (cell.origin[0], cell.target[0]) == ("32x1", "48x1")]
        for each in (ladder, other)
    ]
    assert len(found[0]) > 2
    for before, after in zip(*found, strict=True):
        assert (before.origin, before.target) == (after.origin, after.target)
        assert np.array_equal(before.errors, after.errors)


def test_naive_forecasts_are_the_last_rung_and_the_line_through_the_last_two(ladder: Ladder) -> None:
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes)
    rungs = {rung.config.gpt.width: rung for rung in ladder.rungs if rung.seed == 0 and rung.config.gpt}
    last, before = (float(rungs[width].curve.bits[-1]) / N_BYTES for width in (64, 48))
    flops = [total_flops(rungs[width].config, N_BYTES) for width in (48, 64)]
    slope = math.log(last / before) / math.log(flops[1] / flops[0])
    assert found == {"last_rung": last, "line": pytest.approx(last * (FLOPS / flops[1]) ** slope)}


def test_with_a_proxy_both_are_moved_by_what_the_proxy_loses_between_ladder_and_target(
    ladder: Ladder, tmp_path: Path
) -> None:
    proxy = make_run(tmp_path, Size(20, 1), TARGET.n_bytes, text=0.05).curves["model"]
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes, [proxy])
    there, here = loss_bits_per_byte(proxy, np.array([N_BYTES, TARGET.n_bytes]))
    assert abs(here / there - 1) > 0.01
    for name in ("last_rung", "line"):
        assert found[f"{name}_with_proxy"] == pytest.approx(found[name] * here / there)
