"""From segments to windows: a run's reports in pieces of some 16 KiB that can be compared, and the figures of the moment."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.measure.watch.gzip_curve import GzipCurve

if TYPE_CHECKING:
    from prequential.online.coding import Progress

WINDOW_BYTES = 1 << 14
N_PAST = 64  # windows that say what is usual
LATEST_BYTES = 1 << 16  # of which the figures tell beside those of the whole
STEADY_S = 10.0  # a speed is taken over this long, if the run has lasted so long


@dataclass(kw_only=True)
class Window:
    """Some successive segments. What is None is not known; update_size is the largest of its steps."""

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
    def rate(self) -> float:
        """Bits per byte."""
        return self.code_bits / self.n_bytes

    @property
    def gzip_rate(self) -> float | None:
        """Bits per byte of gzip."""
        return None if self.gzip_bits is None else self.gzip_bits / self.n_bytes

    @cached_property
    def counts(self) -> NDArray[np.int64] | None:
        """How often each byte occurs, (256,)."""
        return None if self.content is None else np.bincount(np.frombuffer(self.content, np.uint8), minlength=256)

    @cached_property
    def order0(self) -> float:
        """Bits per byte under the window's own byte frequencies; infinite where its content is not known."""
        if self.counts is None:
            return math.inf
        p = self.counts[self.counts > 0] / self.n_bytes
        return float(-(p * np.log2(p)).sum())


class _Mark(NamedTuple):
    """Where a window ended."""

    n_bytes: int
    code_bits: float
    time_s: float


class Windows:
    """The windows of one run, from its first report on; for a resumed run that is not the beginning of the data."""

    def __init__(self, first: Progress, clock: Callable[[], float], memory_bytes: Callable[[], int]) -> None:
        self._clock, self._memory_bytes = clock, memory_bytes
        self._gzip = GzipCurve(clock)
        self.is_whole = first.n_bytes == len(first.segment)
        self.done, self._now = first, clock()
        origin = _Mark(0, 0.0, self._now) if self.is_whole else _Mark(first.n_bytes, first.code_bits, self._now)
        self._marks = deque([origin], N_PAST)
        self._timed = False  # when the first window began is not known
        self._open(first.n_blocks)

    def _open(self, block: int) -> None:
        self._block = block
        self._segments: list[NDArray[np.uint8]] = []
        self._update_size: float | None = None

    def add(self, done: Progress, *, wants_gzip: Callable[[Window], bool]) -> Window | None:
        """Takes in a report; the window that ends with it, if one does. wants_gzip: whether gzip's
        bits must be known, whatever the time."""
        self.done, self._now = done, self._clock()
        start = self._marks[-1]
        n_bytes = done.n_bytes - start.n_bytes
        if n_bytes > 0:
            self._segments.append(done.segment)
        if done.update_size is not None:
            size = done.update_size if math.isfinite(done.update_size) else math.inf
            self._update_size = max(size, self._update_size or 0.0)
        if n_bytes < WINDOW_BYTES:
            return None
        content = np.concatenate(self._segments).tobytes()
        window = Window(
            start=start.n_bytes,
            n_bytes=n_bytes,
            block=self._block,
            code_bits=done.code_bits - start.code_bits,
            wall_s=self._now - start.time_s if self._timed else None,
            content=content if len(content) == n_bytes else None,
            update_size=self._update_size,
            memory_bytes=self._memory_bytes(),
        )
        if window.content is not None:
            window.gzip_bits = self._gzip.add(window.content, window.code_bits, measure=wants_gzip(window))
        self._marks.append(_Mark(done.n_bytes, done.code_bits, self._now))
        self._timed = True
        self._open(done.n_blocks)
        return window

    @property
    def bits_per_byte(self) -> float | None:
        """Ideal, of all so far, and of what an interrupted run had done before."""
        return self.done.code_bits / self.done.n_bytes if self.done.n_bytes else None

    @property
    def latest_bits_per_byte(self) -> float | None:
        """Of the last LATEST_BYTES, or a window more."""
        for mark in reversed(self._marks):
            n_bytes = self.done.n_bytes - mark.n_bytes
            if n_bytes >= LATEST_BYTES:
                return (self.done.code_bits - mark.code_bits) / n_bytes
        return None

    @property
    def gzip_bits_per_byte(self) -> float | None:
        """gzip's of all so far, estimated; None of a resumed run."""
        return self._gzip.bits_per_byte(self.done.n_bytes, self.done.code_bits) if self.is_whole else None

    @property
    def bytes_per_s(self) -> float | None:
        """Over the last STEADY_S, or a window more."""
        marks = reversed(self._marks)
        mark = next((mark for mark in marks if self._now - mark.time_s >= STEADY_S), self._marks[0])
        seconds, n_bytes = self._now - mark.time_s, self.done.n_bytes - mark.n_bytes
        return n_bytes / seconds if seconds > 0 and n_bytes > 0 else None
