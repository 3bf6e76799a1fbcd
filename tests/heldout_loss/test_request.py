"""What `heldout` measures is measured once: it is found again, another process has claimed it, or an executor makes it."""

import json
import pickle
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace

import pytest
from own_learners import Counts
from small import BOTH

import prequential
from prequential import ConfigError, CorpusError

MIXER = replace(BOTH, gpt=None)
TEXT = b"it was the best of times, it was the worst of times. " * 20
SCORES = ["x", "y"]


class Minimal:
    """An executor with `submit` alone, whose tasks have `result` alone. What it is given is pickled."""

    def submit(self, function, /, *arguments):
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        return SimpleNamespace(result=lambda: pickle.loads(pickle.dumps(function(*arguments))))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder: the corpora a and b, and two files of scores of b."""
    monkeypatch.chdir(tmp_path)
    Path("a").write_bytes(TEXT)
    Path("b").write_bytes(TEXT[::-1])
    id_ = f"0-{blake2b(TEXT[::-1], digest_size=8).hexdigest()}"
    for name, nats in zip(SCORES, (9.5, 7.25), strict=True):
        Path(name).write_text(json.dumps({"id": id_, "nats": nats, "bytes": len(TEXT)}) + "\n")


def n_lines():
    return len(Path("runs/heldout.jsonl").read_text().splitlines())


def losses(found):
    return [record["frozen"] for record in found.records], str(found), found.rows, found.comparison


def test_what_is_finished_is_not_measured_again():
    def trained(**more):
        given = {"train": "a", "config": MIXER, "runtime": prequential.Runtime(kernels="fused"), "runs": "runs"}
        return prequential.heldout("b", **{**given, **more})

    first, again = trained(), trained()
    assert (first.n_new, again.n_new, n_lines()) == (1, 0, 1)
    assert losses(first) == losses(again) and again.record == json.loads(json.dumps(first.record))
    others = [
        {"context": "isolated"},
        {"overlap": False},
        {"train_limit": 900},
        {"limit": 900},
        {"config": replace(MIXER, seed=1)},
    ]
    assert [trained(**other).n_new for other in others] == [1] * len(others)
    for _ in range(2):  # the code of a learner of one's own may have changed
        assert trained(config=None, learner=Counts).n_new == 1
    scored = [prequential.heldout("b", scores=SCORES[:n], runs="runs") for n in (1, 2, 2)]
    assert [each.n_new for each in scored] == [1, 1, 0]
    assert losses(scored[1]) == losses(scored[2]) and n_lines() == 10


def test_an_executor_gives_the_result_of_this_thread():
    runtime, executor = prequential.Runtime(kernels="fused"), Minimal()
    for given in ({"scores": SCORES}, {"train": "a", "config": MIXER, "runtime": runtime}):
        here, there = (prequential.heldout("b", **given, executor=each) for each in (None, executor))
        assert losses(here) == losses(there)
    with pytest.raises(ConfigError, match="by its name"):
        prequential.heldout(TEXT, scores=SCORES, executor=executor)


def test_one_that_fails_lets_the_others_end():
    with pytest.raises(CorpusError, match="'missing'"):
        prequential.heldout("b", scores=["x", "missing", "y"], runs="runs")
    assert n_lines() == 2 and prequential.heldout("b", scores=SCORES, runs="runs").n_new == 0


def test_what_another_process_has_claimed_is_awaited(monkeypatch):
    record = prequential.heldout("b", scores="x").record
    claim = Path("runs") / f".claim-{record['key']}"
    claim.parent.mkdir()
    claim.write_text("1 another machine")

    def slept(_):
        """Another process, meanwhile, ends its measurement."""
        with Path("runs/heldout.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        claim.unlink()

    monkeypatch.setattr("prequential.machine.jobs.time", SimpleNamespace(sleep=slept))
    found = prequential.heldout("b", scores=SCORES, runs="runs")
    assert (found.n_new, n_lines()) == (1, 2) and found.records[0] == record
    assert [path.name for path in Path("runs").iterdir()] == ["heldout.jsonl"]
