"""Detectors: each inspects the windows of a run in order and yields what is unusual.

Their thresholds were set on the files of docs/RESULTS.md, where no plain text gives a finding. A window has some 16 KiB.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from prequential.watch.finding import Finding
from prequential.watch.recent import RecentWindows
from prequential.watch.windows import N_RECENT, Window

STRETCH_BYTES = 1 << 16  # of successive windows, from which they are called a stretch
SLOW_S = 10.0
MEMORY_GROWTH_BYTES = 1 << 28
MIB = 1 << 20


class Detector(Protocol):
    """Inspects each window once, in order. `recent` has the windows before it."""

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]: ...


# ---- loss and optimiser steps


class SpikeDetector:
    """Windows that cost far more than those before."""

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        rate = window.bits_per_byte
        if recent.is_unusually_high(rate):
            reason, cause = _reason_for_spike(window, recent)
            message = f"loss spike: {rate:.2f} bits/byte, usually {recent.bits_per_byte:.2f}; {reason}"
            yield Finding.starting_at(window, "spike", message, cause)


def _reason_for_spike(window: Window, recent: RecentWindows) -> tuple[str, str]:
    """Why a window costs more than usual, in words, and the cause."""
    rate, order0 = window.bits_per_byte, window.order0_bits_per_byte
    gzip, usual_gzip = window.gzip_bits_per_byte, recent.gzip_bits_per_byte
    if gzip is not None and usual_gzip is not None and gzip > 1.25 * usual_gzip + 0.2:
        return f"gzip's bits/byte rose too, from {usual_gzip:.2f} to {gzip:.2f}", "data"
    if recent.byte_divergence(window) > 0.3:
        return "the byte frequencies changed", "data"
    if _is_large_update(window, recent, factor=4):
        return "the GPT's optimiser steps have grown", "model"
    if rate > min(8.0, order0 + 0.05):
        return f"this is more than the window's byte frequencies alone would cost ({order0:.2f})", "model"
    if gzip is not None and rate > gzip:
        return f"gzip needs only {gzip:.2f}, no more than before", "model"
    return "what the model has learned helps less here", "data"


class UpdateDetector:
    """Optimiser steps of the GPT that are ten times as large as usual, on data of usual cost."""

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        if _is_large_update(window, recent, factor=10) and not recent.is_unusually_high(window.bits_per_byte):
            size, usual = window.update_size, recent.update_size
            message = f"an optimiser step changed the GPT's weights by {size:.2g} of their size, usually {usual:.2g}"
            yield Finding.starting_at(window, "update", message, "model")


def _is_large_update(window: Window, recent: RecentWindows, *, factor: float) -> bool:
    usual = recent.update_size
    return window.update_size is not None and usual is not None and not window.update_size <= factor * usual


class PlateauDetector:
    """A compressible MiB on which the learner is hardly better than gzip, and not better than on the MiB before."""

    def __init__(self) -> None:
        self._ratio_before: float | None = None  # the learner's bits over gzip's, in the MiB before
        self._reset()

    def _reset(self) -> None:
        self._first: Window | None = None
        self._n_bytes, self._n_measured, self._code_bits, self._gzip_bits = 0, 0, 0.0, 0.0

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        self._first = self._first or window
        self._n_bytes += window.n_bytes
        if window.gzip_bits is not None:
            self._n_measured += window.n_bytes
            self._code_bits, self._gzip_bits = self._code_bits + window.code_bits, self._gzip_bits + window.gzip_bits
        if self._n_bytes >= MIB:
            yield from self._finding(self._first)
            self._reset()

    def _finding(self, first: Window) -> Iterator[Finding]:
        """The finding about the MiB that begins with `first`, if there is one."""
        before = self._ratio_before
        self._ratio_before = ratio = self._code_bits / self._gzip_bits if self._n_measured >= MIB // 16 else None
        if not ratio or not before or ratio < max(0.95, 0.98 * before):
            return
        rate, gzip_rate = self._code_bits / self._n_measured, self._gzip_bits / self._n_measured
        if 0.1 < gzip_rate < 7.5:
            message = (
                f"plateau: {rate:.3f} bits/byte over a MiB, gzip {gzip_rate:.3f}, and no better than the MiB before"
            )
            yield Finding.starting_at(first, "plateau", message, "model")


# ---- stretches: successive windows with a common property


class StretchCounter:
    """Counts the bytes of successive windows that have a property. From STRETCH_BYTES on they are a stretch."""

    def __init__(self) -> None:
        self.n_bytes = self.n_stretches = 0  # of all stretches, also of an unfinished one
        self.first: Window | None = None  # of the current windows with the property
        self._current_bytes, self._current_bits = 0, 0.0

    def add(self, window: Window, *, belongs: bool) -> bool:
        """Adds a window that does or does not have the property; returns whether it completes the beginning of a stretch."""
        if not belongs:
            self.first, self._current_bytes, self._current_bits = None, 0, 0.0
            return False
        self.first = self.first or window
        before, self._current_bytes = self._current_bytes, self._current_bytes + window.n_bytes
        self._current_bits += window.code_bits
        begins = before < STRETCH_BYTES <= self._current_bytes
        self.n_stretches += begins
        self.n_bytes += self._current_bytes if begins else window.n_bytes if before >= STRETCH_BYTES else 0
        return begins

    @property
    def bits_per_byte(self) -> float:
        """Of the current windows with the property."""
        return self._current_bits / self._current_bytes


class DivergenceDetector:
    """A stretch that costs more than gzip and than its byte frequencies alone. The beginning of a run does not count."""

    def __init__(self) -> None:
        self._stretch = StretchCounter()

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        gzip, order0 = window.gzip_bits_per_byte, window.order0_bits_per_byte
        is_worse = gzip is not None and recent.costs_more(window, max(gzip, order0))
        if self._stretch.add(window, belongs=is_worse) and self._stretch.first:
            first = self._stretch.first
            message = (
                f"divergence: {self._stretch.bits_per_byte:.2f} bits/byte for {STRETCH_BYTES >> 10} KiB, where gzip needs "
                f"{first.gzip_bits_per_byte:.2f} and byte frequencies alone need {first.order0_bits_per_byte:.2f}"
            )
            yield Finding.starting_at(first, "divergence", message, "model")


class DataDetector:
    """Stretches of one kind of data: a finding when each begins, and a total at the end."""

    def __init__(self, kind: str, name: str, belongs: Callable[[Window], bool]) -> None:
        self._kind, self._name, self._belongs = kind, name, belongs
        self._stretch = StretchCounter()
        self._first: Window | None = None

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        if self._stretch.add(window, belongs=self._belongs(window)) and self._stretch.first:
            self._first = self._first or self._stretch.first
            message = f"{self._name}: {self._stretch.bits_per_byte:.3f} bits/byte for {STRETCH_BYTES >> 10} KiB or more"
            yield Finding.starting_at(self._stretch.first, self._kind, message, "data")

    def total(self, n_bytes: int) -> Iterator[Finding]:
        """The total in a run over n_bytes, if it is much more than the beginning of one stretch."""
        found = self._stretch
        if self._first and found.n_bytes >= 4 * STRETCH_BYTES:
            amount = f"{found.n_bytes:,} bytes or {found.n_bytes / n_bytes:.0%} of all"
            message = f"{self._name}: {amount}, in {found.n_stretches} stretch{'es' if found.n_stretches > 1 else ''}"
            yield Finding.starting_at(self._first, self._kind, message, "data")


def repeated_data() -> DataDetector:
    """Detects data that are almost free for the learner or for gzip."""

    def belongs(window: Window) -> bool:
        gzip = window.gzip_bits_per_byte
        return window.bits_per_byte < 0.05 or (gzip is not None and gzip < 0.05)

    return DataDetector("repeated", "repeated data", belongs)


def incompressible_data() -> DataDetector:
    """Detects data that stay as long as they were and have about equal byte frequencies, unlike text under a diverged learner."""

    def belongs(window: Window) -> bool:
        return window.bits_per_byte >= 7.95 and 7.95 <= window.order0_bits_per_byte <= 8.0

    return DataDetector("incompressible", "incompressible (encrypted or compressed) data", belongs)


# ---- speed and memory


class SlowdownDetector:
    """Ten seconds or more at less than half the usual speed, on data of about the usual cost."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._first: Window | None = None
        self._n_bytes, self._wall_s = 0, 0.0

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        usual, rate = recent.bytes_per_s, recent.bits_per_byte
        is_usual_data = rate is not None and 0.5 * rate <= window.bits_per_byte <= 2 * rate
        if not window.wall_s or usual is None or not is_usual_data or window.n_bytes / window.wall_s > 0.5 * usual:
            self._reset()
            return
        self._first = self._first or window
        begins = self._wall_s < SLOW_S <= self._wall_s + window.wall_s
        self._n_bytes, self._wall_s = self._n_bytes + window.n_bytes, self._wall_s + window.wall_s
        if begins:
            message = (
                f"slowdown: {self._n_bytes / self._wall_s / 1e3:.1f} kB/s for {self._wall_s:.0f} s, usually "
                f"{usual / 1e3:.1f} kB/s, perhaps because of other programs, heat or sleep"
            )
            yield Finding.starting_at(self._first, "slowdown", message, "machine")


class MemoryDetector:
    """Memory that stays 256 MiB above the maximum of the first N_RECENT windows, or of the last finding, for 16 windows."""

    def __init__(self) -> None:
        self._base_bytes = 0
        self._last = deque[int](maxlen=16)

    def inspect(self, window: Window, recent: RecentWindows) -> Iterator[Finding]:
        if window.memory_bytes is None:
            return
        self._last.append(window.memory_bytes)
        if recent.n_windows < N_RECENT:
            self._base_bytes = max(self._base_bytes, window.memory_bytes)
        elif min(self._last) > self._base_bytes + MEMORY_GROWTH_BYTES:
            growth, self._base_bytes = min(self._last) - self._base_bytes, min(self._last)
            message = (
                f"memory grew by {growth >> 20} MiB to {self._base_bytes >> 20} MiB; a run's memory should not grow"
            )
            yield Finding.starting_at(window, "memory", message, "program")
