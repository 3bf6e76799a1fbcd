"""What lies in a folder is on its page: runs, held-out losses, series, forecasts with their scores."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import prequential
from prequential.errors import CorpusError
from prequential.evaluation.runs import Run
from prequential.report.contents import read_contents
from prequential.report.page import html_report

FORECAST = Path(__file__).parents[2] / "benchmarks" / "forecasts" / "french"


@pytest.fixture(scope="module")
def losses() -> list[dict[str, Any]]:
    """The records of two learners on the same three documents."""
    records = []
    for contexts in (("1", "2"), ("1", "2", "3")):
        config = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=contexts, table_bits=10))
        documents = ["a text that repeats itself; " * 20, "and another one. " * 30, "c" * 300]
        train = "sample:christmas_carol"
        measured = prequential.heldout(documents, train=train, train_limit=2000, config=config)
        records.append(json.loads(json.dumps(measured.record)))
    return records


@pytest.fixture
def folder(runs: list[Run], losses: list[dict[str, Any]], tmp_path: Path) -> Path:
    """A folder with everything."""
    for run in runs:
        shutil.copytree(run.path, tmp_path / run.name)
    (tmp_path / "heldout.jsonl").write_text("".join(json.dumps(record) + "\n" for record in losses))
    point = losses[0] | {"kind": "monorepo", "setting": {}}
    point["test"] = point["test"] | {"until": "0" * 40, "until_date": "2026-11-28T12:00:00+00:00", "n_commits": 7}
    (tmp_path / "repo.series.jsonl").write_text(json.dumps(point) + "\n")
    for name in ("forecast.json", "scores.jsonl"):
        shutil.copy(FORECAST / name, tmp_path)
    (tmp_path / "other.json").write_text('{"kind": "mine"}')
    return tmp_path


def test_all_that_lies_in_a_folder_is_on_the_page(folder: Path, losses: list[dict[str, Any]]) -> None:
    found = read_contents([folder])
    page = html_report(found.runs, found)
    better = min(losses, key=lambda record: record["dynamic"]["bits_per_byte"])["dynamic"]["bits_per_byte"]
    assert f"needs {better:.4f} bits/byte on" in page and "the least of 2</h2>" in page
    assert "New text up to 2026-11-28 needs" in page
    assert "<h2>The forecast was 0.2 % too low, within its interval; a line" in page
    titles = ("Each run", "Held-out loss on", "Series repo.series", "Forecast for")
    assert all(title in page.partition("</nav>")[0] for title in titles)


@pytest.mark.parametrize("name", ["heldout.jsonl", "repo.series.jsonl", "forecast.json"])
def test_each_file_of_records_has_a_page_of_its_own(folder: Path, name: str) -> None:
    found = read_contents([folder / name])
    assert html_report(found.runs, found).count("<h1>") == 1


def test_what_cannot_be_shown_is_refused(folder: Path, losses: list[dict[str, Any]]) -> None:
    with pytest.raises(CorpusError, match="beside its forecast: name that file, too"):
        read_contents([FORECAST / "scores.jsonl"])
    with pytest.raises(CorpusError, match=r"other.json' is not a run, and holds none"):
        read_contents([folder, folder / "other.json"])
    damaged = losses[0] | {"dynamic": losses[0]["dynamic"] | {"interval": {"by": 1}}}
    (folder / "heldout.jsonl").write_text(json.dumps(damaged))
    found = read_contents([folder / "heldout.jsonl"])
    with pytest.raises(CorpusError, match=r"low_bits_per_byte|damaged"):
        html_report(found.runs, found)
