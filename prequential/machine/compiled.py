"""How kernels are compiled: by numba, into a folder of our own (kernel_cache.py). All other files import numba from here.

Design decisions:

- No fast-math. LLVM then neither reorders nor contracts operations: `a * b + c` rounds twice, as it does in plain torch.
- One thread per call, without the interpreter lock. The caller decides what runs in parallel (exact/pool.py).
- Only kernels are kept on disk. What they call is compiled into them.
- numba's own pipeline compiles them, or a quicker one (quick_pipeline.py). The results are the same.
- numba would obey a file .numba_config.yaml in the current folder, which may name code to run. It is imported without that.
"""

# ruff: noqa: E402, F401  # numba is imported in its own way first; other files import parts of it from here
import functools
import gc
import os
import sys
import warnings
from typing import Any

import numpy as np

from prequential.errors import ConfigError
from prequential.machine.kernel_cache import KernelCache


def _import_numba() -> None:
    """Imports numba without its settings file, which it reads if it can import yaml. Raises ConfigError.

    With colorama, it would replace the standard streams, and write to a terminal at the end.
    """
    hidden: dict[str, Any] = {name: sys.modules.get(name) for name in ("yaml", "colorama")}
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is a file and no yaml
            import numba.core.config
    except ValueError as error:
        raise ConfigError(f"numba cannot start: {error} Look at the variables NUMBA_* of the environment") from error
    finally:
        for name, module in hidden.items():
            del sys.modules[name]
            sys.modules.update({name: module} if module else {})
    numba.core.config._config_fname = os.devnull  # it looks again at each compilation


if "numba" not in sys.modules:
    _import_numba()

import numba
import numba.extending
from numba.core import cgutils, event, registry, types
from numba.extending import overload, register_jitable

Array = np.ndarray
intrinsic: Any = numba.extending.intrinsic  # its calls in kernels lack the typing context
cpu_target: Any = registry.cpu_target


def _known(**options: Any) -> dict[str, Any]:
    """Those of the options that numba knows. Two are not documented; without them it compiles longer, or kernels are slower."""
    return {name: value for name, value in options.items() if hasattr(cpu_target.options, name)}


class _WithoutCollector(event.Listener):
    """Makes Python look for no garbage while numba compiles: its many objects live until then. That saves a tenth of the time."""

    depth, was_enabled = 0, False

    def on_start(self, _: event.Event) -> None:
        if self.depth == 0:
            self.was_enabled = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, _: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0 and self.was_enabled:
            gc.enable()


event.register("numba:compile", _WithoutCollector())


# The versions of numba in which quick_pipeline.py was tried. In others, numba's own pipeline takes 1.6 times as long to compile.
TRIED = ("0.61", "0.62", "0.63", "0.64", "0.68")

# Python calls a `kernel`. Kernels call the others, whose code becomes part of theirs: LLVM sees it once in each. An `inlined`
# function allocates nothing, so it counts no references to arrays; a `helper` may. When Python calls one of these, it is
# interpreted. For type checkers the result is Any.
_OPTIONS: dict[str, Any] = _known(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
_PARTS, _UNCOUNTED = dict(_OPTIONS), _known(_nrt=False)
if numba.__version__.rpartition(".")[0] in TRIED:
    from prequential.machine.quick_pipeline import KernelCompiler, PartCompiler

    _OPTIONS["pipeline_class"], _PARTS["pipeline_class"] = KernelCompiler, PartCompiler
INLINED: Any = _PARTS | _UNCOUNTED | {"forceinline": True}

inlined: Any = register_jitable(**INLINED)
helper: Any = register_jitable(**_PARTS | _known(_nrt=True))


IS_INTERPRETED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


@inlined
def span(first: int, stop: int) -> Any:
    """range(first, stop) of numbers that are not negative. As indices they are not checked for that, and loops are vectorised."""
    return range(np.uint64(first), np.uint64(stop))


def kernel(function: Any, options: dict[str, Any] = _OPTIONS) -> Any:
    """The function, compiled at its first call with arguments of each types, and kept for later runs."""
    compiled = numba.njit(**options)(function)
    if compiled is function:  # with NUMBA_DISABLE_JIT=1
        return _quiet(function)
    compiled._cache = KernelCache(function)
    return compiled


def is_cached(kernel: Any) -> bool:
    """Whether the folder has this kernel for some types of arguments. True if nothing is kept, or kernels are interpreted."""
    files = getattr(getattr(kernel, "_cache", None), "files", None)
    return files is None or any(files())


# A kernel whose arrays other threads use at the same time. It allocates nothing: counts of references are not touched.
sharing_kernel: Any = functools.partial(kernel, options=_OPTIONS | _UNCOUNTED)


def _quiet(function: Any) -> Any:
    """The interpreted kernel without numpy's warnings of integers that wrap. A caller that asks for an error gets one."""

    @functools.wraps(function)
    def interpreted(*arguments: Any) -> Any:
        over = np.geterr()["over"]
        with np.errstate(over="ignore" if over == "warn" else over):
            return function(*arguments)

    return interpreted
