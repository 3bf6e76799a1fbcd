"""The product of a vector and a matrix of bytes, for the decoder's columns. Two decisions make it fast (dev/LOG.md, 2026-11-26).

- Matrices are copied to a layout in which ROWS sums grow together, by PART products at a time: no sum is ever split.
- Processors multiply unsigned by signed bytes. So signed entries of the vector are shifted by OFFSET, to 1 .. 255. That adds
  OFFSET times the sum of a matrix column to each result: the caller subtracts these known sums.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from torch.nn.functional import pad

from prequential.machine.compiled import Array, cgutils, cpu_target, intrinsic, kernel, types

Tensor = torch.Tensor

ROWS, PART = 64, 4  # sums that grow together, and products that each of them gets at a time
OFFSET = np.int32(128)


def interleaved(levels: Tensor) -> Array:
    """levels (N, C_in, C_out) int8, filled with zeros, in the layout for `multiply_add`: (N, B, P, ROWS, PART)."""
    n, n_in, n_out = levels.shape
    if n_in % PART or n_out % ROWS:
        levels = pad(levels, (0, -n_out % ROWS, 0, -n_in % PART))
    out = np.empty((n, levels.shape[2] // ROWS, levels.shape[1] // PART, ROWS, PART), np.int8)
    _interleave(levels.numpy(), out)
    return out


@kernel
def _interleave(levels: Array, out: Array) -> None:
    for n in range(out.shape[0]):
        for b in range(out.shape[1]):
            for p in range(out.shape[2]):
                for j in range(ROWS):
                    for i in range(PART):
                        out[n, b, p, j, i] = levels[n, p * PART + i, b * ROWS + j]


def interleaved_rows(levels: Tensor) -> Array:
    """`interleaved` for transposed levels, (N, C_out, C_in)."""
    _, n_out, n_in = levels.shape
    filled = pad(levels, (0, -n_in % PART, 0, -n_out % ROWS))
    parts = filled.view(torch.int32).unflatten(1, (-1, ROWS))  # a part has the bytes of an int32
    return parts.transpose(2, 3).contiguous().view(torch.int8).unflatten(3, (ROWS, PART)).numpy()


def has_byte_products() -> bool:
    """Whether the processor that numba compiles for has AVX-512 VNNI, which multiplies bytes and adds four products at a time."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return "+avx512vnni" in features.split(",")


def _multiply_add(typing_context: Any, totals: types.Array, x: types.Array, w: types.Array) -> Any:
    """totals (ROWS,) int32 = the sums of x[p, i] * w[p, j, i] over p and i; x (P * PART,) uint8, w (P or more, ROWS, PART) int8.

    It generates vector operations of LLVM: the instruction for bytes, or operations on pairs of int16 that LLVM translates to
    the multiply-adds of other processors. All of these are exact.
    """
    word, lanes = ir.IntType(32), 16
    words, wide = ir.VectorType(word, lanes), ir.VectorType(word, 2 * lanes)
    shorts = ir.VectorType(ir.IntType(16), 2 * lanes)
    n_sums, step = ROWS // lanes, lanes * PART

    def all_lanes(kind: Any, value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    def add_bytes(builder: ir.IRBuilder, total: Any, part: Any, levels: Any) -> Any:
        kind, name = ir.FunctionType(words, [words] * 3), f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [total, part, levels])

    def add_shorts(builder: ir.IRBuilder, total: Any, part: Any, levels: Any) -> Any:
        eight, byte = all_lanes(shorts, 8), all_lanes(words, 0x00FF00FF)
        levels = builder.bitcast(levels, shorts)
        even = builder.ashr(builder.shl(levels, eight), eight), builder.and_(part, byte)
        odd = builder.ashr(levels, eight), builder.and_(builder.lshr(part, all_lanes(words, 8)), byte)
        for a, b in (even, odd):
            product = builder.mul(builder.sext(a, wide), builder.sext(builder.bitcast(b, shorts), wide))
            for k in (0, 1):
                half = builder.shuffle_vector(product, product, ir.Constant(words, list(range(k, 2 * lanes, 2))))
                total = builder.add(total, half)
        return total

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        arrays = [context.make_array(t)(context, builder, a) for t, a in zip(signature.args, arguments, strict=True)]
        addresses = [builder.bitcast(array.data, ir.IntType(8).as_pointer()) for array in arrays]
        size, add = context.get_value_type(types.intp), add_bytes if has_byte_products() else add_shorts
        sums = [cgutils.alloca_once_value(builder, ir.Constant(words, None)) for _ in range(n_sums)]

        def at(array: int, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(addresses[array], [offset]), kind.as_pointer())

        n_parts = builder.udiv(arrays[1].nitems, ir.Constant(size, PART))
        with cgutils.for_range(builder, n_parts) as loop:
            own = builder.load(at(1, builder.mul(loop.index, ir.Constant(size, PART)), word), align=1)
            undefined = ir.Constant(words, ir.Undefined)
            part = builder.insert_element(undefined, own, ir.Constant(word, 0))
            part = builder.shuffle_vector(part, undefined, ir.Constant(words, None))
            start = builder.mul(loop.index, ir.Constant(size, n_sums * step))
            for i, total in enumerate(sums):
                levels = builder.load(at(2, builder.add(start, ir.Constant(size, i * step)), words), align=1)
                builder.store(add(builder, builder.load(total), part, levels), total)
        for i, total in enumerate(sums):
            builder.store(builder.load(total), at(0, ir.Constant(size, i * step), words), align=1)
        return context.get_dummy_value()

    return types.void(totals, x, w), generate


multiply_add: Any = intrinsic(_multiply_add)


@kernel
def offsets(levels: Array) -> Array:
    """OFFSET times the sum of each column of the matrices, (N, B * ROWS) int32. levels: in the layout for `multiply_add`."""
    n, n_blocks, n_parts, _, _ = levels.shape
    sums, x = np.empty((n, n_blocks, ROWS), np.int32), np.full(n_parts * PART, OFFSET, np.uint8)
    for m in range(n):
        for b in range(n_blocks):
            multiply_add(sums[m, b], x, levels[m, b])
    return sums.reshape(n, n_blocks * ROWS)
