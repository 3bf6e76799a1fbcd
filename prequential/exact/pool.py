"""Threads for independent pieces of exact work.

Kernels run in one thread each; what runs side by side are whole pieces: halves of the rows, or the updates of different
matrices. No sum is shared, so neither the number of threads nor their order can change a bit. Threads that wait, sleep:
OpenMP's spin in barriers instead, and two busy programs then slowed this one 10 to 40 times (docs/LOG.md).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")

MAX_DEFAULT_THREADS = 8


def available_threads(n_processes: int = 1) -> int:
    """The processors this process may use, or its part of them beside others alike; 1 or more, at most MAX_DEFAULT_THREADS."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, n // n_processes), MAX_DEFAULT_THREADS)


class Pool:
    """`n_threads` threads, the caller's own among them; torch's own threading is switched off for good."""

    def __init__(self, n_threads: int) -> None:
        torch.set_num_threads(1)
        self.n_threads = n_threads
        self._executor = (
            ThreadPoolExecutor(n_threads - 1, "prequential", initializer=torch.set_num_threads, initargs=(1,))
            if n_threads > 1
            else None
        )
        self._queue: list[tuple[Future[None], Callable[[], None]]] = []

    def pieces(self, n: int) -> list[slice]:
        """range(n) cut into at most n_threads contiguous non-empty pieces."""
        count = max(1, min(self.n_threads, n))
        return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]

    def map(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        """Calls work on every item, side by side; returns when all are done. The first error is raised."""
        if self._executor is None or len(items) == 1:
            for item in items:
                work(item)
            return
        futures = [self._executor.submit(work, item) for item in items[1:]]
        try:
            work(items[0])
        finally:
            for future in futures:
                future.exception()  # wait for all, whatever happens
        for future in futures:
            future.result()

    def start(self, work: Callable[[], None]) -> None:
        """Begins a piece of work beside the caller, or at the latest in `finish`."""
        if self._executor is None:
            work()
        else:
            self._queue.append((self._executor.submit(work), work))

    def finish(self) -> None:
        """Returns when everything started is done; the caller takes what no thread has begun, latest first."""
        queue, self._queue = self._queue, []
        for future, work in reversed(queue):
            if future.cancel():
                work()
        for future, _ in queue:
            if not future.cancelled():
                future.result()
