"""What threads of compiled kernels need between them: numbers that others wait for, pauses, and prefetches.

No result depends on it. Interpreted kernels call the Python functions of the same names.
"""

import platform
import time
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from prequential.machine.compiled import INLINED, Array, cgutils, intrinsic, overload, types

DOZE_US = 20  # one sleep of a waiting thread, in microseconds


def load(array: Array, i: int) -> Any:
    """array[i] of a contiguous int32 array; what its writer wrote before it is visible then ("acquire")."""
    return array[i]


def store(array: Array, i: int, value: int) -> None:
    """array[i] = value of a contiguous int32 array; what was written before is visible to who reads it ("release")."""
    array[i] = value


def prefetch(array: Array, i: int) -> None:
    """Asks the memory for the cache line of the i-th number of a contiguous array, before it is needed."""


def pause() -> None:
    """Lets a processor that waits in a loop do less for a moment."""


def doze() -> None:
    """Sleeps for DOZE_US."""
    time.sleep(DOZE_US / 1e6)


def call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """A call of a function of LLVM or of the system's library within a kernel. result: its type."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


@intrinsic
def _load(typing_context: Any, array: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(context, builder, signature.args[0], *arguments), "acquire", 4)

    return types.int32(array, types.intp), generate


@intrinsic
def _store(typing_context: Any, array: Any, i: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", 4)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int32), generate


@intrinsic
def _prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i32 = ir.IntType(32)
        place = builder.bitcast(_pointer(context, builder, signature.args[0], *arguments), cgutils.voidptr_t)
        # to read, keep in all caches, data
        call(builder, "llvm.prefetch.p0i8", ir.VoidType(), place, i32(0), i32(3), i32(1))
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def _pause(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            call(builder, "llvm.x86.sse2.pause", ir.VoidType())
        elif platform.machine() in ("aarch64", "arm64"):
            call(builder, "llvm.aarch64.hint", ir.VoidType(), ir.IntType(32)(1))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _doze(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        call(builder, "usleep", ir.IntType(32), ir.IntType(32)(DOZE_US))
        return context.get_dummy_value()

    return types.void(), generate


for _function, _in_kernels in (
    (load, lambda array, i: lambda array, i: _load(array, i)),
    (store, lambda array, i, value: lambda array, i, value: _store(array, i, value)),
    (prefetch, lambda array, i: lambda array, i: _prefetch(array, i)),
    (pause, lambda: lambda: _pause()),
    (doze, lambda: lambda: _doze()),
):
    overload(_function, strict=False, jit_options=INLINED)(_in_kernels)
