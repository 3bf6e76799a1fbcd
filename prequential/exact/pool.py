"""Threads for independent pieces of exact work.

Each kernel runs in one thread. Complete pieces of work run in parallel: parts of the rows, or the updates of different
matrices. No two pieces add to the same sum, so neither the number of threads nor their order can change a bit. Waiting threads
sleep. OpenMP's threads spin in barriers instead, and two busy programs then slowed this one 10 to 40 times (docs/LOG.md).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MAX_DEFAULT_THREADS = 8


def available_threads(n_processes: int = 1) -> int:
    """Threads for each of `n_processes` equal processes that share the processors of this one: 1 to MAX_DEFAULT_THREADS."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, n // n_processes), MAX_DEFAULT_THREADS)


class Pool:
    """`n_threads` threads, including the calling thread. Creating a pool switches torch's own threads off permanently."""

    def __init__(self, n_threads: int) -> None:
        import torch

        torch.set_num_threads(1)
        self.n_threads = n_threads
        self._executor = (
            ThreadPoolExecutor(n_threads - 1, "prequential", initializer=torch.set_num_threads, initargs=(1,))
            if n_threads > 1
            else None
        )
        self._queue: list[tuple[Future[None], Callable[[], None]]] = []

    def pieces(self, n: int) -> list[slice]:
        """range(n) cut into at most n_threads contiguous pieces of about equal size, none empty if n > 0."""
        count = max(1, min(self.n_threads, n))
        return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]

    def map(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        """Calls `work` on every item in parallel and returns when all calls are done. Raises the first error."""
        if self._executor is None or len(items) == 1:
            for item in items:
                work(item)
            return
        futures = [self._executor.submit(work, item) for item in items[1:]]
        try:
            work(items[0])
        finally:
            for future in futures:
                future.exception()  # wait for all calls, also after an error
        for future in futures:
            future.result()

    def start(self, work: Callable[[], None]) -> None:
        """Queues a piece of work. It runs in another thread, or in `finish` if no thread is free; with one thread it runs now."""
        if self._executor is None:
            work()
        else:
            self._queue.append((self._executor.submit(work), work))

    def finish(self) -> None:
        """Returns when all queued work is done. The calling thread runs the pieces that no thread has begun, the newest first."""
        queue, self._queue = self._queue, []
        for future, work in reversed(queue):
            if future.cancel():
                work()
        for future, _ in queue:
            if not future.cancelled():
                future.result()
