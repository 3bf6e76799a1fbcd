"""The first run after an installation: two processes compile, and whatever fails there costs time only."""

import os
import subprocess
import sys

import pytest

from prequential.model.presets import preset
from prequential.online import first_run
from prequential.online.loop import Learner

KERNELS_OF_THE_GPT = ("_attention_inputs", "_quantise_rows", "fill_frequencies", "_requantise", "sum_of_rows")


class Process:
    """Stands for the other process."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def wait(self, timeout=None):
        self.calls.append("wait")

    def kill(self):
        self.calls.append("kill")


@pytest.fixture
def started(monkeypatch):
    """No kernel is cached; the processes that are started, and whether the mixer has run."""
    found = []

    def start(command, **_):
        found.append((command, process := Process()))
        return process

    monkeypatch.setattr(first_run, "is_cached", lambda kernel: False)
    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def test_another_process_compiles_the_kernels_of_the_gpt(started):
    first_run.compile_kernels(preset(5))
    [(command, process)] = started
    assert command[:2] == [sys.executable, "-c"] and "compile_gpt_kernels(Runtime" in command[2]
    assert process.calls[0] == "wait"


@pytest.mark.parametrize("config", [preset(4), preset(5, pure=True)])
def test_a_learner_of_one_part_needs_no_other_process(started, config):
    first_run.compile_kernels(config)
    assert not started


def test_later_runs_start_no_process(started, monkeypatch):
    monkeypatch.setattr(first_run, "is_cached", lambda kernel: True)
    first_run.compile_kernels(preset(5))
    assert not started


def test_an_interruption_ends_the_other_process(started, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(first_run, "run_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first_run.compile_kernels(preset(5))
    assert started[0][1].calls == ["kill", "wait"]


def test_where_no_process_can_be_started_the_run_compiles_by_itself(started, monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    monkeypatch.setattr(subprocess, "Popen", refused)
    first_run.compile_kernels(preset(5))


@pytest.mark.parametrize("executable", [None, ""])
def test_a_program_without_an_interpreter_starts_none(started, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    first_run.compile_kernels(preset(5))
    assert not started


@pytest.mark.parametrize("frozen", [True, False])
def test_the_other_process_starts_no_third_one(started, monkeypatch, frozen):
    if frozen:
        monkeypatch.setattr(sys, "frozen", True, raising=False)  # sys.executable is the program itself
    else:
        monkeypatch.setenv(first_run.OTHER_PROCESS, "1")
    first_run.compile_kernels(preset(5))
    assert not started


def test_a_process_that_hangs_is_ended(started, monkeypatch):
    def hangs(self, timeout=None):
        if timeout is not None:
            self.calls.append("wait")
            raise subprocess.TimeoutExpired("", timeout)

    monkeypatch.setattr(Process, "wait", hangs)
    first_run.compile_kernels(preset(5))
    assert started[0][1].calls == ["wait", "kill"]


def test_the_small_run_takes_steps(monkeypatch):
    from prequential.online.runtime import Runtime

    config, runtime = first_run.small_config(has_gpt=True, has_mixer=True), Runtime(threads=1)
    learners: list[Learner] = []

    def make(config):
        learners.append(runtime.learner(config))
        return learners[-1]

    first_run.run_once(config, make)
    assert len(learners) == 2 and all(
        learner.update_size and learner.n_symbols == first_run.N_BYTES for learner in learners
    )


@pytest.mark.slow
def test_nothing_of_the_gpt_is_compiled_twice(tmp_path):
    program = """
import prequential
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, e):
        compiled.append(e.data["dispatcher"].py_func.__name__)

    def on_end(self, e):
        pass

with event.install_listener("numba:compile", Listener()):
    prequential.compress(b"It was the best of times. " * 60, config=prequential.preset(5), runtime=prequential.Runtime(threads=2))
print(*compiled)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (run.stdout.split() for run in runs)
    assert "code_mixed" in first and not set(first) & set(KERNELS_OF_THE_GPT)
    assert not second
