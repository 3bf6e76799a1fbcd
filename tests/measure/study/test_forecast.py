"""Forecasts: planted laws are forecast, intervals cover, what is frozen cannot be changed, scores say what happened."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prequential import Config, ConfigError, CorpusError, Curve, GPTConfig, ScheduleConfig
from prequential.measure.evaluation.curves import write_curves
from prequential.measure.evaluation.runs import Run, read_run
from prequential.measure.study.forecast import (
    QUANTITIES,
    Cell,
    Target,
    append_score,
    calibrate,
    canonical,
    check_prefix,
    forecast,
    loss,
    naive,
    read_forecast,
    rolling_origins,
    score,
    sealed,
    seed_deviation,
    target_runs,
)
from prequential.measure.study.ladder import Ladder, Rung, Size, n_weights, scaled
from prequential.measure.study.sweep import Subject
from prequential.online.flops import total_flops

BASE = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=512, segment_symbols=1024, row_symbols=32, n_rows=32, history_bits=14
    ),
)
SIZES = [Size(width, 1) for width in (16, 24, 32, 48, 64)]
N_BYTES, TARGET = 65536, Target(size=Size(128, 1), n_bytes=300_000)


def law(width: int, n_bytes: np.ndarray) -> np.ndarray:
    """Mean loss over n_bytes of a crossed law."""
    config = scaled(BASE, Size(width, 1))
    assert config.gpt
    n = (n_weights(config.gpt) / 1e4) ** -0.4
    d = (n_bytes / 1e4) ** -0.3
    return np.asarray(1.1 + 0.5 * n + 0.8 * d + 0.4 * n * d, np.float64)


def run_of(
    folder: Path, size: Size, n_bytes: int = N_BYTES, *, seed: int = 0, text: float = 0.0, noise: float = 0.0
) -> Run:
    """A run folder whose curve follows the law; text: how its difficulty swings, equally for all."""
    ends = np.arange(1024, n_bytes + 1, 512).astype(np.int64)
    ends = np.unique(np.append(ends, n_bytes))
    swing = 1 + text * np.sin(ends / 9000)
    bits = law(size.width, ends) * ends * swing * math.exp(noise * math.sin(7.0 * seed + size.width))
    config = scaled(BASE, size, seed=seed)
    path = folder / f"run-{size}-{n_bytes}-{seed}"
    path.mkdir(parents=True)
    record = {
        "schema": 1,
        "kind": "evaluation",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "corpus": {"kind": "file", "name": "text", "n_bytes": n_bytes, "blake2b": f"digest of {n_bytes}"},
        "config": config.to_dict(),
        "code_bits": float(bits[-1]),
        "wall_s": 0.1,
    }
    (path / "record.jsonl").write_text(json.dumps(record))
    write_curves(path / "curve.parquet", {"model": Curve(n_bytes=ends, bits=bits)})
    return read_run(path)


def ladder_of(folder: Path, **how: float) -> Ladder:
    runs = [run_of(folder, size, **how) for size in SIZES]  # type: ignore[arg-type]
    runs += [run_of(folder, SIZES[1], seed=s, **how) for s in (1, 2)]  # type: ignore[arg-type]
    rungs = sorted((Rung(run) for run in runs), key=lambda rung: (rung.n_weights, rung.config.seed))
    return Ladder(tuple(rungs), Subject(N_BYTES, f"digest of {N_BYTES}"))


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    return ladder_of(tmp_path_factory.mktemp("ladder"), noise=0.002)


@pytest.fixture(scope="module")
def frozen(ladder: Ladder) -> dict[str, Any]:
    return forecast(ladder, TARGET, program_version="1", n_resamples=50)


def test_a_planted_law_is_forecast_within_half_a_percent_and_its_interval(frozen: dict[str, Any]) -> None:
    made = frozen["forecasts"]["total_bits"]
    actual = float(law(128, np.array([300_000.0]))[0]) * 300_000
    assert abs(made["point"] / actual - 1) < 0.005
    assert made["low"] < actual < made["high"]
    assert frozen["compute"]["ratio"] > 10
    assert frozen["form"] == "crossed"


def test_both_ways_to_the_total_agree_where_the_law_holds(frozen: dict[str, Any]) -> None:
    assert abs(frozen["identity"]["disagreement_percent"]) < 3


def test_a_proxy_takes_the_text_s_difficulty_out(tmp_path: Path) -> None:
    swinging = ladder_of(tmp_path, text=0.05)
    proxy = run_of(tmp_path, Size(20, 1), TARGET.n_bytes, text=0.05)
    actual = loss(
        run_of(tmp_path, TARGET.size, TARGET.n_bytes, text=0.05).curves["model"], np.array([300_000.0]), "total_bits"
    )
    errors = {}
    for name, run in (("none", None), ("proxy", proxy)):
        made = forecast(swinging, TARGET, program_version="1", proxy=run, n_resamples=20)
        assert (made["proxy"] is None) == (run is None)
        errors[name] = abs(made["forecasts"]["total_bits"]["point"] / (float(actual[0]) * 300_000) - 1)
    assert errors["proxy"] < 0.01
    assert errors["proxy"] < errors["none"] / 2


def test_a_proxy_that_ends_before_the_target_is_refused(ladder: Ladder, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="before the target's 300000"):
        forecast(ladder, TARGET, program_version="1", proxy=run_of(tmp_path, Size(20, 1), 100_000))


def test_final_windows_and_means_are_what_the_curve_says() -> None:
    curve = Curve(n_bytes=np.array([700, 800]), bits=np.array([2100.0, 2600.0]))
    assert loss(curve, np.array([800.0]), "total_bits")[0] == 2600 / 800
    assert loss(curve, np.array([800.0]), "final_bits_per_byte")[0] == 5.0  # an eighth is 100 bytes


def test_naive_forecasts_are_the_last_rung_and_the_line_through_the_last_two(ladder: Ladder) -> None:
    config = scaled(BASE, TARGET.size)
    found = naive(ladder, config, TARGET, "total_bits")
    rungs = {r.size.width: r for r in ladder.rungs if r.config.seed == 0}
    last, before = (float(rungs[w].curve.bits[-1]) / N_BYTES for w in (64, 48))
    assert found["last_rung"] == last
    compute = [total_flops(rungs[w].config, N_BYTES).total for w in (48, 64)]
    slope = math.log(last / before) / math.log(compute[1] / compute[0])
    expected = last * (total_flops(config, TARGET.n_bytes).total / compute[1]) ** slope
    assert found["line"] == pytest.approx(expected)


# ---- rolling origins


def test_an_origin_forecasts_only_what_it_has_not_seen(ladder: Ladder) -> None:
    cells = rolling_origins(ladder, forms=["additive"])
    widths = {str(size): size.width for size in SIZES}
    assert {cell.quantity for cell in cells} == set(QUANTITIES)
    assert len({cell.origin for cell in cells}) >= 8
    for cell in cells:
        assert cell.compute_ratio >= 2
        assert cell.target_bytes >= cell.fitted_bytes
        assert widths[cell.target_size] >= widths[cell.fitted_size]
        assert (cell.target_size, cell.target_bytes) != (cell.fitted_size, cell.fitted_bytes)


def test_an_origin_does_not_depend_on_what_it_hides(tmp_path: Path, ladder: Ladder) -> None:
    hidden = [r for r in ladder.rungs if r.size != SIZES[-1]] + [Rung(run_of(tmp_path, SIZES[-1], noise=0.3))]
    other = Ladder(tuple(hidden), ladder.about)
    before, after = (
        [c for c in rolling_origins(one, forms=["additive"]) if c.fitted_size == "32x1" and c.target_size == "48x1"]
        for one in (ladder, other)
    )
    assert before == after != []


def cells_with(errors: list[float]) -> list[Cell]:
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
    found = calibrate(cells_with(random.normal(0, 0.04, 400).tolist()), "total_bits", "additive", 0.0)
    assert found.is_calibrated
    assert found.factor == pytest.approx(4 * 1.645, rel=0.15)  # deviations that were four times too small
    assert found.coverage is not None
    assert 0.86 <= found.coverage <= 0.94
    assert found.n_origins == 400


def test_too_few_cells_calibrate_nothing_and_say_so() -> None:
    found = calibrate(cells_with([0.5] * 3), "total_bits", "additive", 0.0)
    assert not found.is_calibrated
    assert found.factor == pytest.approx(1.6449, rel=1e-3)


def test_seed_deviation_is_pooled_over_the_sizes_that_have_several(ladder: Ladder) -> None:
    logs = [math.log(r.curve.bits[-1] / N_BYTES) for r in ladder.rungs if r.size == SIZES[1]]
    assert len(logs) == 3
    assert seed_deviation(ladder, "total_bits") == pytest.approx(float(np.std(logs, ddof=1)))


# ---- what is refused


def test_a_target_within_what_is_fitted_is_no_forecast(ladder: Ladder) -> None:
    with pytest.raises(ConfigError, match="no forecast"):
        forecast(ladder, Target(size=Size(16, 1), n_bytes=N_BYTES), program_version="1")


def test_diverged_runs_are_refused_unless_asked_for(ladder: Ladder) -> None:
    last = ladder.rungs[-1]
    ends = last.curve.n_bytes
    run = Run(last.run.path, last.run.record)
    run.__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=np.cumsum(np.diff(ends, prepend=0)) * 9.0)}
    wild = Ladder((*ladder.rungs[:-1], Rung(run)), ladder.about)
    with pytest.raises(ConfigError, match="look diverged; 64x1, seed 0"):
        forecast(wild, TARGET, program_version="1")
    made = forecast(wild, TARGET, program_version="1", with_diverged=True, n_resamples=10)
    assert list(made["diverged"]) == ["64x1, seed 0"]


def test_a_run_that_contains_the_target_is_found(ladder: Ladder, tmp_path: Path) -> None:
    assert target_runs(tmp_path, TARGET, ladder.base) == []
    run = run_of(tmp_path, TARGET.size, TARGET.n_bytes + 5, seed=3)
    run_of(tmp_path, TARGET.size, TARGET.n_bytes - 5)
    run_of(tmp_path, Size(96, 1), TARGET.n_bytes)
    assert [one.path for one in target_runs(tmp_path, TARGET, ladder.base)] == [run.path]


# ---- frozen


def test_what_is_frozen_is_read_back_and_any_change_is_refused(frozen: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "forecast.json"
    path.write_text(json.dumps(frozen, indent=1))
    assert read_forecast(path) == frozen
    changed = json.loads(canonical(frozen))
    changed["forecasts"]["total_bits"]["high"] *= 1.5
    path.write_text(json.dumps(changed))
    with pytest.raises(CorpusError, match="changed after it was frozen"):
        read_forecast(path)
    for text, message in (
        ("{", "is no JSON"),
        ("[]", "is no forecast"),
        ('{"kind": "forecast"}', "no forecast of schema"),
    ):
        path.write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_forecast(path)


def test_a_forecast_names_the_digests_of_all_it_was_made_from(frozen: dict[str, Any], ladder: Ladder) -> None:
    assert [one["seed"] for one in frozen["fitted"]] == [rung.config.seed for rung in ladder.rungs]
    assert len({one["curve_blake2b"] for one in frozen["fitted"]}) == len(
        {one["record_blake2b"] for one in frozen["fitted"]}
    )
    assert all(len(one["curve_blake2b"]) == 64 for one in frozen["fitted"])
    assert frozen["corpus"]["blake2b"] == ladder.about.blake2b


# ---- scored


def test_a_score_says_how_far_off_the_forecast_was(frozen: dict[str, Any], tmp_path: Path) -> None:
    run = run_of(tmp_path, TARGET.size, TARGET.n_bytes)
    line = score(frozen, run)
    total = line["scores"][0]
    made = frozen["forecasts"]["total_bits"]
    assert total["actual"] == pytest.approx(run.record["code_bits"])
    assert total["percent"] == pytest.approx(100 * (made["point"] / run.record["code_bits"] - 1))
    assert total["hit"] == (made["low"] <= run.record["code_bits"] <= made["high"])
    naive_error = made["naive"]["last_rung"] - total["actual"]
    assert total["skill"]["last_rung"] == pytest.approx(1 - abs((made["point"] - total["actual"]) / naive_error))
    gain = (made["last_rung_bits_per_byte"] - made["floor_bits_per_byte"]) * TARGET.n_bytes
    assert total["of_remaining_gain"] == pytest.approx((made["point"] - total["actual"]) / gain)


def test_scores_are_only_ever_added(frozen: dict[str, Any], tmp_path: Path) -> None:
    line = score(frozen, run_of(tmp_path, TARGET.size, TARGET.n_bytes))
    for n in (1, 2):
        path = append_score(tmp_path / "forecast.json", line)
        assert len(path.read_text().splitlines()) == n
    assert path.name == "scores.jsonl"


def test_a_run_from_before_the_forecast_is_scored_only_as_after_the_fact(
    frozen: dict[str, Any], tmp_path: Path
) -> None:
    run = run_of(tmp_path, TARGET.size, TARGET.n_bytes)
    run.record["wall_s"] = 3600.0  # begun an hour ago
    with pytest.raises(CorpusError, match="begun before the forecast was frozen"):
        score(frozen, run)
    assert score(sealed({**frozen, "after_the_fact": True}), run)["after_the_fact"]


def test_a_run_that_is_not_the_target_is_refused(frozen: dict[str, Any], tmp_path: Path) -> None:
    for other in (run_of(tmp_path, Size(96, 1), TARGET.n_bytes), run_of(tmp_path, TARGET.size, TARGET.n_bytes + 1)):
        with pytest.raises(CorpusError, match="not the run that was forecast"):
            score(frozen, other)
    known = sealed({**frozen, "target": {**frozen["target"], "blake2b": "other"}})
    with pytest.raises(CorpusError, match="other bytes"):
        score(known, run_of(tmp_path, replace(TARGET).size, TARGET.n_bytes))


def test_a_corpus_that_begins_otherwise_is_refused(frozen: dict[str, Any], ladder: Ladder) -> None:
    check_prefix(frozen, ladder.about)
    with pytest.raises(CorpusError, match="begins otherwise"):
        check_prefix(frozen, Subject(N_BYTES, "other"))
