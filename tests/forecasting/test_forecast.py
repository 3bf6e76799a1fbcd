"""Forecasts: planted laws are forecast, and impossible forecasts are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_ladder import N_BYTES, TARGET, WIDE, make_ladder, make_run, planted_mean

from prequential import ConfigError, CorpusError, Curve
from prequential.evaluation.runs import Run
from prequential.forecasting.backtest import loss_bits_per_byte
from prequential.forecasting.forecast import Target, conclusion, forecast_record, format_forecast
from prequential.forecasting.registered import contains_target, with_digest
from prequential.sweeps.ladder import Ladder, Rung, Size


def test_a_planted_law_is_forecast_within_one_percent_and_its_interval(registered: dict[str, Any]) -> None:
    made = registered["forecasts"]["total_bits"]
    actual = float(planted_mean(128, np.array([300_000]))[0]) * 300_000
    assert abs(made["point"] / actual - 1) < 0.01
    assert made["low"] < actual < made["high"] < 1.1 * actual
    assert registered["compute"]["ratio"] > 10
    assert registered["compute"]["data_ratio"] == 300_000 / N_BYTES and 2 < registered["compute"]["weights_ratio"] < 4
    assert sum(each["weight"] for each in made["assumptions"]) == pytest.approx(1)


def test_a_forecast_says_what_it_multiplies_and_ends_with_a_sentence_to_act_on(registered: dict[str, Any]) -> None:
    shown, made = format_forecast(registered), registered["forecasts"]["total_bits"]
    assert "times the weights, 4.6 times the data" in shown.splitlines()[0]
    assert f"{made['backtest']['n_hit']} of {made['backtest']['n_cells']} intervals hit" in shown
    assert shown.splitlines()[-1].startswith(
        f"Expect {made['point']:,.0f} bits ({made['low']:,.0f} to {made['high']:,.0f} bits"
    )


def test_wide_intervals_and_sizes_that_differ_no_more_than_seeds_are_named(registered: dict[str, Any]) -> None:
    wide = with_digest(registered)
    wide["forecasts"]["total_bits"]["deviations"]["reach"] = 0.3
    assert conclusion(wide).startswith("Decide nothing by this forecast")
    assert "the sizes differ by 0.7 deviations of a seed" in format_forecast({**registered, "size_effect": 0.7})
    assert "no size has two seeds" in format_forecast({**registered, "size_effect": None})


@pytest.mark.thorough
def test_a_proxy_removes_the_difficulty_of_the_text_and_two_proxies_are_four_links(tmp_path: Path) -> None:
    ladder = make_ladder(tmp_path, text=0.05)
    proxies = [make_run(tmp_path, Size(width, 1), TARGET.n_bytes, text=0.05) for width in (20, 22)]
    target = make_run(tmp_path, WIDE, TARGET.n_bytes, text=0.05)
    actual = float(loss_bits_per_byte(target.curves["model"], np.array([300_000]))[0]) * 300_000
    errors = []
    for n_proxies in (0, 1, 2):
        made = forecast_record(ladder, TARGET, proxies=proxies[:n_proxies])["forecasts"]["total_bits"]
        errors.append(abs(made["point"] / actual - 1))
        assert len(made["naive"]) == 2 + 2 * n_proxies and len(made["assumptions"]) == 3 + 6 * n_proxies
        assert made["low"] < actual < made["high"]
    assert max(errors[1:]) < min(0.02, errors[0] / 2)


# ---- what is refused


def test_a_proxy_that_ends_before_the_target_and_a_target_within_the_fitted_runs_are_refused(
    ladder: Ladder, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match="before the target's 300000"):
        forecast_record(ladder, TARGET, proxies=[make_run(tmp_path, Size(20, 1), 100_000)])
    with pytest.raises(ConfigError, match="not be a forecast"):
        forecast_record(ladder, Target(size=Size(16, 1), n_bytes=N_BYTES))


@pytest.mark.parametrize("n_sizes", [1, 2])
def test_a_ladder_of_too_few_sizes_is_refused_with_their_number(ladder: Ladder, n_sizes: int) -> None:
    few = Ladder(tuple(rung for rung in ladder.rungs if rung.size in ladder.sizes[:n_sizes]), ladder.corpus)
    with pytest.raises(ConfigError, match=f"needs 3 sizes and 3 prefixes; here are {n_sizes} and 7"):
        forecast_record(few, TARGET)


def test_diverged_runs_are_refused(ladder: Ladder) -> None:
    last = ladder.rungs[-1]
    ends = last.curve.n_bytes
    run = Run(last.run.path, last.run.record)
    run.__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=np.cumsum(np.diff(ends, prepend=0)) * 9.0)}
    wild = Ladder((*ladder.rungs[:-1], Rung(run)), ladder.corpus)
    with pytest.raises(ConfigError, match="the run 64x1, seed 0 looks diverged"):
        forecast_record(wild, TARGET)


def test_a_target_that_has_been_run_is_refused_also_with_another_seed_or_more_bytes(
    ladder: Ladder, tmp_path: Path
) -> None:
    target, _ = TARGET.to_record(ladder)
    assert contains_target(make_run(tmp_path, WIDE, TARGET.n_bytes + 5, seed=3), target)
    for other in (make_run(tmp_path, WIDE, TARGET.n_bytes - 5), make_run(tmp_path, Size(96, 1), TARGET.n_bytes)):
        assert not contains_target(other, target)
