"""The cost of one run, as `estimate` prints it: time, memory, size, matrix products, other machines, workers and other widths."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import Header

from prequential.estimation.devices import Device, segment_time_s
from prequential.estimation.estimate import Estimate, estimate
from prequential.estimation.measured_rates import MeasuredRate
from prequential.estimation.segment_work import SegmentWork, segment_work
from prequential.estimation.traffic import WorkerTraffic, worker_traffic
from prequential.model.config import Config
from prequential.online.runtime import Runtime
from prequential.online.source import Source

if TYPE_CHECKING:  # they import torch, which takes long
    from prequential.estimation.products import ProductRate
    from prequential.estimation.widths import WidthSuggestion

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """An estimate and everything that follows from its probe.

    work: a full-size segment; None if the probe had none, and then there is nothing to say about other machines and widths.
    rates: the matrix products of a full-size segment, measured here. traffic: None without a GPT. measured: rates of this
    configuration that were measured on other machines.
    """

    config: Config
    estimate: Estimate
    rates: "Sequence[ProductRate]"
    work: SegmentWork | None
    devices: Sequence[Device]
    traffic: WorkerTraffic | None
    suggestions: "Sequence[WidthSuggestion]"
    measured: Sequence[MeasuredRate] = ()

    def device_records(self) -> list[dict[str, Any]]:
        """The devices as JSON values, with the time of this run in seconds and whether its memory fits; none without `work`."""
        return [self._device_record(device, self.work) for device in self.devices] if self.work else []

    def _device_record(self, device: Device, work: SegmentWork) -> dict[str, Any]:
        segment_s, bound = segment_time_s(device, work)
        compress_s = self.estimate.compress_s * segment_s / work.wall_s
        return {
            **asdict(device),
            "compress_s": compress_s,
            "bytes_per_s": self.estimate.n_bytes / compress_s,
            "fits": self.estimate.peak_memory_bytes <= device.memory_gb * 1e9,
            "bound_by": bound,
            "measured": False,
        }

    def to_record(self, corpus: Mapping[str, Any]) -> dict[str, Any]:
        """JSON values; `corpus` describes the corpus."""
        return {
            "schema": SCHEMA,
            "kind": "estimate",
            "corpus": dict(corpus),
            "config": self.config.to_dict(),
            **self.estimate.to_record(),
            "products": [
                {
                    "shape": rate.shape._asdict(),
                    "times": rate.times,
                    "wall_s": rate.wall_s,
                    "operations_per_s": rate.operations_per_s,
                }
                for rate in self.rates
            ],
            "segment": asdict(self.work) if self.work else None,
            "devices": self.device_records(),
            "measured": [asdict(rate) for rate in self.measured],
            "network": asdict(self.traffic) if self.traffic else None,
            "suggestions": [asdict(suggestion) for suggestion in self.suggestions],
        }


def measure_run_cost(
    source: Source,
    config: Config,
    runtime: Runtime,
    *,
    devices: Sequence[Device],
    n_workers: int,
    probe_bytes: int | None = None,
    details: bool = True,
) -> RunCost:
    """The cost of coding `source` with the learner of `config`. Raises what `estimate` raises.

    details: also what needs measurements beyond the probe: products, other machines and other widths.
    """
    found, probe = estimate(
        source.symbols, planned_header(source, config), runtime, probe_bytes=probe_bytes, details=details
    )
    if not details:
        return RunCost(
            config=config, estimate=found, rates=(), work=None, devices=devices, traffic=None, suggestions=()
        )
    from prequential.estimation.products import product_rates
    from prequential.estimation.widths import suggest_widths

    rates = product_rates(config, runtime)
    work = segment_work(probe, rates, config, runtime)
    n_blocks = -(-source.n_bytes // config.schedule.block_symbols)
    return RunCost(
        config=config,
        estimate=found,
        rates=rates,
        work=work,
        devices=devices,
        traffic=worker_traffic(config, found.n_segments, n_blocks, n_workers),
        suggestions=suggest_widths(config, runtime, found, work) if work else [],
    )


def planned_header(source: Source, config: Config) -> Header:
    """The header that the archive of `source` will have, but without the digest, for which all bytes would be read."""
    return Header(n_bytes=source.n_bytes, blake2b=bytes(32), config=config.to_dict(), corpus=dict(source.origin))
