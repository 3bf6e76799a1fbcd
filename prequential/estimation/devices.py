"""The time of a run on other machines: a rough estimate from their public figures and from measurements on this machine.

A segment has three kinds of work, measured here in seconds of one thread: the context mixer, which runs bit by bit in one
thread; matrix products; and the rest, which is elementwise. On another machine, in seconds a segment:

    processor: max(mixer, (mixer + products' + rest) / (threads * use), bytes / bandwidth)
    accelerator: max(mixer, products' + bytes / bandwidth + launches)      the mixer stays on a processor like this one

    products'   operations / (PEAK_SHARE * public peak); on a processor the peak of one core
    rest        as measured here: the cores of the other processor are assumed to be as fast
    use         the share of time in which the threads of this machine are busy
    bytes       what one thread copies here in the time of the rest, an upper bound
    launches    KERNELS_PER_PRODUCT kernels for each product, LAUNCH_S each

Nothing of this was measured on the other machines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError
from prequential.estimation.segment_work import SegmentWork
from prequential.exact.pool import MAX_DEFAULT_THREADS
from prequential.files import read_regular
from prequential.files.strict_json import parse_json

PEAK_SHARE = 0.3  # of the public peak, for products as small as these
KERNELS_PER_PRODUCT = 2  # as counted at the presets with Triton's kernels (benchmarks/gpu.py: 1.1 to 2.6)
LAUNCH_S = 2.5e-6  # from one kernel to the next: 2 us in a captured step, 5 us if the host launches each kernel
KINDS = ("cpu", "gpu")
MAX_TABLE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Device:
    """Public figures of a machine.

    kind: cpu or gpu. cores: of a cpu, otherwise None. int8_tops: peak of int8 products in 10**12 operations a second, or of
    float32 products where int8 is not exact. memory_gb_per_s and memory_gb: in 10**9 bytes. Raises ConfigError for other values.
    """

    name: str
    kind: str
    cores: int | None
    int8_tops: float
    memory_gb_per_s: float
    memory_gb: float
    source: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.source, str) or self.kind not in KINDS:
            raise ConfigError(
                f"device {self.name!r}: name and source must be text, kind must be one of {', '.join(KINDS)}"
            )
        numbers = [self.int8_tops, self.memory_gb_per_s, self.memory_gb, *([self.cores] if self.kind == "cpu" else [])]
        if not all(isinstance(x, int | float) and not isinstance(x, bool) and 0 < x < 1e9 for x in numbers):
            raise ConfigError(f"device {self.name!r}: all other figures, and cores of a cpu, must be numbers above 0")


def segment_time_s(device: Device, work: SegmentWork) -> tuple[float, str]:
    """Wall time of a full-size segment on that device, in seconds, and what bounds it; the module's docstring has the formula."""
    moving_s = work.rest_s * work.bandwidth / (device.memory_gb_per_s * 1e9)
    products_s = work.n_operations / (PEAK_SHARE * device.int8_tops * 1e12)
    if device.kind == "gpu":
        device_s = products_s + moving_s + work.n_products * KERNELS_PER_PRODUCT * LAUNCH_S
        return max((work.mixer_s, "mixer"), (device_s, "device"))
    assert device.cores
    threads = min(device.cores, MAX_DEFAULT_THREADS)
    use = min(1.0, work.cpu_s / (work.n_threads * work.wall_s))
    busy_s = work.mixer_s + products_s * device.cores + work.rest_s
    return max((work.mixer_s, "mixer"), (busy_s / (threads * use), "threads"), (moving_s, "memory"))


def built_in_devices() -> list[Device]:
    """The device table of the package."""
    return _parse_devices(files(__package__).joinpath("devices.json").read_bytes(), "devices.json")


def read_devices(path: str | Path) -> list[Device]:
    """The built-in devices and those of a JSON file of the same form. A device of the file replaces one of the same name.

    Raises ConfigError if the file cannot be read or has another form.
    """
    try:
        text = read_regular(path, MAX_TABLE_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    table = {device.name: device for device in (*built_in_devices(), *_parse_devices(text, str(path)))}
    return list(table.values())


def select_devices(devices: Sequence[Device], names: Sequence[str]) -> list[Device]:
    """The devices with these names; all devices if there are no names. Raises ConfigError for an unknown name."""
    table = {device.name: device for device in devices}
    if unknown := [name for name in names if name not in table]:
        raise ConfigError(f"unknown device {unknown[0]!r}; choose one of {', '.join(table)}")
    return [table[name] for name in names] if names else list(devices)


def _parse_devices(text: bytes, file_name: str) -> list[Device]:
    names = {field.name for field in fields(Device)}
    try:
        entries: Any = parse_json(text)
    except ValueError as error:
        raise ConfigError(f"{file_name!r} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError(f"{file_name!r} must contain a list of devices")
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != names:
            raise ConfigError(f"{file_name!r}: a device must have exactly the fields {', '.join(sorted(names))}")
    return [Device(**entry) for entry in entries]
