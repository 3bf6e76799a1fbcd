"""The memory that this process may use: the machine's, or less where a container, a job of a queue or `ulimit` allows less.

Linux ends a process without a word when its control group exceeds the group's limit. So a learner that cannot fit is refused.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from prequential.errors import ConfigError

SYSTEM = Path("/")
# Private memory of interpreter and libraries: 70 and 290 MB were measured.
PROGRAM_BYTES, PROGRAM_WITH_GPT_BYTES = 100 << 20, 300 << 20
# Address space of the same: with less, libraries abort or wait for ever. Up to 450 and 950 MB were needed.
ADDRESSES, ADDRESSES_WITH_GPT = 450 << 20, 1000 << 20


def usable_memory_bytes(system: Path = SYSTEM) -> int:
    """The smallest of the machine's memory and the limits of this process (`ulimit -v`, `ulimit -d`) and its control groups."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    own = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *own, *_group_limits(system)])


def check_usable(learner_bytes: int, *, has_gpt: bool) -> None:
    """Raises ConfigError if a learner of so many bytes and the program need more memory than this process may use."""
    check_address_space(learner_bytes, has_gpt=has_gpt)
    needed, usable = learner_bytes + (PROGRAM_WITH_GPT_BYTES if has_gpt else PROGRAM_BYTES), usable_memory_bytes()
    if needed > usable:
        raise ConfigError(
            f"this learner takes up to {needed >> 20:,} MiB of memory with the program, more than the {usable >> 20:,} MiB that "
            "this process may use here (machine, container or job, ulimit): allow more or choose a smaller learner; "
            "max_memory_bytes= replaces this check"
        )


def check_address_space(learner_bytes: int = 0, *, has_gpt: bool = False) -> None:
    """Raises ConfigError if `ulimit -v` leaves too little for the program and a learner of so many bytes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = learner_bytes + (ADDRESSES_WITH_GPT if has_gpt else ADDRESSES)
    if needed > limit != resource.RLIM_INFINITY:
        raise ConfigError(
            f"out of memory: the limit of address space (ulimit -v) is {limit >> 20:,} MiB, and this takes up to "
            f"{needed >> 20:,} MiB: raise the limit"
        )


def limits_of_user() -> str:
    """The limits of `ulimit` that this process has, to explain a lack of memory: ` (ulimit -v: 900 MiB)`, or nothing."""
    kinds = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}
    limits = {name: resource.getrlimit(kind)[0] for name, kind in kinds.items()}
    found = [f"{name}: {limit >> 20:,} MiB" for name, limit in limits.items() if limit != resource.RLIM_INFINITY]
    return f" ({', '.join(found)})" if found else ""


def _group_limits(system: Path) -> Iterator[int]:
    """The limits of the control groups of this process and of all their parents, in versions 1 and 2."""
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    mounts = system / "sys/fs/cgroup"
    for line in lines:  # number:controllers:path
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folders, name = [mounts, mounts / "unified"], "memory.max"
        elif "memory" in controllers.split(","):
            folders, name = [mounts / "memory", mounts / controllers], "memory.limit_in_bytes"
        else:
            continue
        # A container may show the path that its group has outside, and mount the group itself: what is missing is skipped.
        group = PurePosixPath(path.lstrip("/"))
        for folder in folders:
            for place in (group, *group.parents):
                with suppress(OSError, ValueError):  # "max" is no limit
                    yield int((folder / place / name).read_text(encoding="ascii"))
