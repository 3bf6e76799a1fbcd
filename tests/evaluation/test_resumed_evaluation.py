"""An interrupted evaluation is resumed, and has the results of an uninterrupted one."""

import os
import shutil
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from interruption import InterruptionError, stopping_at
from small import BOTH

import prequential
from prequential.errors import CheckpointError, CorpusError, OutputError, PrequentialError
from prequential.evaluation import evaluation, runs
from prequential.evaluation.runs import DRAFT, interrupted_run_folder, new_run_folder

pytestmark = pytest.mark.usefixtures("always_due")

FUSED = prequential.Runtime(kernels="fused", threads=1)
CONFIG = replace(BOTH, schedule=replace(BOTH.schedule, block_symbols=400))
TEXT = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 10
DATA = TEXT[:400] + np.random.default_rng(3).bytes(400) + TEXT[400:]  # a raw block among coded ones


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch):
    """No test compares speeds."""
    monkeypatch.setattr(evaluation, "warm_up", lambda *_: None)


def measured(folder, resume=False, on_progress=lambda done, n_bytes: None, data=DATA, keep=True):
    return prequential.evaluate(
        data,
        config=CONFIG,
        runtime=FUSED,
        baselines=("gzip",),
        verify=True,
        draft=prequential.DraftFolder(path=folder, keep=keep, resume=resume),
        on_progress=on_progress,
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The evaluation, its archive, and its number of progress reports."""
    n_reports = [0]

    def count(done, n_bytes):
        n_reports[0] += 1

    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "warm_up", lambda *_: None)
        return measured(folder, on_progress=count), (folder / "archive.pq").read_bytes(), n_reports[0]


def assert_same_results(found, expected):
    assert found.ledger == expected.ledger
    for name, curve in expected.curves.items():
        assert np.array_equal(found.curves[name].n_bytes, curve.n_bytes), name
        assert np.array_equal(found.curves[name].bits, curve.bits), name
    for part in expected.trace.parts:
        assert np.array_equal(found.trace.bits(part), expected.trace.bits(part)), part
    assert found.tables == expected.tables
    assert [r.compressed_bytes for r in found.baselines] == [r.compressed_bytes for r in expected.baselines]


# coding takes the first half of all reports
@pytest.mark.parametrize(
    "share", [pytest.param(0.02, marks=pytest.mark.slow), 0.2, pytest.param(0.4, marks=pytest.mark.slow), 0.9]
)
def test_it_can_be_resumed_from_any_point(uninterrupted, tmp_path, share):
    result, archive, n_reports = uninterrupted
    with pytest.raises(InterruptionError):
        measured(tmp_path, on_progress=stopping_at(max(1, int(share * n_reports))))
    found = measured(tmp_path, resume=True)
    assert_same_results(found, result)
    assert (tmp_path / "archive.pq").read_bytes() == archive
    assert found.wall_s > 0


def test_it_can_be_resumed_several_times(uninterrupted, tmp_path):
    result, archive, _ = uninterrupted

    def stopping_while_it_codes():
        stop = stopping_at(9)
        return lambda done, n_bytes: stop(done, n_bytes) if done.archive_bytes else None

    n_attempts, found = 0, None
    while found is None:
        try:
            found = measured(tmp_path, n_attempts > 0, stopping_while_it_codes())
        except InterruptionError:
            n_attempts += 1
    assert n_attempts >= 3
    assert_same_results(found, result)
    assert (tmp_path / "archive.pq").read_bytes() == archive


def test_a_finished_archive_is_not_coded_again(uninterrupted, tmp_path, monkeypatch):
    def fail(*_):
        raise InterruptionError

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "measure_baselines", fail)
        with pytest.raises(InterruptionError):
            measured(tmp_path)
    written = (tmp_path / "archive.pq").stat().st_mtime_ns
    seen = []
    found = measured(tmp_path, resume=True, on_progress=lambda done, n_bytes: seen.append(done.n_bytes))
    assert_same_results(found, uninterrupted[0])
    assert (tmp_path / "archive.pq").stat().st_mtime_ns == written
    assert seen.count(len(DATA)) <= 3  # reports of the verification and of the mixer alone
    assert found.verify_wall_s


def interrupted(folder, n_reports=20):
    with pytest.raises(InterruptionError):
        measured(folder, on_progress=stopping_at(n_reports))


@pytest.mark.parametrize("other", [DATA[:-1] + b"x", DATA[:300], DATA + b"more"])
@pytest.mark.first_quick
def test_another_corpus_is_refused_and_nothing_is_lost(uninterrupted, tmp_path, other):
    interrupted(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match="another"):
        measured(tmp_path, resume=True, data=other)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert_same_results(measured(tmp_path, resume=True), uninterrupted[0])


def test_a_finished_archive_of_another_corpus_or_without_its_ledger_or_costs_is_refused(tmp_path):
    measured(tmp_path)
    with pytest.raises(CheckpointError, match="another run"):
        measured(tmp_path, resume=True, data=DATA[:-1] + b"x")
    encoded = (tmp_path / "encoded.json").read_bytes()
    for damage in (b"", b"{", b"[]", b'{"ledger": {}, "wall_s": 1, "run": 2}'):
        (tmp_path / "encoded.json").write_bytes(damage)
        with pytest.raises(CheckpointError, match="start again without resume=True"):
            measured(tmp_path, resume=True)
    (tmp_path / "encoded.json").write_bytes(encoded)
    (tmp_path / "costs").unlink()
    with pytest.raises(CheckpointError, match="costs"):
        measured(tmp_path, resume=True)


@pytest.mark.parametrize("step", ["_rename_to_free_name", "files.write_text", "write_curves"])
@pytest.mark.first_quick
def test_a_run_that_is_interrupted_while_its_folder_is_finished_can_be_resumed(
    uninterrupted, tmp_path, monkeypatch, step
):
    def finished(folder, resume):
        result = measured(folder.draft, resume)
        return folder.finish(tmp_path, result.to_record(), result.curves)

    place, name = (runs.files, "write_text") if step == "files.write_text" else (runs, step)
    done = getattr(place, name)

    def done_and_stopped(*arguments):
        if step != "_rename_to_free_name":
            done(*arguments)
        raise InterruptionError

    with monkeypatch.context() as patch:
        patch.setattr(place, name, done_and_stopped)
        with pytest.raises(InterruptionError), new_run_folder(tmp_path, hint=str) as folder:
            finished(folder, resume=False)
    (draft,) = tmp_path.iterdir()
    assert runs.read_runs(tmp_path) == []
    with interrupted_run_folder(draft) as folder:
        path = finished(folder, resume=True)
    (found,) = runs.read_runs(tmp_path)
    assert found.path == path
    assert np.array_equal(found.curves["model"].bits, uninterrupted[0].curve.bits)
    left = sorted(file.name for file in path.iterdir())
    assert left == ["archive.pq", "curve.parquet", "record.jsonl"]


def test_without_keep_no_checkpoint_is_left(tmp_path):
    with pytest.raises(InterruptionError):
        measured(tmp_path, on_progress=stopping_at(20), keep=False)
    assert not list(tmp_path.rglob("run.checkpoint"))


@pytest.fixture
def draft(tmp_path):
    """The draft of an interrupted run, and the note of the interruption."""
    with pytest.raises(InterruptionError) as caught, new_run_folder(tmp_path / "runs", hint=str) as folder:
        measured(folder.draft, on_progress=stopping_at(20))
    (draft,) = (tmp_path / "runs").iterdir()
    assert draft.name.startswith(DRAFT) and caught.value.__notes__[-1] == str(draft)
    return draft


def test_a_refused_draft_stays_without_a_note_that_it_can_be_resumed(draft):
    with pytest.raises(CheckpointError) as caught, interrupted_run_folder(draft) as folder:
        measured(folder.draft, resume=True, data=DATA[:-1] + b"x")
    assert not hasattr(caught.value, "__notes__")
    assert list(draft.parent.iterdir()) == [draft]


def test_a_draft_belongs_to_one_process_and_to_one_user(draft, monkeypatch):
    with interrupted_run_folder(draft) as folder:
        found = measured(folder.draft, resume=True)  # its archive is complete, its run is not
        assert found.corpus["n_bytes"] == len(DATA)
        with pytest.raises(OutputError, match="another run"), interrupted_run_folder(draft):
            pass
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(OutputError, match="another owner"), interrupted_run_folder(draft):
            pass


REST = ("record.jsonl", "curve.parquet", "encoded.json", "seconds")
LEFT = ("costs", "archive.pq", *(pytest.param(name, marks=pytest.mark.thorough) for name in REST))


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_no_file_outside_a_strangers_draft_is_written(name, kind, draft, tmp_path):
    victim = tmp_path / "victim"
    saved = (draft / name).read_bytes() if (draft / name).exists() else b"precious"
    (draft / name).unlink(missing_ok=True)
    victim.write_bytes(saved)
    (draft / name).symlink_to(victim) if kind == "symbolic" else os.link(victim, draft / name)
    with suppress(PrequentialError), interrupted_run_folder(draft) as folder:
        result = measured(folder.draft, resume=True)
        folder.finish(draft.parent, result.to_record(), result.curves)
    assert victim.read_bytes() == saved


@pytest.mark.parametrize("name", ["missing", ".run-empty", "other"])
def test_a_folder_that_no_evaluation_left_is_refused(tmp_path, name):
    (tmp_path / ".run-empty").mkdir()
    (tmp_path / "other").mkdir()
    shutil.copy(__file__, tmp_path / "other" / "archive.pq")
    no_folder = pytest.raises(CheckpointError, match="not a folder that an interrupted evaluation left")
    with no_folder, interrupted_run_folder(tmp_path / name):
        pass
    assert (tmp_path / "other" / "archive.pq").exists()


def test_what_ends_before_it_begins_leaves_nothing(tmp_path):
    for error, data in ((InterruptionError, None), (CorpusError, b"")):
        with pytest.raises(error), new_run_folder(tmp_path, hint=str) as folder:
            if data is None:
                raise InterruptionError
            measured(folder.draft, data=data)
        assert not list(tmp_path.iterdir())
