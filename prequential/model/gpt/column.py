"""The forward pass of the GPT for one position of the stream, a column, in one compiled kernel. Decoders use it.

The bits are those of `Weights.logits`. The products are of a matrix and a vector. Two decisions make them fast:

- Each matrix is copied and transposed once per segment, so that a sum runs along contiguous bytes.
- Multiply-add instructions take unsigned by signed bytes. So the entries of the vector are shifted by 128, to 1 .. 255. The shift
  adds 128 times the sum of a matrix column to each result. These sums are known beforehand, and the kernel subtracts them.

Letters as in weights.py and reader.py; C_in and C_out are the sizes of a matrix.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from prequential.compiled import Array, inlined, kernel
from prequential.exact.fused_attention import WEIGHT_LIMIT, normalised_levels, softmax_numerators, softmax_table
from prequential.exact.fused_loops import INVERSE_INT8_LIMIT, ONE, inverse_rms, round_row, round_row_to_int8
from prequential.exact.plain import INT8_LIMIT
from prequential.model.gpt.context_kernels import N_HASHED, fill_context_rows
from prequential.model.gpt.context_table import UNITS
from prequential.model.gpt.weights import Linear, Weights

Tensor = torch.Tensor

LANES = 256  # bytes that one `dot` multiplies; zeros fill C_in up to a multiple of it
OFFSET = np.int32(128)
ROW_UNIT = np.float32(1.0 / UNITS)


class MatrixArrays(NamedTuple):
    """One matrix of each of L layers, transposed, with zeros that fill C_in up to a multiple of LANES."""

    levels: Array  # (L, C_out, C_in) int8
    offset: Array  # (L, C_out) int32: 128 times the sum of each row of levels
    scale: Array  # (L, C_out) float32


class ColumnArrays(NamedTuple):
    """All arrays that the forward pass of a column reads, and the cache of keys and values, which it writes."""

    embedding: Array  # (E, V, D) float32
    context_kinds: Array  # (number of contexts,) int64: see context_table.py
    contexts: Array  # (2**context_bits, D) int16: see context_table.py
    qkv: MatrixArrays
    out: MatrixArrays
    up: MatrixArrays
    down: MatrixArrays
    head: MatrixArrays  # L = 1
    k: Array  # (L, H, S, K) int8
    k_r: Array  # (L, H, S) float32
    v: Array  # (L, H, S, K) int8
    v_scale: Array  # (L, H, S) float32
    cos: Array  # (T, K/2) float32
    sin: Array  # (T, K/2) float32
    softmax_table: Array
    first_valid: int  # slots of the cache before this one are empty
    window: int
    score_scale: np.float32


class ColumnDecoder:
    """Computes the columns of one open segment, during which the weights do not change."""

    def __init__(
        self,
        weights: Weights,
        cache: Mapping[str, Tensor],
        phases: tuple[Tensor, Tensor],
        first_valid: int,
        window: int,
    ) -> None:
        """cache: k, v (L, H, S, K) int8 and k_r, v_scale (L, H, S) float32, to which each column adds its key and value.

        phases: cos and sin, (T, K/2) float32. first_valid: slots of the cache before this one are empty.
        """
        qkv, out, up, down = (
            stack_matrices([layer[name] for layer in weights.layers]) for name in ("qkv", "out", "up", "down")
        )
        self.arrays = ColumnArrays(
            embedding=weights.embedding.numpy(),
            context_kinds=weights.contexts.kinds,
            contexts=weights.contexts.rows.numpy(),
            qkv=qkv,
            out=out,
            up=up,
            down=down,
            head=stack_matrices([weights.head]),
            k=cache["k"].numpy(),
            k_r=cache["k_r"].numpy(),
            v=cache["v"].numpy(),
            v_scale=cache["v_scale"].numpy(),
            cos=phases[0].numpy(),
            sin=phases[1].numpy(),
            softmax_table=softmax_table(),
            first_valid=first_valid,
            window=window,
            score_scale=np.float32(weights.score_scale),
        )

    def logits(self, recent: Tensor, column: int) -> Tensor:
        """Logits (1, V) float32 of the symbol after this column. recent: its last symbols, (C,) int64, the newest first."""
        y = torch.empty(1, self.arrays.embedding.shape[1])
        fill_logits(recent.numpy(), column, self.arrays, y.numpy()[0])
        return y


def stack_matrices(matrices: Sequence[Linear]) -> MatrixArrays:
    """The matrices of one kind in all layers, in the layout for `dot`."""
    n_in, n_out = matrices[0].levels.shape
    levels = torch.zeros(len(matrices), n_out, -(-n_in // LANES) * LANES, dtype=torch.int8)
    for into, matrix in zip(levels, matrices, strict=True):
        into[:, :n_in] = matrix.levels.t()
    sums = levels.sum(2, dtype=torch.int32) * int(OFFSET)  # 128 * 127 * C < 2**31
    return MatrixArrays(levels.numpy(), sums.numpy(), torch.stack([matrix.scale for matrix in matrices]).numpy())


def _dot(typing_context: Any, x: types.Array, w: types.Array, start: types.Integer) -> Any:
    """dot(x, w, start): the sum of x[start + i] * w[start + i] for i < LANES, x uint8, w int8, as int32.

    It generates vector operations of LLVM, which translates them to the multiply-adds of the processor. All of these are exact. A
    loop would be translated to shorter vectors, with half the rate.
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
def fill_logits(recent: Array, column: int, a: ColumnArrays, logits: Array) -> None:
    """logits (V,) float32 = those of the symbol after this column. recent: its last symbols, (C,) int64, the newest first."""
    h = a.embedding[0, recent[0]].copy()
    for e in range(1, a.embedding.shape[0]):
        _add(h, a.embedding[e, recent[e]])
    if a.context_kinds.size:
        all_hashes, rows = np.empty(N_HASHED, np.int64), np.empty(a.context_kinds.size, np.int64)
        fill_context_rows(recent, a.context_kinds, a.contexts.shape[0], all_hashes, rows)
        for j in range(h.size):
            total = np.int32(0)
            for i in range(rows.size):
                total += np.int32(a.contexts[rows[i], j])
            h[j] += np.float32(total) * ROW_UNIT
    x, u = np.zeros(a.qkv.levels.shape[2], np.uint8), np.zeros(a.down.levels.shape[2], np.uint8)
    row, wide = np.empty(a.qkv.levels.shape[1], np.float32), np.empty(a.up.levels.shape[1], np.float32)
    y = np.empty(h.size, np.float32)
    # The slots of the visible keys. The last one is for the key of this column.
    slots = slice(max(a.first_valid, column), a.window + column)
    for i in range(a.qkv.levels.shape[0]):
        multiply(x, _normalise(h, x), a.qkv, i, row)
        seen = a.k[i, :, slots], a.k_r[i, :, slots], a.v[i, :, slots], a.v_scale[i, :, slots]
        _attend(row, a.cos[column], a.sin[column], *seen, a.score_scale, a.softmax_table, y)
        scale, _ = round_row_to_int8(y, OFFSET, x)
        multiply(x, scale * INVERSE_INT8_LIMIT, a.out, i, y)
        _add(h, y)
        multiply(x, _normalise(h, x), a.up, i, wide)
        for j in range(wide.size):
            r = max(wide[j], np.float32(0.0))
            wide[j] = r * r
        scale, _ = round_row_to_int8(wide, OFFSET, u)
        multiply(u, scale * INVERSE_INT8_LIMIT, a.down, i, y)
        _add(h, y)
    multiply(x, _normalise(h, x), a.head, 0, logits)


@inlined
def _normalise(h: Array, x: Array) -> np.float32:
    """x = h, rounded and shifted; returns the factor r of the RMS norm, as `normalise_rows` does."""
    _, squares = round_row_to_int8(h, OFFSET, x)
    return inverse_rms(squares, h.size)


@inlined
def multiply(x: Array, factor: np.float32, matrix: MatrixArrays, layer: int, y: Array) -> None:
    """y = (levels @ (x - 128)) * factor * scale, for the matrix in this layer."""
    levels, offset, scale = matrix.levels[layer], matrix.offset[layer], matrix.scale[layer]
    for j in range(y.size):
        total = np.int32(-offset[j])  # 255 * 127 * C < 2**31
        for start in range(0, x.size, LANES):
            total = np.int32(total + dot(x, levels[j], start))
        y[j] = (np.float32(total) * factor) * scale[j]


@inlined
def _add(h: Array, y: Array) -> None:
    for j in range(h.size):
        h[j] = h[j] + y[j]


@kernel
def _attend(
    qkv: Array, cos: Array, sin: Array, k: Array, k_r: Array, v: Array, v_scale: Array,
    score_scale: np.float32, table: Array, y: Array,
) -> None:  # fmt: skip
    """y = the output (D,) of attention, from the row qkv (3D,). k, v (H, J, K) int8: the visible keys and values.

    The kernel stores the column's own key and value in the last of the J slots. The bits are those of attention_inputs, of
    attention_weights and attention_output in plain.py, and of the two products between them.
    """
    n_heads, n_keys, width = k.shape
    own = n_keys - 1
    scores, weights = np.empty(n_keys, np.float32), np.empty(n_keys, np.float32)
    levels, query = np.empty(width, np.float32), np.empty(width, np.int16)
    for h in range(n_heads):
        rest = qkv[h * width :]
        q_r, _ = normalised_levels(rest[:width], cos, sin, levels)
        for i in range(width):
            query[i] = np.int16(levels[i])
        rest = rest[y.size :]
        k_r[h, own], _ = normalised_levels(rest[:width], cos, sin, levels)
        _to_int8(levels, k[h, own])
        rest = rest[y.size :]
        v_scale[h, own] = round_row(rest[:width], INT8_LIMIT, levels) * INVERSE_INT8_LIMIT
        _to_int8(levels, v[h, own])
        for j in range(n_keys):
            key, total = k[h, j], np.int32(0)
            for i in range(query.size):
                total = np.int32(total + np.int32(query[i]) * np.int32(key[i]))
            scores[j] = np.float32(total)
        inverse_sum = ONE / np.float32(softmax_numerators(scores, q_r * score_scale, k_r[h], table, weights))
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
