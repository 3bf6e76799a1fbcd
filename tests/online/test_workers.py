"""Several workers write the archives that one process writes, and decode them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from prequential_corpora.bundled import sample_path

import prequential
from prequential.cli.main import main
from prequential.model.gpt.replicas import split_range
from prequential.online.workers.shared import assign_work

PROJECT = Path(__file__).parents[2]
FOLDERS = (PROJECT, PROJECT / "tests", PROJECT / "tests" / "hostile")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS)), "OMP_NUM_THREADS": "1"}
SHARES = st.lists(st.integers(0, 64), min_size=1, max_size=9).filter(any)
pytestmark = pytest.mark.xdist_group("workers")  # one fixture for all, in one worker


@pytest.fixture(scope="module")
def results() -> dict:
    command = [sys.executable, str(Path(__file__).parent / "workers_child.py")]
    child = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.thorough
def test_two_and_four_workers_make_the_archive_of_one_process(results):
    assert results["shared"] == {"2": results["alone"], "4": results["alone"]}


@pytest.mark.thorough
def test_the_first_workers_share_changes_no_bit(results):
    assert set(results["shares"].values()) == {results["alone"]["mixed"]}


@pytest.mark.thorough
def test_two_workers_with_a_device_each_make_the_archive_of_one_process(results):
    made, n_steps = results["on devices"]
    assert made == results["alone"]["mixed"]
    assert n_steps > 20


@pytest.mark.thorough
def test_a_worker_whose_device_is_not_exact_is_named(results):
    said = results["with an inexact device"]
    assert (
        said.startswith("InexactMachineError: worker 1: cuda:0")
        and "does not compute the processor's bits: step" in said
    )


def test_more_workers_than_devices_are_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    environment = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a").write_bytes(b"text")
    assert main(["compress", str(tmp_path / "a"), "--device", "cuda"]) == 1
    assert capsys.readouterr().err.endswith(
        "2 workers need a CUDA device each, but this machine has 1: start fewer workers\n"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["compress", str(tmp_path / "a"), "--device", "cuda"]) == 1
    assert capsys.readouterr().err.endswith("no CUDA device: this torch sees none\n")
    with pytest.raises(SystemExit, match="2"):
        main(["compress", str(tmp_path / "a"), "--device", "auto"])
    assert "give --device cuda or --device cpu" in capsys.readouterr().err
    assert main(["compress", str(tmp_path / "a"), "--audit-every", "4"]) == 1
    assert "leave out either --audit-every or torchrun" in capsys.readouterr().err


@pytest.mark.thorough
def test_three_workers_decode_an_archive_of_one_process(results):
    assert results["decoded"] == [True, True, True]


@pytest.mark.thorough
def test_a_run_resumes_with_another_number_of_workers(results):
    assert len(results["resumed"]) == 3
    assert set(results["resumed"].values()) == {results["alone"]["mixed"]}
    assert set(results["resumed apart"].values()) == {results["alone"]["apart"]}


@pytest.mark.thorough
def test_a_worker_whose_weights_deviate_ends_the_run(results):
    assert results["with a fault"].startswith("FaultError: the weights of worker 1 differ from worker 0's")


@pytest.mark.thorough
def test_replicas_are_compared_when_they_become_their_mean(results):
    assert results["with a faulty mean"].startswith("FaultError: the weights of worker 1 differ from worker 0's")
    assert (
        results["with a diverged replica"] == "ConfigError: the GPT has diverged at another worker; take smaller steps"
    )


@given(st.integers(0, 100), SHARES)
def test_rows_are_divided_in_proportion_to_the_shares(n, shares):
    pieces = split_range(n, shares)
    assert [i for piece in pieces for i in range(n)[piece]] == list(range(n))
    for piece, share in zip(pieces, shares, strict=True):
        assert abs((piece.stop - piece.start) - n * share / sum(shares)) <= 1


@given(st.dictionaries(st.text(), st.integers(1, 1000)), SHARES)
def test_every_matrix_is_assigned_to_a_worker_with_a_share(work, shares):
    owners = assign_work(work, shares)
    assert list(owners) == list(work)
    assert all(shares[owner] for owner in owners.values())


def test_equal_work_is_divided_equally_among_equal_shares():
    assert sorted(assign_work(dict.fromkeys("abcdef", 5), [64, 64, 64]).values()) == [0, 0, 1, 1, 2, 2]


def test_other_commands_refuse_several_workers(monkeypatch, capsys):
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="2"):
        main(["list", "a.pq"])
    assert "start this command without torchrun" in capsys.readouterr().err


@pytest.mark.slow
def test_torchrun_starts_workers_of_the_command_line(tmp_path):
    text = sample_path("christmas_carol").read_bytes()[:20_000]
    (tmp_path / "a").write_bytes(text)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for command in (["compress", "-5", "a"], ["decompress", "-o", "b", "a.pq"]):
        child = subprocess.run(
            [*torchrun, "-m", "prequential", *command, "-q"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            timeout=300,
        )
        assert child.returncode == 0, child.stderr
        assert child.stdout == b""
    assert (tmp_path / "b").read_bytes() == text
    prequential.compress(tmp_path / "a", tmp_path / "c", config=prequential.preset(5))
    assert (tmp_path / "a.pq").read_bytes() == (tmp_path / "c").read_bytes()


@pytest.mark.slow
def test_runs_resume_when_one_of_two_workers_is_killed():
    command = [sys.executable, str(PROJECT / "tests/hostile/kill.py"), "--workers", "--count=20", "--seed=1"]
    child = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=3600)
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout)["workers"]["identical"] == 20
