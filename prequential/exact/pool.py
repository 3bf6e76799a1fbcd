"""Threads for independent pieces of exact work.

Each kernel runs in one thread. Complete pieces of work run in parallel: parts of the rows, or the updates of different
matrices. No two pieces add to the same sum, so neither the number of threads nor their order can change a bit. Waiting threads
sleep. OpenMP's threads spin in barriers instead, and two busy programs then slowed this one 10 to 40 times (docs/LOG.md).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

T = TypeVar("T")

MAX_DEFAULT_THREADS = 8


def available_threads(n_processes: int = 1) -> int:
    """Threads for each of `n_processes` equal processes that share the processors of this one: 1 to MAX_DEFAULT_THREADS."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, n // n_processes), MAX_DEFAULT_THREADS)


class _Piece:
    """A piece of work. The first thread that calls `run` does it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._begun = work, Lock()
        self.done: Future[None] = Future()

    def run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as error:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


class Pool:
    """`n_threads` threads. Creating a pool switches torch's own threads off permanently.

    One of them calls `map`, `start` and `finish`. With `with_helper`, another one has work of its own, and computes pieces
    only in `help`, while it waits. The pool has the others.
    """

    def __init__(self, n_threads: int, *, with_helper: bool = False) -> None:
        import torch

        torch.set_num_threads(1)
        self.n_threads, self._n_workers = n_threads, n_threads - with_helper
        self._executor = (
            ThreadPoolExecutor(self._n_workers - 1, "prequential", initializer=torch.set_num_threads, initargs=(1,))
            if self._n_workers > 1
            else None
        )
        self._for_helper: SimpleQueue[_Piece | None] | None = SimpleQueue() if with_helper else None
        self._started: list[_Piece] = []

    def pieces(self, n: int) -> list[slice]:
        """range(n) cut into contiguous pieces of about equal size, at most one for each thread but the helper; none is empty."""
        count = max(1, min(self._n_workers, n))
        return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]

    def map(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        """Calls `work` on every item in parallel and returns when all calls are done. Raises the first error."""
        others = [self._offered(partial(work, item)) for item in items[1:]]
        try:
            work(items[0])
        finally:
            _wait_for(others)
        for piece in others:
            piece.done.result()

    def start(self, work: Callable[[], None]) -> None:
        """Offers a piece of work to the other threads; without others it runs now."""
        if self.n_threads == 1:
            work()
        else:
            self._started.append(self._offered(work))

    def finish(self) -> None:
        """Returns when all started work is done. The calling thread runs what no other has begun, the newest first."""
        started, self._started = self._started, []
        _wait_for(started)
        for piece in started:
            piece.done.result()

    def help(self, step: "Future[None]") -> None:
        """Computes pieces until the step, which offers them in another thread, is done. Raises its error."""
        if self._for_helper:
            step.add_done_callback(lambda _: self._offer_to_helper(None))
            while piece := self._for_helper.get():
                piece.run()
        step.result()

    def _offered(self, work: Callable[[], None]) -> _Piece:
        piece = _Piece(work)
        if self._executor:
            self._executor.submit(piece.run)
        self._offer_to_helper(piece)
        return piece

    def _offer_to_helper(self, piece: _Piece | None) -> None:
        if self._for_helper:
            self._for_helper.put(piece)


def _wait_for(pieces: Sequence[_Piece]) -> None:
    """Runs those that no thread has begun, the newest first, and waits for the others, also after an error."""
    for piece in reversed(pieces):
        piece.run()
    for piece in pieces:
        piece.done.exception()
