"""Interrupts a run in the middle, for tests of how it resumes."""

from collections.abc import Callable
from typing import Any


class InterruptionError(Exception):
    """Raised instead of Ctrl-C."""


def stopping_at(n_reports: int) -> Callable[[Any, int], None]:
    """An on_progress that interrupts the run at its n-th report."""
    left = [n_reports]

    def on_progress(done: Any, n_bytes: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise InterruptionError

    return on_progress
