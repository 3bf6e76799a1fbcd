"""Health of a run: its reports after each segment become windows, and what is unusual about these becomes findings.

    health = prequential.Health()
    prequential.compress("book.txt", "book.txt.pq", on_progress=health)
    print(*health.findings, sep="\\n")

Watching takes less than 0.5 % of the time at 10 kB/s and some 1 % at 150 kB/s; it raises no exception and stops no run. Of each
kind a run has few findings: between two of a kind lie 1 MiB, then 2, then 4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prequential.measure.machine import private_memory_bytes
from prequential.measure.watch.detectors import (
    MIB,
    Detector,
    Divergence,
    Finding,
    MemoryGrowth,
    Past,
    Plateau,
    Slowdown,
    Spikes,
    Updates,
    incompressible,
    repeated,
)
from prequential.measure.watch.windows import Windows

if TYPE_CHECKING:
    from prequential.online.coding import Progress

__all__ = ["Finding", "Health"]


class Health:
    """An `on_progress`. If another run follows, such as decoding after coding, only its speed and memory are watched."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        memory_bytes: Callable[[], int] = private_memory_bytes,
    ) -> None:
        self.findings: list[Finding] = []
        self._clock, self._memory_bytes = clock, memory_bytes
        self._windows: Windows | None = None
        self._is_over = self._is_broken = False

    def __call__(self, done: Progress, n_bytes: int) -> list[Finding]:
        """Takes in a report on a run over n_bytes; returns the findings that are new."""
        if self._is_broken:
            return []
        try:
            new = list(self._watch(done, n_bytes))
        except Exception as error:  # the run is worth more than what can be said about it
            self._is_broken = True
            message = " ".join(f"the watch over this run has failed, {type(error).__name__}: {error}".split())
            new = [Finding(kind="watch", position=0, block=0, message=message, cause="program")]
        self.findings += new
        return new

    def _begin(self, first: Progress) -> None:
        self._stretches = [] if self._windows else [repeated(), incompressible()]
        self._detectors: list[Detector] = [Slowdown(), MemoryGrowth(), *self._stretches]
        if not self._windows:
            self._detectors += [Spikes(), Updates(), Divergence(), Plateau()]
        self._windows = Windows(first, self._clock, self._memory_bytes)
        self._past = Past()
        self._silence: dict[str, tuple[int, int]] = {}  # of a kind: where it ends, and how long the next will be

    def _watch(self, done: Progress, n_bytes: int) -> Iterator[Finding]:
        if self._windows is None or self._is_over or done.n_bytes < self._windows.done.n_bytes:
            self._begin(done)
        assert self._windows
        if window := self._windows.add(done, wants_gzip=self._past.wants_gzip):
            for detector in self._detectors:
                yield from filter(self._may_speak, detector.look(window, self._past))
            self._past.add(window)
        self._is_over = done.n_bytes >= n_bytes and not len(done.segment)
        if self._is_over:
            for stretches in self._stretches:
                yield from stretches.total(n_bytes)

    def _may_speak(self, finding: Finding) -> bool:
        end, length = self._silence.get(finding.kind, (0, MIB))
        if finding.position < end:
            return False
        self._silence[finding.kind] = finding.position + length, 2 * length
        return True

    def figures(self, n_bytes: int) -> str:
        """The state of a run over n_bytes in one line: bits per byte, gzip's, speed, time left; as far as they are known."""
        if self._windows is None or self._windows.bits_per_byte is None:
            return ""
        of = self._windows
        beside = [("last 64K", of.latest_bits_per_byte), ("gzip", of.gzip_bits_per_byte)]
        others = ", ".join(f"{name} {rate:.3f}" for name, rate in beside if rate is not None)
        parts = [f"{of.bits_per_byte:.3f} bits/byte" + (f" ({others})" if others else "")]
        if of.bytes_per_s:
            left_s = max(0, n_bytes - of.done.n_bytes) / of.bytes_per_s
            parts += [f"{of.bytes_per_s / 1e3:.1f} kB/s", f"{_duration(round(left_s))} left"]
        return ", ".join(parts)


def _duration(seconds: int) -> str:
    """As 0:42, 5:07 or 2:05:07."""
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
