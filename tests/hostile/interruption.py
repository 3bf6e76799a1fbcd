"""Interrupts a run in the middle, for tests of how it resumes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


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


@contextmanager
def hurried() -> Iterator[None]:
    """In the block, a checkpoint is written after every segment."""
    from prequential.online import checkpoint

    always = {"FIRST_AFTER_S": 0.0, "COST": float("inf"), "BYTES_PER_S": float("inf")}
    with mock.patch.multiple(checkpoint, **always):
        yield
