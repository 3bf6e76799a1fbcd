"""benchmarks/forecasts.py: the figures of the published forecasts in the documents are those of the committed files."""

import json
from pathlib import Path

import pytest
from scripts import load

forecasts = load("forecasts")
PROJECT = Path(__file__).parents[2]
STUDIES = (PROJECT / "docs" / "STUDIES.md").read_text(encoding="utf-8")
TABLES = (PROJECT / "dev" / "STUDIES-2026.md").read_text(encoding="utf-8")


def test_every_score_as_frozen_is_in_the_document_with_the_skill_against_what_knows_the_proxy() -> None:
    rows = [forecasts.score_row(each.label, forecasts.with_naive(each), each.target) for each in forecasts.published()]
    assert len(rows) == 8
    for line in forecasts.format_markdown(rows[0], rows[1:]).splitlines():
        assert line.startswith("| ---") or line in TABLES


def test_the_scores_of_the_frozen_files_are_those_that_were_appended_when_the_targets_ran() -> None:
    for each in forecasts.published():
        lines = map(json.loads, (forecasts.FOLDER / each.name / "scores.jsonl").read_text().splitlines())
        (then,) = (line["scores"] for line in lines if line["forecast_blake2b"] == each.record["blake2b"])
        (old,) = (one for one in then if one["quantity"] == "total_bits")
        new = forecasts.score(each.record, each.target)
        for name in ("point", "low", "high", "actual", "percent"):
            assert new[name] == pytest.approx(old[name], rel=1e-12)
        assert new["hit"] == old["hit"]
        assert new["skill"] == pytest.approx(min(old["skill"].values()))


def test_a_refitted_forecast_is_in_the_document() -> None:
    (each,) = (p for p in forecasts.published() if p.label == "dickens-contexts, proxy")
    record = forecasts.refitted(each)
    for row in (forecasts.score_row(each.label, record, each.target), forecasts.law_row(each.label, record)):
        assert f"| {' | '.join(row)} |" in TABLES


def test_the_clean_forecasts_are_in_the_document_as_they_were_frozen_before_their_targets() -> None:
    clean = list(forecasts.published(forecasts.CLEAN))
    assert [each.label for each in clean] == [
        "gogol, 10.2 times", "gogol, 29.2 times", "tinygrad, 10.6 times", "tinygrad, 30.8 times",
    ]  # fmt: skip
    for each in clean:
        assert not each.record["after_the_fact"] and each.record["created_at"] < each.target.record["time"]
        total, law = (
            forecasts.score_row(each.label, each.record, each.target),
            forecasts.law_row(each.label, each.record),
        )
        for row in (total, law):
            assert f"| {' | '.join(row)} |" in TABLES
        assert f"| {' | '.join([each.label, *total[2:5], total[-1], law[-1]])} |" in STUDIES
