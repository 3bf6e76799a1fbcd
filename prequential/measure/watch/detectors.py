"""What can be wrong with a run, found in its windows: each detector looks at one after the other and tells what it finds.

Limits were set on the files of docs/RESULTS.md, among which not one plain text gives a finding; a window is some 16 KiB.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from prequential.measure.watch.windows import N_PAST, Window

N_WARM = 8  # windows before anything can be called unusual
STRETCH_BYTES = 1 << 16  # what windows in a row must hold together to be called a stretch
SLOW_S = 10.0
GROWTH_BYTES = 1 << 28
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about a run that its owner may want to know; never a failure.

    kind: spike, divergence, update, plateau, repeated, incompressible, slowdown, memory or watch. position: byte of the original
    where it begins, in `block` of the archive, counted from 0. cause: what it most likely is: data, model, program or machine.
    """

    kind: str
    position: int
    block: int
    message: str
    cause: str

    @classmethod
    def at(cls, window: Window, kind: str, message: str, cause: str) -> "Finding":
        """One that begins with this window."""
        return cls(kind=kind, position=window.start, block=window.block, message=message, cause=cause)

    def __str__(self) -> str:
        return f"byte {self.position:,}, block {self.block}: {self.message}; most likely the {self.cause}"


class Past:
    """What has been usual: the last N_PAST windows, and the bytes of all with the newest weighing most."""

    def __init__(self) -> None:
        self.n_windows = 0
        self._rates, self._gzip_rates, self._speeds, self._updates = (deque[float](maxlen=N_PAST) for _ in range(4))
        self._counts = np.full(256, 0.5)

    def add(self, window: Window) -> None:
        """Takes in a window, after everybody has looked at it."""
        self.n_windows += 1
        self._rates.append(window.rate)
        for values, value in ((self._gzip_rates, window.gzip_rate), (self._updates, window.update_size)):
            if value is not None:
                values.append(value)
        if window.wall_s:
            self._speeds.append(window.n_bytes / window.wall_s)
        if window.counts is not None:
            self._counts = 0.95 * self._counts + window.counts

    @property
    def rate(self) -> float | None:
        """Medians; None until there are enough."""
        return _median(self._rates)

    @property
    def gzip_rate(self) -> float | None:
        return _median(self._gzip_rates)

    @property
    def bytes_per_s(self) -> float | None:
        return _median(self._speeds)

    @property
    def update_size(self) -> float | None:
        return _median(self._updates)

    def is_exceeded(self, rate: float) -> bool:
        """Whether bits per byte lie far above the usual: by 6 deviations, half a bit and a quarter at least."""
        usual = self.rate
        if usual is None or rate <= usual + max(0.5, 0.25 * usual):
            return False
        return rate > usual + 6 * 1.4826 * statistics.median(abs(other - usual) for other in self._rates)

    def wants_gzip(self, window: Window) -> bool:
        """Whether it matters what gzip makes of the window."""
        return self.is_exceeded(window.rate) or self.is_astray(window, window.order0)

    def is_astray(self, window: Window, rate: float) -> bool:
        """Whether a window costs far more than such a rate, in bits per byte, after the beginning of the run."""
        return self.n_windows >= 2 * N_WARM and window.rate > rate + 0.25

    def distance(self, window: Window) -> float:
        """What it would cost to code the window's bytes by the frequencies of those before: bits per byte above the least."""
        if window.counts is None:
            return 0.0
        seen = window.counts > 0
        p = window.counts[seen] / window.n_bytes
        return float((p * np.log2(p * self._counts.sum() / self._counts[seen])).sum())


def _median(values: deque[float]) -> float | None:
    return statistics.median(values) if len(values) >= N_WARM else None


class Detector(Protocol):
    """Looks at each window once, in order; `past` holds those before it."""

    def look(self, window: Window, past: Past) -> Iterator[Finding]: ...


class Spikes:
    """Windows that cost far more than those before."""

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        if past.is_exceeded(window.rate):
            reason, cause = _why(window, past)
            yield Finding.at(
                window, "spike", f"loss spike, {window.rate:.2f} bits/byte after {past.rate:.2f}: {reason}", cause
            )


def _why(window: Window, past: Past) -> tuple[str, str]:
    """Why a window costs more than usual, and what that comes from."""
    gzip, gzip_before = window.gzip_rate, past.gzip_rate
    if gzip is not None and gzip_before is not None and gzip > 1.25 * gzip_before + 0.2:
        return f"gzip's rose too, from {gzip_before:.2f} to {gzip:.2f}", "data"
    if past.distance(window) > 0.3:
        return "these are other bytes than before", "data"
    if _is_large(window, past):
        return "the GPT's steps have grown", "model"
    if window.rate > min(8.0, window.order0 + 0.05):
        return f"more than the frequencies of its bytes alone would cost ({window.order0:.2f})", "model"
    if gzip is not None and window.rate > gzip:
        return f"gzip needs {gzip:.2f}, no more than before", "model"
    return "what was learned helps less here", "data"


def _is_large(window: Window, past: Past, factor: float = 4.0) -> bool:
    usual = past.update_size
    return window.update_size is not None and usual is not None and not window.update_size <= factor * usual


class Updates:
    """Steps of the GPT ten times as large as usual, on data that are not unusual."""

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        if _is_large(window, past, 10.0) and not past.is_exceeded(window.rate):
            message = (
                f"a step of the GPT changed {window.update_size:.2g} of its weights, {past.update_size:.2g} is usual"
            )
            yield Finding.at(window, "update", message, "model")


class Stretch:
    """Windows in a row that have something in common, and how much of it there is in all."""

    def __init__(self) -> None:
        self.n_bytes = self.n_stretches = 0  # of stretches, finished or not
        self.first: Window | None = None  # of the open row
        self._row_bytes, self.code_bits = 0, 0.0  # of the open row

    def add(self, window: Window, *, belongs: bool) -> bool:
        """Whether with this window the row becomes a stretch."""
        if not belongs:
            self.first, self._row_bytes, self.code_bits = None, 0, 0.0
            return False
        self.first = self.first or window
        before, self._row_bytes = self._row_bytes, self._row_bytes + window.n_bytes
        self.code_bits += window.code_bits
        begins = before < STRETCH_BYTES <= self._row_bytes
        self.n_stretches += begins
        self.n_bytes += self._row_bytes if begins else window.n_bytes if before >= STRETCH_BYTES else 0
        return begins

    @property
    def rate(self) -> float:
        """Bits per byte of the open row."""
        return self.code_bits / self._row_bytes


class Divergence:
    """A stretch on which the learner loses to the bytes' own frequencies, and to gzip. The beginning of a run does not count."""

    def __init__(self) -> None:
        self._stretch = Stretch()

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        gzip_rate = window.gzip_rate
        astray = gzip_rate is not None and past.is_astray(window, max(gzip_rate, window.order0))
        if self._stretch.add(window, belongs=astray) and self._stretch.first:
            first = self._stretch.first
            rate = f"{self._stretch.rate:.2f} bits/byte for {STRETCH_BYTES >> 10} KiB"
            message = (
                f"divergence, {rate}, where gzip needs {first.gzip_rate:.2f} and no context at all {first.order0:.2f}"
            )
            yield Finding.at(first, "divergence", message, "model")


class Stretches:
    """Stretches of one kind of data: told when they begin, and summed up in the end."""

    def __init__(self, kind: str, name: str, belongs: Callable[[Window], bool]) -> None:
        self._kind, self._name, self._belongs = kind, name, belongs
        self._stretch = Stretch()
        self._first: Window | None = None

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        if self._stretch.add(window, belongs=self._belongs(window)) and self._stretch.first:
            self._first = self._first or self._stretch.first
            message = f"{self._name}, {self._stretch.rate:.3f} bits/byte for {STRETCH_BYTES >> 10} KiB and on"
            yield Finding.at(self._stretch.first, self._kind, message, "data")

    def total(self, n_bytes: int) -> Iterator[Finding]:
        """What there was of it in a run over n_bytes, where that is much more than a first finding said."""
        found = self._stretch
        if self._first and found.n_bytes >= 4 * STRETCH_BYTES:
            share = f"{found.n_bytes:,} bytes or {found.n_bytes / n_bytes:.0%}"
            message = (
                f"{self._name}, {share} of all, in {found.n_stretches} stretch{'es' if found.n_stretches > 1 else ''}"
            )
            yield Finding.at(self._first, self._kind, message, "data")


def repeated() -> Stretches:
    """Almost free for the learner, or for gzip."""
    return Stretches(
        "repeated", "repeated data", lambda w: w.rate < 0.05 or (w.gzip_rate is not None and w.gzip_rate < 0.05)
    )


def incompressible() -> Stretches:
    """As long as before, and all bytes about as frequent: what a learner gone astray does not look like."""

    def belongs(window: Window) -> bool:
        return window.rate >= 7.95 and 7.95 <= window.order0 <= 8.0

    return Stretches("incompressible", "incompressible (encrypted or compressed) data", belongs)


class Plateau:
    """A MiB that gzip can compress, on which the learner hardly beats it, and no more than in the MiB before."""

    def __init__(self) -> None:
        self._before: float | None = None  # the learner's bits over gzip's, in the MiB before
        self._begin(None)

    def _begin(self, window: Window | None) -> None:
        self._first, self._n_bytes, self._n_measured, self._code_bits, self._gzip_bits = window, 0, 0, 0.0, 0.0

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        self._first = self._first or window
        self._n_bytes += window.n_bytes
        if window.gzip_bits is not None:
            self._n_measured += window.n_bytes
            self._code_bits, self._gzip_bits = self._code_bits + window.code_bits, self._gzip_bits + window.gzip_bits
        if self._n_bytes < MIB:
            return
        ratio, before = self._code_bits / self._gzip_bits if self._n_measured >= MIB // 16 else None, self._before
        if ratio and before and ratio >= max(0.95, 0.98 * before):
            rate, gzip_rate = self._code_bits / self._n_measured, self._gzip_bits / self._n_measured
            if 0.1 < gzip_rate < 7.5:
                message = (
                    f"plateau, {rate:.3f} bits/byte over a MiB, gzip {gzip_rate:.3f}, and no better than the MiB before"
                )
                yield Finding.at(self._first, "plateau", message, "model")
        self._before = ratio
        self._begin(None)


class Slowdown:
    """Ten seconds or more at less than half the usual speed, on data that cost about what is usual."""

    def __init__(self) -> None:
        self._first: Window | None = None
        self._n_bytes, self._wall_s = 0, 0.0

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        speed, rate = past.bytes_per_s, past.rate
        alike = rate is not None and 0.5 * rate <= window.rate <= 2 * rate
        if not window.wall_s or speed is None or not alike or window.n_bytes / window.wall_s > 0.5 * speed:
            self._first, self._n_bytes, self._wall_s = None, 0, 0.0
            return
        self._first = self._first or window
        begins = self._wall_s < SLOW_S <= self._wall_s + window.wall_s
        self._n_bytes, self._wall_s = self._n_bytes + window.n_bytes, self._wall_s + window.wall_s
        if begins:
            message = (
                f"slowdown, {self._n_bytes / self._wall_s / 1e3:.1f} kB/s for {self._wall_s:.0f} s, {speed / 1e3:.1f} before: "
                "other programs, heat or sleep"
            )
            yield Finding.at(self._first, "slowdown", message, "machine")


class MemoryGrowth:
    """Memory that lies, for 16 windows, 256 MiB above the most of the first N_PAST, or above the last finding."""

    def __init__(self) -> None:
        self._base = 0
        self._last = deque[int](maxlen=16)

    def look(self, window: Window, past: Past) -> Iterator[Finding]:
        if window.memory_bytes is None:
            return
        self._last.append(window.memory_bytes)
        if past.n_windows < N_PAST:
            self._base = max(self._base, window.memory_bytes)
        elif min(self._last) > self._base + GROWTH_BYTES:
            growth, self._base = min(self._last) - self._base, min(self._last)
            message = f"memory grew by {growth >> 20} MiB to {self._base >> 20} MiB, and a run's should not grow"
            yield Finding.at(window, "memory", message, "program")
