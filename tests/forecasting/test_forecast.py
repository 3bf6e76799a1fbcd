"""Forecasts: planted laws are forecast, and impossible forecasts are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_ladder import N_BYTES, TARGET, WIDE, make_ladder, make_run, planted_mean

from prequential import ConfigError, CorpusError, Curve
from prequential.evaluation.runs import Run
from prequential.forecasting.forecast import Forecast, Target, forecast_record, forecast_warnings
from prequential.forecasting.law import mean_losses
from prequential.forecasting.registered import contains_target, with_digest
from prequential.sweeps.ladder import Ladder, Rung, Size


def test_a_planted_law_is_forecast_within_one_percent_and_its_interval(registered: dict[str, Any]) -> None:
    made = registered["forecasts"]["total_bits"]
    actual = float(planted_mean(128, np.array([300_000]))[0]) * 300_000
    assert abs(made["point"] / actual - 1) < 0.012
    assert made["low"] < actual < made["high"] < 1.1 * actual
    assert registered["compute"]["ratio"] > 10
    assert registered["compute"]["data_ratio"] == 300_000 / N_BYTES and 2 < registered["compute"]["weights_ratio"] < 4


def test_a_forecast_says_what_it_multiplies_what_weakens_it_and_ends_with_a_sentence_to_act_on(
    registered: dict[str, Any],
) -> None:
    shown, made = str(Forecast(record=registered)), registered["forecasts"]["total_bits"]
    assert "times the weights, 4.6 times the data" in shown.splitlines()[0]
    assert f"{made['backtest']['n_hidden']} hidden runs" in shown and "if models beyond 64x1 no longer help: " in shown
    rate = made["point"] / 300_000
    assert shown.splitlines()[-1].startswith(f"Expect {made['point']:,.0f} bits, {rate:.3f} bits/byte (")
    assert list(forecast_warnings(registered)) == ["without a proxy, this holds if the text ahead is like the ladder's"]
    wide, untested = with_digest(registered), with_digest(registered)
    wide["forecasts"]["total_bits"]["high"] *= 2
    assert "does not tell whether the target will need fewer bits per byte" in str(Forecast(record=wide))
    untested["forecasts"]["total_bits"]["backtest"] = {"rms": None, "n_hidden": 0}
    assert "the interval is not tested" in str(Forecast(record=untested)) and "backtest:" not in str(
        Forecast(record=untested)
    )


@pytest.mark.thorough
def test_a_proxy_removes_the_difficulty_of_the_text_and_two_proxies_are_four_links(tmp_path: Path) -> None:
    ladder = make_ladder(tmp_path, text=0.05)
    proxies = [make_run(tmp_path, Size(width, 1), TARGET.n_bytes, text=0.05) for width in (20, 22)]
    target = make_run(tmp_path, WIDE, TARGET.n_bytes, text=0.05)
    actual = float(mean_losses(target.curves["model"], np.array([300_000.0]))[0]) * 300_000
    errors = []
    for n_proxies in (0, 1, 2):
        made = forecast_record(ladder, TARGET, proxies=proxies[:n_proxies])["forecasts"]["total_bits"]
        errors.append(abs(made["point"] / actual - 1))
        assert len(made["by_link"]) == 2 * n_proxies
        assert list(made["naive"]) == ["line_with_proxy" if n_proxies else "line"]
        assert made["low"] < actual < made["high"]
    assert max(errors[1:]) < min(0.02, errors[0] / 2)


# ---- what is refused


def test_a_proxy_that_ends_before_the_target_and_a_target_within_the_ladder_are_refused(
    ladder: Ladder, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match="before the target's 300000"):
        forecast_record(ladder, TARGET, proxies=[make_run(tmp_path, Size(20, 1), 100_000)])
    with pytest.raises(ConfigError, match="not be a forecast"):
        forecast_record(ladder, Target(size=Size(16, 1), n_bytes=N_BYTES))


def test_diverged_runs_are_refused(ladder: Ladder) -> None:
    last = ladder.rungs[-1]
    ends = last.run.curve.n_bytes
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
