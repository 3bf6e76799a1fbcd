"""How kernels are compiled: by numba, into a folder of our own (kernel_cache.py). All other files import numba from here.

Design decisions:

- No fast-math. LLVM then neither reorders nor contracts operations: `a * b + c` rounds twice, as it does in plain torch.
- One thread per call, without the interpreter lock. The caller decides what runs in parallel (exact/pool.py).
- Only kernels are kept on disk. What they call is compiled into them.
- numba would obey a file .numba_config.yaml in the current folder, which may name code to run. It is imported without that.
"""

# ruff: noqa: E402  # numba is imported in its own way first
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

try:
    from numba import _dynfunc  # type: ignore[attr-defined]
    from numba.core import cgutils, event, registry, types
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.typed_passes import (
        IRLegalization,
        NativeLowering,
        NoPythonBackend,
        NopythonTypeInference,
        PreLowerStripPhis,
    )
    from numba.core.untyped_passes import (
        DeadBranchPrune,
        FixupArgs,
        GenericRewrites,
        IRProcessing,
        ReconstructSSA,
        TranslateByteCode,
    )
    from numba.extending import intrinsic, overload, register_jitable
except ImportError as error:  # these parts of numba are its own
    raise ConfigError(f"kernels need numba 0.61 to 0.68, not {numba.__version__}: {error}") from error

__all__ = [
    "INLINED", "IS_INTERPRETED", "Array", "cgutils", "cpu_target", "event", "helper", "inlined", "intrinsic", "is_cached",
    "kernel", "overload", "sharing_kernel", "span", "types",
]  # fmt: skip

Array = np.ndarray
cpu_target: Any = registry.cpu_target


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


class _Kernel(JITCodeLibrary):
    """The code of a kernel and of what it calls. LLVM optimises all together, and not each function before."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout


class _Part(_Kernel):
    """The code of a function that only kernels call, as numba generates it. LLVM sees it only within kernels."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _KernelLowering(NativeLowering):
    _name = "kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


@register_pass(mutates_CFG=False, analysis_only=False)
class _PartLowering(NativeLowering):
    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags = state.flags.copy()
        state.flags.no_compile = True
        super().run_pass(state)
        made, about = state.cr, state.cr.fndesc
        function = _dynfunc.make_function(about.lookup_module(), about.qualname, "", 0, made.env, (state.library,))
        state.targetctx.insert_user_function(function, about, [state.library])
        state.cr = made._replace(cfunc=function)
        return True


class _RememberingContext:
    """numba's typing context. It remembers the types of calls: numba asks for each again and again, and tries all overloads."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._call = functools.cache(lambda function, arguments: context.resolve_function_type(function, arguments, {}))
        self.resolve_setitem = functools.cache(context.resolve_setitem)
        self.resolve_getattr = functools.cache(context.resolve_getattr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, named: Any) -> Any:
        if named or isinstance(function, types.Dispatcher):
            return self._context.resolve_function_type(function, arguments, named)
        return self._call(function, arguments)


_remembering = functools.cache(_RememberingContext)


@register_pass(mutates_CFG=False, analysis_only=False)
class _Typing(NopythonTypeInference):
    _name = "typing"

    def run_pass(self, state: Any) -> bool:
        context = state.typingctx
        state.typingctx = _remembering(context)
        try:
            return super().run_pass(state)
        finally:
            state.typingctx = context


class _KernelCompiler(CompilerBase):
    """Compiles kernels with the steps of numba that they need."""

    _lowering: Any = _KernelLowering

    def define_pipelines(self) -> Any:
        lives = [IRLegalization] if self.state.flags.nrt else []  # where counted references end
        steps = PassManager("kernel")
        for step in (
            TranslateByteCode, FixupArgs, IRProcessing, DeadBranchPrune, GenericRewrites, ReconstructSSA, _Typing,
            PreLowerStripPhis, *lives, self._lowering, NoPythonBackend,
        ):  # fmt: skip
            steps.add_pass(step, step.name())
        steps.finalize()
        steps._ENFORCING = False  # no analysis after each step
        return [steps]


class _PartCompiler(_KernelCompiler):
    """Compiles what only kernels call: without machine code of its own."""

    _lowering = _PartLowering


# Python calls a `kernel`. Kernels call the others, whose code becomes part of theirs: LLVM sees it once in each. An `inlined`
# function allocates nothing, so it counts no references to arrays; a `helper` may. When Python calls one of these, it is
# interpreted. For type checkers the result is Any.
_OPTIONS: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": _KernelCompiler
}  # fmt: skip
_WITHIN: dict[str, Any] = _OPTIONS | {"_nrt": False}
INLINED: Any = _WITHIN | {"forceinline": True, "pipeline_class": _PartCompiler}

inlined: Any = register_jitable(**INLINED)
helper: Any = register_jitable(**INLINED | {"forceinline": False, "_nrt": True})


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
sharing_kernel: Any = functools.partial(kernel, options=_WITHIN)


def _quiet(function: Any) -> Any:
    """The interpreted kernel without numpy's warnings of integers that wrap. A caller that asks for an error gets one."""

    @functools.wraps(function)
    def interpreted(*arguments: Any) -> Any:
        over = np.geterr()["over"]
        with np.errstate(over="ignore" if over == "warn" else over):
            return function(*arguments)

    return interpreted
