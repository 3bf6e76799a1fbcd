"""The work of a full-size segment on this machine: context mixer, matrix products, and the rest."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prequential.estimation.probe import Probe
from prequential.model.config import Config
from prequential.online.runtime import Runtime

if TYPE_CHECKING:
    from prequential.estimation.products import ProductRate

COPIED_BYTES, COPIES = 32 << 20, 5


@dataclass(frozen=True, kw_only=True)
class SegmentWork:
    """Seconds of a full-size segment: wall_s of wall time; cpu_s of all threads, which include mixer_s and products_s of one.

    n_operations: of the n_products matrix products. bandwidth: bytes that one thread reads and writes in a second when it copies.
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
        """Seconds of all threads outside the mixer and the products."""
        return max(0.0, self.cpu_s - self.mixer_s - self.products_s)


def segment_work(probe: Probe, rates: "Sequence[ProductRate]", config: Config, runtime: Runtime) -> SegmentWork | None:
    """The work of a full-size segment. None if the corpus is too short for one, or if the GPT is not on the processor."""
    if not probe.n_full or runtime.device != "cpu":
        return None
    return SegmentWork(
        wall_s=float(np.median(probe.encoded.wall_s[-probe.n_full :])),
        cpu_s=probe.encoded.full_cpu_s,
        mixer_s=probe.mixer_byte_s * config.schedule.segment_symbols,
        products_s=sum(rate.wall_s * rate.times for rate in rates),
        n_operations=sum(rate.shape.operations * rate.times for rate in rates),
        n_products=sum(rate.times for rate in rates),
        n_threads=runtime.n_threads if config.gpt else 1,
        bandwidth=copy_bandwidth(),
    )


def copy_bandwidth() -> float:
    """Bytes that one thread of this machine reads and writes in a second when it copies 32 MiB. The fastest of five trials."""
    a = np.ones(COPIED_BYTES, np.uint8)
    b, fastest_s = np.empty_like(a), float("inf")
    for _ in range(COPIES):
        start = time.perf_counter()
        np.copyto(b, a)
        fastest_s = min(fastest_s, time.perf_counter() - start)
    return 2 * a.nbytes / fastest_s
