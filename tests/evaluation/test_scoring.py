"""An interrupted evaluation is resumed, with an archive or without, and has the results of an uninterrupted one."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import own_learners as models
import pytest
from interruption import InterruptionError, stopping_at
from prequential_corpora.sources import sample_path
from small import BOTH

import prequential
from prequential.errors import CheckpointError, ConfigError, CorpusError, OutputError, PrequentialError
from prequential.evaluation import evaluation, runs
from prequential.evaluation.runs import DRAFT, interrupted_run_folder, new_run_folder

pytestmark = pytest.mark.usefixtures("always_due")

FUSED = prequential.Runtime(kernels="fused", threads=1)
CONFIG = replace(BOTH, schedule=replace(BOTH.schedule, block_symbols=400))
PROSE = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 10
DATA = PROSE[:400] + np.random.default_rng(3).bytes(400) + PROSE[400:]  # a raw block among coded ones
TEXT = sample_path("christmas_carol").read_bytes()[:3000]
CHECKPOINT = ".archive.pq.prequential/run.checkpoint"


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch):
    """No test compares speeds."""
    monkeypatch.setattr(evaluation, "warm_up", lambda *_: None)


def measured(folder, resume=False, on_progress=lambda done, n_bytes: None, data=DATA, keep=True):
    draft = prequential.DraftFolder(path=folder, keep=keep, resume=resume)
    return prequential.evaluate(
        data, config=CONFIG, runtime=FUSED, baselines=("gzip",), verify=True, draft=draft, on_progress=on_progress
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The evaluation and its archive."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "warm_up", lambda *_: None)
        result = measured(folder)
    return result, (folder / "archive.pq").read_bytes()


def assert_same_results(found, expected):
    for name in ("ledger", "tables", "parts", "crossings", "passages"):
        assert getattr(found, name) == getattr(expected, name), name
    for name, curve in expected.curves.items():
        assert np.array_equal(found.curves[name].n_bytes, curve.n_bytes), name
        assert np.array_equal(found.curves[name].bits, curve.bits), name
    for part in expected.trace.parts:
        assert np.array_equal(found.trace.bits(part), expected.trace.bits(part)), part


def test_it_can_be_resumed_several_times(uninterrupted, tmp_path):
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
    assert_same_results(found, uninterrupted[0])
    assert (tmp_path / "archive.pq").read_bytes() == uninterrupted[1]


def test_a_finished_archive_is_not_coded_again(uninterrupted, tmp_path, monkeypatch):
    def fail(*_):
        raise InterruptionError

    with monkeypatch.context() as patch, pytest.raises(InterruptionError):
        patch.setattr(evaluation, "measure_baselines", fail)
        measured(tmp_path)
    written, seen = (tmp_path / "archive.pq").stat().st_mtime_ns, []
    found = measured(tmp_path, resume=True, on_progress=lambda done, n_bytes: seen.append(done.n_bytes))
    assert_same_results(found, uninterrupted[0])
    assert (tmp_path / "archive.pq").stat().st_mtime_ns == written
    assert seen.count(len(DATA)) <= 3  # reports of the verification and of the mixer alone


@pytest.mark.parametrize("other", [DATA[:-1] + b"x", DATA[:300]])
@pytest.mark.first_quick
def test_another_corpus_is_refused_and_nothing_is_lost(uninterrupted, tmp_path, other):
    with pytest.raises(InterruptionError):
        measured(tmp_path, on_progress=stopping_at(20))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match="another"):
        measured(tmp_path, resume=True, data=other)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert_same_results(measured(tmp_path, resume=True), uninterrupted[0])


def test_a_finished_archive_of_another_corpus_or_with_damaged_files_is_refused(tmp_path):
    measured(tmp_path)
    with pytest.raises(CheckpointError, match="another run"):
        measured(tmp_path, resume=True, data=DATA[:-1] + b"x")
    for name, damage in (("seconds", b""), ("archive.pq", b"x"), ("costs", b"")):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(damage)
        with pytest.raises(CheckpointError, match="start again without resume=True"):
            measured(tmp_path, resume=True)
        (tmp_path / name).write_bytes(whole)


@pytest.mark.parametrize("step", ["_rename_to_free_name", "curve_table"])
@pytest.mark.first_quick
def test_a_run_that_is_interrupted_while_its_folder_is_finished_can_be_resumed(
    uninterrupted, tmp_path, monkeypatch, step
):
    def finished(folder, resume):
        result = measured(folder.path, resume)
        return folder.finish(tmp_path, result.record, result.curves)

    done = getattr(runs, step)

    def done_and_stopped(*arguments):
        if step != "_rename_to_free_name":
            done(*arguments)
        raise InterruptionError

    with monkeypatch.context() as patch:
        patch.setattr(runs, step, done_and_stopped)
        with pytest.raises(InterruptionError), new_run_folder(tmp_path, hint=str) as folder:
            finished(folder, resume=False)
    (draft,) = tmp_path.iterdir()
    assert runs.read_runs(tmp_path) == []
    with interrupted_run_folder(draft) as folder:
        path = finished(folder, resume=True)
    (run,) = runs.read_runs(tmp_path)
    assert run.path == path
    assert np.array_equal(run.curves["model"].bits, uninterrupted[0].curve.bits)
    assert sorted(file.name for file in path.iterdir()) == ["archive.pq", "curve.parquet", "record.jsonl"]


def test_without_keep_no_checkpoint_is_left(tmp_path):
    with pytest.raises(InterruptionError):
        measured(tmp_path, on_progress=stopping_at(20), keep=False)
    assert not list(tmp_path.rglob("run.checkpoint"))


@pytest.fixture
def draft(tmp_path):
    """The draft of an interrupted run, and the note of the interruption."""
    with pytest.raises(InterruptionError) as caught, new_run_folder(tmp_path / "runs", hint=str) as folder:
        measured(folder.path, on_progress=stopping_at(20))
    (draft,) = (tmp_path / "runs").iterdir()
    assert draft.name.startswith(DRAFT) and caught.value.__notes__[-1] == str(draft)
    return draft


def test_a_refused_draft_stays_without_a_note_that_it_can_be_resumed(draft):
    with pytest.raises(CheckpointError) as caught, interrupted_run_folder(draft) as folder:
        measured(folder.path, resume=True, data=DATA[:-1] + b"x")
    assert not hasattr(caught.value, "__notes__")
    assert list(draft.parent.iterdir()) == [draft]


def test_a_draft_belongs_to_one_process(draft):
    with interrupted_run_folder(draft), pytest.raises(OutputError, match="another run"), interrupted_run_folder(draft):
        pass


REST = ("record.jsonl", "curve.parquet", "seconds")
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
        result = measured(folder.path, resume=True)
        folder.finish(draft.parent, result.record, result.curves)
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
    with pytest.raises(CorpusError), new_run_folder(tmp_path, hint=str) as folder:
        measured(folder.path, data=b"")
    assert not list(tmp_path.iterdir())


# ---- a learner of one's own


def of_own(learner, folder=None, resume=False, on_progress=lambda done, n_bytes: None, data=TEXT):
    draft = prequential.DraftFolder(path=folder, keep=True, resume=resume) if folder else None
    return prequential.evaluate(data, learner=learner, baselines=(), draft=draft, on_progress=on_progress)


def interrupted(learner, folder, n_reports=23):
    with pytest.raises(InterruptionError):
        of_own(learner, folder, on_progress=stopping_at(n_reports))


def torch_learner():
    torch = pytest.importorskip("torch")
    from prequential.adapters import TorchLearner

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Embedding(256, 8), torch.nn.Linear(8, 256))
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-2)
    return TorchLearner(module, optimiser, window=64, rows=3)


def words():
    return models.OfWordsByNll(models.MarksTheEnd(60))  # the last byte pays for more than a run


@pytest.mark.parametrize("learner", [models.ResumesCounts, words, torch_learner])
@pytest.mark.first_quick
def test_a_learner_that_can_load_its_state_is_resumed_with_the_same_results(tmp_path, learner):
    whole, seen = of_own(learner), []
    interrupted(learner, tmp_path)
    found = of_own(learner, tmp_path, resume=True, on_progress=lambda done, n: seen.append(done.n_bytes))
    assert seen[0] > 0.2 * len(TEXT)  # the beginning is not learned again
    assert_same_results(found, whole)


def test_a_checkpoint_of_a_learner_of_ones_own_has_no_pickle(tmp_path):
    interrupted(torch_learner, tmp_path)
    data = (tmp_path / CHECKPOINT).read_bytes()
    assert b"learner.model.structure" in data and b"\x80\x04\x95" not in data


def test_a_learner_without_load_state_dict_is_not_resumed(tmp_path):
    for learner in (models.Counts, models.OfWords):
        interrupted(learner, tmp_path)
        assert not (tmp_path / CHECKPOINT).exists()
        with pytest.raises(ConfigError, match="a run of your own learner cannot be resumed: start it again"):
            of_own(learner, tmp_path, resume=True)


STOPS = """

import os, pathlib, signal


class Stops(OfWordsByNll):
    def update(self, symbols):
        super().update(symbols)
        if not pathlib.Path('stopped').exists() and self.counts.sum() > 1500:
            pathlib.Path('stopped').touch()
            os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.thorough
def test_the_command_line_resumes_a_learner_of_ids_and_leaves_a_clean_run_folder(tmp_path):
    (tmp_path / "mine.py").write_text(Path(models.__file__).read_text() + STOPS)
    (tmp_path / "text").write_bytes(TEXT)
    words = ["evaluate", "text", "--learner", "mine.py:Stops", "--baselines", "none"]
    command = [sys.executable, "-m", "prequential", *words]

    def called(*more):
        return subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            env=os.environ | {"COLUMNS": "200"},
        )  # fmt: skip

    first = called()
    assert first.returncode != 0 and "continues this run" in first.stderr
    done = called("--resume", re.search(r"--resume '(\S+)'", first.stderr)[1])
    assert done.returncode == 0, done.stderr
    (run,) = prequential.read_runs(tmp_path / "runs")
    assert run.record["code_bits"] == of_own(models.OfWordsByNll).code_bits
    assert sorted(path.name for path in run.path.iterdir()) == ["curve.parquet", "record.jsonl"]
