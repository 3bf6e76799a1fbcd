"""Threads for independent pieces of exact work. No two pieces add to the same sum, so threads and their order change no bit.

Waiting threads sleep. OpenMP's threads spin in barriers instead, and two busy programs then slowed this one 10 to 40 times
(dev/LOG.md).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from prequential.machine.process import n_torch_threads

T = TypeVar("T")


class _Piece(Future[None]):
    """A piece of work. The first thread that calls `run` does it."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = [work]

    def run(self) -> None:
        try:
            work = self._work.pop()
        except IndexError:  # another thread does it
            return
        try:
            work()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(None)


class Pool:
    """`n_threads` threads. Creating a pool switches torch's own threads off; `process_kept` switches them on again.

    The caller is one of them. with_helper: another one works only while a thread that codes waits in `wait_for`, so that coding
    and the pool together have n_threads busy threads.
    """

    def __init__(self, n_threads: int, *, with_helper: bool = False) -> None:
        import torch

        n_torch_threads()
        torch.set_num_threads(1)
        self.n_threads, self._n_workers = n_threads, n_threads - with_helper
        self._executor: ThreadPoolExecutor | None = None
        if self._n_workers > 1:
            self._executor = ThreadPoolExecutor(self._n_workers - 1, "prequential", torch.set_num_threads, (1,))
        self._helper = ThreadPoolExecutor(1, "prequential-helper", torch.set_num_threads, (1,)) if with_helper else None
        self._for_helper = SimpleQueue[_Piece | None]()

    def pieces(self, n: int) -> list[slice]:
        """range(n) in contiguous, about equal pieces, at most one for each thread but the helper. None is empty if n > 0."""
        count = max(1, min(self._n_workers, n))
        return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]

    def map(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        """Calls `work` on every item in parallel and returns when all calls are done. Raises the first error."""
        pieces = [_Piece(partial(work, item)) for item in items]
        for piece in pieces[1:]:
            if self._executor:
                self._executor.submit(piece.run)
            self._for_helper.put(piece)
        for piece in (*pieces[:1], *reversed(pieces[1:])):  # those that no other thread has begun
            piece.run()
        for piece in pieces:  # all, also after an error
            piece.exception()
        with suppress(Empty):  # what it did not take: among large tensors, small objects would keep freed memory apart
            while True:
                self._for_helper.get_nowait()
        for piece in pieces:
            piece.result()

    def wait_for(self, step: "Future[None]") -> None:
        """Waits for a step that another thread computes with this pool, and raises its error. The helper works meanwhile.

        The waiting thread itself computes nothing: an interruption would leave a piece that is begun and never done.
        """
        helped = self._helper.submit(self._help) if self._helper else step
        step.add_done_callback(lambda _: self._for_helper.put(None))
        try:
            step.result()
        finally:
            helped.exception()

    def _help(self) -> None:
        while piece := self._for_helper.get():
            piece.run()
