"""Ctrl-C and termination, held until a run has reached a place where it can be saved.

    with held() as held_signals:
        ...                          # a signal only sets held_signals.pending
        held_signals.deliver()       # at a safe place: does what the signal would have done

A second signal acts at once; but SIGXCPU comes again with each second of CPU time, so only its first counts. Only signals that
would raise an exception are held. Outside the main thread nothing changes: Python delivers signals to the main thread.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")


class HeldSignals:
    """The signal that came while signals were held, if any."""

    def __init__(self) -> None:
        self.over = False
        self._pending: tuple[Callable[[int, FrameType | None], Any], int] | None = None

    @property
    def pending(self) -> bool:
        return self._pending is not None

    def deliver(self) -> None:
        """Does now what the pending signal asks for, which raises its exception; nothing without one."""
        if self._pending:
            (handler, number), self._pending = self._pending, None
            handler(number, None)

    def handler(self, original: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
        def hold(number: int, frame: FrameType | None) -> None:
            if self._pending and number == signal.SIGXCPU:
                return
            if self.over or self._pending:
                original(number, frame)
            self._pending = None if self.over else (original, number)

        return hold


@contextmanager
def held() -> Iterator[HeldSignals]:
    """While the body runs, signals wait. One that still waits at its end is delivered then, unless the body failed."""
    signals, before = HeldSignals(), {}
    if threading.current_thread() is threading.main_thread():
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and callable(original := signal.getsignal(number)):
                before[number] = original
                signal.signal(number, signals.handler(original))
    try:
        yield signals
    finally:
        # A run that was left unfinished may be collected in another thread, which can set no handlers.
        signals.over = True
        if threading.current_thread() is threading.main_thread():
            for number, original in before.items():
                signal.signal(number, original)
    signals.deliver()
