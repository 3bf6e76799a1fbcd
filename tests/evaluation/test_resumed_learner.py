"""An interrupted evaluation of a learner of one's own is resumed, and has the results of an uninterrupted one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import own_learners as models
import pytest
from interruption import InterruptionError, stopping_at
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.usefixtures("always_due")
TEXT = sample_path("christmas_carol").read_bytes()[:3000]


def measured(learner, folder=None, resume=False, on_progress=lambda done, n_bytes: None, data=TEXT):
    draft = prequential.DraftFolder(path=folder, keep=True, resume=resume) if folder else None
    return prequential.evaluate(data, learner=learner, baselines=(), draft=draft, on_progress=on_progress)


def interrupted(learner, folder, n_reports=23):
    with pytest.raises(InterruptionError):
        measured(learner, folder, on_progress=stopping_at(n_reports))


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
    whole, seen = measured(learner), []
    interrupted(learner, tmp_path)
    found = measured(learner, tmp_path, resume=True, on_progress=lambda done, n: seen.append(done.n_bytes))
    assert seen[0] > 0.2 * len(TEXT)  # the beginning is not learned again
    assert found.ledger == whole.ledger
    assert np.array_equal(found.curve.n_bytes, whole.curve.n_bytes) and np.array_equal(
        found.curve.bits, whole.curve.bits
    )
    assert np.array_equal(found.trace.bits("model"), whole.trace.bits("model"))


def test_a_learner_without_load_state_dict_is_not_resumed(tmp_path):
    interrupted(models.Counts, tmp_path)
    interrupted(models.OfWords, tmp_path)
    assert not (tmp_path / ".archive.pq.prequential" / "run.checkpoint").exists()
    for learner in (models.Counts, models.OfWords):
        with pytest.raises(ConfigError, match="a run of your own learner cannot be resumed: start it again"):
            measured(learner, tmp_path, resume=True)


@pytest.mark.parametrize("learner", [models.ResumesCounts, words])
def test_another_corpus_and_a_damaged_state_are_refused(tmp_path, learner):
    interrupted(learner, tmp_path)
    with pytest.raises(CheckpointError, match="another"):
        measured(learner, tmp_path, resume=True, data=TEXT[:-1] + b"x")
    checkpoint = tmp_path / ".archive.pq.prequential" / "run.checkpoint"
    data = bytearray(checkpoint.read_bytes())
    data[-40] ^= 1
    checkpoint.write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged"):
        measured(learner, tmp_path, resume=True)


def test_a_failing_load_state_dict_is_one_line(tmp_path):
    class Fails(models.ResumesCounts):
        def load_state_dict(self, state):
            raise KeyError("weights\nof the head")

    interrupted(Fails, tmp_path)
    with pytest.raises(ConfigError, match="the learner's load_state_dict failed: KeyError: 'weights"):
        measured(Fails, tmp_path, resume=True)


def test_no_pickle_is_in_a_checkpoint(tmp_path):
    interrupted(torch_learner, tmp_path)
    checkpoint = (tmp_path / ".archive.pq.prequential" / "run.checkpoint").read_bytes()
    n_header = int.from_bytes(checkpoint[:8], "little")
    assert b"learner.model.structure" in checkpoint[: 8 + n_header] and b"\x80\x04\x95" not in checkpoint


@pytest.mark.thorough
def test_the_command_line_resumes_a_learner_of_ids_and_leaves_a_clean_run_folder(tmp_path):
    own = Path(models.__file__).read_text() + (
        "\n\nimport os, pathlib, signal\n\n\n"
        "class Stops(OfWordsByNll):\n"
        "    def update(self, symbols):\n"
        "        super().update(symbols)\n"
        "        if not pathlib.Path('stopped').exists() and self.counts.sum() > 1500:\n"
        "            pathlib.Path('stopped').touch()\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
    )
    (tmp_path / "mine.py").write_text(own)
    (tmp_path / "text").write_bytes(TEXT)
    command = [
        sys.executable,
        "-m",
        "prequential",
        "evaluate",
        "text",
        "--learner",
        "mine.py:Stops",
        "--baselines",
        "none",
    ]

    def called(*more):
        return subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            env=os.environ | {"COLUMNS": "200"},
        )  # fmt: skip

    first = called()
    assert first.returncode != 0 and "continues this run" in first.stderr
    draft = re.search(r"--resume (\S+)", first.stderr)[1]
    done = called("--resume", draft)
    assert done.returncode == 0, done.stderr
    (run,) = prequential.read_runs(tmp_path / "runs")
    assert run.record["code_bits"] == measured(models.OfWordsByNll).code_bits
    assert sorted(path.name for path in run.path.iterdir()) == ["curve.parquet", "record.jsonl"]
