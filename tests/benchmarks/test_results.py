"""results.py: which records its table shows, and that the text around it is unchanged."""

import json
from pathlib import Path

import pytest
from scripts import load

from prequential import preset

results = load("results")


def evaluation(*, archive_bytes, level=5, name="a", digest="aa", commit="1" * 40, **extra):
    config = json.loads(json.dumps(preset(level).to_dict()))
    return {
        "kind": "evaluation",
        "time": "2028-01-02T03:04:05+00:00",
        "corpus": {"kind": "file", "name": name, "n_bytes": 1000, "blake2b": digest},
        "config": config,
        "archive_bytes": archive_bytes,
        "wall_s": 2.0,
        "decoder_bytes": 1000,
        "verified": True,
        "verify_wall_s": 3.0,
        "peak_memory_bytes": 1 << 20,
        "baselines": [{"name": "xz", "label": "xz -9e", "compressed_bytes": 500, "wall_s": 0.1}],
        "environment": {
            "machine": {"cpu": "Intel(R) Chip(R) Processor"},
            "threads": 2,
            "versions": {"prequential": "0.1.0", "python": "3.11.7"},
            "git_commit": commit,
        },
    } | extra


def peer(name, compressed_bytes, *, digest="aa", restored=True):
    return {
        "time": "2026-01-02T03:04:05+00:00",
        "corpus": {"name": "a", "n_bytes": 1000, "blake2b": digest},
        "name": name,
        "label": f"{name} program",
        "version": "9.9",
        "compressed_bytes": compressed_bytes,
        "wall_s": 0.5,
        "decompress_wall_s": 0.25,
        "restored": restored,
        "peak_memory_bytes": None,
        "machine": {"cpu": "another chip"},
    }


def lines_of(text, column, content):
    """The lines of a table whose cell in a column is `content`."""
    return [line for line in text.splitlines() if line.startswith("|") and line.split("|")[column].strip() == content]


def test_the_committed_table_is_the_one_that_the_script_makes_of_the_committed_records():
    committed = results.RESULTS.read_text("utf-8").partition(results.BEGIN)[2].partition(results.END)[0]
    assert committed.strip() == results.summary(results.read(results.RECORDS), results.read(results.PEERS))


def test_no_other_program_of_the_records_makes_a_smaller_archive_than_prequential_2():
    """docs/RESULTS.md says so."""
    files = results.rows_by_file(results.read(results.RECORDS), results.read(results.PEERS))
    measured = [rows for _, rows in files if any(row.name == "prequential -2" for row in rows)]
    assert len(measured) == 31
    for rows in measured:
        (level_2,) = [row.compressed_bytes for row in rows if row.name == "prequential -2"]
        assert level_2 < min(row.compressed_bytes for row in rows if not row.is_ours)


def cells_of(records, peers=(), title=None):
    """The cells of the line of file `a`; of a column, if a title is given."""
    line = results.summary(records, list(peers)).splitlines()[2]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    return cells if title is None else cells[results.SUMMARY_TITLES.index(title)]


def test_a_file_has_a_line_with_its_levels_xz_and_the_best_other_program():
    records = [evaluation(archive_bytes=300), evaluation(archive_bytes=400, level=1)]
    peers = [peer("zpaq", 350), peer("7z", 360)]
    assert cells_of(records, peers) == [
        "a",
        "1,000",
        "3.2000",
        "",
        "",
        "",
        "2.4000",
        "",
        "4.0000",
        "2.8000 zpaq program",
    ]


def test_the_newest_record_of_a_level_counts_and_none_of_a_preset_that_has_changed():
    changed = evaluation(archive_bytes=200, level=1, options=["-5"])
    assert cells_of([evaluation(archive_bytes=300), evaluation(archive_bytes=250), changed], title="-5") == "2.0000"


def test_an_archive_of_a_former_mixer_and_one_that_was_not_decoded_have_marks():
    former = evaluation(archive_bytes=300, time="2026-11-27T20:00:00+00:00")
    assert cells_of([former], title="-5") == "2.4000°"
    assert cells_of([evaluation(archive_bytes=300, verified=False)], title="-5") == "2.4000†"


def test_the_last_level_has_the_records_of_its_former_name():
    assert cells_of([evaluation(archive_bytes=300, level=6, options=["-9"])], title="-6") == "2.4000"


def test_speeds_are_of_one_file(monkeypatch):
    monkeypatch.setattr(results, "TIMED_FILE", "a")
    tables = results.summary([evaluation(archive_bytes=300), evaluation(archive_bytes=9, name="b", digest="bb")], [])
    assert tables.splitlines()[-1] == "| -5 | 0.50 | 0.33 | 1 | Intel Chip, 2 threads | 1111111 |"


def test_a_peer_is_shown_for_the_same_bytes_if_it_is_no_baseline_and_without_a_size_if_it_lost_bytes():
    peers = [peer("xz", 501), peer("zpaq", 350, digest="bb"), peer("7z", 10, restored=False)]
    text = results.every_row([evaluation(archive_bytes=300)], peers)
    assert "xz program" not in text and "zpaq program" not in text and lines_of(text, 3, "7z program") == []
    assert text.endswith("\nDid not restore a: 7z program (9.9).")


# ---- forecasts


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
