"""Outputs that cannot or must not be written, and interruptions."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest


def test_an_existing_output_is_replaced_only_with_force(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text)
    (tmp_path / "a.pq").write_bytes(b"precious")
    done = run(tmp_path, "compress", "a")
    assert done.returncode == 1
    assert done.stderr.startswith(b"prequential: a: 'a.pq' exists")
    assert (tmp_path / "a.pq").read_bytes() == b"precious"
    assert run(tmp_path, "compress", "-f", "a").returncode == 0
    assert (tmp_path / "a.pq").read_bytes() != b"precious"


def test_after_a_name_that_is_too_long_the_next_one_is_compressed(run, text, tmp_path):
    for name in ("x" * 254, "a"):
        (tmp_path / name).write_bytes(text)
    done = run(tmp_path, "compress", "x" * 254, "x" * 300, "a")  # with .pq the first is too long
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1 and len(lines) == 2 and all("File name too long" in line for line in lines)
    assert lines[0].startswith(f"prequential: {'x' * 254}: cannot write '{'x' * 254}.pq'")
    assert (tmp_path / "a.pq").exists()


def test_a_closed_pipe_is_not_reported(run, archive, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive)
    reading, writing = os.pipe()
    os.close(reading)
    done = run(tmp_path, "list", "a.pq", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR1, 138), (signal.SIGINT, 130), (signal.SIGXCPU, 152)])
@pytest.mark.first_quick
def test_an_interrupted_run_saves_itself_and_says_how_to_resume(run, start, tmp_path, number, code):
    """Long before its first checkpoint is due."""
    (tmp_path / "a").write_bytes(os.urandom(1 << 18))
    assert run(tmp_path, "compress", "a", "-o", "whole.pq").returncode == 0
    process, deadline = start(tmp_path, "compress", "a"), time.monotonic() + 60
    while not any(partial.stat().st_size for partial in tmp_path.glob(".*/partial")) and time.monotonic() < deadline:
        time.sleep(0.01)  # before that there is nothing to save
    for _ in range(4 if number == signal.SIGXCPU else 1):  # the system repeats it with each second of CPU time
        process.send_signal(number)
        time.sleep(0.01)
    _, errors = process.communicate(timeout=60)
    said = f"prequential: {'interrupted' if code == 130 else 'ended'}; --resume continues from the last checkpoint\n"
    assert (process.returncode, errors.decode()) == (code, said)
    refused = run(tmp_path, "compress", "a")
    assert refused.returncode == 1 and b"; --resume continues it, -f starts again\n" in refused.stderr
    assert run(tmp_path, "compress", "a", "--resume").returncode == 0
    assert (tmp_path / "a.pq").read_bytes() == (tmp_path / "whole.pq").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.pq", "whole.pq"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_within_a_callback_from_c_ends_the_run(number, code):
    """Python drops exceptions raised there; compiled kernels are loaded with such callbacks."""
    program = f"""
import ctypes, signal, sys, time
from prequential.cli import main, options
def interrupted(args):
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal({int(number)}))()
    time.sleep(60)
main.COMMANDS = {{"": (options.Command(name="x", text="x", run=interrupted),)}}
sys.exit(main.main(["x"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=50)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


# The program, with a checkpoint after every segment.
HURRIED = """
import sys
from prequential.cli.main import main
from prequential.online import checkpoint
checkpoint.FIRST_AFTER_S, checkpoint.BYTES_PER_S, checkpoint.COST = 0.0, float("inf"), float("inf")
sys.exit(main(sys.argv[1:]))
"""


def test_an_interrupted_evaluation_resumes_and_measures_the_same(run, start, tmp_path):
    (tmp_path / "a b").write_bytes(os.urandom(20_000) + b"It was the best of times, it was the worst of times. " * 300)
    whole = json.loads(run(tmp_path, "evaluate", "--json", "--baselines", "gzip", "--runs", "whole", "a b").stdout)
    process = start(tmp_path, "evaluate", "--baselines", "gzip", "--runs", "my runs", "a b", python=("-c", HURRIED))
    while process.poll() is None and not list(tmp_path.glob("my runs/.run-*/.*/run.checkpoint")):
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    (draft,) = (tmp_path / "my runs").iterdir()
    assert process.returncode == 143
    resumed_from = f"my runs/{draft.name}"
    line = errors.decode().splitlines()[-1]
    assert line == f"prequential: ended; with the same corpus and options, --resume {resumed_from!r} continues this run"
    other = run(tmp_path, "evaluate", "--resume", resumed_from, "-1", "a b")
    assert b"belongs to another run: the learner has another configuration" in other.stderr
    done = run(tmp_path, "evaluate", "--json", "--baselines", "gzip", "--resume", resumed_from, "a b")
    (folder,) = (tmp_path / "my runs").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "archive.pq", "curve.parquet", "record.jsonl",
    ]  # fmt: skip
    resumed = json.loads(done.stdout)
    for name in ("archive_bits", "code_bits", "ledger", "tables", "parts", "crossings"):
        assert resumed[name] == whole[name], name
