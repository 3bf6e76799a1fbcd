"""How kernels are compiled: by numba, into a folder of our own (kernel_cache.py). All other files import numba from here.

Design decisions:

- No fast-math. LLVM then neither reorders nor contracts operations: `a * b + c` rounds twice, as it does in plain torch.
- One thread per call, without the interpreter lock. The caller decides what runs in parallel (exact/pool.py).
- Only kernels are kept on disk. What they call is compiled into them.
- numba would obey a file .numba_config.yaml in the current folder, which may name code to run. It is imported without that.
"""

# ruff: noqa: E402  # numba is imported in its own way first
import functools
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from prequential.errors import ConfigError


def _import_numba() -> None:
    """Imports numba without its settings file, which it reads if it can import yaml. Raises ConfigError."""
    absent = object()
    yaml: Any = sys.modules.get("yaml", absent)
    sys.modules["yaml"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is a file and no yaml
            import numba.core.config
    except ValueError as error:
        raise ConfigError(f"numba cannot start: {error} Look at the variables NUMBA_* of the environment") from error
    finally:
        del sys.modules["yaml"]
        if yaml is not absent:
            sys.modules["yaml"] = yaml
    numba.core.config._config_fname = os.devnull  # it looks again at each compilation


if "numba" not in sys.modules:
    _import_numba()

import numba
from numba.core import cgutils, event, registry, types
from numba.extending import intrinsic, overload, register_jitable

__all__ = [
    "Array", "cgutils", "cpu_target", "event", "inlined", "intrinsic", "kernel", "merged", "overload", "sharing_kernel", "span",
    "types",
]  # fmt: skip

Array = np.ndarray
cpu_target: Any = registry.cpu_target

# Python calls a `kernel`; kernels call the others. An `inlined` function becomes part of each caller in LLVM. A `merged` one
# becomes part of it before types are inferred, so it is compiled once; but inferring types takes more than in proportion to the
# size of a function, so the largest parts of the mixer are `inlined`. Neither allocates, so neither counts references to arrays.
# An `inlined` function that Python calls is interpreted. For type checkers the result is Any.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN: dict[str, Any] = _OPTIONS | {"_nrt": False}
inlined: Any = register_jitable(**_WITHIN | {"forceinline": True})
merged: Any = numba.njit(**_WITHIN | {"inline": "always"})


@inlined
def span(first: int, stop: int) -> Any:
    """range(first, stop) of numbers that are not negative. As indices they are not checked for that, and loops are vectorised."""
    return range(np.uint64(first), np.uint64(stop))


def kernel(function: Any, options: dict[str, Any] = _OPTIONS) -> Any:
    """The function, compiled at its first call with arguments of each types, and kept for later runs."""
    compiled = numba.njit(**options)(function)
    if compiled is function:  # with NUMBA_DISABLE_JIT=1
        return _quiet(function)
    with suppress(ImportError):  # the zipped decoder does without it
        from prequential.machine.kernel_cache import KernelCache

        compiled._cache = KernelCache(function)
    return compiled


def sharing_kernel(function: Any) -> Any:
    """A kernel whose arrays other threads use at the same time. It allocates nothing: counts of references are not touched."""
    return kernel(function, _WITHIN | {"no_cfunc_wrapper": True})


def _quiet(function: Any) -> Any:
    """The interpreted kernel without numpy's warnings of integers that wrap. A caller that asks for an error gets one."""

    @functools.wraps(function)
    def interpreted(*arguments: Any) -> Any:
        over = np.geterr()["over"]
        with np.errstate(over="ignore" if over == "warn" else over):
            return function(*arguments)

    return interpreted
