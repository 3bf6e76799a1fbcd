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

    kind: Annotated[str, Meta(description="`not finite`, `spike`, `repeated`, or `watch` if the watch itself failed")]
    position: Annotated[int, Meta(ge=0, le=1 << 62, description="byte of the corpus at which it begins, from 0")]
    block: Annotated[int, Meta(ge=0, le=1 << 62, description="block of the archive, from 0")]
    message: Annotated[str, Meta(description="what was seen")]
    cause: Annotated[str, Meta(description="the most likely one: data, model, program or machine")]

    def __str__(self) -> str:
        return f"byte {self.position:,}, block {self.block}: {self.message}; most likely the {self.cause}"


# ---- windows


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some successive segments. update_size: the largest of the window's optimiser steps."""

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


class Recent(deque[Window]):
    """The last N_RECENT windows, which define what is usual."""

    def usual(self, figure: str) -> float | None:
        """The median of a figure of the windows; None of fewer than MIN_WINDOWS."""
        known = [getattr(window, figure) for window in self]
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

    recent: Recent
    done: Progress

    def __init__(self, first: Progress, clock: Callable[[], float]) -> None:
        self._clock, self.recent = clock, Recent(maxlen=N_RECENT)
        self._has_beginning = first.n_bytes == len(first.segment)
        self.done, self._now_s = first, clock()
        start = (0, 0.0) if self._has_beginning else (first.n_bytes, first.code_bits)
        self._marks = deque([_Mark(*start, self._now_s)], N_RECENT)
        self._block, self._update_size = first.n_blocks, 0.0  # of the current window
        self._deflate, self._gzip_bytes, self._gzip_total = zlib.compressobj(6, zlib.DEFLATED, -15, 9), 0, 0

    def add(self, done: Progress) -> Window | None:
        """Adds a report; returns the window that it completes, if any."""
        self.done, self._now_s = done, self._clock()
        size = done.update_size or 0.0
        self._update_size = max(self._update_size, size if math.isfinite(size) else math.inf)
        n_bytes = done.n_bytes - self._marks[-1].n_bytes
        if n_bytes > 0:
            self._gzip_bytes += len(self._deflate.compress(done.segment.tobytes()))
        if n_bytes < WINDOW_BYTES:
            return None
        window = self._finished_window(n_bytes)
        self._marks.append(_Mark(done.n_bytes, done.code_bits, self._now_s))
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
            update_size=self._update_size,
        )

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
        """Time until a run over n_bytes ends; None if the speed is not known. The short first segments of a GPT are slow."""
        speed = self.bytes_per_s
        return max(0, n_bytes - self.done.n_bytes) / speed if speed else None


# ---- detectors: each inspects a window; `recent` has the windows before it


def _found(window: Window, kind: str, message: str, cause: str) -> Finding:
    return Finding(kind=kind, position=window.start, block=window.block, message=message, cause=cause)


def _not_finite(window: Window, recent: Recent) -> Iterator[Finding]:
    if not (math.isfinite(window.code_bits) and math.isfinite(window.update_size)):
        message = f"the cost is {window.bits_per_byte} bits/byte, the GPT's largest step {window.update_size}"
        yield _found(window, "not finite", f"not finite: {message}", "model")


def _spike(window: Window, recent: Recent) -> Iterator[Finding]:
    if recent.is_spike(window):
        reason, cause = _reason_for_spike(window, recent)
        message = f"{window.bits_per_byte:.2f} bits/byte, usually {recent.usual('bits_per_byte'):.2f}; {reason}"
        yield _found(window, "spike", f"loss spike: {message}", cause)


def _reason_for_spike(window: Window, recent: Recent) -> tuple[str, str]:
    gzip, usual_gzip = window.gzip_bits_per_byte, recent.usual("gzip_bits_per_byte")
    if usual_gzip is not None and gzip > 1.25 * usual_gzip + 0.2:
        return f"gzip's bits/byte rose too, from {usual_gzip:.2f} to {gzip:.2f}", "data"
    if window.bits_per_byte > gzip:
        return f"gzip needs only {gzip:.2f}, no more than before", "model"
    return "what the model has learned helps less here", "data"


class _RepeatedData:
    """Data that are almost free for the learner or for gzip."""

    _stretch: Window | None = None

    def __call__(self, window: Window, recent: Recent) -> Iterator[Finding]:
        is_free = min(window.bits_per_byte, window.gzip_bits_per_byte) < FREE_BITS_PER_BYTE
        now = window if is_free else None
        if now and self._stretch:
            before = self._stretch
            total = before.n_bytes + window.n_bytes, before.code_bits + window.code_bits
            now = replace(before, n_bytes=total[0], code_bits=total[1])
        self._stretch = now
        if now and now.n_bytes >= REPEATED_BYTES > now.n_bytes - window.n_bytes:
            message = f"repeated data: {now.bits_per_byte:.3f} bits/byte for {REPEATED_BYTES >> 10} KiB or more"
            yield _found(now, "repeated", message, "data")


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
        self._windows: Windows | None = None
        self._detectors: list[Callable[[Window, Recent], Iterator[Finding]]] = []
        self._is_over = self._has_failed = False

    def __call__(self, done: Progress, n_bytes: int) -> list[Finding]:
        """Receives a report of a run over n_bytes; returns the new findings."""
        if self._has_failed:
            return []
        try:
            new = list(self._watch(done, n_bytes))
        except Exception as error:  # a fault of the watch must not stop the run
            self._has_failed = True
            message = " ".join(f"the watch over this run failed, {type(error).__name__}: {error}".split())
            new = [Finding(kind="watch", position=0, block=0, message=message, cause="program")]
        self.findings += new
        return new

    def _watch(self, done: Progress, n_bytes: int) -> Iterator[Finding]:
        if self._windows is None or self._is_over or done.n_bytes < self._windows.done.n_bytes:
            self._detectors = [_not_finite, _spike, _RepeatedData()] if self._windows is None else []
            # of each kind: the byte where it ends, and the next one's length
            self._silence: dict[str, tuple[int, int]] = {}
            self._windows = Windows(done, self._clock)
        recent = self._windows.recent
        if window := self._windows.add(done):
            for inspect in self._detectors:
                yield from filter(self._is_reported, inspect(window, recent))
            recent.append(window)
        self._is_over = done.n_bytes >= n_bytes and not len(done.segment)

    def _is_reported(self, finding: Finding) -> bool:
        """Whether the finding's kind is not silent at its position; if so, the next silence begins."""
        end, length = self._silence.get(finding.kind, (0, MIB))
        if finding.position < end:
            return False
        self._silence[finding.kind] = finding.position + length, 2 * length
        return True

    def status(self, n_bytes: int) -> str:
        """The state of a run over n_bytes in one line: bits per byte, gzip's, speed and time left, as far as they are known."""
        now = self._windows
        if now is None or not now.done.n_bytes:
            return ""
        rates = [("last 64K", now.latest_bits_per_byte), ("gzip", now.gzip_bits_per_byte)]
        others = ", ".join(f"{name} {rate:.3f}" for name, rate in rates if rate is not None)
        parts = [f"{now.done.code_bits / now.done.n_bytes:.3f} bits/byte" + (f" ({others})" if others else "")]
        if now.bytes_per_s:
            parts += [f"{now.bytes_per_s / 1e3:.1f} kB/s", f"{_duration(round(now.seconds_left(n_bytes) or 0))} left"]
        return ", ".join(parts)


def _duration(seconds: int) -> str:
    """The duration as 0:42, 5:07 or 2:05:07."""
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
