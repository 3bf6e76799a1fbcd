"""What a run would take on other machines: rough, from public figures of theirs and from what was measured here.

A segment has three kinds of work, all measured here in seconds of one thread: the context mixer, which goes bit by bit in one
thread; matrix products; and the rest, element by element. Elsewhere

    processor: max(mixer, (mixer + products' + rest) / (threads * use), bytes / bandwidth)      in seconds a segment
    accelerator: max(mixer, products' + bytes / bandwidth + launches)      the mixer stays on a processor like this one's

products' = operations / (REACHED * its public peak), of a processor the share of one core; rest: its cores are taken to be as
fast as these; use: how much of their time this machine's threads are busy; bytes: what one thread copies here in the time of the
rest, an upper bound; launches: PER_PRODUCT kernels for each product, LAUNCH_S each. Nothing of this was measured elsewhere.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from prequential.errors import ConfigError
from prequential.exact.pool import MAX_DEFAULT_THREADS

REACHED = 0.3  # of the public peak, by products as small as these
PER_PRODUCT = 7  # kernels for each product, as counted at the presets (benchmarks/gpu.py: 6.6 to 9.7)
LAUNCH_S = 2.5e-6  # from one kernel to the next: 2 us in the graph of a step, 5 us where the host asks for each
KINDS = ("cpu", "gpu")


@dataclass(frozen=True, kw_only=True)
class Device:
    """Public figures of a machine: peak of int8 products in 10**12 operations a second (of float32 where int8 is not exact),
    bandwidth in 10**9 bytes a second, memory in 10**9 bytes. kind: cpu or gpu; cores: of a cpu, else None."""

    name: str
    kind: str
    cores: int | None
    int8_tops: float
    memory_gb_per_s: float
    memory_gb: float
    source: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.source, str) or self.kind not in KINDS:
            raise ConfigError(f"device {self.name!r}: name and source are texts, kind is one of {', '.join(KINDS)}")
        numbers = [self.int8_tops, self.memory_gb_per_s, self.memory_gb, *([self.cores] if self.kind == "cpu" else [])]
        if not all(isinstance(x, int | float) and not isinstance(x, bool) and 0 < x < 1e9 for x in numbers):
            raise ConfigError(f"device {self.name!r}: cores of a cpu and all other figures are numbers above 0")


@dataclass(frozen=True, kw_only=True)
class Work:
    """A full-size segment as this machine does it. wall_s: its time; cpu_s: of all threads together, of which mixer_s and
    products_s, each of one thread; n_operations in n_products products. bandwidth: bytes that one thread copies here in a second.
    """

    wall_s: float
    cpu_s: float
    mixer_s: float
    products_s: float
    n_operations: int
    n_products: int
    n_threads: int
    bandwidth: float

    @property
    def rest_s(self) -> float:
        """Neither mixer nor products."""
        return max(0.0, self.cpu_s - self.mixer_s - self.products_s)


def segment_s(device: Device, work: Work) -> float:
    """Wall time of that segment there, in seconds; see the module's text."""
    n_bytes = work.rest_s * work.bandwidth
    moving_s = n_bytes / (device.memory_gb_per_s * 1e9)
    products_s = work.n_operations / (REACHED * device.int8_tops * 1e12)
    if device.kind == "gpu":
        return max(work.mixer_s, products_s + moving_s + work.n_products * PER_PRODUCT * LAUNCH_S)
    assert device.cores
    threads = min(device.cores, MAX_DEFAULT_THREADS)
    use = min(1.0, work.cpu_s / (work.n_threads * work.wall_s))
    busy_s = work.mixer_s + products_s * device.cores + work.rest_s
    return max(work.mixer_s, busy_s / (threads * use), moving_s)


def built_in() -> list[Device]:
    """The table that comes with the package."""
    return _parsed(files(__package__).joinpath("devices.json").read_text(encoding="utf-8"), "devices.json")


def read_devices(path: str | Path) -> list[Device]:
    """The built-in table with those of a file of the same form added, or put in the place of their names.

    Raises ConfigError for what cannot be read or is no such table.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not JSON: {error}") from error
    table = {device.name: device for device in (*built_in(), *_parsed(text, str(path)))}
    return list(table.values())


def chosen(devices: Sequence[Device], names: Sequence[str]) -> list[Device]:
    """Those of these names, or all where there are none. Raises ConfigError for a name that is not there."""
    table = {device.name: device for device in devices}
    if unknown := [name for name in names if name not in table]:
        raise ConfigError(f"no device {unknown[0]!r}; there are {', '.join(table)}")
    return [table[name] for name in names] if names else list(devices)


def _parsed(text: str, where: str) -> list[Device]:
    names = {field.name for field in fields(Device)}
    try:
        entries: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{where!r} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError(f"{where!r} must hold a list of devices")
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != names:
            raise ConfigError(f"{where!r}: a device has exactly the names {', '.join(sorted(names))}")
    return [Device(**entry) for entry in entries]


def copy_bandwidth() -> float:
    """Bytes that one thread of this machine reads and writes in a second when it copies 32 MiB, best of several."""
    a = np.ones(1 << 25, np.uint8)
    b, best = np.empty_like(a), float("inf")
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(b, a)
        best = min(best, time.perf_counter() - start)
    return 2 * a.nbytes / best
