"""The machine and the program in a record, and the memory that a process may use here."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small import BOTH

from prequential.cli.streams import report_failure
from prequential.errors import ConfigError
from prequential.machine import facts as machine
from prequential.machine.facts import usable_memory_bytes
from prequential.model.presets import PRESETS
from prequential.online.runtime import Runtime


def test_machine_and_libraries_are_described_in_json_values() -> None:
    facts = machine.machine()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu"] and 0 < int(facts["usable_memory_bytes"]) <= int(facts["memory_bytes"])
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


# ---- memory

MIB = 1 << 20
V2, V1 = "0::/jobs/mine\n", "9:name=systemd:/\n4:cpu,memory:/jobs/mine\n"
HYBRID = "4:memory:/jobs/mine\n0::/jobs/mine\n"
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


# ---- threads


@pytest.mark.parametrize(
    ("files", "asked", "n"),
    [
        ({}, "", 6),
        ({"jobs/mine/cpu.max": "max 100000"}, "0", 6),
        ({"jobs/mine/cpu.max": "400000 100000", "jobs/cpu.max": "250000 100000"}, "garbage", 3),
        ({"cpu/jobs/mine/cpu.cfs_quota_us": "200000", "cpu/jobs/mine/cpu.cfs_period_us": "100000"}, "", 2),
        ({"cpu/jobs/mine/cpu.cfs_quota_us": "-1", "cpu/jobs/mine/cpu.cfs_period_us": "100000"}, "4,2", 4),
    ],
)
def test_threads_are_the_least_of_affinity_quota_and_environment(
    files: dict[str, str], asked: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert machine.usable_cores(system(tmp_path, V1 if "cpu/jobs" in "".join(files) else V2, **files)) == n


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
    monkeypatch.setattr(machine, "usable_memory_bytes", lambda: usable_memory_bytes(small))
    refused = r"takes up to 8\d\d MiB of memory with the program, more than the 300 MiB"
    with pytest.raises(ConfigError, match=refused):
        Runtime().check(PRESETS[4])
    Runtime(max_memory_bytes=1 << 30).check(PRESETS[4])
    small = system(tmp_path, V2, **{"memory.max": f"{900 * MIB}\n"})
    Runtime().check(PRESETS[4])
    with pytest.raises(ConfigError, match="more than the 900 MiB"):
        Runtime().check(PRESETS[4], extra_bytes=200 * MIB)


@pytest.fixture
def group() -> Iterator[Path]:
    """A real control group with a limit of 300 MiB."""
    v1 = (GROUPS / "memory").is_dir()
    folder = GROUPS / ("memory" if v1 else "") / f"prequential-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this system lets the test make no control group")
    try:
        (folder / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(300 * MIB))
        yield folder
    except OSError:
        pytest.skip("this control group has no limit of memory")
    finally:
        folder.rmdir()


@pytest.mark.parametrize("command", ["compress -4 -o x.pq", "evaluate -4 --no-run"])
@pytest.mark.first_quick
def test_a_real_control_group_makes_one_line_and_no_killed_process(command: str, group: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"some text " * 100)
    program = f"""
import os, sys
open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "prequential", *{command.split()!r}, "text"])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert re.fullmatch("prequential: .*more than the 300 MiB that this process may use.*\n", done.stderr)


@pytest.mark.parametrize(("limit_kib", "code"), [(100_000, 2), (800_000, 1)])
def test_too_little_address_space_is_one_line_that_names_the_limit(limit_kib: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"some text " * 20)
    (tmp_path / "gpt.json").write_text(json.dumps(BOTH.to_dict()))
    command = f'ulimit -v {limit_kib}; exec "$0" -m prequential compress --config gpt.json -o x.pq text'
    sh = ["sh", "-c", command, sys.executable]
    done = subprocess.run(sh, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    line = r"prequential: .*out of memory: the limit of address space \(ulimit -v\) is.*\n"
    assert re.fullmatch(line, done.stderr)


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
