"""The machine and the program of a measurement. A reader needs both to judge a speed and to repeat a run."""

import importlib.metadata
import math
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath

from prequential.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]
SOURCE_FOLDERS = ("prequential", "codecs", "corpora")  # of a checkout
NO_BACKEND = "none"  # in place of matrix products, of a learner that has none
PACKAGES = ("torch", "numpy", "numba", "zstandard", "brotli", "pyppmd")


def machine() -> dict[str, str | int]:
    """Processor, cores, memory, how much of it this process may use, and system, as JSON values."""
    return {
        "cpu": _cpu_model(),
        "n_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "usable_memory_bytes": usable_memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_model() -> str:
    with suppress(OSError):
        facts = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        if line := re.search(r"^model name.*?: *(.*)", facts, re.MULTILINE):
            return line[1].strip()
    return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """The peak resident memory of this process so far, libraries included."""
    # ru_maxrss also counts what the process that started this one had needed by then
    with suppress(OSError):
        if line := re.search(rb"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_bytes(), re.MULTILINE):
            return int(line[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others kibibytes


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that may influence speed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def git_commit() -> str | None:
    """The commit of the checkout that this code runs from, with -dirty if files of the package differ, or None."""
    if not (CHECKOUT / ".git").exists():  # an installed wheel may be inside another repository
        return None
    command = ["git", "status", "--porcelain=v2", "--branch", "--", *SOURCE_FOLDERS]
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}  # they may name another repository
    env = own | {"LC_ALL": "C", "GIT_CEILING_DIRECTORIES": str(CHECKOUT.parent), "GIT_OPTIONAL_LOCKS": "0"}
    try:
        output = subprocess.run(
            command, cwd=CHECKOUT, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    commit = re.search(rb"^# branch\.oid ([0-9a-f]+)$", output, re.MULTILINE)
    differs = any(not line.startswith(b"#") for line in output.splitlines())
    return f"{commit[1].decode()}-dirty" if commit and differs else commit and commit[1].decode()


# ---- memory


SYSTEM = Path("/")
# Private memory of interpreter and libraries: 70 and 290 MB were measured.
PROGRAM_BYTES, PROGRAM_WITH_GPT_BYTES = 100 << 20, 300 << 20
# Address space of the same: with less, libraries abort or wait for ever. Up to 450 and 950 MB were needed.
ADDRESSES, ADDRESSES_WITH_GPT = 450 << 20, 1000 << 20


def usable_memory_bytes(system: Path = SYSTEM) -> int:
    """The smallest of the machine's memory and the limits of this process (`ulimit -v`, `ulimit -d`) and its control groups."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    own = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    files = [group / name for group in _groups(system, "memory") for name in ("memory.max", "memory.limit_in_bytes")]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *own, *chain(*map(_numbers, files))])


def check_usable(learner_bytes: int, *, has_gpt: bool) -> None:
    """Raises ConfigError if a learner of so many bytes and the program need more memory than this process may use."""
    check_address_space(learner_bytes, has_gpt=has_gpt)
    needed, usable = learner_bytes + (PROGRAM_WITH_GPT_BYTES if has_gpt else PROGRAM_BYTES), usable_memory_bytes()
    if needed > usable:
        least = f"this learner takes up to {needed >> 20:,} MiB of memory with the program"
        what = f"more than the {usable >> 20:,} MiB that this process may use here (machine, container or job, ulimit)"
        raise ConfigError(f"{least}, {what}: choose a smaller one, or give max_memory_bytes=")


def check_address_space(learner_bytes: int = 0, *, has_gpt: bool = False) -> None:
    """Raises ConfigError if `ulimit -v` leaves too little for the program and a learner of so many bytes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = learner_bytes + (ADDRESSES_WITH_GPT if has_gpt else ADDRESSES)
    if needed > limit != resource.RLIM_INFINITY:
        what = f"the limit of address space (ulimit -v) is {limit >> 20:,} MiB: raise it to {needed >> 20:,} MiB"
        raise ConfigError(f"out of memory: {what}")


def _groups(system: Path, controller: str) -> Iterator[Path]:
    """The folders of the control groups of this process and of all their parents, in versions 1 and 2. Some may not exist."""
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    mounts = system / "sys/fs/cgroup"
    for line in lines:  # number:controllers:path
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        names = (controller, controllers) if controllers else ("", "unified")
        # A container may show the path that its group has outside, and mount the group itself: what is missing is skipped.
        group = PurePosixPath(path.lstrip("/"))
        yield from (mounts / name / place for name in names for place in (group, *group.parents))


def _numbers(path: Path) -> list[int]:
    """The numbers in a file of a control group; none if there is no limit."""
    with suppress(OSError, ValueError):  # "max" is no limit
        return [*map(int, path.read_text(encoding="ascii").split())]
    return []


# ---- threads

MAX_DEFAULT_THREADS = 8


def usable_cores(system: Path = SYSTEM) -> int:
    """The least of the processors of this process, the quotas of its control groups, rounded up, and OMP_NUM_THREADS."""
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    for group in _groups(system, "cpu"):
        older = (_numbers(group / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        quota = _numbers(group / "cpu.max") or [*chain(*older)]
        if len(quota) == 2 and min(quota) > 0:  # of microseconds, in a period of so many
            limits.append(math.ceil(quota[0] / quota[1]))
    if asked := re.match(r"\s*([1-9]\d*)\s*(,|$)", os.environ.get("OMP_NUM_THREADS", "")):  # also one for each level
        limits.append(int(asked[1]))
    return min(limits)


def available_threads(n_jobs: int = 1) -> int:
    """The threads of each of so many computations by default: its share of the usable cores, at most MAX_DEFAULT_THREADS."""
    return min(max(1, usable_cores() // n_jobs), MAX_DEFAULT_THREADS)
