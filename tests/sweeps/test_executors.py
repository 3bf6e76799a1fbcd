"""Studies in several processes: what executors are asked for, claims, `--jobs`, `--part`, and a real cluster of Dask."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from studies import FUSED, N_BYTES, TINY

import prequential
from prequential import ConfigError, OutputError
from prequential.files.claims import EXPIRY_S, ClaimedError, claimed
from prequential.machine.jobs import Jobs
from prequential.sweeps.ladder import Size, ladder_plan
from prequential.sweeps.plans import run_plan, sweep_plan
from prequential.sweeps.sweep import sweep

PROJECT = Path(prequential.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
SWEEP = [sys.executable, "-m", "prequential", "sweep", "--config", "gpt.json", "--seeds", "0,1,2,3", "--json"]


class Minimal:
    """An executor with `submit` alone, whose tasks have `result` alone. It pickles, and changes errors, as submitit does."""

    def __init__(self):
        self.configs = []

    def submit(self, function, /, *arguments):
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        self.configs.append(arguments[3])

        def result():
            try:
                return pickle.loads(pickle.dumps(function(*arguments)))
            except Exception:
                raise RuntimeError("a task failed") from None

        return SimpleNamespace(result=result)


def measured(folder):
    """What the records in a folder say, but for times and processes: equal for equal work."""
    records = [run.record for run in prequential.read_runs(folder)]
    kept = ("config", "corpus", "code_bits", "archive_bits", "ledger", "tables", "findings", "limit_bytes")
    return sorted(json.dumps({name: record[name] for name in kept}, sort_keys=True) for record in records)


def test_an_executor_makes_the_runs_in_the_order_of_the_plan_and_they_equal_the_serial_ones(
    finished, corpus, tmp_path, monkeypatch
):
    executor, summaries = Minimal(), []
    monkeypatch.chdir(corpus.parent)
    for name in (corpus, corpus.name):  # the second one finds the runs
        arguments = {"limit": N_BYTES, "runtime": FUSED, "executor": executor}
        summaries.append(sweep(name, finished.plan, tmp_path, **arguments))
    assert executor.configs == finished.plan.configs
    assert summaries[0] == summaries[1] and measured(tmp_path) == measured(finished.folder)
    with pytest.raises(ConfigError, match="by its name"):
        sweep(b"bytes", finished.plan, tmp_path, executor=executor)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "no space left")


def test_a_claim_is_held_until_it_ends_expires_or_its_process_dies(tmp_path, monkeypatch):
    path = tmp_path / "two  spaces"
    with claimed(path):
        with pytest.raises(ClaimedError) as held, claimed(path):
            pass
        assert pickle.loads(pickle.dumps(held.value)).path == path
        os.utime(path, (0, time.time() - EXPIRY_S - 1))
        with claimed(path):
            pass
        path.write_text("1 of who took it over when it had expired")
    assert path.exists()
    path.unlink()
    with pytest.raises(OutputError), monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full_disk)
        with claimed(path):
            pass
    assert not path.exists()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    with claimed(path):
        text = path.read_text().replace(str(os.getpid()), str(dead.pid), 1)
    dead.wait()
    path.write_text(text)
    with claimed(path):
        assert path.read_text() != text
    path.write_text(text.replace("-", "+"))  # of a machine with the same name
    with pytest.raises(ClaimedError), claimed(path):
        pass


@pytest.mark.parametrize("executor", [None, Minimal()])
def test_a_run_that_another_process_makes_is_awaited_and_not_made_again(
    executor, finished, corpus, tmp_path, monkeypatch, caplog
):
    plan, made = sweep_plan(TINY, seeds=[0, 1]), []

    def slept(_):
        """Another process, meanwhile, ends its run."""
        evaluation = prequential.evaluate(corpus, config=plan.configs[0], limit=N_BYTES, baselines=(), runtime=FUSED)
        made.append(evaluation.save(tmp_path).path)
        claim.unlink()

    with monkeypatch.context() as patch:
        patch.setattr("prequential.machine.jobs.time", SimpleNamespace(sleep=slept))
        from prequential.sweeps.plans import _claim, corpus_key

        claim = _claim(tmp_path, corpus_key(corpus, N_BYTES), plan.configs[0])
        claim.write_text("1\nanother machine")
        outcomes = list(run_plan(corpus, plan, tmp_path, limit_bytes=N_BYTES, runtime=FUSED, executor=executor))
    assert caplog.messages == ["waiting for other processes: they do 1 of the tasks"]
    assert [outcome.config.seed for outcome in outcomes] == [1, 0]
    assert [outcome.run.path for outcome in outcomes[1:]] == made
    assert len(prequential.read_runs(tmp_path)) == 2


@pytest.mark.thorough
def test_a_process_that_dies_fails_its_own_run_alone_and_a_repetition_makes_it(corpus, tmp_path):
    plan = sweep_plan(TINY, seeds=[0, 1])
    with Jobs(2) as jobs:

        class Deadly:
            def submit(self, function, /, *arguments):
                return jobs.submit(os._exit, 9) if arguments[3].seed == 0 else jobs.submit(function, *arguments)

        first = list(run_plan(corpus, plan, tmp_path, limit_bytes=N_BYTES, runtime=FUSED, executor=Deadly()))
        assert "its process was ended" in str(first[0].error) and first[1].run
        again = list(run_plan(corpus, plan, tmp_path, limit_bytes=N_BYTES, runtime=FUSED, executor=jobs))
    assert [outcome.is_new for outcome in again] == [False, True] and all(outcome.run for outcome in again)


def test_jobs_end_a_process_that_is_only_starting():
    begun_s = time.monotonic()
    with pytest.raises(KeyError), Jobs(1) as jobs:
        jobs.submit(time.sleep, 300)
        raise KeyError
    assert time.monotonic() - begun_s < 100


def test_the_memory_of_a_run_counts_its_corpus_and_the_replica_of_an_audit():
    (variant,), audited = sweep_plan(TINY).variants, replace(FUSED, audit_every=8)
    assert variant.memory_bytes(10**9, FUSED) - variant.memory_bytes(0, FUSED) > 13.1e9  # measured: 13.1 bytes a byte
    assert variant.memory_bytes(0, audited) - variant.memory_bytes(0, FUSED) >= prequential.memory_bytes(TINY)


def test_parts_are_the_plan():
    plan = sweep_plan(TINY, widths=[16, 32, 48], seeds=[0, 1])
    parts = [plan.part(k, 4).configs for k in range(1, 5)]
    assert [len(part) for part in parts] == [2, 2, 1, 1]
    assert sorted(map(repr, chain(*parts))) == sorted(map(repr, plan.configs))


@pytest.fixture
def study(tmp_path):
    """A folder with a corpus and a configuration."""
    (tmp_path / "a").write_bytes(b"it was the best of times, it was the worst of times. " * 60)
    (tmp_path / "gpt.json").write_text(json.dumps(TINY.to_dict()))
    return tmp_path


@pytest.mark.thorough
def test_two_equal_commands_at_once_make_each_run_once(study):
    both = [subprocess.Popen([*SWEEP, "a"], cwd=study, env=ENVIRONMENT, stdout=subprocess.PIPE) for _ in range(2)]
    records = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    runs = prequential.read_runs(study / "runs")
    assert len(runs) == 4 and len(list((study / "runs").iterdir())) == 4  # and no claim is left
    for record in records:
        assert {run["path"] for run in record["runs"]} == {f"runs/{run.name}" for run in runs}
    assert records[0]["results"] == records[1]["results"]


@pytest.mark.thorough
def test_the_signal_of_a_queue_ends_jobs_and_leaves_whole_runs_which_the_next_command_completes(study):
    folder, jobs = study / "runs", [*SWEEP, "--jobs", "2", "a"]
    alone = {"start_new_session": True}  # a group of processes, to all of which Slurm sends the signal
    process = subprocess.Popen(jobs, cwd=study, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, **alone)
    while not list(folder.glob("a-*")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGUSR1)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 138 and "the same command continues with the others" in shown
    assert "Traceback" not in shown
    before = prequential.read_runs(folder)
    assert len(before) == len(list(folder.iterdir())) < 4
    done = subprocess.run(jobs, cwd=study, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True)
    runs = json.loads(done.stdout)["runs"]
    assert sum(run["is_new"] for run in runs) == 4 - len(before) == len(prequential.read_runs(folder)) - len(before)


@pytest.mark.thorough
def test_jobs_that_a_signal_ends_leave_drafts_and_say_how_to_resume_each(study):
    for name in ("b", "c"):
        (study / name).write_bytes(os.urandom(1 << 20))
    command = [*SWEEP[:3], "evaluate", "--config", "gpt.json", "--baselines", "none", "--jobs", "2", "b", "c"]
    process = subprocess.Popen(command, cwd=study, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    while len(list(study.glob("runs/.run-*/.archive*"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=100)
    assert process.returncode == 143 and shown.count("--resume") == 2, shown


@pytest.mark.thorough
def test_heldout_ends_by_a_signal_while_another_process_holds_its_claims(study):
    (study / "b").write_bytes(b"it was the age of wisdom " * 20)
    words = "heldout --config gpt.json --train a --jobs 2 --test a --test b"
    command = [*SWEEP[:3], *words.split()]
    subprocess.run(command, cwd=study, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    records = study / "runs" / "heldout.jsonl"
    for line in records.read_text().splitlines():
        (study / "runs" / f".claim-{json.loads(line)['key']}").write_text("1 another machine")
    records.unlink()
    process = subprocess.Popen(command, cwd=study, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    time.sleep(20)
    assert process.poll() is None and not records.read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143


@pytest.mark.thorough
def test_a_cluster_makes_the_runs_of_a_ladder_also_when_a_worker_dies(study):
    """Two real worker processes of Dask, with one thread each, beside this thread. The times are printed (`pytest -s`)."""
    from dask.distributed import Client, LocalCluster

    corpus, plan = study / "a", ladder_plan(TINY, [Size(w, 1) for w in (16, 24, 32, 48)], repeated=[Size(16, 1)])
    begun_s = time.monotonic()
    serial = sweep(corpus, plan, study / "serial", runtime=FUSED)
    serial_s = time.monotonic() - begun_s
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for folder in ("whole", "killed"):
            begun_s, n_done = time.monotonic(), 0
            for outcome in run_plan(corpus, plan, study / folder, runtime=FUSED, executor=client.get_executor()):
                assert outcome.run, outcome.error
                n_done += 1
                if folder == "killed" and n_done == 1:
                    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            print(f"{folder}: {time.monotonic() - begun_s:.1f} s beside {serial_s:.1f} s in this thread")
            assert n_done == len(plan.configs) == len(list((study / folder).iterdir()))
            assert measured(study / folder) == measured(study / "serial")
        again = sweep(corpus, plan, study / "whole", runtime=FUSED, executor=client.get_executor())
    assert [each.bits_per_byte for each in again.results] == [each.bits_per_byte for each in serial.results]
