"""Health of a run: its reports after each segment become windows, and detectors find what is unusual about these.

    health = prequential.Health()
    prequential.compress("book.txt", "book.txt.pq", on_progress=health)
    print(*health.findings, sep="\\n")

Watching takes less than 0.5 % of the time at 10 kB/s and some 1 % at 150 kB/s. It raises no exception and stops no run. After a
finding its kind is silent for 1 MiB, then for 2 MiB, then for 4 MiB, so that a run has few findings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prequential.machine.facts import private_memory_bytes
from prequential.watch.detectors import (
    MIB,
    Detector,
    DivergenceDetector,
    MemoryDetector,
    PlateauDetector,
    SlowdownDetector,
    SpikeDetector,
    UpdateDetector,
    incompressible_data,
    repeated_data,
)
from prequential.watch.finding import Finding
from prequential.watch.recent import RecentWindows
from prequential.watch.windows import Windows

if TYPE_CHECKING:
    from prequential.online.coding import Progress

__all__ = ["Finding", "Health"]


class Health:
    """An `on_progress`. A second run, such as decoding after encoding, is watched only for its speed and memory.

    Examples:
        >>> import prequential
        >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
        >>> plain = prequential.Runtime(kernels="plain")
        >>> health = prequential.Health()
        >>> archive = prequential.compress(b"a short text", config=small, runtime=plain, on_progress=health)
        >>> health.findings
        []
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        memory_bytes: Callable[[], int] = private_memory_bytes,
    ) -> None:
        self.findings: list[Finding] = []
        self._clock, self._memory_bytes = clock, memory_bytes
        self._windows: Windows | None = None
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

    def _begin(self, first: Progress) -> None:
        is_first_run = self._windows is None
        self._data_detectors = [repeated_data(), incompressible_data()] if is_first_run else []
        self._detectors: list[Detector] = [SlowdownDetector(), MemoryDetector(), *self._data_detectors]
        if is_first_run:
            self._detectors += [SpikeDetector(), UpdateDetector(), DivergenceDetector(), PlateauDetector()]
        self._windows = Windows(first, self._clock, self._memory_bytes)
        self._recent = RecentWindows()
        # of each kind: the byte where it ends, and the next one's length
        self._silence: dict[str, tuple[int, int]] = {}

    def _watch(self, done: Progress, n_bytes: int) -> Iterator[Finding]:
        if self._windows is None or self._is_over or done.n_bytes < self._windows.done.n_bytes:
            self._begin(done)
        assert self._windows
        if window := self._windows.add(done, needs_gzip=self._recent.needs_gzip):
            for detector in self._detectors:
                yield from filter(self._is_reported, detector.inspect(window, self._recent))
            self._recent.add(window)
        self._is_over = done.n_bytes >= n_bytes and not len(done.segment)
        if self._is_over:
            for detector in self._data_detectors:
                yield from detector.total(n_bytes)

    def _is_reported(self, finding: Finding) -> bool:
        """Whether the finding's kind is not silent at its position; if so, the next silence begins."""
        end, length = self._silence.get(finding.kind, (0, MIB))
        if finding.position < end:
            return False
        self._silence[finding.kind] = finding.position + length, 2 * length
        return True

    def status(self, n_bytes: int) -> str:
        """The state of a run over n_bytes in one line: bits per byte, gzip's, speed and time left, as far as they are known."""
        if self._windows is None or self._windows.bits_per_byte is None:
            return ""
        now = self._windows
        rates = [("last 64K", now.latest_bits_per_byte), ("gzip", now.gzip_bits_per_byte)]
        others = ", ".join(f"{name} {rate:.3f}" for name, rate in rates if rate is not None)
        parts = [f"{now.bits_per_byte:.3f} bits/byte" + (f" ({others})" if others else "")]
        if now.bytes_per_s:
            parts += [f"{now.bytes_per_s / 1e3:.1f} kB/s", f"{_duration(round(now.seconds_left(n_bytes) or 0))} left"]
        return ", ".join(parts)


def _duration(seconds: int) -> str:
    """The duration as 0:42, 5:07 or 2:05:07."""
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
