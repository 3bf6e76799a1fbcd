"""Health of a run: its reports after each segment become windows, and detectors find what is wrong with these.

It raises no exception and stops no run. After a finding its kind is silent for 1 MiB, then for 2 MiB, then for 4 MiB, so that a
run has few findings. The thresholds were set on the files of docs/RESULTS.md, where no plain text gives a finding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prequential.watch.windows import Recent, Window, Windows

if TYPE_CHECKING:
    from prequential.online.coding import Progress

REPEATED_BYTES, FREE_BITS_PER_BYTE = 1 << 16, 0.05  # so many bytes that are almost free are repeated data
SLOW_S = 10.0
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something unusual about a run. It never stops the run.

    kind: "not finite", "spike", "repeated", "slowdown", or "watch" if the watch itself failed. position: byte of the original at
    which it begins, in block `block` of the archive; both count from 0. cause: the most likely one: data, model, program or
    machine.

    Examples:
        >>> import prequential
        >>> print(prequential.Finding(kind="spike", position=65536, block=0, message="the cost doubled", cause="data"))
        byte 65,536, block 0: the cost doubled; most likely the data
    """

    kind: str
    position: int
    block: int
    message: str
    cause: str

    def __str__(self) -> str:
        return f"byte {self.position:,}, block {self.block}: {self.message}; most likely the {self.cause}"


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


class _Stretch(NamedTuple):
    """Successive windows with a common property: where they begin, and their sums."""

    first: Window
    n_bytes: int
    code_bits: float
    wall_s: float


def _extended(stretch: _Stretch | None, window: Window) -> _Stretch:
    first, n_bytes, code_bits, wall_s = stretch or (window, 0, 0.0, 0.0)
    return _Stretch(first, n_bytes + window.n_bytes, code_bits + window.code_bits, wall_s + (window.wall_s or 0.0))


class _RepeatedData:
    """Data that are almost free for the learner or for gzip."""

    _stretch: _Stretch | None = None

    def __call__(self, window: Window, recent: Recent) -> Iterator[Finding]:
        is_free = min(window.bits_per_byte, window.gzip_bits_per_byte) < FREE_BITS_PER_BYTE
        self._stretch = now = _extended(self._stretch, window) if is_free else None
        if now and now.n_bytes >= REPEATED_BYTES > now.n_bytes - window.n_bytes:
            rate = now.code_bits / now.n_bytes
            message = f"repeated data: {rate:.3f} bits/byte for {REPEATED_BYTES >> 10} KiB or more"
            yield _found(now.first, "repeated", message, "data")


class _Slowdown:
    """Ten seconds or more at less than half the usual speed, on data of about the usual cost."""

    _stretch: _Stretch | None = None

    def __call__(self, window: Window, recent: Recent) -> Iterator[Finding]:
        usual, rate, speed = recent.usual("bytes_per_s"), recent.usual("bits_per_byte"), window.bytes_per_s
        is_usual_data = rate is not None and 0.5 * rate <= window.bits_per_byte <= 2 * rate
        is_slow = is_usual_data and usual and speed and speed <= 0.5 * usual
        self._stretch = now = _extended(self._stretch, window) if is_slow else None
        if now and usual and now.wall_s >= SLOW_S > now.wall_s - (window.wall_s or 0.0):
            text = f"{now.n_bytes / now.wall_s / 1e3:.1f} kB/s for {now.wall_s:.0f} s, usually {usual / 1e3:.1f} kB/s"
            message = f"slowdown: {text}, perhaps because of other programs, heat or sleep"
            yield _found(now.first, "slowdown", message, "machine")


class Health:
    """An `on_progress`. A second run, such as decoding after encoding, is watched only for its speed.

    Examples:
        >>> import prequential
        >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
        >>> plain = prequential.Runtime(kernels="plain")
        >>> health = prequential.Health()
        >>> archive = prequential.compress(b"a short text", config=small, runtime=plain, on_progress=health)
        >>> health.findings
        []
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.findings: list[Finding] = []
        self._clock = clock
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

    def _begin(self, first: Progress) -> Windows:
        detectors: list[Callable[[Window, Recent], Iterator[Finding]]] = [_Slowdown()]
        if self._windows is None:  # the first run
            detectors += [_not_finite, _spike, _RepeatedData()]
        self._detectors = detectors
        # of each kind: the byte where it ends, and the next one's length
        self._silence: dict[str, tuple[int, int]] = {}
        return Windows(first, self._clock)

    def _watch(self, done: Progress, n_bytes: int) -> Iterator[Finding]:
        if self._windows is None or self._is_over or done.n_bytes < self._windows.done.n_bytes:
            self._windows = self._begin(done)
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
