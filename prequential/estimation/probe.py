"""A short part of a run, timed: the first segments of the schedule, then some segments of the full size on the next bytes."""

import math
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import DECODE, ENCODE, FOLLOW, BitCoder
from prequential_corpora.corpus import Symbols

from prequential.errors import CorruptArchiveError, PrequentialError
from prequential.evaluation.evaluation import warm_up
from prequential.machine.facts import peak_memory_bytes
from prequential.machine.usable_memory import usable_memory_bytes
from prequential.model.config import Config, ScheduleConfig
from prequential.model.schedule import GROWTH, blocks, segments
from prequential.online.loop import run
from prequential.online.runtime import Runtime

PROBE_BYTES = 48 << 10
PROBE_S = 1.2  # of encoding; the rest of a slower probe is left out
OTHER_S = 0.7
MIN_FULL_SEGMENTS = 4

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class ProbePass:
    """One pass through the S segments of a probe: symbols, wall time and ideal bits of each.

    learner_s: to build the learner. block_s: for the digest of its state, which each block of an archive needs.
    """

    sizes: tuple[int, ...]
    wall_s: tuple[float, ...]
    code_bits: tuple[float, ...]
    learner_s: float
    block_s: float


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe measured. n_full: how many of the last segments have the full size.

    startup_s: from the start of a process to the first symbol: imports, self-test, kernels. peak_memory_bytes: resident, up to
    the end of encoding. other: of the configuration that was also tried.
    """

    n_full: int
    encoded: ProbePass
    decoded: ProbePass
    startup_s: float
    peak_memory_bytes: int
    other: ProbePass | None = None

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
    source: Bytes,
    n_bytes: int,
    probe_bytes: int,
    config: Config,
    runtime: Runtime,
    *,
    budget_s: float = math.inf,
    also: Config | None = None,
) -> Probe:
    """Encodes and decodes the beginning of a corpus of n_bytes; `source` holds at least the bytes that are coded.

    budget_s: of encoding; the first and the full-size segments get half of it each, and at least one segment, of full size two.
    also: another configuration that codes the first segments, too. Raises CorruptArchiveError if the decoded bytes differ.
    """
    started = time.perf_counter()
    warm_up(runtime, config)
    warm_up_s = time.perf_counter() - started
    parts, n_full_bytes = probe_blocks(n_bytes, probe_bytes, config.schedule)
    pieces = all_pieces = _pieces(source, parts)
    all_parts, encoder = parts, BitCoder(ENCODE)
    encoded, parts = _code(config, runtime, encoder, parts, pieces, n_full_bytes > 0, budget_s)
    peak = peak_memory_bytes()
    pieces = [piece[: part.stop - part.start] for piece, part in zip(pieces, parts, strict=True)]
    blank = [np.zeros_like(piece) for piece in pieces]
    decoding = BitCoder(DECODE, encoder.payload())
    decoded, _ = _code(config, runtime, decoding, parts, blank, n_full_bytes > 0, block_s=encoded.block_s)
    n_full = (parts[-1].stop - parts[-1].start) // config.schedule.segment_symbols if n_full_bytes else 0
    if not all(np.array_equal(a, b) for a, b in zip(blank, pieces, strict=True)):
        raise CorruptArchiveError("the probe decoded other bytes than it encoded: run `prequential doctor`")
    other = None
    if also:
        other, _ = _code(also, runtime, BitCoder(FOLLOW), all_parts, all_pieces, False, 2 * OTHER_S, block_s=0.0)
    return Probe(
        n_full=n_full,
        encoded=encoded,
        decoded=decoded,
        startup_s=warm_up_s,
        peak_memory_bytes=peak,
        other=other,
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


def _pieces(source: Symbols, parts: Sequence[slice]) -> list[Bytes]:
    ends = np.cumsum([part.stop - part.start for part in parts])
    return [
        np.array(source[end - (part.stop - part.start) : end]) for end, part in zip(ends.tolist(), parts, strict=True)
    ]


def _code(
    config: Config,
    runtime: Runtime,
    coder: BitCoder,
    parts: Sequence[slice],
    pieces: Sequence[Bytes],
    has_full: bool,
    budget_s: float = math.inf,
    block_s: float | None = None,
) -> tuple[ProbePass, list[slice]]:
    """Codes the pieces, or decodes them in place, with a new learner; returns the pass, and what it coded.

    has_full: whether the last part has the full-size segments. block_s: None: it is measured.
    """
    started = time.perf_counter()
    learner = runtime.learner(config)
    learner_s = time.perf_counter() - started
    sizes: list[int] = []
    wall_s, code_bits, coded, spent_s = [], [], [], 0.0
    for k, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        is_full = has_full and k == len(parts) - 1
        spent_s, n_before, n_segments = 0.0 if is_full else spent_s, 0, len(sizes)
        wall = time.perf_counter()
        for n_done, bits in run(learner, coder, part, piece) if is_full or spent_s < budget_s / 2 else ():
            wall_s.append(time.perf_counter() - wall)
            sizes.append(n_done - n_before)
            code_bits.append(float(bits.sum()))
            spent_s, n_before = spent_s + wall_s[-1], n_done
            # the first of full size has costs of its own
            if spent_s >= budget_s / 2 and len(sizes) - n_segments > is_full:
                break
            wall = time.perf_counter()
        coded.append(slice(part.start, part.start + n_before))
    if block_s is None:
        started = time.perf_counter()
        learner.digest()
        block_s = time.perf_counter() - started
    found = ProbePass(
        sizes=tuple(sizes), wall_s=tuple(wall_s), code_bits=tuple(code_bits), learner_s=learner_s, block_s=block_s
    )
    return found, coded
