"""How kernels are compiled: by numba, into a folder of our own (kernel_cache.py). All other files import numba from here.

Design decisions:

- No fast-math. LLVM then neither reorders nor contracts operations: `a * b + c` rounds twice, as it does in plain torch.
- One thread per call, without the interpreter lock. The caller decides what runs in parallel (exact/pool.py).
- Only kernels are kept on disk. What they call is compiled into them.
- numba would obey a file .numba_config.yaml in the current folder, which may name code to run. It is imported without that.
"""

import os
import sys
import warnings
from typing import Any

import numpy as np

from prequential.kernel_cache import KernelCache

if "numba" not in sys.modules:
    _absent = object()
    _yaml = sys.modules.get("yaml", _absent)
    sys.modules["yaml"] = None  # type: ignore[assignment]  # numba reads its settings file if it can import yaml
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it cannot
            import numba.core.config
    finally:
        if _yaml is _absent:
            del sys.modules["yaml"]
        else:
            sys.modules["yaml"] = _yaml  # type: ignore[assignment]
    numba.core.config._config_fname = os.devnull  # at each compilation it looks again

import numba
from numba.core import cgutils, event, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, register_jitable

__all__ = [
    "Array", "cgutils", "cpu_target", "event", "inlined", "intrinsic", "kernel", "merged", "types"
]  # fmt: skip

Array = np.ndarray

# Python calls a `kernel`; kernels call the others. An `inlined` function becomes part of each caller in LLVM. A `merged` one
# becomes part of it before types are inferred, so a function with one caller is compiled once and not once for each level of
# calls. But inferring types takes longer than in proportion to the size of a function, so the largest parts of the mixer are
# `inlined`. Neither allocates, so neither counts references to arrays; that counting took a third of the time of a small mixer.
# An `inlined` function that Python calls is interpreted. numba's wrappers, of these for Python and of all functions for C, would
# take a quarter of the time to compile a mixer.
# numba infers all types at run time. For type checkers the result is Any, so calls with starred arguments are accepted.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN: dict[str, Any] = _OPTIONS | {"_nrt": False}
inlined: Any = register_jitable(**_WITHIN | {"forceinline": True})
merged: Any = numba.njit(**_WITHIN | {"inline": "always"})


def kernel(function: Any) -> Any:
    """The function, compiled at its first call with arguments of each types, and kept for later runs."""
    compiled = numba.njit(**_OPTIONS)(function)
    if compiled is not function:  # with NUMBA_DISABLE_JIT=1, kernels are interpreted
        compiled._cache = KernelCache(function)
    return compiled
