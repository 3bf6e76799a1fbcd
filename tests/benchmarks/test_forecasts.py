"""benchmarks/forecasts.py: the figures of the published forecasts in the documents are those of the committed files."""

import json
from pathlib import Path

import pytest
from scripts import load

forecasts = load("forecasts")
STUDIES = (Path(__file__).parents[2] / "docs" / "STUDIES.md").read_text()
PUBLISHED = list(forecasts.published((*forecasts.CLEAN, *forecasts.TUNED)))


@pytest.mark.thorough
@pytest.mark.parametrize("each", PUBLISHED, ids=lambda each: each.label)
def test_a_published_forecast_is_in_the_document_as_frozen_and_as_made_today(each: "forecasts.Published") -> None:
    assert f"| {' | '.join(forecasts.row(each))} |" in STUDIES


@pytest.mark.parametrize("each", PUBLISHED, ids=lambda each: each.label)
def test_a_sealed_forecast_is_scored_as_it_was_when_its_target_had_run(each: "forecasts.Published") -> None:
    lines = map(json.loads, (forecasts.FOLDER / each.name / "scores.jsonl").read_text().splitlines())
    (then,) = (line for line in lines if line["forecast_blake2b"] == each.record["blake2b"])
    old = next(one for one in then.get("scores", [then]) if one.get("quantity", "total_bits") == "total_bits")
    new = forecasts.score(each.record, each.target)
    for name in ("point", "low", "high", "actual", "percent"):
        assert new[name] == pytest.approx(old[name], rel=1e-12)
    assert new["hit"] == old["hit"]


def test_clean_forecasts_were_frozen_before_their_targets() -> None:
    clean = [each for each in PUBLISHED if each.name in forecasts.CLEAN]
    assert len(clean) >= 4
    for each in clean:
        assert not each.record["after_the_fact"] and each.record["created_at"] < each.target.record["time"]
