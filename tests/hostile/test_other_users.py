"""Another user of the machine, in folders that both may write: his files, locks and runs."""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from limits import bounded
from programs import FUSED, TINY, mode_of, tiny_options
from pytest import MonkeyPatch

from prequential import CorpusError, compress
from prequential.cli.main import main
from prequential.errors import OutputError
from prequential.evaluation.runs import ARCHIVE, Run
from prequential.files import outputs
from prequential.files.outputs import append_line
from prequential.sweeps.plans import Plan, RunOutcome, Variant, run_plan

pytestmark = pytest.mark.usefixtures("usual_umask", "no_warm_up")
TEXT = b"it was the best of times, it was the worst of times. " * 12


# ---- records


@pytest.mark.parametrize(
    ("mode", "source_mode", "remedy"),
    [(0o644, 0o600, "chmod 600"), (0o644, 0o640, "chmod 640"), (0o664, 0o644, "")],
)
def test_a_line_is_appended_only_where_no_more_users_read_it(
    mode: int, source_mode: int, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    path.chmod(mode)
    if remedy:
        with pytest.raises(OutputError, match=f"can be read by users who cannot read the source: {remedy} it"):
            append_line(path, b"line\n", source_mode)
        assert path.read_bytes() == b""
        path.chmod(int(remedy.removeprefix("chmod "), 8))
    append_line(path, b"line\n", source_mode)
    append_line(tmp_path / "new.jsonl", b"line\n", source_mode)
    assert path.read_bytes() == b"line\n" and mode_of(tmp_path / "new.jsonl") == source_mode


def test_a_measurement_whose_record_is_locked_ends_in_one_line_and_keeps_the_record(
    tmp_path: Path, monkeypatch: MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outputs, "LOCK_WAIT_S", 0.2)
    (tmp_path / "a").write_bytes(TEXT)
    path = tmp_path / "heldout.jsonl"
    path.touch()
    (tmp_path / "b").write_bytes(bytes(range(256)))
    args = ["--train", str(tmp_path / "b"), "--test", str(tmp_path / "a"), "--runs", str(tmp_path)]
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with bounded(60.0):
            assert main(["heldout", *args, *tiny_options(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    (kept,) = tmp_path.glob("heldout.jsonl.new-*")
    assert "is locked by another program" in line and f"the record is in '{kept}'" in line
    assert json.loads(kept.read_bytes())["test"]["n_bytes"] == len(TEXT)


# ---- runs that a plan finds finished


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(TEXT)
    return tmp_path / "a"


def planned(corpus: Path, seed: int = 0) -> RunOutcome:
    """The run of a plan of one, in `runs` beside the corpus."""
    plan = Plan(variants=(Variant(name="tiny", configs=(replace(TINY, seed=seed),)),))
    (outcome,) = run_plan(corpus, plan, corpus.parent / "runs", runtime=FUSED)
    return outcome


BAD_RUNS: dict[str, tuple[Callable[[Run], object], str]] = {
    "no archive": (lambda run: run.archive.unlink(), "lacks its archive"),
    "archive cut": (lambda run: os.truncate(run.archive, 50), "lacks its archive"),
    "archive of other bytes": (
        lambda run: run.archive.write_bytes(compress(TEXT[1:], config=TINY, runtime=FUSED)), "has another archive"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_RUNS)
def test_a_plan_refuses_a_finished_run_without_the_archive_of_its_record(name: str, corpus: Path) -> None:
    finished = planned(corpus).run
    assert finished and not planned(corpus).is_new
    spoil, reason = BAD_RUNS[name]
    spoil(finished)
    with pytest.raises(CorpusError, match=f"{finished.name}' {reason}.*or choose another folder$"):
        planned(corpus)
    assert planned(corpus, seed=1).is_new  # it stands in the way of no other


# ---- names in a folder that both may write


def test_a_name_that_another_user_took_costs_no_run(corpus: Path, monkeypatch: MonkeyPatch) -> None:
    (runs := corpus.with_name("runs")).mkdir()
    monkeypatch.setattr("prequential.evaluation.runs.run_name", lambda record: "name")
    (runs / "name").symlink_to("nowhere")
    outcome = planned(corpus)
    assert outcome.run and outcome.run.name == "name-2" and (outcome.run.path / ARCHIVE).is_file()
