"""A page is written as a file: of every form of runs, over its own earlier page, and over nothing else."""

from pathlib import Path

import pytest

import prequential
from prequential.errors import ConfigError, OutputError
from prequential.evaluation.runs import Run


def test_a_page_of_runs_results_and_folders_replaces_only_an_earlier_page(tmp_path: Path, runs: list[Run]) -> None:
    page, other = tmp_path / "page.html", tmp_path / "other.html"
    result = prequential.evaluate(b"text " * 99, level=1, baselines=())
    assert prequential.write_report([*runs, result], page) == page
    assert page.stat().st_mode & 0o777 == runs[0].mode & 0o644
    prequential.write_report(runs[0].path.parent, page)
    assert page.read_text().count("<article") == 2
    other.write_text("mine")
    with pytest.raises(OutputError):
        prequential.write_report(result, other)
    prequential.write_report(result, other, overwrite=True)
    for wrong in (5, [], [5]):
        with pytest.raises(ConfigError, match=r"^results is"):
            prequential.write_report(wrong, other)
