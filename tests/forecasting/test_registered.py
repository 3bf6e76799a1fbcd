"""Registered forecasts: any change is refused; scores have their errors, and other runs do not score them."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_ladder import N_BYTES, TARGET, WIDE, make_ladder, make_run

from prequential import CorpusError
from prequential.evaluation.runs import pack_runs, read_run, read_runs
from prequential.forecasting.members import read_ladder
from prequential.forecasting.registered import (
    append_score,
    canonical,
    check_prefix,
    find_target_run,
    format_score,
    read_registered,
    registered,
    run_digests,
    score,
)
from prequential.records import read_object
from prequential.sweeps.ladder import Ladder, Size
from prequential.sweeps.plans import CorpusKey


def test_a_score_has_the_errors_of_the_forecast(made: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    total = score(made, run)
    bits, code_bits = made["forecasts"]["total_bits"], run.record["code_bits"]
    assert total["actual"] == pytest.approx(code_bits)
    assert total["percent"] == pytest.approx(100 * (bits["point"] / code_bits - 1))
    assert total["hit"] == (bits["low"] <= code_bits <= bits["high"])


def test_a_score_has_the_interval_score_and_the_skill_against_the_line(made: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    wrong = registered(made)
    bits, actual = wrong["forecasts"]["total_bits"], score(made, run)["actual"]
    bits |= {"low": actual + 0.1, "high": actual + 0.2, "point": actual + 0.15}
    bits["naive"] = {
        "last_rung": actual,
        "line": actual,
        "line_with_proxy": actual + 0.05,
    }  # as an earlier schema has them
    total = score(registered(wrong), run)
    assert not total["hit"]
    assert total["interval_score_percent"] == pytest.approx(100 * 2.1 / actual)
    assert total["skill"] == pytest.approx(1 - 0.15 / 0.05)  # negative, and shown
    assert "a line through the last two sizes was 0.0 % off" in format_score(total)


def test_scores_are_appended_to_the_earlier_ones_among_the_runs(made: dict[str, Any], tmp_path: Path) -> None:
    record = score(made, make_run(tmp_path, WIDE, TARGET.n_bytes))
    for n in (1, 2):
        path = append_score(tmp_path, record)
        assert path == tmp_path / "scores.jsonl"
        assert len(path.read_text().splitlines()) == n
    (tmp_path / "packed").mkdir()
    pack_runs(tmp_path, tmp_path / "packed" / "ladder.jsonl")
    assert append_score(tmp_path / "packed" / "ladder.jsonl", record) == tmp_path / "packed" / "scores.jsonl"
    assert len(read_runs(tmp_path)) == 1  # scores among runs are not taken for a run


def test_a_run_whose_folder_is_not_utf_8_is_scored(made: dict[str, Any], tmp_path: Path) -> None:
    path = make_run(tmp_path, WIDE, TARGET.n_bytes).path
    odd = path.rename(path.with_name(os.fsdecode(b"run\xff")))
    record = score(made, read_run(odd))
    assert record["run"]["name"] == "run\\xff"
    assert read_object(append_score(tmp_path, record)) == record


def test_the_newest_run_of_the_target_is_found(
    made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.forecasting.registered.check_own_run", lambda run: None)
    make_run(tmp_path, WIDE, TARGET.n_bytes, seed=1)
    make_run(tmp_path, WIDE, TARGET.n_bytes + 1)
    with pytest.raises(CorpusError, match="has no run of the target"):
        find_target_run(tmp_path, made)
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    assert find_target_run(tmp_path, made).path == run.path


def test_a_run_that_began_before_the_forecast_scores_only_a_forecast_after_the_fact(
    made: dict[str, Any], tmp_path: Path
) -> None:
    run = make_run(tmp_path, WIDE, TARGET.n_bytes)
    run.record["wall_s"] = 3600.0  # begun an hour ago
    with pytest.raises(CorpusError, match="began before the forecast was registered"):
        score(made, run)
    assert score(registered({**made, "after_the_fact": True}), run)["after_the_fact"]


def test_a_run_of_another_size_length_or_text_is_refused(made: dict[str, Any], ladder: Ladder, tmp_path: Path) -> None:
    for other in (make_run(tmp_path, Size(96, 1), TARGET.n_bytes), make_run(tmp_path, WIDE, TARGET.n_bytes + 1)):
        with pytest.raises(CorpusError, match="not the run that was forecast"):
            score(made, other)
    check_prefix(made, ladder.corpus)
    with pytest.raises(CorpusError, match="does not begin with the bytes"):
        check_prefix(made, CorpusKey(N_BYTES, "other"))
    known = registered({**made, "target": {**made["target"], "blake2b": "other"}})
    with pytest.raises(CorpusError, match="other bytes"):
        score(known, make_run(tmp_path, WIDE, TARGET.n_bytes))


def test_a_frozen_forecast_is_read_back_and_any_change_is_refused(made: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "forecast.json"
    path.write_text(json.dumps(made, indent=1))
    assert read_registered(path) == made
    changed = json.loads(canonical(made))
    changed["forecasts"]["total_bits"]["high"] *= 1.5
    path.write_text(json.dumps(changed))
    with pytest.raises(CorpusError, match="changed after it was registered"):
        read_registered(path)
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "is not a"),
        ('{"kind": "forecast"}', "not a forecast of schema"),
    ):
        path.write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_registered(path)


def test_a_forecast_names_its_runs_by_digests_which_are_those_of_the_packed_ladder(
    made: dict[str, Any], tmp_path: Path
) -> None:
    ladder = make_ladder(tmp_path / "runs", noise=0.002)
    pack_runs(tmp_path / "runs", tmp_path / "ladder.jsonl")
    packed, _ = read_ladder(tmp_path / "ladder.jsonl")
    assert (packed.corpus, [rung.name for rung in packed.rungs]) == (ladder.corpus, [r.name for r in ladder.rungs])
    for rung, other in zip(ladder.rungs, packed.rungs, strict=True):
        assert run_digests(other.run) == run_digests(rung.run)
        assert np.array_equal(other.curve.bits, rung.curve.bits)
    for name in ("record_blake2b", "curve_blake2b"):
        assert {len(digests[name]) for digests in made["fitted"]} == {64}
        assert len({digests[name] for digests in made["fitted"]}) == len(ladder.rungs)
    assert made["corpus"]["blake2b"] == ladder.corpus.blake2b
