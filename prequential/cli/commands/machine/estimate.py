"""prequential estimate: what a run will cost on this machine and, roughly, on others, before it runs."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from prequential.cli.failures import for_each
from prequential.cli.options import Parser, add_model, add_runtime, add_verbosity, config, count, n_bytes, runtime
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from prequential.codecs.archive_header import Header
    from prequential.measure.cost.devices import Device, Work
    from prequential.measure.cost.estimate import Estimate, Network, Suggestion
    from prequential.measure.cost.products import Rate
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

SCHEMA = 1
PRODUCTS_SHOWN = 12
KB = 1e3


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "estimate",
        help="tell what a run will cost before it runs",
        description="Code a short stretch of each corpus, and say from it what the whole will take: time, memory, operations, "
        "size of the archive, bytes between workers; roughly also on other machines. Takes longer with higher presets.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -"
    )
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the corpus")
    parser.add_argument("--probe", type=n_bytes, metavar="BYTES", help="how much is coded to find out (default: 48K)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, not tables")
    add_model(parser)
    add_runtime(parser)
    group = parser.add_argument_group("elsewhere")
    group.add_argument("--workers", type=count, metavar="N", default=2, help="workers that share steps (default: 2)")
    group.add_argument(
        "--machine",
        dest="machines",
        action="append",
        default=[],
        metavar="NAME",
        help="only this machine; may be repeated",
    )
    group.add_argument(
        "--machines", dest="devices", metavar="FILE", help="a table of more machines, as JSON (docs/ESTIMATE.md)"
    )
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Estimates every corpus; returns the exit code."""
    if args.limit == 0 or args.probe == 0:
        args.parser.error("--limit and --probe are at least 1")
    from prequential import __version__
    from prequential.measure.cost import estimate as measure
    from prequential.measure.cost.probe import PROBE_BYTES
    from prequential.measure.record import environment
    from prequential.online.limits import check_memory

    learner, machine, devices = config(args), runtime(args), _devices(args)

    def tell(name: str) -> None:
        check_memory(learner, args.max_memory, machine)
        source, header = open_source(name, args.limit, learner)
        found, probed = measure.estimate(source, header, machine, probe_bytes=args.probe or PROBE_BYTES)
        rates = measure.product_rates(learner, machine)
        work = measure.work(probed, rates, learner, machine)
        suggested = measure.suggest(learner, machine, found, work) if work else []
        n_blocks = -(-len(source) // learner.schedule.block_symbols)
        between = measure.network(learner, found.n_segments, n_blocks, args.workers)
        said = _Said(learner, found, rates, work, devices, between, suggested)
        if args.json:
            record = estimate_record(header.corpus, said) | {"environment": environment(machine, __version__, learner)}
            print(json.dumps(record, allow_nan=False))
        else:
            print(f"{name}\n{format_estimate(said)}\n")
        sys.stdout.flush()

    return for_each(args.names, tell, verbose=args.verbose)


def estimate_before(name: str, args: argparse.Namespace, learner: Config, machine: Runtime) -> Estimate:
    """What an evaluation of this corpus is going to cost; said on stderr unless --quiet."""
    from prequential.measure.cost.estimate import estimate
    from prequential.online.limits import check_memory

    check_memory(learner, args.max_memory, machine)
    found, _ = estimate(*open_source(name, args.limit, learner), machine)
    if not args.quiet:
        print(f"{name}: {format_summary(found)}", file=sys.stderr)
    return found


def open_source(name: str, limit_bytes: int | None, learner: Config) -> tuple[NDArray[np.uint8], Header]:
    """The bytes of a corpus (n,) uint8, and the header that its archive would have but for the digest."""
    from prequential.codecs.archive_header import Header
    from prequential.corpora.sources import open_corpus

    with open_corpus(name) as corpus:
        source = corpus.bytes()[:limit_bytes]
        return source, Header(
            n_bytes=len(source), blake2b=bytes(32), config=learner.to_dict(), corpus=corpus.describe()
        )


def _devices(args: argparse.Namespace) -> list[Device]:
    """The machines of the options; a wrong name or table ends the program as an error of usage."""
    from prequential.measure.cost.devices import built_in, chosen, read_devices

    parser: Parser = args.parser
    try:
        return chosen(read_devices(args.devices) if args.devices else built_in(), args.machines)
    except ConfigError as error:
        parser.error(str(error))


# ---- what is shown


class _Said(NamedTuple):
    """All that is said of one corpus; work: None where no full-size segment was probed."""

    learner: Config
    found: Estimate
    rates: Sequence[Rate]
    work: Work | None
    devices: Sequence[Device]
    between: Network | None
    suggested: Sequence[Suggestion]


def format_estimate(said: _Said) -> str:
    """All of it as text."""
    learner, found, rates, work, devices, between, suggested = said
    pieces = [_figures(found)]
    if rates and work:
        pieces.append(_products(rates, work))
    if work:
        pieces.append(_elsewhere(found, work, devices))
    if between:
        pieces.append(_network(between, found))
    if work and learner.gpt:
        pieces.append(_suggestions(suggested))
    return "\n\n".join(pieces)


def format_summary(found: Estimate) -> str:
    """The main figures in a line: what `evaluate --estimate` shows before it runs."""
    return (
        f"estimate: compress {_time(found.compress_s)}, decompress {_time(found.decompress_s)}, "
        f"{_mib(found.peak_memory_bytes)}, archive {found.archive_bytes:,} bytes "
        f"({found.archive_low:,} to {found.archive_high:,})"
    )


def _figures(found: Estimate) -> str:
    n = found.n_bytes

    def speed(wall_s: float) -> str:
        return f"{_time(wall_s)}, {n / wall_s / KB:,.2f} kB/s"

    rows = [
        ("corpus", f"{n:,} bytes, of which the probe coded {found.probe_bytes:,}"),
        ("start-up", f"{found.startup_s:.1f} s, not in the times below"),
        ("compress", speed(found.compress_s)),
        ("decompress", speed(found.decompress_s)),
        ("peak memory", f"{_mib(found.peak_memory_bytes)}; --max-memory at least {_mib(found.model_memory_bytes)}"),
        ("archive", f"{found.archive_bytes:,} bytes, {8 * found.archive_bytes / n:.4f} bits/byte"),
        ("four in five", f"{found.archive_low:,} to {found.archive_high:,} bytes"),
        ("operations", f"{found.flops.total:.3g}, {found.flops.total / n:,.0f} a byte"),
        ("segments", f"{found.n_segments:,}"),
    ]
    return "\n".join(f"{name:<14}{text}" for name, text in rows)


def _products(rates: Sequence[Rate], work: Work) -> str:
    from prequential.measure.table import format_table

    rows = [
        (
            str(rate.shape),
            "float32" if rate.shape.carried else "integer",
            f"{rate.times}",
            f"{rate.shape.operations * rate.times / 1e6:,.1f}",
            f"{rate.operations_per_s / 1e9:,.1f}",
        )
        for rate in rates[:PRODUCTS_SHOWN]
    ]
    others = len(rates) - len(rows)
    share = f"products take {work.products_s * 1e3:,.1f} ms of one thread, of {work.cpu_s * 1e3:,.1f} ms of all threads"
    lines = [
        format_table(("products of a full-size segment", "as", "times", "Mop", "Gop/s here"), rows),
        *([f"and {others} shapes more (--json has all)"] if others > 0 else []),
        f"a full-size segment takes {work.wall_s * 1e3:,.1f} ms; {share}",
    ]
    return "\n".join(lines)


def _elsewhere(found: Estimate, work: Work, devices: Sequence[Device]) -> str:
    from prequential.measure.table import format_table

    rows = [(d["name"], _time(d["compress_s"]), f"{d['bytes_per_s'] / KB:,.1f}", "yes" if d["fits"] else "NO")
            for d in _device_records(found, work, devices)]  # fmt: skip
    title = ("elsewhere (rough: from public figures)", "compress", "kB/s", "memory fits")
    return format_table(title, rows)


def _network(between: Network, found: Estimate) -> str:
    rate = between.total_bytes / between.n_workers / found.compress_s
    if between.state_bytes:
        each = f"every {between.sync_every} steps ({between.state_bytes:,} of replicas for all to have)"
    else:
        each = f"a step (ring; {between.gradient_bytes:,} of gradients, {between.scale_bytes:,} of scales)"
    return (
        f"{between.n_workers} workers: each sends {between.sent_bytes:,} bytes {each}, {between.total_bytes:,} in all; at the "
        f"speed above {rate / 1e6:,.1f} MB/s from each"
    )


def _suggestions(suggested: Sequence[Suggestion]) -> str:
    if not suggested:
        return "no other width has products at 1.05 times the operations a second, or more"
    return "\n".join(
        f"width {s.width} with {s.n_heads} heads fits this machine better: products at {s.operations_per_s / 1e9:,.1f} Gop/s, "
        f"{s.operations_factor:.2f} times the operations, compress {_time(s.compress_s)}; its bits are not known from this"
        for s in suggested
    )


def estimate_record(corpus: dict[str, Any], said: _Said) -> dict[str, Any]:
    """All of it as JSON values; names as in measure/cost/estimate.py."""
    learner, found, rates, work, devices, between, suggested = said
    return {
        "schema": SCHEMA,
        "kind": "estimate",
        "corpus": corpus,
        "config": learner.to_dict(),
        **found.to_record(),
        "products": [
            {"shape": rate.shape._asdict(), "times": rate.times, "wall_s": rate.wall_s,
             "operations_per_s": rate.operations_per_s}
            for rate in rates
        ],
        "segment": asdict(work) if work else None,
        "devices": _device_records(found, work, devices) if work else [],
        "network": asdict(between) if between else None,
        "suggestions": [asdict(s) for s in suggested],
    }  # fmt: skip


def _device_records(found: Estimate, work: Work, devices: Sequence[Device]) -> list[dict[str, Any]]:
    from prequential.measure.cost.devices import segment_s

    return [
        {
            **asdict(device),
            "compress_s": (compress_s := found.compress_s * segment_s(device, work) / work.wall_s),
            "bytes_per_s": found.n_bytes / compress_s,
            "fits": found.peak_memory_bytes <= device.memory_gb * 1e9,
            "measured": False,
        }
        for device in devices
    ]


def _time(wall_s: float) -> str:
    if wall_s < 120:
        return f"{wall_s:.1f} s"
    minutes = wall_s / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
