"""A CUDA device that is none: its tensors lie on the host under another name, and what a real one would refuse, is refused.

Within `pretended()` every torch operation of this thread is looked at: tensors of both places must not meet (but for numbers,
which have no dimensions), numpy sees none of the device's, and `torch._int_mm` wants the shapes and layouts that the real library
has kernels for. What is computed, is computed: bits can be compared. Rounding of a real device is not shown by this.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA = torch.device("cuda:0")
TENSOR = torch.Tensor
MARK = "_pretended"
DEVICE_OF, IS_CUDA = TENSOR.device.__get__, TENSOR.is_cuda.__get__  # type: ignore[attr-defined]
MOVES = {
    "to",
    "cpu",
    "cuda",
    "__get__",
    "numpy",
    "tolist",
    "item",
    "__float__",
    "__int__",
    "__bool__",
    "__index__",
    "copy_",
}


class MixedPlacesError(RuntimeError):
    """Tensors of both places met."""


def is_there(x: Any) -> bool:
    return isinstance(x, TENSOR) and getattr(x, MARK, False)


def _marked(result: Any) -> Any:
    def mark(x: Any) -> Any:
        if isinstance(x, TENSOR):
            setattr(x, MARK, True)
        return x

    return tree_map(mark, result)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda"


class _Pretended(TorchFunctionMode):
    n_operations = 0  # on the device, by all threads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func == DEVICE_OF:
            return CUDA if is_there(args[0]) else torch.device("cpu")
        if func == IS_CUDA:
            return is_there(args[0])
        if name == "to" and isinstance(args[0], TENSOR):
            return self._moved(args, kwargs)
        if name == "cpu":
            return args[0].clone() if is_there(args[0]) else args[0]
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, TENSOR)]
        there = [is_there(x) for x in tensors]
        if name == "numpy" and any(there):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if name == "copy_":
            func(*args, **kwargs)
            return args[0]
        if any(there) and name not in MOVES:
            _Pretended.n_operations += 1
            alone = [x for x in tensors if not is_there(x) and x.dim()]
            if alone:
                raise MixedPlacesError(f"{name}: {[tuple(x.shape) for x in alone]} lie on the host")
            if name == "_int_mm":
                _check_int_mm(*args)
        goes_there = any(there)
        if "device" in kwargs:
            goes_there = _is_cuda(kwargs.pop("device"))
        result = func(*args, **kwargs)
        return _marked(result) if goes_there else result

    def _moved(self, args: Any, kwargs: Any) -> Any:
        rest = [x for x in args[1:] if not isinstance(x, (str, torch.device))]
        device = next((x for x in args[1:] if isinstance(x, (str, torch.device))), kwargs.pop("device", None))
        goes_there = is_there(args[0]) if device is None else _is_cuda(device)
        result = args[0].to(*rest, **kwargs) if rest or kwargs else args[0]
        if goes_there == is_there(args[0]):
            return _marked(result) if goes_there else result
        result = result.clone()
        return _marked(result) if goes_there else result


def _check_int_mm(a: torch.Tensor, b: torch.Tensor) -> None:
    (m, k), n = a.shape, b.shape[1]
    if m <= 16 or k % 8 or n % 8:
        raise RuntimeError(f"_int_mm: {m} x {k} x {n} is refused")
    if not a.is_contiguous() or not b.t().is_contiguous():
        raise RuntimeError("_int_mm: CUBLAS_STATUS_NOT_SUPPORTED")


class _Threads(ThreadPoolExecutor):
    """Threads in which torch sees the device, too."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        def pretending() -> Any:
            with _Pretended():
                return work(*args, **kwargs)

        return super().submit(pretending)


@contextmanager
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Pretended]:
    """torch sees a CUDA device, in this thread and in those in which a learner takes its steps."""
    _Pretended.n_operations = 0
    with monkeypatch.context() as patch, _Pretended() as mode:
        patch.setattr("prequential.model.learner.ThreadPoolExecutor", _Threads)
        patch.setattr(torch.cuda, "get_device_name", lambda: "pretended")
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "synchronize", lambda device=None: None)
        yield mode
