"""A decoder's column: the GPT's forward pass for one position of the stream in one kernel, with the bits of the run's kernels.

The products are of a matrix and a vector. Each matrix is copied once a segment, transposed, so that a sum runs along
contiguous bytes, and the vector's entries are moved to 1 .. 255: multiply-adds of processors take unsigned by signed bytes.
What that adds to a sum, 128 times the sum of the matrix's column, is known beforehand. Letters as in model/gpt/gpt.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from prequential.exact.fused_attention import WEIGHT_LIMIT, numerators, softmax_table, unit_levels
from prequential.exact.fused_loops import (
    INVERSE_INT8_LIMIT,
    ONE,
    Array,
    inlined,
    inverse_rms,
    kernel,
    round_row,
    round_row_to_int8,
)
from prequential.exact.plain import INT8_LIMIT
from prequential.model.gpt.context_kernels import N_KINDS, fill_context_rows

Tensor = torch.Tensor

LANES = 256  # bytes that one `dot` multiplies; a sum of C_in terms takes as many as cover it
OFFSET = np.int32(128)


class Matrix(Protocol):
    """Weights as int8 levels (C_in, C_out) and a float32 scale per output (C_out,)."""

    levels: Tensor
    scale: Tensor


class Column:
    """The columns of one open segment of T columns, while weights and the keys and values before it stand still."""

    def __init__(
        self, embedding: Tensor, contexts: Any, layers: Sequence[Mapping[str, Matrix]], head: Matrix, room: Mapping[str, Tensor],
        cos: Tensor, sin: Tensor, first_valid: int, window: int, score_scale: float,
    ) -> None:  # fmt: skip
        """embedding: (E, V, D) float32. contexts: `kinds` and `rows` of a model.context_table.ContextTable.

        room: k, v (L, H, S, K) int8 and k_r, v_scale (L, H, S) float32, which the columns fill. cos, sin:
        (T, K/2) float32. Slots before first_valid hold nothing.
        """
        matrices = [x for name in ("qkv", "out", "up", "down") for x in _stacked([layer[name] for layer in layers])]
        rooms = [room[name].numpy() for name in ("k", "k_r", "v", "v_scale")]
        shape = (cos.numpy(), sin.numpy(), softmax_table(), first_valid, window, np.float32(score_scale))
        table = (embedding.numpy(), contexts.kinds, contexts.rows.numpy())
        self.arguments = (*table, *matrices, *[x[0] for x in _stacked([head])], *rooms, *shape)
        self._n_symbols = embedding.shape[1]

    def logits(self, recent: Tensor, column: int) -> Tensor:
        """Logits (1, V) float32 of what follows this column; recent: its last symbols (C,) int64, newest first."""
        y = torch.empty(1, self._n_symbols)
        fill_logits(recent.numpy(), column, *self.arguments, y.numpy()[0])
        return y


def _stacked(matrices: Sequence[Matrix]) -> tuple[Array, Array, Array]:
    """Levels (L, C_out, C_in) int8, C_in filled up with zeros; 128 times their sums (L, C_out) int32; scales (L, C_out)."""
    n_in, n_out = matrices[0].levels.shape
    levels = torch.zeros(len(matrices), n_out, -(-n_in // LANES) * LANES, dtype=torch.int8)
    for into, matrix in zip(levels, matrices, strict=True):
        into[:, :n_in] = matrix.levels.t()
    sums = levels.sum(2, dtype=torch.int32) * int(OFFSET)  # 128 * 127 * C < 2**31
    return levels.numpy(), sums.numpy(), torch.stack([matrix.scale for matrix in matrices]).numpy()


def _dot(typing_context: Any, x: types.Array, w: types.Array, start: types.Integer) -> Any:
    """dot(x, w, start): the sum of x[start + i] * w[start + i] over LANES bytes, x uint8, w int8, as int32.

    Plain vector code, for which LLVM chooses the multiply-adds of the processor at hand, all of them exact; a loop it would cut
    into shorter vectors, at half the rate.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        byte, word = ir.IntType(8), ir.IntType(32)
        words = ir.VectorType(word, LANES)

        def widened(i: int, extend: Any) -> Any:
            data = context.make_array(signature.args[i])(context, builder, arguments[i]).data
            address = builder.gep(data, [arguments[2]])
            address = builder.bitcast(address, ir.VectorType(byte, LANES).as_pointer())
            return extend(builder.load(address, align=1), words)

        kind, name = ir.FunctionType(word, [words]), f"llvm.vector.reduce.add.v{LANES}i32"
        add = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(add, [builder.mul(widened(0, builder.zext), widened(1, builder.sext))])

    return types.int32(x, w, start), generate


dot: Any = intrinsic(_dot)


@kernel
def fill_logits(
    recent: Array, column: int, embedding: Array, kinds: Array, contexts: Array,
    qkv: Array, qkv_offset: Array, qkv_scale: Array, out: Array, out_offset: Array, out_scale: Array,
    up: Array, up_offset: Array, up_scale: Array, down: Array, down_offset: Array, down_scale: Array,
    head: Array, head_offset: Array, head_scale: Array, k: Array, k_r: Array, v: Array, v_scale: Array,
    cos: Array, sin: Array, table: Array, first_valid: int, window: int, score_scale: np.float32, logits: Array,
) -> None:  # fmt: skip
    h = embedding[0, recent[0]].copy()
    for e in range(1, embedding.shape[0]):
        _add(h, embedding[e, recent[e]])
    if kinds.size:
        every, rows = np.empty(N_KINDS, np.int64), np.empty(kinds.size, np.int64)
        fill_context_rows(recent, kinds, contexts.shape[0], every, rows)
        for i in range(rows.size):
            _add(h, contexts[rows[i]])
    x, u = np.zeros(qkv.shape[2], np.uint8), np.zeros(down.shape[2], np.uint8)
    row, wide, y = np.empty(qkv.shape[1], np.float32), np.empty(up.shape[1], np.float32), np.empty(h.size, np.float32)
    slots = slice(max(first_valid, column), window + column)  # of the visible keys, the column's own last
    for i in range(qkv.shape[0]):
        _product(x, _normalise(h, x), qkv[i], qkv_offset[i], qkv_scale[i], row)
        seen = k[i, :, slots], k_r[i, :, slots], v[i, :, slots], v_scale[i, :, slots]
        _attend(row, cos[column], sin[column], *seen, score_scale, table, y)
        scale, _ = round_row_to_int8(y, OFFSET, x)
        _product(x, scale * INVERSE_INT8_LIMIT, out[i], out_offset[i], out_scale[i], y)
        _add(h, y)
        _product(x, _normalise(h, x), up[i], up_offset[i], up_scale[i], wide)
        for j in range(wide.size):
            a = max(wide[j], np.float32(0.0))
            wide[j] = a * a
        scale, _ = round_row_to_int8(wide, OFFSET, u)
        _product(u, scale * INVERSE_INT8_LIMIT, down[i], down_offset[i], down_scale[i], y)
        _add(h, y)
    _product(x, _normalise(h, x), head, head_offset, head_scale, logits)


@inlined
def _normalise(h: Array, x: Array) -> np.float32:
    """x = h rounded; returns the factor r of the RMS norm: `normalise_rows`."""
    _, squares = round_row_to_int8(h, OFFSET, x)
    return inverse_rms(squares, h.size)


@inlined
def _product(x: Array, factor: np.float32, levels: Array, offset: Array, scale: Array, y: Array) -> None:
    """y = (levels @ (x - 128)) * factor * scale."""
    for j in range(y.size):
        total = np.int32(-offset[j])  # 255 * 127 * C < 2**31
        for start in range(0, x.size, LANES):
            total = np.int32(total + dot(x, levels[j], start))
        y[j] = (np.float32(total) * factor) * scale[j]


@inlined
def _add(h: Array, y: Array) -> None:
    for j in range(h.size):
        h[j] = h[j] + y[j]


@inlined
def _attend(
    qkv: Array, cos: Array, sin: Array, k: Array, k_r: Array, v: Array, v_scale: Array,
    score_scale: np.float32, table: Array, y: Array,
) -> None:  # fmt: skip
    """y = attention's output (D,) from the row (3D,) of queries, keys and values; the visible k, v are (H, J, K) int8.

    The column's own key and value join as the last of the J. The bits are those of attention_inputs, the two integer products,
    attention_weights and attention_output.
    """
    n_heads, n_keys, width = k.shape
    own = n_keys - 1
    scores, weights = np.empty(n_keys, np.float32), np.empty(n_keys, np.float32)
    levels, query = np.empty(width, np.float32), np.empty(width, np.int16)
    for h in range(n_heads):
        part = qkv[h * width :]
        q_r, _ = unit_levels(part[:width], cos, sin, levels)
        for i in range(width):
            query[i] = np.int16(levels[i])
        part = part[y.size :]
        k_r[h, own], _ = unit_levels(part[:width], cos, sin, levels)
        _to_int8(levels, k[h, own])
        part = part[y.size :]
        v_scale[h, own] = round_row(part[:width], INT8_LIMIT, levels) * INVERSE_INT8_LIMIT
        _to_int8(levels, v[h, own])
        for j in range(n_keys):
            key, total = k[h, j], np.int32(0)
            for i in range(query.size):
                total = np.int32(total + np.int32(query[i]) * np.int32(key[i]))
            scores[j] = np.float32(total)
        inverse_sum = ONE / np.float32(numerators(scores, q_r * score_scale, k_r[h], table, weights))
        for j in range(n_keys):
            weights[j] = weights[j] * v_scale[h, j]
        scale = round_row(weights, WEIGHT_LIMIT, weights) * np.float32(1.0 / WEIGHT_LIMIT)
        sums = y[h * width : (h + 1) * width]
        sums[:] = np.float32(0.0)
        for j in range(n_keys):
            value, weight = v[h, j], weights[j]
            for i in range(sums.size):
                sums[i] += weight * np.float32(value[i])  # carried integers: 255 * 127 * J < 2**24
        factor = scale * inverse_sum
        for i in range(sums.size):
            sums[i] = sums[i] * factor


@inlined
def _to_int8(levels: Array, out: Array) -> None:
    for i in range(levels.size):
        out[i] = np.int8(levels[i])
