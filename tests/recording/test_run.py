"""What a training run leaves that ended before `finish`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import Loop, batches

import prequential
from prequential.cli.main import main
from prequential.evaluation.runs import unfinished_trainings


def listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["runs", "list", str(folder)]) == 0
    return capsys.readouterr().err


def so_far(folder: Path) -> dict[str, Any]:
    ((_, found),) = unfinished_trainings(folder)
    return found


def test_a_run_that_crashed_is_listed_as_unfinished_and_continued_in_the_same_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, folder = batches(150, n_rows=2), tmp_path / "runs"
    whole = Loop(tmp_path / "whole").run(data).rec.finish().record
    first = Loop(folder).run(data[:70])
    saved = {"model": first.model.state_dict(), "recorder": first.rec.state_dict()}
    torch.save(saved, tmp_path / "saved.pt")
    first.run(data[70:140])  # it reads step 128, and crashes after step 140
    assert "unfinished: " in (text := listed(folder, capsys)) and "'bigrams', 128 steps, " in text
    assert so_far(folder)["n_bytes"] == 128 * 2 * 24 and not prequential.read_runs(folder)
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    second = Loop(folder)
    second.model.load_state_dict(saved["model"])
    second.rec.load_state_dict(saved["recorder"])
    second.run(data[70:140])
    assert so_far(folder)["n_steps"] == 128 and len(list(folder.iterdir())) == 1
    run = second.run(data[140:]).rec.finish()
    assert run.record["code_bits"] == whole["code_bits"] and run.record["reported"] == whole["reported"]
    assert listed(folder, capsys) == "" and [each.name for each in folder.iterdir()] == [run.name]
    assert {each.name for each in run.path.iterdir()} == {"record.jsonl", "curve.parquet"}


def test_a_recorder_of_another_name_does_not_take_the_folder(tmp_path: Path) -> None:
    state = Loop(tmp_path).run(batches(64)).rec.state_dict()
    other = prequential.Recorder(tmp_path, name="other", units="bytes")
    other.load_state_dict(state)
    other.finish()
    assert so_far(tmp_path)["name"] == "bigrams"


def test_a_line_that_was_half_written_does_not_count(tmp_path: Path) -> None:
    loop = Loop(tmp_path).run(batches(64))
    (file,) = tmp_path.glob(".run-*/unfinished.jsonl")
    whole = file.read_text()
    for end in (1, len(whole) // 2, len(whole) - 1):  # the last one lacks its newline alone
        file.write_text(whole + json.dumps(json.loads(whole) | {"n_steps": 100})[:end])
        assert so_far(tmp_path)["n_steps"] == 64
    file.write_text(whole[:-5])
    assert not list(unfinished_trainings(tmp_path))
    loop.run(batches(128, seed=1))  # its next line ends the broken one
    assert so_far(tmp_path)["n_steps"] == 192


def test_a_folder_that_cannot_be_written_ends_no_training(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    loop = Loop(folder, strict=False).run(batches(64))
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    loop.run(batches(128, seed=1))
    folder.unlink()
    record = loop.rec.finish().record
    (finding,) = record["findings"]
    assert "cannot write" in finding["message"] and record["reported"]["new"]["n_rows"] == 192 * 4


def test_rows_scored_after_the_last_step_are_named(tmp_path: Path) -> None:
    loop = Loop(tmp_path).run(batches(2))
    x, y, logits = loop.forward(batches(1, seed=3)[0])
    loop.rec.score(logits=logits, targets=y, inputs=x)
    run = loop.rec.finish()
    assert run.record["reported"]["n_rows_after_last_step"] == 4 and run.record["reported"]["n_rows"] == 8
    shown = prequential.evaluation.summary.format_run(run.record, "", run.split())
    assert "4 more, scored after the last step, do not count" in shown
