"""All baselines by name, and their measurement: each output is decoded again before its size is reported."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prequential.errors import ConfigError, MissingDependencyError, PrequentialError
from prequential_codecs.baselines import order0, order2, two_part
from prequential_codecs.baselines.classical import CLASSICAL, Compressor

_COUNTING = {
    "order0": ("order 0, two-part", order0),
    "order2": ("order 2, adaptive (Witten-Bell)", order2),
    "order3-static": ("order 3, two-part", two_part),
}
# They only count bytes: with fixed counts (two-part) or with growing counts (adaptive), and a range coder.
STATIC = {
    name: Compressor(label=label, compress=code.compress, decompress=code.decompress, requires="constriction")
    for name, (label, code) in _COUNTING.items()
}
BASELINES: dict[str, Compressor] = {**CLASSICAL, **STATIC}
DEFAULT_BASELINES = tuple(BASELINES)


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """The size that a baseline reached on `n_bytes` of data. wall_s: wall time of the compression alone, in seconds.

    label: what tables call it, if it is not of BASELINES.
    """

    name: str
    n_bytes: int
    compressed_bytes: int
    wall_s: float
    label: str = ""


def measure(name: str, data: bytes) -> BaselineResult:
    """Compresses `data` with baseline `name`, decompresses it again, and returns the size.

    Raises ConfigError for an unknown name, MissingDependencyError if its library is not installed, PrequentialError if the
    decompressed data differ: such a size is not reported.
    """
    if name not in BASELINES:
        raise ConfigError(f"baseline {name!r} is unknown; choose from {', '.join(BASELINES)}")
    compressor = BASELINES[name]
    if compressor.requires and not compressor.installed:
        raise MissingDependencyError(_missing([name], compressor.requires))
    start_s = time.perf_counter()
    compressed = compressor.compress(data)
    wall_s = time.perf_counter() - start_s
    try:
        restored = compressor.decompress(compressed)
    except Exception as error:  # from a library: pyppmd 1.3.1 at order 16 refuses some of its own output
        raise PrequentialError(f"baseline {name} does not decode its {len(data)} bytes of input: {error}") from error
    if restored != data:
        raise PrequentialError(f"baseline {name} decompresses its {len(data)} bytes of input to other bytes")
    return BaselineResult(name=name, n_bytes=len(data), compressed_bytes=len(compressed), wall_s=wall_s)


def measure_installed(data: bytes, names: Iterable[str] = tuple(BASELINES)) -> tuple[list[BaselineResult], list[str]]:
    """The results of all `names` that are installed and decode correctly, and one note for each fault and missing package."""
    results, notes, missing = [], [], dict[str, list[str]]()
    for name in names:
        package = BASELINES[name].requires if name in BASELINES and not BASELINES[name].installed else None
        if package:
            missing.setdefault(package, []).append(name)
            continue
        try:
            results.append(measure(name, data))
        except ConfigError:
            raise
        except PrequentialError as error:
            notes.append(f"skipped: {error}")
    return results, notes + [f"skipped: {_missing(skipped, package)}" for package, skipped in missing.items()]


def _missing(names: Sequence[str], package: str) -> str:
    what = f"baseline {names[0]} needs" if len(names) == 1 else f"baselines {', '.join(names)} need"
    return f"{what} the package {package}, which is not installed: pip install {package}"
