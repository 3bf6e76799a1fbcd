"""The program as users run it: a process in a folder, with an exit code and two streams; and a small learner."""

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import prequential

PROJECT = Path(__file__).parents[2]
SMALL = prequential.Config(
    gpt=None,
    mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=prequential.ScheduleConfig(history_bits=14, block_symbols=1024),
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
Start = Callable[..., "subprocess.Popen[bytes]"]
OnTerminal = Callable[..., tuple[int, bytes | None, str]]


def program(*args: str, config: Path, python: Sequence[str] = ("-m", "prequential")) -> list[str]:
    extra = ["--kernels", "fused"] if args[0] in ("compress", "decompress", "test", "evaluate") else []
    if args[0] in ("compress", "evaluate") and not any(arg in ("-1", "--config", "--learner") for arg in args):
        extra += ["--config", str(config)]
    return [sys.executable, *python, args[0], *extra, *args[1:]]


@pytest.fixture(scope="session")
def small_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "small.json"
    path.write_text(json.dumps(SMALL.to_dict()))
    return path


@pytest.fixture(scope="session")
def nursery() -> Iterator[Run]:
    """Runs `prequential ARGS` in a folder, in a process that does not need to import the program (nursery.py)."""
    command = [sys.executable, str(Path(__file__).with_name("nursery.py"))]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout

    def run(folder: Path, args: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as errors:
            asked = {"folder": str(folder), "args": list(args), "stdout": out.name, "stderr": errors.name}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], 120)[0]:
                process.kill()
                raise subprocess.TimeoutExpired(list(args), 120)
            code = int(process.stdout.readline())
            return subprocess.CompletedProcess(list(args), code, out.read(), errors.read())

    yield run
    process.kill()
    process.communicate()


@pytest.fixture(scope="session")
def run(small_config: Path, nursery: Run) -> Run:
    """Runs `prequential ARGS` in a folder; compress and evaluate get the small learner.

    With `fresh`, or with its own streams, the program runs in a new interpreter.
    """

    def run(
        folder: Path, *args: str, stdin: bytes = b"", fresh: bool = False, **streams: Any
    ) -> "subprocess.CompletedProcess[bytes]":
        command = program(*args, config=small_config)
        if not (stdin or fresh or streams):
            return nursery(folder, command[3:])
        streams = {"input": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.run(command, cwd=folder, env=ENVIRONMENT, timeout=120, **streams)

    return run


@pytest.fixture(scope="session")
def start(small_config: Path) -> Start:
    """Starts `prequential ARGS` in a folder, with its streams as pipes."""

    def start(
        folder: Path, *args: str, python: Sequence[str] = ("-m", "prequential"), **streams: Any
    ) -> "subprocess.Popen[bytes]":
        command = program(*args, config=small_config, python=python)
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **streams)

    return start


@pytest.fixture(scope="session")
def on_terminal(start: Start) -> OnTerminal:
    """Runs `prequential ARGS` with these streams on a terminal: exit code, stdout if it is a pipe, what the terminal received."""

    def run(
        folder: Path, *args: str, columns: int = 100, streams: Sequence[str] = ("stderr",)
    ) -> tuple[int, bytes | None, str]:
        controller, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = start(folder, *args, **dict.fromkeys(streams, terminal))
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the program has closed the terminal
            while data := os.read(controller, 1 << 16):
                shown += data
        os.close(controller)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output, shown.decode()

    return run


@pytest.fixture(scope="session")
def text() -> bytes:
    """A compressible text of 4 blocks."""
    return b"".join(b"line %d: the quick brown fox jumps over the lazy dog\n" % i for i in range(70))[:4000]


@pytest.fixture(scope="session")
def archive(text: bytes) -> bytes:
    """The archive of `text`."""
    runtime = prequential.Runtime(kernels="fused")
    return prequential.compress(text, config=SMALL, runtime=runtime)
