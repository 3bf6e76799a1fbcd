"""The reports of a run in windows of some 16 KiB: what each cost, what gzip spends on it, what is usual, the current rates."""

from __future__ import annotations

import math
import statistics
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prequential.model.schedule import GROWTH, segments

if TYPE_CHECKING:
    from prequential.online.coding import Progress

WINDOW_BYTES = 1 << 14
N_RECENT = 64  # windows that define what is usual
MIN_WINDOWS = 8  # before this many nothing is called unusual
# While segments of a GPT grow, each takes about this power of its size: its step costs the same (0.2 to 0.4 for -5).
GROWING_POWER = 0.33
LATEST_BYTES = 1 << 16  # over which the latest rate is taken
SPEED_S = 10.0  # over which the speed is taken, once the run is as old
MIN_SPEED_S = 0.05  # a shorter time says nothing about it


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some successive segments. None stands for an unknown value. update_size: the largest of the window's optimiser steps."""

    start: int
    n_bytes: int
    block: int
    code_bits: float
    wall_s: float | None
    gzip_bits: int
    update_size: float

    @property
    def bits_per_byte(self) -> float:
        return self.code_bits / self.n_bytes

    @property
    def gzip_bits_per_byte(self) -> float:
        return self.gzip_bits / self.n_bytes

    @property
    def bytes_per_s(self) -> float | None:
        return self.n_bytes / self.wall_s if self.wall_s else None


class Recent(deque[Window]):
    """The last N_RECENT windows, which define what is usual."""

    def usual(self, figure: str) -> float | None:
        """The median of a figure of the windows; None where fewer than MIN_WINDOWS have it."""
        known = [value for window in self if (value := getattr(window, figure)) is not None]
        return statistics.median(known) if len(known) >= MIN_WINDOWS else None

    def is_spike(self, window: Window) -> bool:
        """Whether its cost is above the median by at least 6 deviations, half a bit, and a quarter of the median."""
        usual, rate = self.usual("bits_per_byte"), window.bits_per_byte
        if usual is None or not usual + max(0.5, 0.25 * usual) < rate < math.inf:
            return False
        deviation = 1.4826 * statistics.median(abs(other.bits_per_byte - usual) for other in self)
        return rate > usual + 6 * deviation


class _Mark(NamedTuple):
    n_bytes: int
    code_bits: float
    time_s: float


class Windows:
    """The windows of one run, from its first report on. gzip deflates one stream, at level 6: within 1 % of gzip -9 on text."""

    def __init__(self, first: Progress, clock: Callable[[], float]) -> None:
        self._clock, self.recent = clock, Recent(maxlen=N_RECENT)
        self._has_beginning = first.n_bytes == len(first.segment)
        self.done, self._now_s = first, clock()
        start = (0, 0.0) if self._has_beginning else (first.n_bytes, first.code_bits)
        self._marks = deque([_Mark(*start, self._now_s)], N_RECENT)
        self._segment_times: deque[tuple[int, float]] = deque(maxlen=64)
        self._knows_start_time = False  # of the current window
        self._block, self._update_size = first.n_blocks, 0.0  # of the current window
        self._deflate, self._gzip_bytes, self._gzip_total = zlib.compressobj(6, zlib.DEFLATED, -15, 9), 0, 0

    def add(self, done: Progress) -> Window | None:
        """Adds a report; returns the window that it completes, if any."""
        before_s, self.done, self._now_s = self._now_s, done, self._clock()
        if len(done.segment):
            self._segment_times.append((len(done.segment), self._now_s - before_s))
        size = done.update_size or 0.0
        self._update_size = max(self._update_size, size if math.isfinite(size) else math.inf)
        n_bytes = done.n_bytes - self._marks[-1].n_bytes
        if n_bytes > 0:
            self._gzip_bytes += len(self._deflate.compress(done.segment.tobytes()))
        if n_bytes < WINDOW_BYTES:
            return None
        window = self._finished_window(n_bytes)
        self._marks.append(_Mark(done.n_bytes, done.code_bits, self._now_s))
        self._knows_start_time = True
        self._block, self._update_size, self._gzip_bytes = done.n_blocks, 0.0, 0
        return window

    def _finished_window(self, n_bytes: int) -> Window:
        start = self._marks[-1]
        self._gzip_bytes += len(self._deflate.flush(zlib.Z_SYNC_FLUSH))
        self._gzip_total += self._gzip_bytes
        return Window(
            start=start.n_bytes,
            n_bytes=n_bytes,
            block=self._block,
            code_bits=self.done.code_bits - start.code_bits,
            gzip_bits=8 * self._gzip_bytes,
            wall_s=self._now_s - start.time_s if self._knows_start_time else None,
            update_size=self._update_size,
        )

    @property
    def bits_per_byte(self) -> float | None:
        """Ideal code length per byte so far, including what an interrupted run had coded before."""
        return self.done.code_bits / self.done.n_bytes if self.done.n_bytes else None

    @property
    def latest_bits_per_byte(self) -> float | None:
        """Ideal code length per byte over the last LATEST_BYTES, or up to one window more."""
        done = self.done
        mark = next((mark for mark in reversed(self._marks) if done.n_bytes - mark.n_bytes >= LATEST_BYTES), None)
        return (done.code_bits - mark.code_bits) / (done.n_bytes - mark.n_bytes) if mark else None

    @property
    def gzip_bits_per_byte(self) -> float | None:
        """gzip's bits per byte up to the latest window; None before the first one, and for a resumed run."""
        n_bytes = self._marks[-1].n_bytes
        return 8 * self._gzip_total / n_bytes if self._gzip_total and self._has_beginning else None

    @property
    def bytes_per_s(self) -> float | None:
        """Speed over the last SPEED_S seconds, or up to one window more."""
        marks = reversed(self._marks)
        mark = next((mark for mark in marks if self._now_s - mark.time_s >= SPEED_S), self._marks[0])
        seconds, n_bytes = self._now_s - mark.time_s, self.done.n_bytes - mark.n_bytes
        return n_bytes / seconds if seconds > MIN_SPEED_S and n_bytes > 0 else None

    def seconds_left(self, n_bytes: int) -> float | None:
        """Time until a run over n_bytes ends; None if the speed is not known. The short segments of a GPT are slow."""
        start, schedule = self.done.n_bytes, self.done.schedule
        if schedule is None or self.done.update_size is None or len(self._segment_times) < 2:
            speed = self.bytes_per_s
            return max(0, n_bytes - start) / speed if speed else None
        times = list(self._segment_times)[1:]  # the first one includes what came before it
        unit_s = float(np.mean([seconds / size**GROWING_POWER for size, seconds in times]))
        n_growing = min(n_bytes, GROWTH * schedule.segment_symbols)
        sizes = [s.stop - s.start for s in segments(slice(start, max(start, n_growing)), schedule)]
        n_full = (n_bytes - max(start, n_growing)) / schedule.segment_symbols
        return unit_s * (sum(size**GROWING_POWER for size in sizes) + n_full * schedule.segment_symbols**GROWING_POWER)
