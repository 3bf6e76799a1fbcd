"""The estimate of a run as text: tables for `estimate`, and one line for `evaluate --estimate`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prequential.estimation.estimate import FASTER, Estimate
from prequential.estimation.measured_rates import MeasuredRate
from prequential.estimation.run_cost import RunCost
from prequential.estimation.segment_work import SegmentWork
from prequential.estimation.traffic import WorkerTraffic
from prequential.printable import printable
from prequential.records.table import format_table

if TYPE_CHECKING:
    from prequential.estimation.products import ProductRate
    from prequential.estimation.widths import WidthSuggestion

MAX_PRODUCTS = 12  # rows of the table of products
KB = 1e3


def format_run_cost(cost: RunCost) -> str:
    """Everything that is known about the cost of a run, without a final newline."""
    parts = [_figures(cost.estimate)]
    parts += [_measured(cost.measured, cost.estimate.n_bytes)] if cost.measured else []
    if cost.work:
        parts += [_products(cost.rates, cost.work)] if cost.rates else []
        parts.append(_devices(cost))
    if cost.traffic:
        parts.append(_traffic(cost.traffic, cost.estimate))
    if cost.work and cost.config.gpt:
        parts.append(_suggestions(cost.suggestions))
    return "\n\n".join(parts)


def format_summary(estimate: Estimate) -> str:
    """The main figures in one line."""
    return (
        f"estimate: compress {_time(estimate.compress_s)}, decompress {_time(estimate.decompress_s)}, "
        f"{_mib(estimate.peak_memory_bytes)}, archive {estimate.archive_bytes:,} bytes "
        f"({estimate.archive_low:,} to {estimate.archive_high:,})"
    )


def _figures(estimate: Estimate) -> str:
    n = estimate.n_bytes

    def speed(wall_s: float) -> str:
        return f"{_time(wall_s)}, {n / wall_s / KB:,.2f} kB/s"

    peak, limit = _mib(estimate.peak_memory_bytes), _mib(estimate.model_memory_bytes)
    usable = f"; {_mib(estimate.usable_memory_bytes)} usable here" if estimate.usable_memory_bytes is not None else ""
    rows = [
        ("corpus", f"{n:,} bytes, of which the probe coded {estimate.probe_bytes:,}"),
        ("start-up", f"{estimate.startup_s:.1f} s, not included in the times below"),
        ("compress", speed(estimate.compress_s)),
        ("decompress", speed(estimate.decompress_s)),
        ("peak memory", f"{peak}; --max-memory at least {limit}{usable}"),
        ("archive", f"{estimate.archive_bytes:,} bytes, {8 * estimate.archive_bytes / n:.4f} bits/byte"),
        ("likely", f"{estimate.archive_low:,} to {estimate.archive_high:,} bytes"),
        (
            "operations",
            f"{estimate.flops.total:.3g}, {estimate.flops.total / n:,.0f} a byte, {estimate.n_segments:,} segments",
        ),
    ]
    if estimate.faster_s is not None and estimate.faster_s < estimate.compress_s / 2:
        rows.append(
            (
                "suggestion",
                f"-{FASTER} takes {_time(estimate.faster_s)}, for some 3 % more bytes than with a GPT and more contexts",
            )
        )
    return "\n".join(f"{name:<14}{text}" for name, text in rows)


def _measured(rates: Sequence[MeasuredRate], n_bytes: int) -> str:
    def of_run(bytes_per_s: float) -> str:
        return f"{_time(n_bytes / bytes_per_s)}, {bytes_per_s / KB:,.1f} kB/s"

    rows = [
        (
            rate.device,
            of_run(rate.compress_bytes_per_s),
            of_run(rate.decompress_bytes_per_s),
            f"{rate.n_bytes:,} bytes of {printable(rate.corpus)}",
            (rate.git_commit or "-")[:7],
        )
        for rate in rates
    ]
    return format_table(("at rates measured on", "compress", "decompress", "measured over", "commit"), rows)


def _products(rates: "Sequence[ProductRate]", work: SegmentWork) -> str:
    rows = [
        (
            str(rate.shape),
            "float32" if rate.shape.carried else "integer",
            f"{rate.times}",
            f"{rate.shape.operations * rate.times / 1e6:,.1f}",
            f"{rate.operations_per_s / 1e9:,.1f}",
        )
        for rate in rates[:MAX_PRODUCTS]
    ]
    n_more = len(rates) - len(rows)
    share = f"products take {work.products_s * 1e3:,.1f} ms of one thread, of {work.cpu_s * 1e3:,.1f} ms of all threads"
    lines = [
        format_table(("products of a full-size segment", "as", "times", "Mop", "Gop/s here"), rows),
        *([f"and {n_more} more shapes (--json lists all)"] if n_more > 0 else []),
        f"a full-size segment takes {work.wall_s * 1e3:,.1f} ms; {share}",
    ]
    return "\n".join(lines)


def _devices(cost: RunCost) -> str:
    rows = [
        (
            device["name"],
            _time(device["compress_s"]),
            f"{device['bytes_per_s'] / KB:,.1f}",
            device["bound_by"],
            "yes" if device["fits"] else "NO",
        )
        for device in cost.device_records()
    ]
    titles = ("other machines (rough, from public figures)", "compress", "kB/s", "bound by", "memory fits")
    note = (
        "times are equal where the mixer bounds them: it runs bit by bit in one thread, assumed to be as fast as here"
    )
    return f"{format_table(titles, rows)}\n{note}"


def _traffic(traffic: WorkerTraffic, estimate: Estimate) -> str:
    rate = traffic.total_bytes / traffic.n_workers / estimate.compress_s
    if traffic.state_bytes:
        times = f"every {traffic.sync_every} steps ({traffic.state_bytes:,} of replicas that all must have)"
    else:
        times = f"a step (ring; {traffic.gradient_bytes:,} of gradients, {traffic.scale_bytes:,} of scales)"
    return (
        f"{traffic.n_workers} workers: each sends {traffic.sent_bytes:,} bytes {times}, {traffic.total_bytes:,} in all; at the "
        f"speed above {rate / 1e6:,.1f} MB/s from each"
    )


def _suggestions(suggestions: "Sequence[WidthSuggestion]") -> str:
    from prequential.estimation.widths import MIN_SPEEDUP

    if not suggestions:
        return f"no other width has products at {MIN_SPEEDUP} times the operations a second, or more"
    return "\n".join(
        f"width {s.width} with {s.n_heads} heads fits this machine better: products at {s.operations_per_s / 1e9:,.1f} Gop/s, "
        f"{s.operations_factor:.2f} times the operations, compress {_time(s.compress_s)}; the estimate does not cover its bits"
        for s in suggestions
    )


def _time(wall_s: float) -> str:
    if wall_s < 120:
        return f"{wall_s:.1f} s"
    minutes = wall_s / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
