"""A decoder's column: the GPT's forward pass for one position of every stream, with the bits of the segment's kernels.

What a segment does in many passes, each worth its call, a column does in four kernels and four integer products a layer: a kernel
takes a product's sums, finishes that step, prepares the next product's operand and stores what the backward pass will need. All
arrays are looked up once a segment. Letters as in model/gpt.py; J = W - 1 + T slots for keys.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from prequential.exact.fused_attention import (
    INVERSE_INT8_LIMIT,
    ONE,
    WEIGHT_LIMIT,
    numerators,
    softmax_table,
    unit_levels,
)
from prequential.exact.fused_loops import Array, inlined, inverse_rms, kernel, round_row, round_row_to_int8
from prequential.exact.matmul import Matmul
from prequential.exact.plain import INT8_LIMIT

Tensor = torch.Tensor

ROOM = ("k", "k_r", "v", "v_scale")
ATTENTION = ("q", "q_r", "q_s", "k_s", "inverse_sum", "e")


class Weights(Protocol):
    """A matrix as int8 levels (C_in, C_out) and a float32 scale per output (C_out,)."""

    levels: Tensor
    scale: Tensor


class Column:
    """The columns of one open segment of B streams, while weights, carried keys and values stand still."""

    def __init__(
        self, layers: Sequence[Mapping[str, Weights]], head: Weights, rooms: Sequence[Mapping[str, Tensor]],
        saved: Mapping[str, Tensor], cos: Tensor, sin: Tensor, first_valid: int, window: int, score_scale: float, matmul: Matmul,
    ) -> None:  # fmt: skip
        """rooms: per layer k, v (B, H, J, K) int8 and k_r, v_scale (B, H, J) float32. saved: GPT's. cos, sin: (T, K/2)."""
        arrays = {name: tensor.numpy() for name, tensor in saved.items()}
        self._matmul, self._head = matmul, head
        self._shape = cos.numpy(), sin.numpy(), first_valid, window, np.float32(score_scale), softmax_table()
        self._norms = [
            [arrays[f"{name}/{k}"] for k in range(3)] for i in range(len(layers)) for name in (f"{i}.qkv", f"{i}.up")
        ]
        self._norms.append([arrays[f"head/{k}"] for k in range(3)])
        self._layers = [
            (
                layer,
                [layer[name].scale.numpy() for name in ("qkv", "out", "up", "down")],
                [room[name].numpy() for name in ROOM] + [arrays[f"{i}.{name}"] for name in ATTENTION],
                [arrays[f"{i}.out/{k}"] for k in range(2)],
                [arrays[f"{i}.down/{k}"] for k in range(3)],
            )
            for i, (layer, room) in enumerate(zip(layers, rooms, strict=True))
        ]
        n_streams, width = len(arrays["symbols"]), self._norms[0][0].shape[2]
        self._x = torch.empty(n_streams, width, dtype=torch.int8)
        self._u = torch.empty(n_streams, arrays["0.down/0"].shape[2], dtype=torch.int8)
        self._factor = np.empty(n_streams, np.float32)
        self._out = np.empty((n_streams, width), np.float32)

    def logits(self, h: Tensor, column: int) -> Tensor:
        """Logits (B, V) float32 from the embedded inputs h (B, D) float32 of this column; h is used up."""
        x, u, factor, residual = self._x.numpy(), self._u.numpy(), self._factor, h.numpy()
        _normalise(residual, x, factor, *self._norms[0], column)
        for i, (layer, (qkv, out, up, down), attention, saved_out, saved_down) in enumerate(self._layers):
            sums = self._matmul(self._x, layer["qkv"].levels).numpy()
            _attend(sums, factor, qkv, *attention, column, *self._shape, self._out, x, *saved_out)
            sums = self._matmul(self._x, layer["out"].levels).numpy()
            _add_and_normalise(sums, factor, out, residual, x, *self._norms[2 * i + 1], column)
            sums = self._matmul(self._x, layer["up"].levels).numpy()
            _squared_relu(sums, factor, up, u, *saved_down, column)
            sums = self._matmul(self._u, layer["down"].levels).numpy()
            _add_and_normalise(sums, factor, down, residual, x, *self._norms[2 * i + 2], column)
        return _product(self._matmul(self._x, self._head.levels), factor, self._head.scale)


def _product(sums: Tensor, factor: Array, scale: Tensor) -> Tensor:
    return sums.float() * torch.from_numpy(factor)[:, None] * scale


@kernel
def _normalise(h: Array, x: Array, factor: Array, x_saved: Array, r_saved: Array, s_saved: Array, column: int) -> None:
    """x = rows of h rounded, factor = r of the RMS norm: `normalise_rows`, also into the saved (B, T, D), (B, T), (B, T)."""
    for b in range(h.shape[0]):
        _normalise_row(b, h, x, factor, x_saved, r_saved, s_saved, column)


@inlined
def _normalise_row(
    b: int, h: Array, x: Array, factor: Array, x_saved: Array, r_saved: Array, s_saved: Array, column: int
) -> None:
    magnitude, squares = round_row_to_int8(h[b], x[b])
    x_saved[b, column, :] = x[b]
    r = inverse_rms(squares, h.shape[1])
    factor[b] = r
    r_saved[b, column] = r
    s_saved[b, column] = r / (magnitude * INVERSE_INT8_LIMIT)


@kernel
def _add_and_normalise(
    sums: Array, factor: Array, scale: Array, h: Array,
    x: Array, x_saved: Array, r_saved: Array, s_saved: Array, column: int,
) -> None:  # fmt: skip
    """h += sums * factor * scale, then `_normalise` of the rows; factor (B,) is read, then replaced."""
    for b in range(h.shape[0]):
        f = factor[b]
        for j in range(h.shape[1]):
            h[b, j] = h[b, j] + (np.float32(sums[b, j]) * f) * scale[j]
        _normalise_row(b, h, x, factor, x_saved, r_saved, s_saved, column)


@kernel
def _squared_relu(
    sums: Array, factor: Array, scale: Array, u: Array, u_saved: Array, scale_saved: Array, a_saved: Array, column: int
) -> None:
    """a = max(0, sums * factor * scale); u = a*a rounded by rows, factor = its scale: `squared_relu`."""
    squares = np.empty(sums.shape[1], np.float32)
    for b in range(sums.shape[0]):
        f = factor[b]
        a = a_saved[b, column]
        for j in range(squares.size):
            a[j] = max((np.float32(sums[b, j]) * f) * scale[j], np.float32(0.0))
            squares[j] = a[j] * a[j]
        top = round_row(squares, INT8_LIMIT, squares)
        for j in range(squares.size):
            u[b, j] = np.int8(squares[j])
        u_saved[b, column, :] = u[b]
        factor[b] = top * INVERSE_INT8_LIMIT
        scale_saved[b, column] = factor[b]


@kernel
def _attend(
    sums: Array, r_in: Array, qkv_scale: Array,
    k: Array, k_r: Array, v: Array, v_scale: Array,
    q: Array, q_r: Array, q_s: Array, k_s: Array, inverse_sum: Array, e: Array,
    column: int, cos_table: Array, sin_table: Array, first_valid: int, window: int, score_scale: np.float32, table: Array,
    y: Array, x: Array, x_saved: Array, scale_saved: Array,
) -> None:  # fmt: skip
    """Attention for one column from the sums (B, 3D) of its queries, keys and values; its output rounded into x, r_in its scale.

    Keys and values go to slot window - 1 + column of the room; slots before first_valid hold nothing. The bits are those of
    attention_inputs, the two integer products, attention_weights, attention_output and quantise_rows.
    """
    n_streams, n_heads, _, width = q.shape
    cos, sin = cos_table[column], sin_table[column]
    slot = window - 1 + column
    visible = slice(max(first_valid, column), slot + 1)
    n_keys = visible.stop - visible.start
    qkv = np.empty(qkv_scale.size, np.float32)
    scores, levels = np.empty(n_keys, np.float32), np.empty(n_keys, np.float32)
    query, row = np.empty(width, np.int16), np.empty(width, np.float32)
    for b in range(n_streams):
        f = r_in[b]
        for j in range(qkv.size):
            qkv[j] = (np.float32(sums[b, j]) * f) * qkv_scale[j]
        for h in range(n_heads):
            start = h * width
            r, q_s[b, h, column] = unit_levels(qkv[start : start + width], cos, sin, q[b, h, column])
            q_r[b, h, column] = r
            start += n_heads * width
            k_r[b, h, slot], k_s[b, h, column] = unit_levels(qkv[start : start + width], cos, sin, row)
            start += n_heads * width
            _to_int8(row, k[b, h, slot])
            v_scale[b, h, slot] = round_row(qkv[start : start + width], INT8_LIMIT, row) * INVERSE_INT8_LIMIT
            _to_int8(row, v[b, h, slot])
            for i in range(width):
                query[i] = np.int16(q[b, h, column, i])
            keys, values, factors = k[b, h, visible], v[b, h, visible], v_scale[b, h, visible]
            for j in range(n_keys):
                dot = np.int32(0)
                for i in range(query.size):
                    dot = np.int32(dot + np.int32(query[i]) * np.int32(keys[j, i]))
                scores[j] = np.float32(dot)
            weights = e[b, h, column, visible]
            total = numerators(scores, r * score_scale, k_r[b, h, visible], table, weights)
            inverse_sum[b, h, column] = ONE / np.float32(total)
            for j in range(n_keys):
                levels[j] = weights[j] * factors[j]
            scale = round_row(levels, WEIGHT_LIMIT, levels) * np.float32(1.0 / WEIGHT_LIMIT)
            row[:] = np.float32(0.0)
            for j in range(n_keys):
                level = levels[j]
                for i in range(row.size):
                    row[i] += level * np.float32(values[j, i])
            factor = scale * inverse_sum[b, h, column]
            for i in range(width):
                y[b, h * width + i] = row[i] * factor
        top = round_row(y[b], INT8_LIMIT, y[b])
        _to_int8(y[b], x[b])
        x_saved[b, column, :] = x[b]
        r_in[b] = top * INVERSE_INT8_LIMIT
        scale_saved[b, column] = r_in[b]


@inlined
def _to_int8(levels: Array, out: Array) -> None:
    for i in range(levels.size):
        out[i] = np.int8(levels[i])
