"""Registered forecasts: a change is noticed; scores have the errors; some runs do not score a forecast."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from planted_ladder import TARGET, WIDE, make_ladder, make_run

from prequential import CorpusError
from prequential.evaluation.runs import pack_runs, read_run, read_runs
from prequential.forecasting.forecast import forecast_record
from prequential.forecasting.members import read_ladder
from prequential.forecasting.registered import (
    find_target_run,
    read_registered,
    run_digests,
    score,
    scores_path,
    with_digest,
)
from prequential.records import append_record, read_object
from prequential.sweeps.ladder import Size


def test_a_score_has_the_errors_of_the_forecast_and_the_skill_against_the_line(
    registered: dict[str, Any], tmp_path: Path
) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    right, code_bits = score(registered, run), run.record["code_bits"]
    assert right["actual"] == pytest.approx(code_bits)
    assert right["percent"] == pytest.approx(100 * (right["point"] / code_bits - 1))
    assert right["hit"] == (right["low"] <= code_bits <= right["high"])
    wrong, actual = with_digest(registered), right["actual"]
    made = wrong["forecasts"]["total_bits"]
    made |= {"low": actual + 0.1, "high": actual + 0.2, "point": actual + 0.15}
    made["naive"] = {"last_rung": actual, "line_with_proxy": actual + 0.05}  # the first as earlier schemas have it
    total = score(with_digest(wrong), run)
    assert not total["hit"]
    assert total["interval_score_percent"] == pytest.approx(100 * 2.1 / actual)
    assert total["skill"] == pytest.approx(1 - 0.15 / 0.05)  # negative, and shown


def test_scores_are_beside_the_runs_and_are_not_taken_for_a_run(registered: dict[str, Any], tmp_path: Path) -> None:
    path = make_run(tmp_path, WIDE, TARGET.n_bytes).path
    odd = path.rename(path.with_name(os.fsdecode(b"run\xff")))
    record = score(registered, read_run(odd))
    assert record["run"]["name"] == "run\\xff"
    append_record(scores_path(tmp_path), record)
    assert read_object(tmp_path / "scores.jsonl") == record
    assert len(read_runs(tmp_path)) == 1
    (tmp_path / "ladder.jsonl").touch()
    assert scores_path(tmp_path / "ladder.jsonl") == tmp_path / "scores.jsonl"


def test_the_newest_run_of_the_target_is_found(
    registered: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.forecasting.registered.check_archive", lambda run: None)
    make_run(tmp_path, WIDE, TARGET.n_bytes, seed=1)
    with pytest.raises(CorpusError, match="has no run of the target"):
        find_target_run(tmp_path, registered)
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    assert find_target_run(tmp_path, registered).path == run.path


def test_a_run_that_began_before_the_forecast_scores_only_a_forecast_after_the_fact(
    registered: dict[str, Any], tmp_path: Path
) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    run.record["wall_s"] = 3600.0  # begun an hour ago
    with pytest.raises(CorpusError, match="began before the forecast was registered"):
        score(registered, run)
    assert score(with_digest({**registered, "after_the_fact": True}), run)["after_the_fact"]


def test_a_run_of_another_size_length_or_text_is_refused(registered: dict[str, Any], tmp_path: Path) -> None:
    known = with_digest({**registered, "target": {**registered["target"], "blake2b": "other"}})
    others = [(registered, Size(96, 1), TARGET.n_bytes), (registered, WIDE, TARGET.n_bytes + 1)]
    for forecast, size, n_bytes in ((known, WIDE, TARGET.n_bytes), *others):
        with pytest.raises(CorpusError, match="not the run that was forecast"):
            score(forecast, make_run(tmp_path, size, n_bytes))


# ---- the digest


def test_a_forecast_is_read_back_and_any_change_is_refused(registered: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "forecast.json"
    path.write_text(json.dumps(registered, indent=1))
    assert read_registered(path) == registered
    changed = with_digest(registered)
    changed["forecasts"]["total_bits"]["high"] *= 1.5
    path.write_text(json.dumps(changed))
    with pytest.raises(CorpusError, match="changed after it was registered"):
        read_registered(path)
    path.write_text('{"kind": "forecast"}')
    with pytest.raises(CorpusError, match="not a forecast of schema"):
        read_registered(path)


def test_a_forecast_names_its_runs_by_digests_which_are_those_of_the_packed_ladder(tmp_path: Path) -> None:
    ladder = make_ladder(tmp_path / "runs", noise=0.002)
    pack_runs(tmp_path / "runs", tmp_path / "ladder.jsonl")
    fitted = forecast_record(read_ladder(tmp_path / "ladder.jsonl"), TARGET)["fitted"]
    assert fitted == [run_digests(rung.run) for rung in ladder.rungs]
    for name in ("record_blake2b", "curve_blake2b"):
        assert len({digests[name] for digests in fitted}) == len(ladder.rungs)
