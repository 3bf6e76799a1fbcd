"""A simulated CUDA device. Its tensors are on the host with a mark, and it refuses what a real device refuses.

Within `simulated_cuda()` every torch operation of this thread is checked. Tensors of host and device must not meet (except
tensors without dimensions). numpy cannot read tensors of the device. `torch._int_mm` accepts only the shapes and layouts for
which the real library has kernels. Operations are really computed, so bits can be compared. The rounding of a real device is not
simulated.

Operations that are captured as a graph are not computed: tensors keep their earlier values, and new ones hold arbitrary values. A
replay computes the same operations on the same memory. An operation that waits for the device or copies from the host cannot be
captured.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from prequential.exact import matmul

CUDA = torch.device("cuda:0")
TENSOR = torch.Tensor
MARK = "_on_simulated_device"
DEVICE_OF, IS_CUDA = TENSOR.device.__get__, TENSOR.is_cuda.__get__  # type: ignore[attr-defined]
MOVES = {
    "to", "cpu", "cuda", "__get__", "numpy", "tolist", "item", "__float__", "__int__", "__bool__", "__index__", "copy_",
}  # fmt: skip
WAITS = {"nonzero", "unique", "masked_select", "equal", "allclose"} | MOVES - {"to", "copy_", "__get__"}


class MixedDevicesError(RuntimeError):
    """An operation on tensors of the host and of the device."""


def is_on_device(x: Any) -> bool:
    return isinstance(x, TENSOR) and getattr(x, MARK, False)


def _marked(result: Any) -> Any:
    def mark(x: Any) -> Any:
        if isinstance(x, TENSOR):
            setattr(x, MARK, True)
        return x

    return tree_map(mark, result)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda"


class _SimulatedCuda(TorchFunctionMode):
    n_operations = 0  # on the device, by all threads; those of a replayed graph do not count
    captures = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if _SimulatedCuda.captures and name != "__get__":
            _check_captured(name, args, kwargs)
        if func == DEVICE_OF:
            return CUDA if is_on_device(args[0]) else torch.device("cpu")
        if func == IS_CUDA:
            return is_on_device(args[0])
        if name == "to" and isinstance(args[0], TENSOR):
            return self._moved(args, kwargs)
        if name == "cpu":
            return args[0].clone() if is_on_device(args[0]) else args[0]
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, TENSOR)]
        on_device = [is_on_device(x) for x in tensors]
        if name == "numpy" and any(on_device):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if name == "copy_":
            func(*args, **kwargs)
            return args[0]
        if any(on_device) and name not in MOVES:
            _SimulatedCuda.n_operations += 1
            alone = [x for x in tensors if not is_on_device(x) and x.dim()]
            if alone:
                raise MixedDevicesError(f"{name}: {[tuple(x.shape) for x in alone]} lie on the host")
            if name == "_int_mm":
                _check_int_mm(*args)
        to_device = any(on_device)
        if "device" in kwargs:
            to_device = _is_cuda(kwargs.pop("device"))
        result = func(*args, **kwargs)
        return _marked(result) if to_device else result

    def _moved(self, args: Any, kwargs: Any) -> Any:
        rest = [x for x in args[1:] if not isinstance(x, (str, torch.device))]
        device = next((x for x in args[1:] if isinstance(x, (str, torch.device))), kwargs.pop("device", None))
        to_device = is_on_device(args[0]) if device is None else _is_cuda(device)
        result = args[0].to(*rest, **kwargs) if rest or kwargs else args[0]
        if to_device == is_on_device(args[0]):
            return _marked(result) if to_device else result
        result = result.clone()
        return _marked(result) if to_device else result


def _check_captured(name: str, args: Any, kwargs: Any) -> None:
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, TENSOR)]
    on_device = [is_on_device(x) for x in tensors]
    goes = [_is_cuda(x) for x in (*args[1:], *kwargs.values()) if isinstance(x, torch.device) or x in ("cpu", "cuda")]
    counts = name in ("__getitem__", "__setitem__") and any(x.dtype == torch.bool for x in tensors[1:])
    if any(on_device) and (counts or name in WAITS or (name == "to" and False in goes)):
        raise RuntimeError(f"{name}: waiting is not permitted when stream is capturing")
    if (True in goes and False in on_device) or (name == "copy_" and len(set(on_device)) == 2):
        raise RuntimeError(f"{name}: a copy from the host is not permitted when stream is capturing")


class _Recorder(TorchDispatchMode):
    """Records operations and the memory that they write. `undo` restores the earlier contents."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self._new: dict[int, torch.Tensor] = {}
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = [
            x for x, a in zip(args, func._schema.arguments, strict=False) if a.alias_info and a.alias_info.is_write
        ]
        for tensor in written:
            address = tensor.untyped_storage().data_ptr()
            if address not in self._new and address not in self._before:
                storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                self._before[address] = storage, storage.clone()
        result = func(*args, **kwargs)
        results = [x for x in tree_flatten(result)[0] if isinstance(x, TENSOR)]
        if not func.is_view:
            old = {x.untyped_storage().data_ptr() for x in tree_flatten((args, kwargs))[0] if isinstance(x, TENSOR)}
            self._new |= {
                x.untyped_storage().data_ptr(): x for x in results if x.untyped_storage().data_ptr() not in old
            }
            self.operations.append((func, args, kwargs, results))
        return result

    def undo(self) -> None:
        for storage, before in self._before.values():
            storage.copy_(before)
        for tensor in self._new.values():
            tensor.fill_(77)


class _Stream:
    """A stream whose operations run at once."""

    def record_event(self) -> object:
        return object()

    def wait_event(self, event: object) -> None:
        assert event is not None


_DEFAULT, _OF_THREAD = _Stream(), threading.local()


def _current_stream(device: Any = None) -> _Stream:
    return getattr(_OF_THREAD, "stream", _DEFAULT)


def _set_stream(stream: _Stream) -> None:
    _OF_THREAD.stream = stream


@contextmanager
def _on_stream(stream: _Stream) -> Iterator[None]:
    before = _current_stream()
    _set_stream(stream)
    try:
        yield
    finally:
        _set_stream(before)


class _Graph:
    n_replays = 0  # of all graphs

    def replay(self) -> None:
        _Graph.n_replays += 1
        with torch._C.DisableTorchFunction():
            for func, args, kwargs, results in self.operations:
                again = [x for x in tree_flatten(func(*args, **kwargs))[0] if isinstance(x, TENSOR)]
                for result, value in zip(results, again, strict=True):
                    if result.data_ptr() != value.data_ptr():
                        result.copy_(value)


@contextmanager
def _capturing(graph: _Graph, **_: Any) -> Iterator[None]:
    recorder, stream = _Recorder(), _current_stream()
    _SimulatedCuda.captures = True
    _OF_THREAD.stream = _Stream()
    try:
        with recorder:
            yield
    finally:
        _SimulatedCuda.captures = False
        with torch._C.DisableTorchFunction():
            recorder.undo()
    graph.operations = recorder.operations
    _OF_THREAD.stream = stream  # not after a failed capture: torch does not restore it either


def _check_int_mm(a: torch.Tensor, b: torch.Tensor) -> None:
    (m, k), n = a.shape, b.shape[1]
    if m <= 16 or k % 8 or n % 8:
        raise RuntimeError(f"_int_mm: {m} x {k} x {n} is refused")
    if not a.is_contiguous() or not b.t().is_contiguous():
        raise RuntimeError("_int_mm: CUBLAS_STATUS_NOT_SUPPORTED")


class _Threads(ThreadPoolExecutor):
    """Threads that see the simulated device, too."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        def simulating() -> Any:
            with _SimulatedCuda():
                return work(*args, **kwargs)

        return super().submit(simulating)


def is_capturing() -> bool:
    """Whether the simulated device captures a graph now."""
    return _SimulatedCuda.captures


def n_replays() -> int:
    """Replays of all graphs since `simulated_cuda` was entered."""
    return _Graph.n_replays


@contextmanager
def simulated_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[_SimulatedCuda]:
    """torch sees the simulated CUDA device, in this thread and in the threads where a learner takes its steps."""
    _SimulatedCuda.n_operations = _Graph.n_replays = 0
    with monkeypatch.context() as patch, _SimulatedCuda() as mode:
        patch.setattr("prequential.model.learner.ThreadPoolExecutor", _Threads)
        patch.setitem(matmul.TIMED_SHAPES, "cuda", (64, 64, 64))  # a processor takes seconds for a device's product
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        patch.setattr(torch.cuda, "set_device", lambda device: None)
        patch.setattr(torch.cuda, "get_device_name", lambda: "simulated")
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "synchronize", lambda device=None: None)
        patch.setattr(torch.cuda, "Stream", lambda device: _Stream())
        patch.setattr(torch.cuda, "current_stream", _current_stream)
        patch.setattr(torch.cuda, "set_stream", _set_stream)
        patch.setattr(torch.cuda, "stream", _on_stream)
        patch.setattr(torch.cuda, "current_blas_handle", lambda: 0)
        patch.setattr(torch.cuda, "CUDAGraph", _Graph)
        patch.setattr(torch.cuda, "graph", _capturing)
        yield mode
