"""One way to run the program, or a script, in a process of its own; and what several tests need."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prequential

HERE = Path(__file__).parent
FUZZ = Path(__file__).parents[2] / "dev" / "fuzz"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(prequential.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def program(folder: Path, *args: str) -> "subprocess.CompletedProcess[bytes]":
    """The result of `prequential ARGS` in a folder."""
    command = [sys.executable, "-m", "prequential", *args]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=300)


def script(path: Path, *args: str, timeout_s: float = 3600, **environment: str) -> dict[str, Any]:
    """The JSON object that a script prints. Fails unless it ends with 0."""
    command = [sys.executable, str(path), *args]
    done = subprocess.run(command, env=ENVIRONMENT | environment, capture_output=True, timeout=timeout_s)
    assert done.returncode == 0, (
        f"{path.name} ended with {done.returncode}: {done.stdout.decode()}{done.stderr.decode()}"
    )
    return dict(json.loads(done.stdout))


def forked(work: Callable[[], int]) -> int:
    """The exit code of a fork of this process that does the work; negative if a signal ended it."""
    child = os.fork()
    if not child:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---- a learner that takes milliseconds, and files


TINY = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=6))
FUSED = prequential.Runtime(kernels="fused", threads=1)


def tiny_options(folder: Path) -> list[str]:
    """Options of the command line for TINY, whose configuration is written to the folder."""
    path = folder / "tiny.json"
    path.write_text(json.dumps(TINY.to_dict()))
    return ["--config", str(path), "--kernels", "fused", "-q"]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The contents of every file below a folder; None for folders, links to nothing and pipes."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def failing(error: int, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets each call of these functions of `os` fail."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    for name in names:
        monkeypatch.setattr(os, name, fail)
