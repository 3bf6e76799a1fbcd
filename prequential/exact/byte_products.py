"""Products of matrices of bytes within compiled kernels. Two decisions make them fast (dev/LOG.md, 2026-11-26).

- The second matrix is copied to a layout in which ROWS sums grow together, by PART products at a time: no sum is ever split.
  TILE rows of the first one share what is read of the second.
- Processors multiply unsigned by signed bytes. So signed entries of the first matrix are shifted by OFFSET, to 1 .. 255. That
  adds OFFSET times the sum of a column of the second one to each result: a known shift takes these sums away.

Letters: (M, K) @ (K, N); B = N / ROWS and P = K / PART, rounded up.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from prequential.machine.atomics import call
from prequential.machine.compiled import (
    IS_INTERPRETED,
    Array,
    cgutils,
    cpu_target,
    helper,
    inlined,
    intrinsic,
    kernel,
    types,
)

ROWS, PART, TILE, STRIP = 64, 4, 4, 16
OFFSET = np.int32(128)
SIGNS = np.uint32(0x80808080)  # of four bytes: they turn shifted entries into signed ones


@kernel
def new_words(n: int) -> Array:
    """(n,) uint32: zeros that begin at a line of the cache. Reading vectors across two lines would take a fifth longer."""
    words = np.zeros(n + ROWS, np.uint32)
    start = -(words.ctypes.data // 4) % ROWS
    return words[start : start + n]


@helper
def new_levels(n_in: int, n_out: int) -> Array:
    """(B, P, ROWS) uint32 zeros for `interleave`: K = n_in, a multiple of PART, and N = n_out."""
    shape = -(-n_out // ROWS), n_in // PART, ROWS
    return new_words(shape[0] * shape[1] * ROWS).reshape(shape)


@inlined
def interleave(levels: Array, signs: np.uint32, out: Array) -> None:
    """out (B, P, ROWS) uint32 = levels (K, N) uint8 in the layout for products: PART entries of a column in each word.

    signs: SIGNS if the levels are shifted, 0 if they are signed. K is a multiple of PART.
    """
    for b in range(out.shape[0]):
        columns = slice(b * ROWS, min((b + 1) * ROWS, levels.shape[1]))
        for p in range(levels.shape[0] // PART):
            words = out[b, p]
            first, second = levels[p * PART, columns], levels[p * PART + 1, columns]
            third, fourth = levels[p * PART + 2, columns], levels[p * PART + 3, columns]
            for j in range(first.size):
                low = np.uint32(first[j]) | np.uint32(second[j]) << np.uint32(8)
                words[j] = (low | np.uint32(third[j]) << np.uint32(16) | np.uint32(fourth[j]) << np.uint32(24)) ^ signs


@inlined
def interleave_rows(levels: Array, signs: np.uint32, out: Array) -> None:
    """`interleave` for the transposed levels, (N, P) uint32 of PART bytes each."""
    for b in range(out.shape[0]):
        rows = levels[b * ROWS : (b + 1) * ROWS]
        for p in range(levels.shape[1]):
            words = out[b, p]
            for j in range(rows.shape[0]):
                words[j] = rows[j, p] ^ signs


@kernel
def interleaved(levels: Array, out: Array, shift: Array) -> None:
    """out (L, B, P, ROWS) uint32, initially zeros, and shift (L, B * ROWS) of levels (L, K, N) uint8, signed bytes."""
    for i in range(len(levels)):
        interleave(levels[i], np.uint32(0), out[i])
        fill_shifts(out[i], shift[i])


@functools.cache
def has_byte_products() -> bool:
    """Whether the processor that numba compiles for has AVX-512 VNNI, which multiplies bytes and adds four products at a time."""
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return not IS_INTERPRETED and "+avx512vnni" in features.split(",")


@intrinsic
def multiply_bytes(typing_context: Any, totals: types.Array, x: types.Array, w: types.Array) -> Any:
    """totals (ROWS,) int32 = x (P * PART,) uint8 times w (P or more, ROWS) uint32, a block in the layout of `interleave`.

    Or the same for TILE rows, one after the other: totals (TILE, ROWS), x (TILE, P * PART). It generates vector operations of
    LLVM: the instruction for bytes, or operations on pairs of int16 that LLVM translates to the multiply-adds of other
    processors. All of these are exact.
    """
    word, lanes, n_rows = ir.IntType(32), 16, TILE if totals.ndim == 2 else 1
    words, wide = ir.VectorType(word, lanes), ir.VectorType(word, 2 * lanes)
    shorts = ir.VectorType(ir.IntType(16), 2 * lanes)
    n_sums, step = ROWS // lanes, lanes * PART

    def all_lanes(kind: Any, value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    def add_bytes(builder: ir.IRBuilder, total: Any, part: Any, levels: Any) -> Any:
        return call(builder, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", words, total, part, levels)

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
        zero, undefined = ir.Constant(words, None), ir.Constant(words, ir.Undefined)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(n_sums)] for _ in range(n_rows)]

        def at(array: int, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(addresses[array], [offset]), kind.as_pointer())

        def times(index: Any, factor: int) -> Any:
            return builder.mul(index, ir.Constant(size, factor))

        row_size = builder.udiv(arrays[1].nitems, ir.Constant(size, n_rows))
        with cgutils.for_range(builder, builder.udiv(row_size, ir.Constant(size, PART))) as loop:
            start = times(loop.index, n_sums * step)
            offsets = [builder.add(start, ir.Constant(size, i * step)) for i in range(n_sums)]
            levels = [builder.load(at(2, offset, words), align=1) for offset in offsets]
            for r, row in enumerate(sums):
                own = builder.load(at(1, builder.add(times(row_size, r), times(loop.index, PART)), word), align=1)
                part = builder.insert_element(undefined, own, ir.Constant(word, 0))
                part = builder.shuffle_vector(part, undefined, zero)
                for total, some in zip(row, levels, strict=True):
                    builder.store(add(builder, builder.load(total), part, some), total)
        for i, total in enumerate(total for row in sums for total in row):
            builder.store(builder.load(total), at(0, ir.Constant(size, i * step), words), align=1)
        return context.get_dummy_value()

    return types.void(totals, x, w), generate


@helper
def fill_shifts(levels: Array, shift: Array) -> None:
    """shift (B * ROWS,) int32 = minus OFFSET times the sum of each column. levels: in the layout of `interleave`."""
    x = np.full(levels.shape[1] * PART, OFFSET, np.uint8)
    for b in range(levels.shape[0]):
        multiply_bytes(shift[b * ROWS : (b + 1) * ROWS], x, levels[b])
    for j in range(shift.size):
        shift[j] = -shift[j]


@helper
def multiply_strip(x: Array, w: Array, first: int, shift: Array, tile: Array, sums: Array) -> None:
    """sums (STRIP, B * ROWS) int32 = shift + x (STRIP, P * PART) uint8 times w (B, P, ROWS), from block `first` on."""
    for r in range(0, STRIP, TILE):
        for b in range(first, len(w)):
            multiply_bytes(tile, x[r : r + TILE], w[b])
            columns = slice(b * ROWS, (b + 1) * ROWS)
            for i in range(TILE):
                out, own, more = sums[r + i, columns], tile[i], shift[columns]
                for j in range(out.size):
                    out[j] = np.int32(own[j] + more[j])
