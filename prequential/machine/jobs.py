"""Tasks, here or in other processes: the part of an executor that this program uses, and `Jobs`, an executor of this machine."""

import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol

from prequential.errors import PrequentialError
from prequential.files.claims import ClaimedError, is_claimed
from prequential.machine.process import SIGNALS

POLL_S = 3.0  # between two looks at work that other processes do
PATIENCE_S = 10  # for a process that was told to end


class Executor(Protocol):
    """An executor of concurrent.futures, Dask, submitit, loky, mpi4py or others. This program calls only this method."""

    def submit(self, function: Any, /, *arguments: Any) -> Any:
        """An object with a method `result`, which waits until the function, of a module, has been called."""


def results(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    executor: Executor | None,
    open_progress: Callable[[int], Any],
) -> Iterator[tuple[int, Any]]:
    """The number of each task, which is arguments of `function`, with its result or error, in order.

    executor: what calls the function, of a module, for each task in order. None: this thread, with one more argument, a function
    that opens the progress of the task. What another process has claimed is called again when that claim has ended.
    """
    waiting, claims = dict(enumerate(tasks)), dict[int, Path]()
    while waiting:
        free = {i: task for i, task in waiting.items() if not (i in claims and is_claimed(claims[i]))}
        if executor:
            calls = {i: executor.submit(_called, function, *task).result for i, task in free.items()}
        else:
            calls = {i: partial(_called, function, *task, partial(open_progress, i)) for i, task in free.items()}
        for i, call in calls.items():
            try:
                result = call()
            except Exception as error:  # the caller reports it
                result = error
            if isinstance(result, ClaimedError):
                claims[i] = result.path
                continue
            del waiting[i]
            yield i, result
        if waiting:
            if waiting.keys() & free.keys():
                logging.getLogger(__name__).warning(
                    "waiting for other processes: they do %d of the tasks", len(waiting)
                )
            time.sleep(POLL_S)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns, or a ClaimedError: some executors change what is raised."""
    try:
        return function(*arguments)
    except ClaimedError as claim:
        return claim


class Jobs(ThreadPoolExecutor):
    """Calls each function in a new process, N at a time. One that dies fails its own task. None outlives the body."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self._submitted = list[Future[Any]]()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        resource_tracker.ensure_running()  # multiprocessing's own process: a signal to the whole group does not end it
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def submit(self, function: Any, /, *arguments: Any) -> Any:  # type: ignore[override]
        self._submitted.append(super().submit(_alone, function, arguments))
        return self._submitted[-1]

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Ends each process once: a second signal would act at once. What they say about resuming becomes a note of the error."""
        self.shutdown(wait=False, cancel_futures=True)
        ended = set[int | None]()
        while not all(each.done() for each in self._submitted):
            for process in multiprocessing.active_children():
                if process.pid not in ended:
                    process.terminate()
                    ended.add(process.pid)
            time.sleep(0.1)
        if error:
            for each in [each for each in self._submitted if not each.cancelled()]:
                error.__notes__ = [*getattr(error, "__notes__", []), *getattr(each.exception(), "__notes__", [])]


def _alone(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads
    with ProcessPoolExecutor(1, spawn, _end_on_signals, max_tasks_per_child=1) as pool:
        try:
            return pool.submit(_once, function, arguments).result()
        except (BrokenExecutor, SystemExit) as error:
            ended = PrequentialError("its process was ended, perhaps because the system lacked memory")
            ended.__notes__ = getattr(error, "__notes__", [])
            raise ended from error


def _end_on_signals() -> None:
    def end(number: int, _: Any) -> None:
        _ignore_signals()  # the parent repeats what was sent to the whole group
        signal.alarm(PATIENCE_S)  # Python drops an exception that is raised in a callback from C
        raise SystemExit(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup does
            signal.signal(number, end)


def _once(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    finally:
        _ignore_signals()  # the process ends by itself


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)  # SIG_IGN would make Python print what came in the same moment
