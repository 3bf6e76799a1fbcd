"""What a run will cost, before it runs: time, memory, operations, size, and what many workers would send each other.

Time: the probe (measure/cost/probe.py) times the first segments and full-size ones; a segment between is taken to lie on a straight
line between the two. Memory: the probe's own peak, and what grows with the corpus. Size: ppmd compresses the whole corpus; the
learner's bits over ppmd's are known over the probe, and taken to go on falling as n**-s does, with an exponent s halfway between
what the probe shows and what is usual.
"""

import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive import ArchiveWriter
from prequential.codecs.archive_block import Block, BlockKind
from prequential.codecs.archive_header import Header
from prequential.codecs.baselines.registry import BASELINES
from prequential.errors import CorpusError
from prequential.exact import matmul
from prequential.measure.cost import products
from prequential.measure.cost.devices import Work, copy_bandwidth
from prequential.measure.cost.probe import PROBE_BYTES, Coded, Probe, probe_apart
from prequential.measure.cost.products import Rate
from prequential.measure.evaluation.evaluation import Evaluation, warm_up
from prequential.model.config import N_SYMBOLS, Config, ScheduleConfig
from prequential.online.flops import Flops, hidden_matrices, total_flops
from prequential.online.limits import memory_bytes
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks, segments

REFERENCE = "ppmd"
REFERENCE_BYTES = 64 << 20  # of a longer corpus ppmd sees so much, and the rest counts as that does
N_PREFIXES = 5  # of the last two octaves of the probe, where the ratio is looked at
WIDER = 1.05  # a shape is suggested if its operations a second are more by this


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How fast the learner's bits fall against ppmd's, as an exponent of the length: what is usual, the most that a probe is
    believed, and how far eight in ten lay below and above what was foretold."""

    usual: float
    most: float
    below: float
    above: float


# From curves of real corpora: docs/ESTIMATE.md says which.
WITH_MIXER = Drift(usual=0.012, most=0.06, below=0.0095, above=0.019)
GPT_ALONE = Drift(usual=0.075, most=0.2, below=0.03, above=0.03)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of one run. Seconds of wall time; compress_s and decompress_s without startup_s, which each process has once.

    probe_bytes: how much of the corpus was coded to find this out. peak_memory_bytes: resident, libraries included, of
    compressing. model_memory_bytes: what --max-memory is compared with. archive_low, archive_high: bounds of the archive's bytes
    that hold in about four of five runs. n_segments: beside each but the first runs a step of the GPT.
    """

    n_bytes: int
    probe_bytes: int
    startup_s: float
    compress_s: float
    decompress_s: float
    peak_memory_bytes: int
    model_memory_bytes: int
    archive_bytes: int
    archive_low: int
    archive_high: int
    flops: Flops
    n_segments: int

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self) | {"flops": asdict(self.flops) | {"total": self.flops.total}}


def estimate(
    source: NDArray[np.uint8], header: Header, runtime: Runtime, *, probe_bytes: int = PROBE_BYTES
) -> tuple[Estimate, Probe]:
    """What coding `source` (n,) uint8, as `header` describes it, will cost on this machine; and the probe it is drawn from.

    Costs two passes over the probe, and ppmd's over the corpus (REFERENCE_BYTES of it at most). Raises CorpusError for an
    empty corpus, and what `probe_apart` raises.
    """
    if not len(source):
        raise CorpusError("nothing to estimate: the corpus is empty")
    config, n = Config.from_dict(header.config), len(source)
    warm_up(runtime)  # where kernels are compiled for the first time, that memory is not the run's
    found = probe_apart(source, n, probe_bytes, config, runtime)
    low, middle, high = code_bits(source, found, WITH_MIXER if config.mixer else GPT_ALONE)
    beside = container_bytes(header, config.schedule)
    sizes = _sizes(n, config.schedule)
    result = Estimate(
        n_bytes=n,
        probe_bytes=found.n_bytes,
        startup_s=found.startup_s,
        compress_s=run_s(found, found.encoded, n, config.schedule),
        decompress_s=run_s(found, found.decoded, n, config.schedule),
        peak_memory_bytes=found.peak_memory_bytes + _growth_bytes(found.n_bytes, n, config.schedule),
        model_memory_bytes=memory_bytes(config, n_threads=runtime.n_threads),
        archive_bytes=beside + math.ceil(middle / 8),
        archive_low=beside + math.ceil(low / 8),
        archive_high=beside + math.ceil(high / 8),
        flops=total_flops(config, n),
        n_segments=len(sizes),
    )
    return result, found


# ---- time


def run_s(found: Probe, coded: Coded, n_bytes: int, schedule: ScheduleConfig) -> float:
    """Wall time of coding n_bytes, in seconds, in the way that `coded` went through the probe."""
    n_first = len(found.sizes) - found.n_full
    passed = sum(found.sizes[:n_first])
    total_s = coded.learner_s + sum(coded.wall_s[:n_first])
    total_s += coded.block_s * len(list(blocks(n_bytes, schedule)))
    rest = Counter(_sizes(n_bytes, schedule)[n_first:]) if n_bytes > passed else Counter()
    return total_s + sum(segment_wall_s(found, coded, size) * times for size, times in rest.items())


def segment_wall_s(found: Probe, coded: Coded, size: int) -> float:
    """Of a segment of `size` symbols: on the line between the last early ones of the probe and its full-size ones, by medians."""
    wall_s, sizes = np.array(coded.wall_s), np.array(found.sizes)
    n_first = len(sizes) - found.n_full
    full_s, full_size = float(np.median(wall_s[n_first:])), float(np.median(sizes[n_first:]))
    early = slice(n_first // 2, n_first)
    early_s, early_size = float(np.median(wall_s[early])), float(np.median(sizes[early]))
    if early_size >= full_size:
        return full_s
    slope = max(0.0, (full_s - early_s) / (full_size - early_size))
    return max(0.0, full_s + (size - full_size) * slope)


def _sizes(n_bytes: int, schedule: ScheduleConfig) -> list[int]:
    """Of all segments."""
    return [s.stop - s.start for block in blocks(n_bytes, schedule) for s in segments(block, schedule)]


# ---- memory and size


def _growth_bytes(n_probed: int, n_bytes: int, schedule: ScheduleConfig) -> int:
    """What a run touches beyond its probe: the corpus, which is mapped, and what it fills of the history."""
    ring = 1 << schedule.history_bits
    return n_bytes + min(ring, n_bytes) - min(ring, n_probed)


def container_bytes(header: Header, schedule: ScheduleConfig) -> int:
    """The bytes of an archive that are no payload: header, heads of blocks, index."""
    archive = io.BytesIO()
    writer = ArchiveWriter(archive, header)
    for block in blocks(header.n_bytes, schedule):
        n = block.stop - block.start
        writer.write_block(Block(kind=BlockKind.CODED, n_bytes=n, n_symbols=n, state_digest=bytes(8), payload=b""))
    writer.close()
    return writer.n_bytes_written


def code_bits(source: NDArray[np.uint8], found: Probe, drift: Drift) -> tuple[float, float, float]:
    """Ideal code length of all of `source`: lower bound, estimate, upper bound; exact where the probe was of the whole."""
    n, n_probed = len(source), found.n_bytes
    bits = np.cumsum(found.encoded.code_bits)
    if n_probed == n:
        return bits[-1], bits[-1], bits[-1]
    at = np.unique(np.geomspace(n_probed / 4, n_probed, N_PREFIXES).astype(np.int64))
    own = np.interp(at, [0, *np.cumsum(found.sizes)], [0.0, *bits])
    ratios = own / [_reference_bits(source[:k]) for k in at.tolist()]
    whole = source[:REFERENCE_BYTES]
    reference = _reference_bits(whole) * n / len(whole)
    seen = -float(np.polyfit(np.log(at), np.log(ratios), 1)[0])
    s = (min(max(seen, 0.0), drift.most) + drift.usual) / 2
    low, best, high = (
        min(reference * ratios[-1] * (n / n_probed) ** -exponent, 8.0 * n)
        for exponent in (s + drift.above, s, s - drift.below)
    )
    return low, best, high


def _reference_bits(data: NDArray[np.uint8]) -> float:
    return 8.0 * len(BASELINES[REFERENCE].compress(data.tobytes()))


# ---- against what came of it


def against(found: Estimate, evaluation: Evaluation) -> dict[str, Any]:
    """The estimate beside what an evaluation measured, as JSON values; relative_error is (estimated - actual) / actual.

    An evaluation maps its trace, 4 bytes for each byte and part, which compressing does not.
    """
    trace_bytes = 4 * found.n_bytes * len(evaluation.trace.parts)
    pairs = {
        "compress_s": (found.compress_s, evaluation.wall_s),
        "decompress_s": (found.decompress_s, evaluation.verify_wall_s),
        "peak_memory_bytes": (found.peak_memory_bytes + trace_bytes, evaluation.peak_memory_bytes),
        "archive_bytes": (found.archive_bytes, evaluation.ledger.archive_bytes),
    }
    return {
        "probe_bytes": found.probe_bytes,
        "archive_low": found.archive_low,
        "archive_high": found.archive_high,
        **{
            name: {
                "estimated": estimated,
                "actual": actual,
                "relative_error": None if actual is None else (estimated - actual) / actual,
            }
            for name, (estimated, actual) in pairs.items()
        },
    }


# ---- products, and shapes that fit better


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Another width of the GPT: operations a second of its products, their number over the present one, and time to compress."""

    width: int
    n_heads: int
    operations_per_s: float
    operations_factor: float
    compress_s: float


def product_rates(config: Config, runtime: Runtime) -> list[Rate]:
    """Every product of a full-size segment, measured here; none without a GPT."""
    if config.gpt is None:
        return []
    return products.measure(products.products(config, runtime.n_threads), matmul.choose("cpu", runtime.backend))


def work(found: Probe, rates: Sequence[Rate], config: Config, runtime: Runtime) -> Work | None:
    """What a full-size segment consists of; None where the probe has none, the corpus being short, or the GPT is elsewhere."""
    if not found.n_full or runtime.device != "cpu":
        return None
    n = config.schedule.segment_symbols
    return Work(
        wall_s=float(np.median(found.encoded.wall_s[-found.n_full :])),
        cpu_s=found.encoded.full_cpu_s,
        mixer_s=found.mixer_byte_s * n,
        products_s=sum(rate.wall_s * rate.times for rate in rates),
        n_operations=sum(rate.shape.operations * rate.times for rate in rates),
        n_products=sum(rate.times for rate in rates),
        n_threads=runtime.n_threads if config.gpt else 1,
        bandwidth=copy_bandwidth(),
    )


def suggest(config: Config, runtime: Runtime, whole: Estimate, now: Work) -> list[Suggestion]:
    """The widths, one narrower and one wider, whose products run at the most operations a second, if at WIDER times the present.

    Widths keep the width of a head. Time: products as measured here, the rest in proportion to the width, the mixer as it is.
    How many bits another width costs is not known from this.
    """
    if config.gpt is None or now.products_s <= 0:
        return []
    gpt, rate = config.gpt, now.n_operations / now.products_s
    head = gpt.width // gpt.n_heads
    candidates = [w for w in range(head, 2 * gpt.width + 1, head) if 2 * w >= gpt.width and w != gpt.width]
    found = [s for w in candidates if (s := _as_wide(w, config, runtime, whole, now)).operations_per_s >= WIDER * rate]
    sides = [[s for s in found if (s.width < gpt.width) is narrower] for narrower in (True, False)]
    return [max(side, key=lambda s: s.operations_per_s) for side in sides if side]


def _as_wide(width: int, config: Config, runtime: Runtime, whole: Estimate, now: Work) -> Suggestion:
    assert config.gpt
    n_heads = width * config.gpt.n_heads // config.gpt.width
    other = replace(config, gpt=replace(config.gpt, width=width, n_heads=n_heads))
    rates = product_rates(other, runtime)
    products_s = sum(rate.wall_s * rate.times for rate in rates)
    n_operations = sum(rate.shape.operations * rate.times for rate in rates)
    busy_s = now.mixer_s + products_s + now.rest_s * width / config.gpt.width
    return Suggestion(
        width=width,
        n_heads=n_heads,
        operations_per_s=n_operations / products_s,
        operations_factor=n_operations / now.n_operations,
        compress_s=whole.compress_s * busy_s / (now.mixer_s + now.products_s + now.rest_s),
    )


# ---- many workers


@dataclass(frozen=True, kw_only=True)
class Network:
    """Of one step of the GPT shared by n_workers: gradient_bytes of integer sums and scale_bytes of maxima to be agreed on.

    sent_bytes: by each worker in a ring, 2 (N - 1) / N of them (Patarasuk & Yuan 2009); total_bytes: by all, in the whole run.
    Of replicas: state_bytes, in all, that every worker must have, every sync_every steps; sent_bytes is then of such a step.
    """

    n_workers: int
    sync_every: int = 1
    state_bytes: int = 0
    gradient_bytes: int
    scale_bytes: int
    sent_bytes: int
    total_bytes: int


def network(config: Config, n_segments: int, n_blocks: int, n_workers: int) -> Network | None:
    """An int32 sum for each entry of each matrix and of the embedding, and of the rows of contexts that a step touches, at most;
    a float32 maximum for each column of a matrix, one for the embedding and one for contexts, by which gradients are rounded
    before they are summed. Replicas are sent whole, also for each block's digest. n_segments: of the run, one step fewer.
    None without a GPT."""
    gpt, schedule, replicas = config.gpt, config.schedule, config.replicas
    if gpt is None:
        return None
    d = gpt.width
    n_rows = min(1 << gpt.context_bits, schedule.n_rows * schedule.row_symbols * len(gpt.contexts))
    matrices = [(c_in, c_out * n_parts) for c_in, c_out, n_parts in hidden_matrices(gpt)] * gpt.n_layers
    matrices.append((d, N_SYMBOLS))
    gradient_bytes = 4 * (sum(c_in * c_out for c_in, c_out in matrices) + (gpt.n_embeddings * N_SYMBOLS + n_rows) * d)
    scale_bytes = 4 * (sum(c_out for _, c_out in matrices) + 2)
    n_steps = max(0, n_segments - 1)
    if replicas:
        tables = 4 * (gpt.n_embeddings + 1) * N_SYMBOLS * d  # Adam keeps two numbers of each entry, Muon one
        state_bytes = replicas.n_replicas * (2 * gradient_bytes + tables)
        return Network(
            n_workers=n_workers,
            sync_every=replicas.sync_every,
            state_bytes=state_bytes,
            gradient_bytes=0,
            scale_bytes=0,
            sent_bytes=math.ceil(state_bytes * (n_workers - 1) / n_workers),
            total_bytes=state_bytes * (n_workers - 1) * (n_steps // replicas.sync_every + n_blocks),
        )
    total = 2 * (n_workers - 1) * (gradient_bytes + scale_bytes)  # of one step, by all
    return Network(
        n_workers=n_workers,
        gradient_bytes=gradient_bytes,
        scale_bytes=scale_bytes,
        sent_bytes=math.ceil(total / n_workers),
        total_bytes=total * n_steps,
    )
