"""Forecasts: planted laws are forecast, impossible forecasts are refused, and a frozen forecast cannot be changed unnoticed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_ladder import N_BYTES, TARGET, WIDE, make_ladder, make_run, planted_mean

from prequential import ConfigError, CorpusError, Curve, forecast
from prequential.evaluation.runs import Run, pack_runs
from prequential.forecasting.backtest import loss_bits_per_byte
from prequential.forecasting.forecast import Target, conclusion, forecast_record, format_forecast, target_runs
from prequential.forecasting.members import read_ladder
from prequential.forecasting.registered import canonical, read_sealed, run_digests, sealed
from prequential.sweeps.ladder import Ladder, Rung, Size


def test_a_planted_law_is_forecast_within_one_percent_and_its_interval(frozen: dict[str, Any]) -> None:
    made = frozen["forecasts"]["total_bits"]
    actual = float(planted_mean(128, np.array([300_000]))[0]) * 300_000
    assert abs(made["point"] / actual - 1) < 0.01
    assert made["low"] < actual < made["high"] < 1.1 * actual
    assert frozen["compute"]["ratio"] > 10
    assert frozen["compute"]["data_ratio"] == 300_000 / N_BYTES and 2 < frozen["compute"]["weights_ratio"] < 4
    assert sum(each["weight"] for each in made["assumptions"]) == pytest.approx(1)


def test_a_forecast_says_what_it_multiplies_and_ends_with_a_sentence_to_act_on(frozen: dict[str, Any]) -> None:
    shown, made = format_forecast(frozen), frozen["forecasts"]["total_bits"]
    assert "times the weights, 4.6 times the data" in shown.splitlines()[0]
    assert f"{made['backtest']['n_hit']} of {made['backtest']['n_cells']} intervals hit" in shown
    assert shown.splitlines()[-1].startswith(
        f"Expect {made['point']:,.0f} bits ({made['low']:,.0f} to {made['high']:,.0f} bits"
    )
    assert "deviations of a seed." in shown.splitlines()[-1]


def test_the_sentence_warns_of_wide_intervals_and_of_sizes_that_differ_no_more_than_seeds(
    frozen: dict[str, Any],
) -> None:
    wide, alike = sealed(frozen), sealed(frozen)
    wide["forecasts"]["total_bits"]["deviations"]["reach"] = 0.3
    assert conclusion(wide).startswith("Decide nothing by this forecast")
    alike["size_effect"] = 0.7
    assert "the sizes of the ladder differ by 0.7 deviations of a seed, so it does not show" in conclusion(alike)
    assert "no size has two seeds" in format_forecast({**alike, "size_effect": None})


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


def test_two_proxies_of_one_name_are_refused_since_one_would_be_lost(tmp_path: Path) -> None:
    packed = Path(__file__).parents[2] / "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"
    proxies = [make_run(tmp_path / name, Size(20, 1), TARGET.n_bytes).path for name in "ab"]
    with pytest.raises(ConfigError, match="two proxies have one name"):
        forecast(packed, target_bytes=10_000_000, target_width=2048, proxies=proxies)


def test_diverged_runs_are_refused(ladder: Ladder) -> None:
    last = ladder.rungs[-1]
    ends = last.curve.n_bytes
    run = Run(last.run.path, last.run.record)
    run.__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=np.cumsum(np.diff(ends, prepend=0)) * 9.0)}
    wild = Ladder((*ladder.rungs[:-1], Rung(run)), ladder.corpus)
    with pytest.raises(ConfigError, match="the run 64x1, seed 0 looks diverged"):
        forecast_record(wild, TARGET)


def test_a_run_that_contains_the_target_is_found(ladder: Ladder, tmp_path: Path) -> None:
    assert target_runs(tmp_path, TARGET, ladder) == []
    run = make_run(tmp_path, WIDE, TARGET.n_bytes + 5, seed=3)
    make_run(tmp_path, WIDE, TARGET.n_bytes - 5)
    make_run(tmp_path, Size(96, 1), TARGET.n_bytes)
    assert [found.path for found in target_runs(tmp_path, TARGET, ladder)] == [run.path]


# ---- the seal


def test_a_frozen_forecast_is_read_back_and_any_change_is_refused(frozen: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "forecast.json"
    path.write_text(json.dumps(frozen, indent=1))
    assert read_sealed(path) == frozen
    changed = json.loads(canonical(frozen))
    changed["forecasts"]["total_bits"]["high"] *= 1.5
    path.write_text(json.dumps(changed))
    with pytest.raises(CorpusError, match="changed after it was frozen"):
        read_sealed(path)
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "is not a"),
        ('{"kind": "forecast"}', "not a forecast of schema"),
    ):
        path.write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_sealed(path)


def test_a_forecast_names_its_runs_by_digests_which_are_those_of_the_packed_ladder(
    frozen: dict[str, Any], tmp_path: Path
) -> None:
    ladder = make_ladder(tmp_path / "runs", noise=0.002)
    pack_runs(tmp_path / "runs", tmp_path / "ladder.jsonl")
    packed, _ = read_ladder(tmp_path / "ladder.jsonl")
    assert (packed.corpus, [rung.name for rung in packed.rungs]) == (ladder.corpus, [r.name for r in ladder.rungs])
    for rung, other in zip(ladder.rungs, packed.rungs, strict=True):
        assert run_digests(other.run) == run_digests(rung.run)
        assert np.array_equal(other.curve.bits, rung.curve.bits)
    for name in ("record_blake2b", "curve_blake2b"):
        assert {len(digests[name]) for digests in frozen["fitted"]} == {64}
        assert len({digests[name] for digests in frozen["fitted"]}) == len(ladder.rungs)
    assert frozen["corpus"]["blake2b"] == ladder.corpus.blake2b
