"""What a run will cost, before it runs: time and memory, from a short part of it that is coded and timed in a new process.

The probe codes the first segments of the schedule, then some segments of the full size on the next bytes. Time: of these, and on
a straight line between them. Memory: the probe's own peak, and what grows with the corpus.
"""

import math
import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import DECODE, ENCODE, BitCoder
from prequential_corpora.corpus import Symbols

from prequential.errors import CorpusError, CorruptArchiveError, PrequentialError
from prequential.evaluation.evaluation import warm_up
from prequential.machine.facts import peak_memory_bytes
from prequential.machine.usable_memory import usable_memory_bytes
from prequential.model.config import Config, ScheduleConfig
from prequential.model.learner import OnlineLearner
from prequential.model.schedule import GROWTH, blocks, segments
from prequential.online.costs import memory_bytes
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.source import Source

PROBE_BYTES = 48 << 10
PROBE_S = 1.2  # of encoding; the rest of a slower probe is left out
MIN_FULL_SEGMENTS = 4
KB = 1e3


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated cost of one run. Seconds are wall time; compress_s and decompress_s exclude startup_s, once per process.

    probe_bytes: how much of the corpus the probe coded. peak_memory_bytes: resident, of compressing. model_memory_bytes: what
    --max-memory is compared with.
    """

    n_bytes: int
    probe_bytes: int
    startup_s: float
    compress_s: float
    decompress_s: float
    peak_memory_bytes: int
    model_memory_bytes: int
    usable_memory_bytes: int | None = None


def estimate(source: Source, config: Config, runtime: Runtime, *, probe_bytes: int | None = None) -> Estimate:
    """The cost on this machine of coding `source`. probe_bytes: None for PROBE_BYTES, or what can be coded in PROBE_S.

    Raises CorpusError for an empty corpus, and what `probe_in_new_process` raises.
    """
    symbols, n = source.symbols, source.n_bytes
    if not n:
        raise CorpusError("nothing to estimate: the corpus is empty")
    budget_s = math.inf if probe_bytes is not None else PROBE_S if config.gpt else 3 * PROBE_S
    probe = probe_in_new_process(symbols, n, probe_bytes or PROBE_BYTES, config, runtime, budget_s=budget_s)
    return Estimate(
        n_bytes=n,
        probe_bytes=probe.n_bytes,
        startup_s=probe.startup_s,
        compress_s=coding_time_s(probe, probe.encoded, n, config.schedule),
        decompress_s=coding_time_s(probe, probe.decoded, n, config.schedule),
        peak_memory_bytes=probe.peak_memory_bytes + _growth_bytes(probe.n_bytes, n, config.schedule),
        model_memory_bytes=memory_bytes(config, n_threads=runtime.n_threads),
        usable_memory_bytes=usable_memory_bytes(),
    )


# ---- the probe


class ProbePass(NamedTuple):
    """One pass through the S segments of a probe: symbols and wall time of each."""

    sizes: tuple[int, ...]
    wall_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe measured. n_full: how many of the last segments have the full size.

    startup_s: from the start of a process to the first symbol: imports, self-test, kernels. learner_s: to build the learner.
    block_s: for the digest of its state, which each block of an archive needs. peak_memory_bytes: resident, up to the end of
    encoding.
    """

    n_full: int
    encoded: ProbePass
    decoded: ProbePass
    startup_s: float
    learner_s: float
    block_s: float
    peak_memory_bytes: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.encoded.sizes

    @property
    def n_bytes(self) -> int:
        return sum(self.sizes)


def probe_blocks(n_bytes: int, probe_bytes: int, schedule: ScheduleConfig) -> tuple[list[slice], int]:
    """The blocks that a probe of a corpus of n_bytes codes, and how many of its bytes are in full-size segments.

    Two thirds of probe_bytes follow the schedule. The rest, at least MIN_FULL_SEGMENTS, is placed so late in the stream that
    segments have the full size. A corpus that is not longer is coded completely, by the schedule alone.
    """
    full = schedule.segment_symbols
    ends = (segment.stop for block in blocks(n_bytes, schedule) for segment in segments(block, schedule))
    first = next((end for end in ends if 3 * end >= 2 * probe_bytes), n_bytes)
    n_full_bytes = max(MIN_FULL_SEGMENTS, (probe_bytes - first) // full) * full
    if first + n_full_bytes >= n_bytes:
        return list(blocks(n_bytes, schedule)), 0
    late = GROWTH * full
    return [*blocks(first, schedule), slice(late, late + n_full_bytes)], n_full_bytes


def run_probe(
    source: NDArray[np.uint8],
    n_bytes: int,
    probe_bytes: int,
    config: Config,
    runtime: Runtime,
    *,
    budget_s: float = math.inf,
) -> Probe:
    """Encodes and decodes the beginning of a corpus of n_bytes; `source` holds at least the bytes that are coded.

    budget_s: of encoding; the first and the full-size segments get half of it each, and at least one segment, of full size two.
    Raises CorruptArchiveError if the decoded bytes differ.
    """
    started_s = time.perf_counter()
    warm_up(runtime, config)
    warm_s = time.perf_counter()
    learner = runtime.learner(config)
    learner_s = time.perf_counter() - warm_s
    parts, n_full_bytes = probe_blocks(n_bytes, probe_bytes, config.schedule)
    sizes = [part.stop - part.start for part in parts]
    pieces = np.split(source[: sum(sizes)].copy(), np.cumsum(sizes)[:-1])
    encoder = BitCoder(ENCODE)
    encoded, coded = _code(learner, encoder, parts, pieces, n_full_bytes > 0, budget_s)
    peak, end_s = peak_memory_bytes(), time.perf_counter()
    learner.digest()
    block_s = time.perf_counter() - end_s
    del learner  # its memory
    blank = [np.zeros(part.stop - part.start, np.uint8) for part in coded]
    decoding = BitCoder(DECODE, encoder.payload())
    decoded, _ = _code(runtime.learner(config), decoding, coded, blank, n_full_bytes > 0)
    if not all(np.array_equal(got, piece[: len(got)]) for got, piece in zip(blank, pieces, strict=True)):
        raise CorruptArchiveError("the probe decoded other bytes than it encoded: run `prequential doctor`")
    return Probe(
        n_full=len(blank[-1]) // config.schedule.segment_symbols if n_full_bytes else 0,
        encoded=encoded,
        decoded=decoded,
        startup_s=warm_s - started_s,
        learner_s=learner_s,
        block_s=block_s,
        peak_memory_bytes=peak,
    )


def probe_in_new_process(
    source: Symbols, n_bytes: int, probe_bytes: int, config: Config, runtime: Runtime, **options: Any
) -> Probe:
    """`run_probe` in a new process, whose start startup_s includes. Raises PrequentialError if the process dies."""
    parts, _ = probe_blocks(n_bytes, probe_bytes, config.schedule)
    symbols = np.array(source[: sum(part.stop - part.start for part in parts)])
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            started = time.perf_counter()
            process.submit(_import_engine).result()
            start_s = time.perf_counter() - started
            found = process.submit(run_probe, symbols, n_bytes, probe_bytes, config, runtime, **options).result()
    except BrokenProcessPool as error:
        raise PrequentialError(
            "the probe's process died: perhaps it had too little memory; "
            f"this process may use {usable_memory_bytes() >> 20:,} MiB here (machine, container or job, ulimit)"
        ) from error
    return replace(found, startup_s=found.startup_s + start_s)


def _import_engine() -> None:
    """Does nothing: a process that has found this function has imported the engine."""


def _code(
    learner: OnlineLearner,
    coder: BitCoder,
    parts: Sequence[slice],
    pieces: Sequence[NDArray[np.uint8]],
    has_full: bool,
    budget_s: float = math.inf,
) -> tuple[ProbePass, list[slice]]:
    """Codes or decodes the pieces in place; returns the pass and the parts coded. has_full: the last has full-size segments."""
    sizes: list[int] = []
    wall_s, coded, spent_s = [], [], 0.0
    for k, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        is_full = has_full and k == len(parts) - 1
        spent_s, n_before, n_segments = 0.0 if is_full else spent_s, 0, len(sizes)
        wall = time.perf_counter()
        for n_done, _ in run(learner, coder, part, piece) if is_full or spent_s < budget_s / 2 else ():
            wall_s.append(time.perf_counter() - wall)
            sizes.append(n_done - n_before)
            spent_s, n_before = spent_s + wall_s[-1], n_done
            # the first of full size has costs of its own
            if spent_s >= budget_s / 2 and len(sizes) - n_segments > is_full:
                break
            wall = time.perf_counter()
        coded.append(slice(part.start, part.start + n_before))
    return ProbePass(tuple(sizes), tuple(wall_s)), coded


# ---- time


def coding_time_s(probe: Probe, passed: ProbePass, n_bytes: int, schedule: ScheduleConfig) -> float:
    """Wall time of coding n_bytes, in seconds, in the direction of the pass `passed` of the probe."""
    n_first = len(probe.sizes) - probe.n_full
    n_first_bytes = sum(probe.sizes[:n_first])
    total_s = probe.learner_s + sum(passed.wall_s[:n_first])
    total_s += probe.block_s * len(list(blocks(n_bytes, schedule)))
    sizes = [s.stop - s.start for block in blocks(n_bytes, schedule) for s in segments(block, schedule)]
    rest = Counter(sizes[n_first:] if n_bytes > n_first_bytes else ())
    return total_s + sum(_segment_time_s(probe, passed, size) * times for size, times in rest.items())


def _segment_time_s(probe: Probe, passed: ProbePass, size: int) -> float:
    """Wall time of a segment of `size` symbols, on the line between the later first segments and the full-size ones (medians)."""
    wall_s, sizes = np.array(passed.wall_s), np.array(probe.sizes)
    if not probe.n_full:
        return float(np.median(wall_s / sizes)) * size
    n_first = len(sizes) - probe.n_full
    n_before = n_first + (probe.n_full > 1)  # the first of full size also makes what it needs
    full_s, full_size = float(np.median(wall_s[n_before:])), float(np.median(sizes[n_before:]))
    later = slice(n_first // 2, n_first)
    first_s, first_size = float(np.median(wall_s[later])), float(np.median(sizes[later]))
    if first_size >= full_size:
        return full_s
    slope = max(0.0, (full_s - first_s) / (full_size - first_size))
    return max(0.0, full_s + (size - full_size) * slope)


# ---- memory


def _growth_bytes(n_probed: int, n_bytes: int, schedule: ScheduleConfig) -> int:
    """Memory that an evaluation uses beyond its probe: its copy of the corpus, and the further history that it fills."""
    ring = 1 << schedule.history_bits
    return n_bytes + min(ring, n_bytes) - min(ring, n_probed)


# ---- as text


def format_estimate(found: Estimate) -> str:
    n = found.n_bytes

    def speed(wall_s: float) -> str:
        return f"{_time(wall_s)}, {n / wall_s / KB:,.2f} kB/s"

    peak, limit = _mib(found.peak_memory_bytes), _mib(found.model_memory_bytes)
    usable = f"; {_mib(found.usable_memory_bytes)} usable here" if found.usable_memory_bytes is not None else ""
    rows = [
        ("corpus", f"{n:,} bytes, of which the probe coded {found.probe_bytes:,}"),
        ("start-up", f"{found.startup_s:.1f} s, not included in the times below"),
        ("compress", speed(found.compress_s)),
        ("decompress", speed(found.decompress_s)),
        ("peak memory", f"{peak}; --max-memory at least {limit}{usable}"),
    ]
    return "\n".join(f"{name:<14}{text}" for name, text in rows)


def _time(wall_s: float) -> str:
    if wall_s < 120:
        return f"{wall_s:.1f} s"
    minutes = wall_s / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
