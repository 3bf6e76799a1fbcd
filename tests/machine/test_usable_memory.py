"""Memory that a process may use: control groups of both versions, `ulimit`, and refusals of learners that do not fit."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small import BOTH

from prequential.cli.streams import report_failure
from prequential.errors import ConfigError
from prequential.machine import facts as usable_memory
from prequential.machine.facts import usable_memory_bytes
from prequential.model.presets import PRESETS
from prequential.online.runtime import Runtime

MIB = 1 << 20
V2, V1, HYBRID = (
    "0::/jobs/mine\n",
    "9:name=systemd:/\n4:cpu,memory:/jobs/mine\n",
    "4:memory:/jobs/mine\n0::/jobs/mine\n",
)
GROUPS = Path("/sys/fs/cgroup")


def system(folder: Path, cgroup: str, **limits: str) -> Path:
    """A folder like `/` with the lines of /proc/self/cgroup, and files of limits below sys/fs/cgroup."""
    files = {"proc/self/cgroup": cgroup} | {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        (V2, "jobs/mine/memory.max"),
        (V2, "jobs/memory.max"),
        (V2, "memory.max"),  # a container sees its own group as the root, and perhaps another path
        (V1, "memory/jobs/mine/memory.limit_in_bytes"),
        (V1, "cpu,memory/jobs/memory.limit_in_bytes"),
        (V1, "memory/memory.limit_in_bytes"),
        (HYBRID, "memory/jobs/mine/memory.limit_in_bytes"),
        (HYBRID, "unified/jobs/mine/memory.max"),
    ],
)
def test_the_limit_of_the_own_control_group_or_of_a_parent_is_found(cgroup: str, file: str, tmp_path: Path) -> None:
    assert usable_memory_bytes(system(tmp_path, cgroup, **{file: f"{64 * MIB}\n"})) == 64 * MIB


def test_the_smallest_limit_counts_and_no_limit_or_another_group_does_not(tmp_path: Path) -> None:
    unlimited = usable_memory_bytes(tmp_path / "no system")
    limits = {"jobs/mine/memory.max": "max\n", "jobs/memory.max": f"{MIB}\n", "memory.max": f"{2 * MIB}\n"}
    assert usable_memory_bytes(system(tmp_path / "a", V2, **limits)) == MIB
    others = {"jobs/mine/memory.max": "max\n", "jobs/yours/memory.max": f"{MIB}\n", "memory.max": "broken"}
    assert usable_memory_bytes(system(tmp_path / "b", V2, **others)) == unlimited
    most = {"memory/jobs/mine/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}
    assert usable_memory_bytes(system(tmp_path / "c", V1, **most)) == unlimited


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_a_limit_of_ulimit_counts(kind: int) -> None:
    program = f"""
import resource
from prequential.machine.facts import usable_memory_bytes
resource.setrlimit({int(kind)}, ({900 * MIB}, resource.getrlimit({int(kind)})[1]))
print(usable_memory_bytes() == {900 * MIB})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_learner_that_does_not_fit_is_refused_unless_the_limit_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = system(tmp_path, V2, **{"memory.max": f"{300 * MIB}\n"})
    monkeypatch.setattr(usable_memory, "usable_memory_bytes", lambda: usable_memory_bytes(small))
    refused = r"takes up to 8\d\d MiB of memory with the program, more than the 300 MiB"
    with pytest.raises(ConfigError, match=refused):
        Runtime().check(PRESETS[4])
    Runtime(max_memory_bytes=1 << 30).check(PRESETS[4])
    small = system(tmp_path, V2, **{"memory.max": f"{900 * MIB}\n"})
    Runtime().check(PRESETS[4])
    with pytest.raises(ConfigError, match="more than the 900 MiB"):
        Runtime().check(PRESETS[4], extra_bytes=200 * MIB)


@contextmanager
def control_group(controller: str, limits: dict[bool, str], value: int) -> Iterator[Path]:
    """A real control group with this limit. limits: the name of its file by whether the groups are of version 1."""
    v1 = (GROUPS / controller).is_dir()
    folder = GROUPS / (controller if v1 else "") / f"prequential-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this system lets the test make no control group")
    try:
        try:
            (folder / limits[v1]).write_text(str(value))
        except OSError:
            pytest.skip(f"this control group has no limit of {controller}")
        yield folder
    finally:
        folder.rmdir()


def run_in(group: Path, folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    program = f"""
import os, sys
open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "prequential", *{args!r}])
"""
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("command", ["compress -4 -o x.pq", "evaluate -4 --no-run"])
@pytest.mark.first_quick
def test_a_real_control_group_makes_one_line_and_no_killed_process(command: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"some text " * 100)
    with control_group("memory", {True: "memory.limit_in_bytes", False: "memory.max"}, 300 * MIB) as group:
        done = run_in(group, tmp_path, *command.split(), "text")
    assert done.returncode == 1
    assert re.fullmatch("prequential: .*more than the 300 MiB that this process may use.*\n", done.stderr)


def small_gpt(folder: Path) -> str:
    """Writes a text and the configuration of a small GPT; returns the latter's name."""
    (folder / "text").write_bytes(b"some text " * 20)
    (folder / "gpt.json").write_text(json.dumps(BOTH.to_dict()))
    return "gpt.json"


@pytest.mark.parametrize("limit_kib", [100_000, 300_000, 500_000, 800_000])
def test_too_little_address_space_is_one_line_that_names_the_limit(limit_kib: int, tmp_path: Path) -> None:
    config = small_gpt(tmp_path)
    command = f'ulimit -v {limit_kib}; exec "$0" -m prequential compress --config {config} -o x.pq text'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    line = r"prequential: .*out of memory: the limit of address space \(ulimit -v\) is.*\n"
    assert re.fullmatch(line, done.stderr)


@pytest.mark.thorough
def test_one_thread_is_enough_and_a_limit_of_processes_is_named_otherwise(tmp_path: Path) -> None:
    config = small_gpt(tmp_path)
    command = ["compress", "--config", config, "-f", "-o", "x.pq", "text"]
    with control_group("pids", {True: "pids.max", False: "pids.max"}, 1) as group:
        alone = run_in(group, tmp_path, *command, "--threads", "1")
        assert alone.returncode == 0, alone.stderr
        done = run_in(group, tmp_path, *command, "--threads", "2")
    assert done.returncode == 1
    assert "prequential: text: cannot start a thread: the limit of processes (ulimit -u" in done.stderr
    assert "--threads 1" in done.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ImportError("libx.so: failed to map segment from shared object"), "out of memory"),
        (OSError(12, "Cannot allocate memory"), "out of memory"),
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "cannot start a thread: "),
        (OSError("no library"), "no library"),
    ],
)
def test_a_lack_of_memory_or_threads_is_named_as_such(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report_failure(None, error, verbose=False)
    assert capsys.readouterr().err.startswith(f"prequential: {line}")
