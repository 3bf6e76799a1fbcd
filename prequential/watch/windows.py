"""Windows: the reports of a run in parts of some 16 KiB that can be compared, and the current rates of the run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.model.schedule import GROWTH, segments
from prequential.watch.gzip_curve import GzipCurve

if TYPE_CHECKING:
    from prequential.online.coding import Progress

WINDOW_BYTES = 1 << 14
N_RECENT = 64  # windows that define what is usual
N_SEGMENTS = 64  # of which the time is known
# While segments of a GPT grow, each takes about this power of its size: its step costs the same (0.2 to 0.4 for -5).
GROWING_POWER = 0.33
LATEST_BYTES = 1 << 16  # over which the latest rate is taken
SPEED_S = 10.0  # over which the speed is taken, once the run is as old
MIN_SPEED_S = 0.05  # a shorter time says nothing about it


@dataclass(kw_only=True)
class Window:
    """Some successive segments. None stands for an unknown value. update_size: the largest of the window's optimiser steps."""

    start: int
    n_bytes: int
    block: int
    code_bits: float
    wall_s: float | None = None
    content: bytes | None = None
    gzip_bits: float | None = None
    update_size: float | None = None
    memory_bytes: int | None = None

    @property
    def bits_per_byte(self) -> float:
        """The learner's ideal code length per byte."""
        return self.code_bits / self.n_bytes

    @property
    def gzip_bits_per_byte(self) -> float | None:
        return None if self.gzip_bits is None else self.gzip_bits / self.n_bytes

    @cached_property
    def byte_counts(self) -> NDArray[np.int64] | None:
        """How often each byte value occurs, (256,)."""
        return None if self.content is None else np.bincount(np.frombuffer(self.content, np.uint8), minlength=256)

    @cached_property
    def order0_bits_per_byte(self) -> float:
        """Bits per byte under the window's own byte frequencies; infinite if its content is unknown."""
        if self.byte_counts is None:
            return math.inf
        p = self.byte_counts[self.byte_counts > 0] / self.n_bytes
        return float(-(p * np.log2(p)).sum())


class _Mark(NamedTuple):
    """The end of a window."""

    n_bytes: int
    code_bits: float
    time_s: float


class Windows:
    """The windows of one run, from its first report on. A resumed run does not begin at the first byte."""

    def __init__(self, first: Progress, clock: Callable[[], float], memory_bytes: Callable[[], int]) -> None:
        self._clock, self._memory_bytes = clock, memory_bytes
        self._gzip = GzipCurve(clock)
        self._has_beginning = first.n_bytes == len(first.segment)
        self.done, self._now_s = first, clock()
        start = (0, 0.0) if self._has_beginning else (first.n_bytes, first.code_bits)
        self._marks = deque([_Mark(*start, self._now_s)], N_RECENT)
        self._segment_times: deque[tuple[int, float]] = deque(maxlen=N_SEGMENTS)
        self._knows_start_time = False  # of the current window
        self._open(first.n_blocks)

    def _open(self, block: int) -> None:
        self._block = block
        self._segments: list[NDArray[np.uint8]] = []
        self._update_size: float | None = None

    def add(self, done: Progress, *, needs_gzip: Callable[[Window], bool]) -> Window | None:
        """Adds a report; returns the window that it completes, if any. needs_gzip: whether gzip must measure that window."""
        before_s, self.done, self._now_s = self._now_s, done, self._clock()
        if len(done.segment):
            self._segment_times.append((len(done.segment), self._now_s - before_s))
        n_bytes = done.n_bytes - self._marks[-1].n_bytes
        if n_bytes > 0:
            self._segments.append(done.segment)
        if done.update_size is not None:
            size = done.update_size if math.isfinite(done.update_size) else math.inf
            self._update_size = max(size, self._update_size or 0.0)
        if n_bytes < WINDOW_BYTES:
            return None
        window = self._finished_window(n_bytes)
        if window.content is not None:
            window.gzip_bits = self._gzip.add(window.content, window.code_bits, measure=needs_gzip(window))
        self._marks.append(_Mark(done.n_bytes, done.code_bits, self._now_s))
        self._knows_start_time = True
        self._open(done.n_blocks)
        return window

    def _finished_window(self, n_bytes: int) -> Window:
        start, content = self._marks[-1], np.concatenate(self._segments).tobytes()
        return Window(
            start=start.n_bytes,
            n_bytes=n_bytes,
            block=self._block,
            code_bits=self.done.code_bits - start.code_bits,
            wall_s=self._now_s - start.time_s if self._knows_start_time else None,
            content=content if len(content) == n_bytes else None,
            update_size=self._update_size,
            memory_bytes=self._memory_bytes(),
        )

    @property
    def bits_per_byte(self) -> float | None:
        """Ideal code length per byte so far, including what an interrupted run had coded before."""
        return self.done.code_bits / self.done.n_bytes if self.done.n_bytes else None

    @property
    def latest_bits_per_byte(self) -> float | None:
        """Ideal code length per byte over the last LATEST_BYTES, or up to one window more."""
        for mark in reversed(self._marks):
            n_bytes = self.done.n_bytes - mark.n_bytes
            if n_bytes >= LATEST_BYTES:
                return (self.done.code_bits - mark.code_bits) / n_bytes
        return None

    @property
    def gzip_bits_per_byte(self) -> float | None:
        """gzip's bits per byte so far, estimated; None for a resumed run."""
        return self._gzip.bits_per_byte(self.done.n_bytes, self.done.code_bits) if self._has_beginning else None

    @property
    def bytes_per_s(self) -> float | None:
        """Speed over the last SPEED_S seconds, or up to one window more."""
        marks = reversed(self._marks)
        mark = next((mark for mark in marks if self._now_s - mark.time_s >= SPEED_S), self._marks[0])
        seconds, n_bytes = self._now_s - mark.time_s, self.done.n_bytes - mark.n_bytes
        return n_bytes / seconds if seconds > MIN_SPEED_S and n_bytes > 0 else None

    def seconds_left(self, n_bytes: int) -> float | None:
        """Time until a run over n_bytes ends; None if the speed is not known.

        While the segments of a GPT are still short they are slow. Their time is then taken to grow with a power of their size.
        """
        start, schedule = self.done.n_bytes, self.done.schedule
        if schedule is not None and self.done.update_size is not None and len(self._segment_times) > 1:
            times = list(self._segment_times)[1:]  # the first one includes what came before it
            unit_s = float(np.mean([seconds / size**GROWING_POWER for size, seconds in times]))
            n_growing = min(n_bytes, GROWTH * schedule.segment_symbols)
            sizes = [s.stop - s.start for s in segments(slice(start, max(start, n_growing)), schedule)]
            n_full = (n_bytes - max(start, n_growing)) / schedule.segment_symbols
            return unit_s * (
                sum(size**GROWING_POWER for size in sizes) + n_full * schedule.segment_symbols**GROWING_POWER
            )
        speed = self.bytes_per_s
        return max(0, n_bytes - start) / speed if speed else None
