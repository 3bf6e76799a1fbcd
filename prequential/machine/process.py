"""What a call changes in its process while it runs, and leaves as it was: warning filters, settings of torch, and signals.

Some of these belong to the whole process, and calls of several threads may overlap: the first changes them, the last restores.
"""

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from threading import Lock, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGUSR1)  # that end a run


class _Overlapping:
    """A context that overlapping calls share: the first one enters it, and the last one leaves it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._lock, self._n_inside, self._stack = make, Lock(), 0, ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._n_inside == 0:
                self._stack.enter_context(self._make())
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if self._n_inside == 0:
                    self._stack.close()


@contextmanager
def _process_kept() -> Iterator[None]:
    torch, restore_precision = sys.modules.get("torch"), _precision()
    n_before = torch.get_num_threads() if torch else None
    try:
        with warnings.catch_warnings():
            yield
    finally:
        if torch := sys.modules.get("torch"):
            n_before = n_before or n_torch_threads()
            if n_before != torch.get_num_threads():
                torch.set_num_threads(n_before)
        restore_precision()


@contextmanager
def _float32() -> Iterator[None]:
    """The body makes float32 tensors where it states no type."""
    torch = sys.modules["torch"]
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)


process_kept = _Overlapping(_process_kept)  # warning filters, torch's threads and its precision of products
_float32_kept = _Overlapping(_float32)


@contextmanager
def plain_torch() -> Iterator[None]:
    """The body computes as if the caller had set nothing in torch: no default type or device, no autocast, no inference mode."""
    with ExitStack() as stack:
        if torch := sys.modules.get("torch"):
            stack.enter_context(_float32_kept())  # the others are settings of this thread
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.no_grad())
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def engine_call() -> Iterator[None]:
    """A call of this program's own learners: `process_kept` and `plain_torch`."""
    with process_kept(), plain_torch():
        yield


@cache
def n_torch_threads() -> int:
    """Torch's number of threads before a pool first switched them off. Pools call this first; torch is imported."""
    n: int = sys.modules["torch"].get_num_threads()
    return n


def _precision() -> Callable[[], None]:
    """A function that sets again torch's precision of float32 products, in the older or newer of its two ways."""
    torch = sys.modules.get("torch")
    if not torch:
        return lambda: None
    try:
        return partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    except RuntimeError:  # the caller has set it in the newer way; then the older one must not be asked
        places = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
        values = [place.fp32_precision for place in places]

        def restore() -> None:
            for place, value in zip(places, values, strict=True):
                place.fp32_precision = value

        return restore


# ---- Ctrl-C and termination


class HeldSignals:
    """The signal that came while signals were held. A second one acts at once, except SIGXCPU, which comes each second.

    Within a second it counts as the same: a terminal and Slurm signal a process and its parent, which passes it on.
    """

    def __init__(self) -> None:
        self.over = False
        self.pending: Callable[[], Any] | None = None
        self.since = 0.0

    def deliver(self) -> None:
        """Does now what the pending signal asks for, which raises its exception; nothing without one."""
        deliver, self.pending = self.pending, None
        if deliver:
            deliver()

    def hold(self, original: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
        if self.pending and (number == signal.SIGXCPU or monotonic() < self.since + 1):
            return
        if self.over or self.pending:
            original(number, frame)
        self.pending, self.since = None if self.over else partial(original, number, None), monotonic()


@contextmanager
def held() -> Iterator[HeldSignals]:
    """While the body runs, signals wait for `deliver`, which it calls where the run can be saved.

    One that still waits at its end is delivered then, unless the body failed. Only those are held that would raise an exception,
    and only in the main thread, to which Python delivers them.
    """
    signals, before = HeldSignals(), {}
    if current_thread() is main_thread():
        for number in SIGNALS:
            if callable(original := signal.getsignal(number)):
                before[number] = signal.signal(number, partial(signals.hold, original))
    try:
        yield signals
    finally:
        # A run that was left unfinished may be collected in another thread, which can set no handlers.
        signals.over = True
        if current_thread() is main_thread():
            for number, original in before.items():
                signal.signal(number, original)
    signals.deliver()
