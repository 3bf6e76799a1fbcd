"""Backtests: an origin sees only smaller and shorter runs, and a link to a proxy is undone after the forecast.

Naive forecasts: the last rung, the line through the last two, and both with what the proxy knows about the text.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_ladder import BASE, N_BYTES, SIZES, TARGET, WIDE, make_run
from scripts import load

from prequential import Curve
from prequential.forecasting.backtest import (
    Calibration,
    Cell,
    effective_size,
    interval_score,
    links,
    loss_bits_per_byte,
    naive_losses,
    rolling_origins,
    seed_deviation,
    size_effect,
    weights_of,
)
from prequential.online.costs import total_flops
from prequential.sweeps.ladder import Ladder, Rung, Size, scaled

coverage = load("forecast_coverage")
FLOPS = total_flops(scaled(BASE, WIDE), TARGET.n_bytes).total


def test_a_link_removes_the_difficulty_of_the_text_that_it_assumes_and_brings_it_back() -> None:
    ends = np.array([500, 1000, 4000])
    proxy = Curve(n_bytes=ends, bits=np.array([2.0, 4.0, 3.0]) * ends)
    none, ratio, difference = links([("cheap", proxy)])
    assert (none.kind, ratio.kind, difference.kind, difference.proxy_name) == ("none", "ratio", "difference", "cheap")
    for link, losses in ((none, [1.0, 1.0, 1.0]), (ratio, [0.8, 1.6, 1.2]), (difference, [0.5, 2.5, 1.5])):
        corrected = link.corrected(np.array(losses), ends, 1000)
        assert corrected == pytest.approx(losses[1])  # a text that is as hard everywhere as its first 1,000 bytes
        assert link.corrected(corrected, ends, 1000, back=True) == pytest.approx(losses)
    assert difference.corrected(np.array([0.5]), ends[1:2], 500) == pytest.approx(0.05 * 0.5)  # never below 0


def test_an_origin_forecasts_only_hidden_runs(ladder: Ladder) -> None:
    cells = rolling_origins(ladder, links([]))
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
        [cell for cell in rolling_origins(each, links([])) if (cell.origin[0], cell.target[0]) == ("32x1", "48x1")]
        for each in (ladder, other)
    ]
    assert len(found[0]) > 2
    for before, after in zip(*found, strict=True):
        assert (before.origin, before.target) == (after.origin, after.target)
        assert np.array_equal(before.errors, after.errors)


def test_naive_forecasts_are_the_last_rung_and_the_line_through_the_last_two_and_both_with_what_a_proxy_loses(
    ladder: Ladder, tmp_path: Path
) -> None:
    proxy = make_run(tmp_path, Size(20, 1), TARGET.n_bytes, text=0.05).curves["model"]
    there, here = loss_bits_per_byte(proxy, np.array([N_BYTES, TARGET.n_bytes]))
    naive = naive_losses(ladder, FLOPS, TARGET.n_bytes, [proxy])
    rungs = {rung.config.gpt.width: rung for rung in ladder.rungs if rung.seed == 0 and rung.config.gpt}
    last, before = (float(rungs[width].curve.bits[-1]) / N_BYTES for width in (64, 48))
    flops = [total_flops(rungs[width].config, N_BYTES).total for width in (48, 64)]
    slope = math.log(last / before) / math.log(flops[1] / flops[0])
    line = last * (FLOPS / flops[1]) ** slope
    proxied = {"last_rung_with_proxy": last * here / there, "line_with_proxy": line * here / there}
    assert naive == pytest.approx({"last_rung": last, "line": line, **proxied})


# ---- intervals


def cells_with(errors: list[float], compute_ratio: float = math.e) -> list[Cell]:
    """A cell of its own origin and target for each error, by one link and one form."""
    return [
        Cell(origin=(f"{i}x1", 1000), target=(f"{i}x2", 2000), compute_ratio=compute_ratio, errors=np.array([[error]]))
        for i, error in enumerate(errors)
    ]


def reach(cells: list[Cell], ratio: float) -> float:
    return Calibration(cells, 1, 1).deviations(0.0, 0.0, ratio)["reach"]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", coverage.KINDS)
def test_intervals_hold_in_simulated_texts(kind: str) -> None:
    """With one link and one form the first kind was held in a third of all repeats (benchmarks/forecast_coverage.py)."""
    assert sum(score.holds for score in coverage.scores(kind, 10)) >= 8


def test_intervals_cover_nine_in_ten_errors_at_the_distance_of_the_backtest_and_widen_beyond() -> None:
    random = np.random.default_rng(1)
    cells = cells_with(random.normal(0, 0.04, 400).tolist())
    calibration = Calibration(cells, 1, 1)
    assert calibration.is_calibrated and calibration.compute_ratios == (math.e, math.e)
    assert 0.86 <= calibration.n_hit(0.0) / 400 <= 0.94
    assert reach(cells, math.e) == pytest.approx(0.04 * 1.645, rel=0.1)
    assert reach(cells, math.e**2) == pytest.approx(2**1.25 * reach(cells, math.e))


def test_without_hidden_runs_the_spread_and_the_seeds_make_the_interval_and_it_is_not_calibrated() -> None:
    calibration = Calibration([], 3, 3)
    found = calibration.deviations(0.03, 0.04, 10.0)
    assert not calibration.is_calibrated and found["reach"] == pytest.approx(1.645 * 0.05, rel=1e-3)
    assert calibration.weights[0].sum() == 0 and calibration.weights[1:] == pytest.approx(1 / 6)  # a proxy is trusted


def test_links_of_very_different_errors_count_alike_and_forms_by_their_errors() -> None:
    """A backtest says little about links: a tree's ladder had errors of 2 and 10 %, and both links were off by as much."""
    errors = np.array([[0.20, 0.21, 0.22], [0.02, 0.02, 0.05], [0.09, 0.08, 0.20]])
    cells = [replace(cell, errors=errors) for cell in cells_with([0.0] * 10)]
    third = 1 / 4
    assert weights_of(cells, 3, 3) == pytest.approx(np.array([[0, 0, 0], [third, third, 0], [third, third, 0]]))
    hopeless = [replace(cell, errors=errors * [[1], [1], [2]]) for cell in cells]
    assert weights_of(hopeless, 3, 3)[2].sum() == 0
    without = [replace(cell, errors=errors / [[20], [1], [1]]) for cell in cells]  # proxies made it worse
    assert weights_of(without, 3, 3)[0].sum() > 0


def test_errors_that_are_copies_within_origins_count_as_one_each() -> None:
    random = np.random.default_rng(2)
    alone = cells_with(random.normal(0, 0.04, 8).tolist())
    copies = [replace(cell, target=(f"{i}x{copy}", 2000)) for copy in range(5) for i, cell in enumerate(alone)]
    assert Calibration(copies, 1, 1).n_effective == pytest.approx(8)
    assert reach(copies, 9.0) == pytest.approx(reach(alone, 9.0))


def test_the_effective_size_is_that_of_the_variance_of_the_sum() -> None:
    """Simulated: 12 origins forecast the same 4 targets. Errors have a part of the target, one of the origin, and their own."""
    random = np.random.default_rng(3)
    origins, targets = np.repeat(np.arange(12), 4), np.tile(np.arange(4), 12)
    found, sums, squares = [], [], []
    for _ in range(2000):
        scores = random.normal(0, 1, 4)[targets] + 0.5 * random.normal(0, 1, 12)[origins] + random.normal(0, 0.3, 48)
        found.append(effective_size(scores, origins.tolist(), targets.tolist()))
        sums.append(scores.sum())
        squares.append((scores**2).mean())
    # the mean of k independent errors has 1 / k of their variance
    truth = 48**2 * float(np.mean(squares)) / float(np.var(sums))
    assert 4.3 < truth < 5.5
    assert np.mean(found) == pytest.approx(truth, rel=0.15)


def test_a_form_is_judged_by_cells_that_did_not_choose_it() -> None:
    """Each origin's own error is 0 under a form that only this origin favours: chosen there, every error would be 0."""
    cells = [
        replace(cell, errors=np.array([[0.0 if i == k else 0.1 for k in range(10)]]))
        for i, cell in enumerate(cells_with([0.0] * 10))
    ]
    assert Calibration(cells, 1, 10).rms == pytest.approx(0.1, rel=0.11)


def test_the_interval_score_is_the_width_and_twenty_times_a_miss() -> None:
    assert interval_score(1.0, 3.0, 2.0) == 2.0
    assert interval_score(1.0, 3.0, 3.5) == pytest.approx(2.0 + 20 * 0.5)
    assert interval_score(1.0, 3.0, 0.5) == pytest.approx(2.0 + 20 * 0.5)


def test_the_seed_deviation_is_pooled_over_the_sizes_with_several_seeds(ladder: Ladder) -> None:
    logs = [math.log(rung.curve.bits[-1] / N_BYTES) for rung in ladder.rungs if rung.size == SIZES[1]]
    assert len(logs) == 3
    assert seed_deviation(ladder) == pytest.approx(float(np.std(logs, ddof=1)))
    ends = [float(ladder.first_rung(size).curve.bits[-1]) for size in (SIZES[0], SIZES[-1])]
    assert size_effect(ladder) == pytest.approx(math.log(ends[0] / ends[1]) / seed_deviation(ladder))
