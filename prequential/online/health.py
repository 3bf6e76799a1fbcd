"""Health of a run: its reports after each segment become windows of some 16 KiB, in which detectors find what is wrong.

After a finding its kind is silent for 1 MiB, then for 2 MiB, then for 4 MiB. The thresholds were set on the files of
docs/RESULTS.md, where no plain text gives a finding.
"""

from __future__ import annotations

import math
import statistics
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from prequential.online.coding import Progress

WINDOW_BYTES = 1 << 14
N_RECENT = 64  # windows that define what is usual
MIN_WINDOWS = 8  # before this many nothing is called unusual
LATEST_BYTES = 1 << 16  # over which the latest rate is taken
SPEED_S = 10.0  # over which the speed is taken, once the run is as old
MIN_SPEED_S = 0.05  # a shorter time says nothing about it
REPEATED_BYTES, FREE_BITS_PER_BYTE = 1 << 16, 0.05  # so many bytes that are almost free are repeated data
MIB = 1 << 20


class Finding(Struct, frozen=True, kw_only=True):
    """Something unusual about a run (RELIABILITY.md). It never stops the run.

    Examples:
        >>> import prequential
        >>> print(prequential.Finding(kind="spike", position=65536, block=0, message="the cost doubled", cause="data"))
        byte 65,536, block 0: the cost doubled; most likely the data
    """

    kind: Annotated[str, Meta(description="`not finite`, `spike`, `repeated`; of a loop `law` or `seen`")]
    position: Annotated[int, Meta(ge=0, le=1 << 62, description="byte of the corpus at which it begins, from 0")]
    block: Annotated[int, Meta(ge=0, le=1 << 62, description="block of the archive, from 0")]
    message: Annotated[str, Meta(description="what was seen")]
    cause: Annotated[str, Meta(description="the most likely one: data or model")]

    def __str__(self) -> str:
        if self.kind in ("law", "seen"):
            return self.message
        return f"byte {self.position:,}, block {self.block}: {self.message}; most likely the {self.cause}"


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some successive segments. update_size: the largest of their optimiser steps."""

    start: int
    n_bytes: int
    block: int
    code_bits: float
    gzip_bits: int
    update_size: float

    @property
    def bits_per_byte(self) -> float:
        return self.code_bits / self.n_bytes

    @property
    def gzip_bits_per_byte(self) -> float:
        return self.gzip_bits / self.n_bytes


class _Mark(NamedTuple):
    n_bytes: int
    code_bits: float
    time_s: float


class Windows:
    """The windows of one run, from its first report on. gzip deflates one stream, at level 6: within 1 % of gzip -9 on text.

    recent: the last N_RECENT, which define what is usual. free: those up to the latest one, as one window, that are almost free.
    """

    def __init__(self, first: Progress, clock: Callable[[], float]) -> None:
        self.recent: deque[Window] = deque(maxlen=N_RECENT)
        self.free: Window | None = None
        self._clock, self._has_beginning = clock, first.n_bytes == len(first.segment)
        self.done, self._now_s = first, clock()
        start = (0, 0.0) if self._has_beginning else (first.n_bytes, first.code_bits)
        self._marks = deque([_Mark(*start, self._now_s)], N_RECENT)
        self._block, self._update_size = first.n_blocks, 0.0  # of the current window
        self._deflate, self._gzip_bytes, self._gzip_total = zlib.compressobj(6, zlib.DEFLATED, -15, 9), 0, 0

    def add(self, done: Progress) -> Window | None:
        """Adds a report; returns the window that it completes, if any."""
        self.done, self._now_s, start = done, self._clock(), self._marks[-1]
        size = done.update_size or 0.0
        self._update_size = max(self._update_size, size if math.isfinite(size) else math.inf)
        n_bytes = done.n_bytes - start.n_bytes
        if n_bytes > 0:
            self._gzip_bytes += len(self._deflate.compress(done.segment.tobytes()))
        if n_bytes < WINDOW_BYTES:
            return None
        self._gzip_bytes += len(self._deflate.flush(zlib.Z_SYNC_FLUSH))
        self._gzip_total += self._gzip_bytes
        window = Window(
            start=start.n_bytes, n_bytes=n_bytes, block=self._block, code_bits=done.code_bits - start.code_bits,
            gzip_bits=8 * self._gzip_bytes, update_size=self._update_size,
        )  # fmt: skip
        self._marks.append(_Mark(done.n_bytes, done.code_bits, self._now_s))
        self._block, self._update_size, self._gzip_bytes = done.n_blocks, 0.0, 0
        return window

    def usual(self, figure: str) -> float | None:
        """The median of a figure of the recent windows; None of fewer than MIN_WINDOWS."""
        known = [getattr(window, figure) for window in self.recent]
        return statistics.median(known) if len(known) >= MIN_WINDOWS else None

    def is_spike(self, window: Window) -> bool:
        """Whether its cost is above the median by at least 6 deviations, half a bit, and a quarter of the median."""
        usual, rate = self.usual("bits_per_byte"), window.bits_per_byte
        if usual is None or not usual + max(0.5, 0.25 * usual) < rate < math.inf:
            return False
        deviation = 1.4826 * statistics.median(abs(other.bits_per_byte - usual) for other in self.recent)
        return rate > usual + 6 * deviation

    def status(self, n_bytes: int) -> str:
        """The state of a run over n_bytes in one line: bits per byte, gzip's, speed and time left, as far as they are known.

        The latest rate is over LATEST_BYTES, the speed over SPEED_S seconds, or up to one window more. The time left is too long
        in the first segments of a GPT, which are short and slow.
        """
        done, rates, marks = self.done, [], list(reversed(self._marks))
        if mark := next((mark for mark in marks if done.n_bytes - mark.n_bytes >= LATEST_BYTES), None):
            rates.append(f"last 64K {(done.code_bits - mark.code_bits) / (done.n_bytes - mark.n_bytes):.3f}")
        if self._gzip_total and self._has_beginning:  # up to the latest window
            rates.append(f"gzip {8 * self._gzip_total / marks[0].n_bytes:.3f}")
        parts = [f"{done.code_bits / done.n_bytes:.3f} bits/byte" + (f" ({', '.join(rates)})" if rates else "")]
        mark = next((mark for mark in marks if self._now_s - mark.time_s >= SPEED_S), marks[-1])
        seconds, n_new = self._now_s - mark.time_s, done.n_bytes - mark.n_bytes
        if seconds > MIN_SPEED_S and n_new > 0:
            left_s = max(0, n_bytes - done.n_bytes) * seconds / n_new
            parts += [f"{n_new / seconds / 1e3:.1f} kB/s", f"{timedelta(seconds=round(left_s))} left"]
        return ", ".join(parts)


def _findings(window: Window, run: Windows) -> Iterator[Finding]:
    """What is unusual about a window after those of `run`, whose stretch of free data it continues."""
    rate, gzip, usual_gzip = window.bits_per_byte, window.gzip_bits_per_byte, run.usual("gzip_bits_per_byte")
    at = {"position": window.start, "block": window.block}
    if not (math.isfinite(window.code_bits) and math.isfinite(window.update_size)):
        message = f"not finite: the cost is {rate} bits/byte, the GPT's largest step {window.update_size}"
        yield Finding(kind="not finite", **at, message=message, cause="model")
    if run.is_spike(window):
        reason, cause = "what the model has learned helps less here", "data"
        if usual_gzip is not None and gzip > 1.25 * usual_gzip + 0.2:
            reason = f"gzip's bits/byte rose too, from {usual_gzip:.2f} to {gzip:.2f}"
        elif rate > gzip:
            reason, cause = f"gzip needs only {gzip:.2f}, no more than before", "model"
        message = f"loss spike: {rate:.2f} bits/byte, usually {run.usual('bits_per_byte'):.2f}; {reason}"
        yield Finding(kind="spike", **at, message=message, cause=cause)
    is_free, free = min(rate, gzip) < FREE_BITS_PER_BYTE, run.free
    if is_free and free:
        free = replace(free, n_bytes=free.n_bytes + window.n_bytes, code_bits=free.code_bits + window.code_bits)
    run.free = (free or window) if is_free else None
    if run.free and run.free.n_bytes >= REPEATED_BYTES > run.free.n_bytes - window.n_bytes:
        message = f"repeated data: {run.free.bits_per_byte:.3f} bits/byte for {REPEATED_BYTES >> 10} KiB or more"
        yield Finding(kind="repeated", position=run.free.start, block=run.free.block, message=message, cause="data")


class Health:
    """An `on_progress`. A second run, such as decoding after encoding, is not watched.

    Examples:
        >>> import prequential
        >>> health = prequential.Health()
        >>> archive = prequential.compress(b"a short text", config=prequential.preset(1), on_progress=health)
        >>> health.findings
        []
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.findings: list[Finding] = []
        self._clock = clock
        self._run: Windows | None = None
        self._silence: dict[str, tuple[int, int]] = {}  # of each kind: the byte where it ends, the next one's length
        self._is_over = self._is_second = False

    def __call__(self, done: Progress, n_bytes: int) -> list[Finding]:
        """Receives a report of a run over n_bytes; returns the new findings."""
        new = list(self._watch(done, n_bytes))
        self.findings += new
        return new

    def _watch(self, done: Progress, n_bytes: int) -> Iterator[Finding]:
        if self._run is None or self._is_over or done.n_bytes < self._run.done.n_bytes:
            self._is_second, self._run = self._run is not None, Windows(done, self._clock)
        if window := self._run.add(done):
            if not self._is_second:
                yield from filter(self._is_reported, _findings(window, self._run))
            self._run.recent.append(window)
        self._is_over = done.n_bytes >= n_bytes and not len(done.segment)

    def _is_reported(self, finding: Finding) -> bool:
        """Whether the finding's kind is not silent at its position; if so, the next silence begins."""
        end, length = self._silence.get(finding.kind, (0, MIB))
        if finding.position < end:
            return False
        self._silence[finding.kind] = finding.position + length, 2 * length
        return True

    def status(self, n_bytes: int) -> str:
        """The state of a run over n_bytes in one line, as `Windows.status`; "" before the first report."""
        return self._run.status(n_bytes) if self._run and self._run.done.n_bytes else ""
