"""results.py: which rows its tables show, and that the text around it is unchanged."""

import json
from pathlib import Path

import pytest
from scripts import load

from prequential import preset

results = load("results")


def row(*, archive_bytes, program="prequential -5", level="5", **extra):
    ours = {"config": results.digest(preset(int(level)).to_dict())} if level else {}
    usual = {
        "file": "a", "bytes": "1000", "blake2b": "aa", "date": "2028-01-02T03:04", "machine": "chip", "decoded": "yes",
        "seconds": "2", "decode_seconds": "3", "peak_bytes": f"{1 << 20}", "version": "1111111",
    }  # fmt: skip
    return results.Row(**usual | ours | extra, program=program, level=level, archive_bytes=f"{archive_bytes}")


def other(program, archive_bytes, **extra):
    return row(archive_bytes=archive_bytes, program=program, level="", **extra)


def cells_of(*rows, title=None):
    """The cells of the line of file `a`; of a column, if a title is given."""
    cells = [cell.strip() for cell in results.summary(rows).splitlines()[2].split("|")[1:-1]]
    return cells if title is None else cells[results.SUMMARY_TITLES.index(title)]


def test_the_committed_tables_are_those_that_the_script_makes_of_the_committed_rows():
    committed = results.RESULTS.read_text("utf-8").partition(results.BEGIN)[2].partition(results.END)[0]
    assert committed.strip() == results.summary(results.read(results.ROWS))


def test_no_other_program_of_the_rows_makes_a_smaller_archive_than_prequential_2():
    """docs/RESULTS.md says so."""
    files = [each for each in map(results.newest, results.by_file(results.read(results.ROWS))) if 2 in each[0]]
    assert len(files) == 21
    for levels, others in files:
        assert levels[2].bits_per_byte < others[0].bits_per_byte


def test_a_file_has_a_line_with_its_levels_xz_and_the_best_other_program_that_restored_it():
    others = [other("xz -9e", 500), other("zpaq", 350), other("7z", 360), other("lossy", 10, decoded="no")]
    cells = cells_of(row(archive_bytes=300), row(archive_bytes=400, level="1"), *others, other("b", 9, blake2b="bb"))
    assert cells == ["a", "1,000", "3.2000", "", "", "", "2.4000", "", "4.0000", "2.8000 zpaq"]


def test_the_newest_row_of_a_level_counts_and_none_of_a_tree_with_changes():
    rows = [row(archive_bytes=300), row(archive_bytes=250), row(archive_bytes=200, version="1111111-dirty")]
    assert cells_of(*rows, title="-5") == "2.0000"


def test_every_row_is_of_the_presets_of_today_and_an_archive_that_was_not_decoded_has_a_mark():
    levels = [each for each in results.read(results.ROWS) if each.level]
    assert all(each.config == results.digest(preset(int(each.level)).to_dict()) for each in levels)
    assert cells_of(row(archive_bytes=300, decoded="no"), title="-5") == "2.4000†"


def test_speeds_are_of_one_file(monkeypatch):
    monkeypatch.setattr(results, "TIMED_FILE", "a")
    tables = results.summary([row(archive_bytes=300), row(archive_bytes=9, file="b", blake2b="bb")])
    assert tables.splitlines()[-1] == "| -5 | 0.50 | 0.33 | 1 | chip | 1111111 |"


def test_an_evaluation_becomes_rows_that_are_read_as_they_were_written(tmp_path):
    more = ["--limit", "300", "--verify", "--baselines", "gzip"]
    record = results.evaluated("sample:christmas_carol", "1", more)
    learner, baseline = rows = results.rows_of(record, "1")
    assert int(learner.archive_bytes) == record["archive_bytes"]
    assert baseline.program == "gzip -9 (zlib)" and baseline.version.startswith("python 3.")
    for _ in range(2):
        results.append(tmp_path / "results.csv", rows)
    assert results.read(tmp_path / "results.csv") == [*rows, *rows]


# ---- forecasts


forecasts = load("forecasts")
STUDIES = (Path(__file__).parents[2] / "docs" / "STUDIES.md").read_text()
PUBLISHED = list(forecasts.published((*forecasts.NEW, *forecasts.CLEAN, *forecasts.TUNED)))


@pytest.mark.thorough
@pytest.mark.parametrize("each", [p for p in PUBLISHED if p.name in forecasts.CLEAN], ids=lambda each: each.label)
def test_a_clean_forecast_is_in_the_document_as_registered_and_as_made_today(each: "forecasts.Published") -> None:
    then, now = forecasts.score(each.record, each.target), forecasts.after_the_fact(each)
    assert f"| {' | '.join(forecasts.row(each, then, now))} |" in STUDIES


@pytest.mark.parametrize("each", PUBLISHED, ids=lambda each: each.label)
def test_a_sealed_forecast_is_scored_as_it_was_when_its_target_had_run(each: "forecasts.Published") -> None:
    lines = map(json.loads, (forecasts.FOLDER / each.name / "scores.jsonl").read_text().splitlines())
    (then,) = (line for line in lines if line["forecast_blake2b"] == each.record["blake2b"])
    old = next(one for one in then.get("scores", [then]) if one.get("quantity", "total_bits") == "total_bits")
    new = forecasts.score(each.record, each.target)
    for name in ("point", "low", "high", "actual", "percent"):
        assert new[name] == pytest.approx(old[name], rel=1e-12)
    assert new["hit"] == old["hit"]


def test_clean_forecasts_were_registered_before_their_targets() -> None:
    clean = [each for each in PUBLISHED if each.name in (*forecasts.NEW, *forecasts.CLEAN)]
    assert len(clean) >= 4
    for each in clean:
        assert not each.record["after_the_fact"] and each.record["created_at"] < each.target.record["time"]
