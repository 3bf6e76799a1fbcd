"""The machine and the program in a record: complete, plausible, and JSON."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prequential.machine import facts as machine
from prequential.machine.process import held


def test_machine_and_libraries_are_described_in_json_values() -> None:
    found = machine.machine()
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"] and 0 < int(found["usable_memory_bytes"]) <= int(found["memory_bytes"])
    assert {"python", "torch", "numpy"} <= machine.versions().keys()


def test_peak_memory_is_that_of_the_process_and_grows_with_an_allocation() -> None:
    """In a new process, although the one that starts it has needed more: the allocation exceeds the peak of both."""
    program = """
from prequential.machine.facts import peak_memory_bytes
before = peak_memory_bytes()
held = b"x" * (before + (64 << 20))
print(before, peak_memory_bytes() - before)
"""
    parent = f"held = b'x' * (512 << 20); import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    before, grown = map(int, done.stdout.split())
    assert grown >= 32 << 20
    assert before < 256 << 20 or not sys.platform.startswith("linux")  # elsewhere a parent may count


def test_a_checkout_is_dirty_only_if_the_package_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CHECKOUT", tmp_path)
    assert machine.git_commit() is None  # no checkout
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "prequential").mkdir()
    (tmp_path / "codecs").mkdir()
    (tmp_path / "prequential" / "codecs").symlink_to("../codecs")
    code, linked, results = tmp_path / "prequential" / "a.py", tmp_path / "codecs" / "a.py", tmp_path / "results"
    for file in (code, linked, results):
        file.write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    results.write_text("2")
    assert machine.git_commit() == commit
    for file in (code, linked):
        file.write_text("2")
        assert machine.git_commit() == f"{commit}-dirty"
        file.write_text("1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert machine.git_commit() == commit


# ---- signals


def test_a_run_that_another_thread_collects_holds_no_signal_any_more() -> None:
    def run():
        with held():
            yield

    before = signal.getsignal(signal.SIGINT)
    left = run()
    next(left)
    thread = threading.Thread(target=left.close)
    thread.start()
    thread.join()
    try:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
