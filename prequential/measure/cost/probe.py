"""A short stretch of a run, timed: the first segments as the schedule cuts them, then some of the size they grow to.

What a run costs follows from it (measure/cost/estimate.py). After the first stretch the probe leaves out the segments that grow, and
goes on with full-size ones at once, on the bytes that come next. It has a process to itself, so that peak memory is its own.
"""

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.bit_coder import DECODE, ENCODE, FOLLOW, BitCoder
from prequential.errors import CorruptArchiveError, PrequentialError
from prequential.measure.evaluation.evaluation import warm_up
from prequential.measure.machine import peak_memory_bytes
from prequential.model.config import Config, ScheduleConfig
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.schedule import GROWTH, blocks, segments

PROBE_BYTES = 48 << 10
MIN_FULL_SEGMENTS = 4


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One way through the probe's segments, S of them: wall time of each in seconds, and its ideal code length in bits, (S,).

    learner_s: building the learner. block_s: the digest of its state, taken after each block of an archive. full_cpu_s: seconds
    of all threads in a full-size segment, on average; 0 where there is none.
    """

    wall_s: tuple[float, ...]
    code_bits: tuple[float, ...]
    learner_s: float
    block_s: float
    full_cpu_s: float


@dataclass(frozen=True, kw_only=True)
class Probe:
    """sizes: symbols of each segment, the last n_full of them full-size and outside the schedule. mixer_byte_s: seconds that the
    context mixer takes for a byte, alone in its thread; 0 without one. startup_s: from the start of a process to the first
    symbol: imports, self-test, kernels. peak_memory_bytes: resident, of that process up to the end of encoding.
    """

    sizes: tuple[int, ...]
    n_full: int
    encoded: Coded
    decoded: Coded
    mixer_byte_s: float
    startup_s: float
    peak_memory_bytes: int

    @property
    def n_bytes(self) -> int:
        """How much was coded."""
        return sum(self.sizes)


def spans(n_bytes: int, probe_bytes: int, schedule: ScheduleConfig) -> tuple[list[slice], int]:
    """Blocks of a probe of a corpus of n_bytes, as `loop.run` takes them, and how many bytes of it are in full-size segments.

    Two thirds of probe_bytes by the schedule, up to the end of a segment; the rest, MIN_FULL_SEGMENTS at least, as if it lay far
    behind, where segments are full-size. A corpus not longer than that is probed whole, by the schedule alone.
    """
    full = schedule.segment_symbols
    ends = (segment.stop for block in blocks(n_bytes, schedule) for segment in segments(block, schedule))
    first = next((end for end in ends if 3 * end >= 2 * probe_bytes), n_bytes)
    n_full = max(MIN_FULL_SEGMENTS, (probe_bytes - first) // full) * full
    if first + n_full >= n_bytes:
        return list(blocks(n_bytes, schedule)), 0
    far = GROWTH * full
    return [*blocks(first, schedule), slice(far, far + n_full)], n_full


def probe(source: NDArray[np.uint8], n_bytes: int, probe_bytes: int, config: Config, runtime: Runtime) -> Probe:
    """Encodes and decodes the beginning of a corpus of n_bytes, of which `source` holds at least what is coded.

    For figures that are a run's, the process should be fresh: `probe_apart`. Raises CorruptArchiveError if other bytes come back.
    """
    started = time.perf_counter()
    warm_up(runtime, config)
    warm_up_s = time.perf_counter() - started
    parts, n_full_bytes = spans(n_bytes, probe_bytes, config.schedule)
    n_full = n_full_bytes // config.schedule.segment_symbols
    symbols = np.array(source[: sum(part.stop - part.start for part in parts)])
    encoder, back = BitCoder(ENCODE), np.zeros_like(symbols)
    encoded, sizes = _code(config, runtime, encoder, parts, symbols, n_full)
    peak = peak_memory_bytes()
    decoded, _ = _code(config, runtime, BitCoder(DECODE, encoder.payload()), parts, back, n_full)
    if not np.array_equal(back, symbols):
        raise CorruptArchiveError("probe: other bytes come back; run `prequential doctor`")
    return Probe(
        sizes=sizes,
        n_full=n_full,
        encoded=encoded,
        decoded=decoded,
        mixer_byte_s=_mixer_byte_s(config, runtime, parts, symbols),
        startup_s=warm_up_s,
        peak_memory_bytes=peak,
    )


def probe_apart(source: NDArray[np.uint8], n_bytes: int, probe_bytes: int, config: Config, runtime: Runtime) -> Probe:
    """`probe` in a fresh process; startup_s then counts that process's start and imports, too.

    Raises what `probe` raises, and PrequentialError if the process dies.
    """
    parts, _ = spans(n_bytes, probe_bytes, config.schedule)
    needed = np.array(source[: sum(part.stop - part.start for part in parts)])
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            started = time.perf_counter()
            process.submit(_imported).result()
            start_s = time.perf_counter() - started
            found = process.submit(probe, needed, n_bytes, probe_bytes, config, runtime).result()
    except BrokenProcessPool as error:
        raise PrequentialError("the probe's process ended before it was done: too little memory?") from error
    return replace(found, startup_s=found.startup_s + start_s)


def _imported() -> None:
    """A process that has found this function has imported the engine."""


def _code(
    config: Config, runtime: Runtime, coder: BitCoder, parts: Sequence[slice], symbols: NDArray[np.uint8], n_full: int
) -> tuple[Coded, tuple[int, ...]]:
    """Codes `symbols`, or finds them out, with a fresh learner; also the sizes of the segments."""
    started = time.perf_counter()
    learner = runtime.learner(config)
    learner_s = time.perf_counter() - started
    sizes, wall_s, cpu_s, code_bits, start = [], [], [], [], 0
    for part in parts:
        n_before, n = 0, part.stop - part.start
        clock = (time.perf_counter(), time.process_time())
        for done, bits in run(learner, coder, part, symbols[start : start + n]):
            now = (time.perf_counter(), time.process_time())
            wall_s.append(now[0] - clock[0])
            cpu_s.append(now[1] - clock[1])
            sizes.append(done - n_before)
            code_bits.append(float(bits.sum()))
            n_before, clock = done, (time.perf_counter(), time.process_time())
        start += n
    started = time.perf_counter()
    learner.digest()
    block_s = time.perf_counter() - started
    full_cpu_s = float(np.median(cpu_s[-n_full:])) if n_full else 0.0
    coded = Coded(
        wall_s=tuple(wall_s),
        code_bits=tuple(code_bits),
        learner_s=learner_s,
        block_s=block_s,
        full_cpu_s=full_cpu_s,
    )
    return coded, tuple(sizes)


def _mixer_byte_s(config: Config, runtime: Runtime, parts: Sequence[slice], symbols: NDArray[np.uint8]) -> float:
    """From a mixer without a GPT, whose share of the mixer's work is small."""
    if config.mixer is None:
        return 0.0
    coded, sizes = _code(replace(config, gpt=None, replicas=None), runtime, BitCoder(FOLLOW), parts, symbols.copy(), 0)
    return float(np.median(np.divide(coded.wall_s, sizes)))
