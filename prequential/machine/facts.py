"""The machine and the program of a measurement. A reader needs both to judge a speed and to repeat a run."""

import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from prequential_corpora.git_repository import git_environment

from prequential.machine.usable_memory import usable_memory_bytes

CHECKOUT = Path(__file__).parents[2]
SOURCE_FOLDERS = ("prequential", "codecs", "corpora")  # of a checkout
NO_BACKEND = "none"  # in place of matrix products, of a learner that has none
PACKAGES = ("torch", "numpy", "numba", "constriction", "zstandard", "brotli", "pyppmd")


def machine() -> dict[str, str | int]:
    """Processor, cores, memory, how much of it this process may use, and system, as JSON values."""
    return {
        "cpu": _cpu_model(),
        "cpu_capability": _vector_level(),
        "n_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "usable_memory_bytes": usable_memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _vector_level() -> str:
    """The widest vector instructions of the processor, by the names that torch gives; torch is not imported for that."""
    from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]

    features = get_host_cpu_features()
    levels = (("AVX512", "avx512f"), ("AVX2", "avx2"))
    return next((name for name, feature in levels if features.get(feature)), "DEFAULT")


def _cpu_model() -> str:
    with suppress(OSError):
        if found := re.search(
            r"^model name.*?: *(.*)", Path("/proc/cpuinfo").read_text("utf-8", "replace"), re.MULTILINE
        ):
            return found[1].strip()
    return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """The peak resident memory of this process so far, libraries included."""
    # ru_maxrss also counts what the process that started this one had needed by then
    with suppress(OSError):
        if found := re.search(rb"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_bytes(), re.MULTILINE):
            return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others kibibytes


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that may influence speed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def git_commit() -> str | None:
    """The commit of the checkout that this code runs from, with -dirty if files of the package differ, or None."""
    if not (CHECKOUT / ".git").exists():  # an installed wheel may be inside another repository
        return None
    command = ["git", "status", "--porcelain=v2", "--branch", "--", *SOURCE_FOLDERS]
    env = git_environment() | {"GIT_CEILING_DIRECTORIES": str(CHECKOUT.parent), "GIT_OPTIONAL_LOCKS": "0"}
    try:
        output = subprocess.run(
            command, cwd=CHECKOUT, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    commit = re.search(rb"^# branch\.oid ([0-9a-f]+)$", output, re.MULTILINE)
    differs = any(not line.startswith(b"#") for line in output.splitlines())
    return f"{commit[1].decode()}-dirty" if commit and differs else commit and commit[1].decode()
