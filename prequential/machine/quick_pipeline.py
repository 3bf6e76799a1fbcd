"""A quick way to compile kernels, with inner parts of numba: in two thirds of the time, code that computes the same.

Design decisions:

- It is optional. compiled.py uses it with the versions of numba in which it was tried, and else numba's own pipeline.
- LLVM optimises a kernel with all that it calls, once. Else it would optimise each function, and again what it is part of.
- Of numba's steps, those that kernels need. What is asked about types again and again is remembered.
"""

import functools
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types
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


class KernelCompiler(CompilerBase):
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


class PartCompiler(KernelCompiler):
    """Compiles what only kernels call: without machine code of its own."""

    _lowering = _PartLowering
