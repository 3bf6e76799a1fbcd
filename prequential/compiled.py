"""How kernels are compiled: by numba, with a cache on disk next to the source file of each kernel.

Design decisions:

- No fast-math. LLVM then neither reorders nor contracts operations: `a * b + c` rounds twice, as it does in plain torch.
- One thread per call, without the interpreter lock. The caller decides what runs in parallel (exact/pool.py).
- The import deletes stale kernels. numba's cache checks only the source file of the kernel itself, but constants and helpers
  of other files are compiled into it. So every cached kernel that is older than any kernel source is deleted.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

Array = np.ndarray

PACKAGE = Path(__file__).parent
KERNEL_SOURCES = (
    "exact/*.py",
    "model/gpt/*.py",
    "model/mixer/*.py",
    "model/decoding.py",
    "model/config.py",
    "model/hashing.py",
    "codecs/bit_coder.py",
    "compiled.py",
)


def _sources() -> Iterator[Path]:
    for pattern in KERNEL_SOURCES:
        yield from PACKAGE.glob(pattern)


def _delete_stale_kernels() -> None:
    sources = list(_sources())
    newest = max(source.stat().st_mtime for source in sources)
    for folder in {source.parent for source in sources}:
        for cached in (folder / "__pycache__").glob("*.nb[ic]"):
            with suppress(OSError):
                if cached.stat().st_mtime < newest:
                    cached.unlink()


_delete_stale_kernels()
# Python calls a `kernel`; kernels call the others. An `inlined` function becomes part of each caller in LLVM. A `merged` one
# becomes part of it before types are inferred, so a function with one caller is compiled once and not once for each level of
# calls. But inferring types takes longer than in proportion to the size of a function, so the largest parts of the mixer are
# `inlined`. Neither allocates, so neither counts references to arrays; that counting took a third of the time of a small mixer.
# An `inlined` function that Python calls is interpreted. numba's wrappers, of these for Python and of all functions for C, would
# take a quarter of the time to compile a mixer.
# numba infers all types at run time. For type checkers the result is Any, so calls with starred arguments are accepted.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN: dict[str, Any] = _OPTIONS | {"_nrt": False}
_INLINED: dict[str, Any] = _WITHIN | {"forceinline": True}
kernel: Any = numba.njit(**_OPTIONS)
inlined: Any = register_jitable(**_INLINED)
merged: Any = numba.njit(**_WITHIN | {"inline": "always"})
# `inlined`, but not cached: both GPT and mixer call it, with other types. On a first run two processes compile these two
# (online/first_run.py), and numba's cache may mix up types of one function that two processes save at the same time.
shared: Any = register_jitable(**_INLINED | {"cache": False})
