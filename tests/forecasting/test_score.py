"""Scores: the errors of a forecast, and the runs that do not score it."""

import os
from pathlib import Path
from typing import Any

import pytest
from planted_ladder import N_BYTES, TARGET, WIDE, make_run

from prequential import CorpusError
from prequential.evaluation.runs import pack_runs, read_run, read_runs
from prequential.forecasting.registered import append_score, check_prefix, find_target_run, score, sealed
from prequential.records import read_object
from prequential.sweeps.ladder import Ladder, Size
from prequential.sweeps.plans import CorpusKey


def test_a_score_has_the_errors_of_the_forecast(frozen: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    total = score(frozen, run)
    made, code_bits = frozen["forecasts"]["total_bits"], run.record["code_bits"]
    assert total["actual"] == pytest.approx(code_bits)
    assert total["percent"] == pytest.approx(100 * (made["point"] / code_bits - 1))
    assert total["hit"] == (made["low"] <= code_bits <= made["high"])


def test_a_score_has_the_interval_score_and_the_skill_against_the_best_naive_forecast(
    frozen: dict[str, Any], tmp_path: Path
) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    wrong = sealed(frozen)
    made = wrong["forecasts"]["total_bits"]
    actual = score(frozen, run)["actual"]
    made |= {"low": actual + 0.1, "high": actual + 0.2, "point": actual + 0.15}
    made["naive"] |= {"last_rung_with_proxy": actual + 0.05}
    total = score(sealed(wrong), run)
    assert not total["hit"]
    assert total["interval_score_percent"] == pytest.approx(100 * 2.1 / actual)
    assert total["skill"] == pytest.approx(1 - 0.15 / 0.05)  # negative, and shown


def test_scores_are_appended_to_the_earlier_ones_among_the_runs(frozen: dict[str, Any], tmp_path: Path) -> None:
    record = score(frozen, make_run(tmp_path, WIDE, TARGET.n_bytes))
    for n in (1, 2):
        path = append_score(tmp_path, record)
        assert path == tmp_path / "scores.jsonl"
        assert len(path.read_text().splitlines()) == n
    (tmp_path / "packed").mkdir()
    pack_runs(tmp_path, tmp_path / "packed" / "ladder.jsonl")
    assert append_score(tmp_path / "packed" / "ladder.jsonl", record) == tmp_path / "packed" / "scores.jsonl"
    assert len(read_runs(tmp_path)) == 1  # scores among runs are not taken for a run


def test_a_run_whose_folder_is_not_utf_8_is_scored(frozen: dict[str, Any], tmp_path: Path) -> None:
    path = make_run(tmp_path, WIDE, TARGET.n_bytes).path
    odd = path.rename(path.with_name(os.fsdecode(b"run\xff")))
    record = score(frozen, read_run(odd))
    assert record["run"]["name"] == "run\\xff"
    assert read_object(append_score(tmp_path, record)) == record


def test_the_newest_run_of_the_target_is_found(
    frozen: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.forecasting.registered.check_own_run", lambda run: None)
    make_run(tmp_path, WIDE, TARGET.n_bytes, seed=1)
    make_run(tmp_path, WIDE, TARGET.n_bytes + 1)
    with pytest.raises(CorpusError, match="has no run of the target"):
        find_target_run(tmp_path, frozen)
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    assert find_target_run(tmp_path, frozen).path == run.path


def test_a_run_that_began_before_the_forecast_scores_only_a_forecast_after_the_fact(
    frozen: dict[str, Any], tmp_path: Path
) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    run.record["wall_s"] = 3600.0  # begun an hour ago
    with pytest.raises(CorpusError, match="began before the forecast was frozen"):
        score(frozen, run)
    assert score(sealed({**frozen, "after_the_fact": True}), run)["after_the_fact"]


def test_a_run_of_another_size_length_or_text_is_refused(
    frozen: dict[str, Any], ladder: Ladder, tmp_path: Path
) -> None:
    for other in (make_run(tmp_path, Size(96, 1), TARGET.n_bytes), make_run(tmp_path, WIDE, TARGET.n_bytes + 1)):
        with pytest.raises(CorpusError, match="not the run that was forecast"):
            score(frozen, other)
    check_prefix(frozen, ladder.corpus)
    with pytest.raises(CorpusError, match="does not begin with the bytes"):
        check_prefix(frozen, CorpusKey(N_BYTES, "other"))
    known = sealed({**frozen, "target": {**frozen["target"], "blake2b": "other"}})
    with pytest.raises(CorpusError, match="other bytes"):
        score(known, make_run(tmp_path, WIDE, TARGET.n_bytes))
