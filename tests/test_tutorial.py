"""The tutorial, followed by a stranger: each of its commands and files, in its order, in an empty folder."""

from pathlib import Path

import pytest
from test_readme import PROJECT, run, steps

import prequential

TUTORIAL = (PROJECT / "docs" / "TUTORIAL.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_tutorial_in_its_order_in_an_empty_folder(tmp_path: Path) -> None:
    found = list(steps(TUTORIAL))
    assert [step.file for step in found if step.code] == ["pairs.py", "loop.py"]
    for step in found:
        if step.file:
            (tmp_path / step.file).write_text(step.code, "utf-8")
        else:
            run(tmp_path, "bash", "-c", step.command)
    assert (tmp_path / "carol.txt").read_bytes() == prequential.sample_path("christmas_carol").read_bytes()
    assert [len(prequential.read_runs(tmp_path / name)) for name in ("runs", "loops")] == [3, 2]
    verified = [run.record["verified"] for run in prequential.read_runs(tmp_path / "runs")]
    assert verified == [False, False, True] and (tmp_path / "report.html").exists()
