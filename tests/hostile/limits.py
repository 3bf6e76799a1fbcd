"""Bounds on the time and memory of a piece of work."""

import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SECONDS = 20.0
EXTRA_BYTES = 512 << 20
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class TooSlowError(Exception):
    """The work did not end in time."""


class TooLargeError(Exception):
    """The work took more memory than its limit."""


@contextmanager
def bounded(seconds: float = SECONDS, extra_bytes: int = EXTRA_BYTES) -> Iterator[None]:
    """Raises TooSlowError or TooLargeError if the body takes longer, or makes the process grow by more at any time.

    Main thread only. Work that holds the interpreter lock is interrupted when it releases it. Memory is that of the complete
    process. On systems other than Linux the peak cannot be reset, so a peak below an earlier one is missed.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"not done after {seconds} s")

    _reset_peak()
    before, start = peak_bytes(), time.monotonic()
    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    if time.monotonic() - start > seconds:  # the alarm was lost in a callback
        raise TooSlowError(f"done after {time.monotonic() - start:.1f} s; the limit is {seconds} s")
    if (extra := peak_bytes() - before) > extra_bytes:
        raise TooLargeError(f"{extra >> 20} MiB more at the peak; the limit is {extra_bytes >> 20} MiB")


def peak_bytes() -> int:
    """The largest resident set of this process; on Linux since the last bounded body began."""
    try:
        status = _STATUS.read_text()
        return int(status.split("VmHWM:", 1)[1].split(maxsplit=1)[0]) << 10
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


def _reset_peak() -> None:
    with suppress(OSError):
        _CLEAR.write_text("5")
