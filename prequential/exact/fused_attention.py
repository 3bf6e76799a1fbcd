"""Attention as compiled loops, with the bits of `plain`, which describes each function.

The outer loop of a kernel that rearranges rows is over positions (row, time). The outer loop of the other kernels is over rows
and heads. The blocks (T, K) and (T, J) of one head stay in the processor's cache between the passes that need them. Letters as
in plain.py.
"""

import numpy as np
import torch

from prequential.exact.fused_loops import (
    INVERSE_GRADIENT_LIMIT,
    INVERSE_INT8_LIMIT,
    ONE,
    array,
    inverse_rms,
    largest,
    largest_magnitude,
    levels_per_unit,
    magnitude_bits,
    round_row,
    scale_of,
)
from prequential.exact.plain import GRADIENT_LIMIT, INT8_LIMIT
from prequential.exact.tables import ATTENTION_TABLE_SIZE, SCORE_STEPS_PER_NAT, attention_table
from prequential.machine.compiled import Array, inlined, kernel

Tensor = torch.Tensor

WEIGHT_LIMIT = 255  # levels of attention weights times value scales, and of gradients at the scores by rows
SOFTMAX_LIMIT = 2047  # levels of gradients at the attention weights, in the sum of the softmax gradient


# ---- queries, keys, values


def attention_inputs(qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, ...]:
    n_rows, n_time, n_heads = shape
    width = qkv.shape[1] // (3 * n_heads)
    levels = [torch.empty(n_rows, n_heads, n_time, width) for _ in range(3)]
    q_r, q_s, k_r, k_s, v_scale = factors = [torch.empty(n_rows, n_heads, n_time) for _ in range(5)]
    _attention_inputs(array(qkv), array(cos), array(sin), *[x.numpy() for x in (*levels, *factors)])
    q, k, v = levels
    return q, q_r, q_s, k, k_r, k_s, v, v_scale


@kernel
def _attention_inputs(
    qkv: Array, cos: Array, sin: Array,
    q: Array, k: Array, v: Array, q_r: Array, q_s: Array, k_r: Array, k_s: Array, v_scale: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_time, width = q.shape
    depth = n_heads * width
    for position in range(n_rows * n_time):
        b, t = position // n_time, position % n_time
        row = qkv[position]
        for h in range(n_heads):
            start = h * width
            q_r[b, h, t], q_s[b, h, t] = normalised_levels(row[start : start + width], cos[t], sin[t], q[b, h, t])
            start += depth
            k_r[b, h, t], k_s[b, h, t] = normalised_levels(row[start : start + width], cos[t], sin[t], k[b, h, t])
            start += depth
            v_scale[b, h, t] = round_row(row[start : start + width], INT8_LIMIT, v[b, h, t]) * INVERSE_INT8_LIMIT


@inlined
def normalised_levels(x: Array, cos: Array, sin: Array, levels: Array) -> tuple[np.float32, np.float32]:
    """levels = x, rotated and rounded; returns r and s, the two factors of the RMS norm."""
    half = cos.size
    first, second = x[:half], x[half:]
    for i in range(half):
        levels[i] = first[i] * cos[i] - second[i] * sin[i]
        levels[half + i] = second[i] * cos[i] + first[i] * sin[i]
    magnitude = round_row(levels, INT8_LIMIT, levels)
    squares = np.int32(0)
    for i in range(levels.size):
        squares = np.int32(squares + np.int32(levels[i] * levels[i]))  # the product is exact in float32
    r = inverse_rms(squares, levels.size)
    return r, r / (magnitude * INVERSE_INT8_LIMIT)


# ---- softmax


def attention_weights(
    scores: Tensor, q_r: Tensor, k_r: Tensor, v_scale: Tensor, mask: tuple[int, int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    e, levels = torch.empty(scores.shape), torch.empty(scores.shape)
    inverse_sum, scale = torch.empty(q_r.shape), torch.empty(q_r.shape)
    _attention_weights(
        array(scores), array(q_r), array(k_r), array(v_scale), *mask, attention_table().numpy(),
        e.numpy(), inverse_sum.numpy(), levels.numpy(), scale.numpy(),
    )  # fmt: skip
    return e, inverse_sum, levels, scale


@kernel
def _attention_weights(
    scores: Array, q_r: Array, k_r: Array, v_scale: Array,
    first_query: int, first_valid: int, window: int, table: Array,
    e: Array, inverse_sum: Array, levels: Array, scale: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_queries, n_keys = scores.shape
    for row in range(n_rows * n_heads * n_queries):
        b, h, t = row // (n_heads * n_queries), row // n_queries % n_heads, row % n_queries
        visible = slice(max(first_valid, first_query + t - window + 1, 0), min(first_query + t + 1, n_keys))
        weights, weighted = e[b, h, t], levels[b, h, t]
        weights[:] = np.float32(0.0)
        weighted[:] = np.float32(0.0)
        seen, seen_weighted = weights[visible], weighted[visible]
        total = softmax_numerators(scores[b, h, t, visible], q_r[b, h, t], k_r[b, h, visible], table, seen)
        inverse_sum[b, h, t] = ONE / np.float32(total)
        values = v_scale[b, h, visible]
        for j in range(seen.size):
            seen_weighted[j] = seen[j] * values[j]
        magnitude = round_row(seen_weighted, WEIGHT_LIMIT, seen_weighted)
        scale[b, h, t] = magnitude * np.float32(1.0 / WEIGHT_LIMIT)


@inlined
def softmax_numerators(scores: Array, q_r: np.float32, k_r: Array, table: Array, e: Array) -> np.int32:
    """e = table[rounded steps below the largest score]; returns the sum of e, which is at most 255 * J < 2**24."""
    for j in range(e.size):
        e[j] = (scores[j] * q_r) * k_r[j]
    peak = largest(e)
    last_step = np.float32(ATTENTION_TABLE_SIZE - 1)
    total = np.int32(0)
    for j in range(e.size):
        step = min(np.rint((peak - e[j]) * np.float32(SCORE_STEPS_PER_NAT)), last_step)
        e[j] = table[np.uint8(np.int32(step))]
        total = np.int32(total + np.int32(e[j]))
    return total


# ---- backward


def attention_backward_values(grad: Tensor, inverse_sum: Tensor, n_heads: int) -> tuple[Tensor, ...]:
    n_rows, _, n_time = inverse_sum.shape
    width = grad.shape[1] // n_heads
    by_query, by_column = (torch.empty(n_rows, n_heads, n_time, width) for _ in range(2))
    query_scale, column_scale = torch.empty(inverse_sum.shape), torch.empty(n_rows, n_heads, 1, width)
    outputs = [x.numpy() for x in (by_query, query_scale, by_column, column_scale)]
    _attention_backward_values(array(grad), array(inverse_sum), *outputs)
    return by_query, query_scale, by_column, column_scale


@kernel
def _attention_backward_values(
    grad: Array, inverse_sum: Array, by_query: Array, query_scale: Array, by_column: Array, column_scale: Array
) -> None:
    n_rows, n_heads, n_time, width = by_query.shape
    for task in range(n_rows * n_heads):
        b, h = task // n_heads, task % n_heads
        top = np.zeros(width, dtype=np.int32)
        for t in range(n_time):
            g = grad[b * n_time + t, h * width : (h + 1) * width]
            columns, inverse = by_column[b, h, t], inverse_sum[b, h, t]
            query_scale[b, h, t] = round_row(g, GRADIENT_LIMIT, by_query[b, h, t]) * INVERSE_GRADIENT_LIMIT
            for i in range(width):
                columns[i] = g[i] * inverse
                top[i] = max(top[i], magnitude_bits(columns[i]))
        _round_columns(by_column[b, h], top, column_scale[b, h, 0])


@kernel
def _round_columns(x: Array, top: Array, scale: Array) -> None:
    """Rounds x (T, C) in place to 127 levels per column and stores the scales. top: the bits of the largest magnitudes, (C,)."""
    factor = np.empty(scale.size, dtype=np.float32)
    for j in range(scale.size):
        magnitude = scale_of(top[j])
        factor[j] = levels_per_unit(magnitude, INT8_LIMIT)
        scale[j] = magnitude * INVERSE_INT8_LIMIT
    for t in range(x.shape[0]):
        row = x[t]
        for j in range(row.size):
            row[j] = np.rint(row[j] * factor[j])


def attention_backward_scores(
    products: Tensor, g_scale: Tensor, v_scale: Tensor, e: Tensor, inverse_sum: Tensor, q_r: Tensor, k_r: Tensor
) -> tuple[Tensor, ...]:
    by_query, row_scale = torch.empty(products.shape), torch.empty(inverse_sum.shape)
    by_key, column_scale = torch.empty(products.shape), torch.empty(k_r.shape)
    _attention_backward_scores(
        *[array(x) for x in (products, g_scale, v_scale, e, inverse_sum, q_r, k_r)],
        *[x.numpy() for x in (by_query, row_scale, by_key, column_scale)],
    )
    return by_query, row_scale, by_key, column_scale


@kernel
def _attention_backward_scores(
    products: Array, g_scale: Array, v_scale: Array, e: Array, inverse_sum: Array, q_r: Array, k_r: Array,
    by_query: Array, row_scale: Array, by_key: Array, column_scale: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_time, n_keys = products.shape
    for task in range(n_rows * n_heads):
        b, h = task // n_heads, task % n_heads
        top = np.zeros(n_keys, dtype=np.int32)
        for t in range(n_time):
            ds, columns, r = by_query[b, h, t], by_key[b, h, t], q_r[b, h, t]
            _softmax_gradient(products[b, h, t], g_scale[b, h, t], v_scale[b, h], e[b, h, t], inverse_sum[b, h, t], ds)
            for j in range(n_keys):
                columns[j] = ds[j] * r
                top[j] = max(top[j], magnitude_bits(columns[j]))
            key_factor = k_r[b, h]
            for j in range(n_keys):
                ds[j] = ds[j] * key_factor[j]
            row_scale[b, h, t] = round_row(ds, WEIGHT_LIMIT, ds) * np.float32(1.0 / WEIGHT_LIMIT)
        _round_columns(by_key[b, h], top, column_scale[b, h])


@inlined
def _softmax_gradient(
    products: Array, g_scale: np.float32, v_scale: Array, e: Array, inverse: np.float32, ds: Array
) -> None:
    """ds = P * (dP - sum(P * dP)) of one query. P = e * inverse; dP = products * g_scale * v_scale if e > 0, otherwise 0."""
    for j in range(ds.size):
        dp = (products[j] * g_scale) * v_scale[j]
        ds[j] = dp if e[j] > np.float32(0.0) else np.float32(0.0)
    magnitude = largest_magnitude(ds)
    factor = levels_per_unit(magnitude, SOFTMAX_LIMIT)
    total = np.int64(0)
    for j in range(ds.size):
        total += np.int32(np.rint(ds[j] * factor) * e[j])  # 2047 * 255 < 2**24
    mean = (np.float32(total) * (magnitude * np.float32(1.0 / SOFTMAX_LIMIT))) * inverse
    for j in range(ds.size):
        ds[j] = (e[j] * inverse) * (ds[j] - mean)


def attention_inputs_backward(
    sums: tuple[Tensor, ...], scales: tuple[Tensor, ...], saved: tuple[Tensor, ...], cos: Tensor, sin: Tensor
) -> Tensor:
    n_rows, n_heads, n_time, width = sums[0].shape
    y = torch.empty(n_rows * n_time, 3 * n_heads * width)
    _attention_inputs_backward(*[array(x) for x in (*sums, *scales, *saved, cos, sin, y)])
    return y


@kernel
def _attention_inputs_backward(
    dq: Array, dk: Array, dv: Array, dq_scale: Array, dk_scale: Array, dv_scale: Array,
    q: Array, q_r: Array, q_s: Array, k: Array, k_r: Array, k_s: Array, cos: Array, sin: Array, y: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_time, width = dq.shape
    depth = n_heads * width
    for position in range(n_rows * n_time):
        b, t = position // n_time, position % n_time
        g = np.empty(width, dtype=np.float32)
        for h in range(n_heads):
            start = h * width
            out = y[position, start : start + width]
            _normalised_gradient(
                dq[b, h, t], dq_scale[b, h, t], q[b, h, t], q_r[b, h, t], q_s[b, h, t], cos[t], sin[t], g, out
            )
            start += depth
            out = y[position, start : start + width]
            _normalised_gradient(
                dk[b, h, t], dk_scale[b, h, t], k[b, h, t], k_r[b, h, t], k_s[b, h, t], cos[t], sin[t], g, out
            )
            start += depth
            out = y[position, start : start + width]
            sums, scale = dv[b, h, t], dv_scale[b, h, 0]
            for i in range(width):
                out[i] = sums[i] * scale[i]


@inlined
def _normalised_gradient(
    acc: Array, scale: np.float32, levels: Array, r: np.float32, s: np.float32, cos: Array, sin: Array, g: Array, out: Array
) -> None:  # fmt: skip
    """out = the gradient acc * scale, taken backward through the RMS norm and the rotation. g: scratch memory for one row."""
    width, half = g.size, cos.size
    for i in range(width):
        g[i] = acc[i] * scale
    magnitude = largest_magnitude(g)
    factor = levels_per_unit(magnitude, GRADIENT_LIMIT)
    total = np.int32(0)  # 1023 * 127 * K < 2**31
    for i in range(width):
        total = np.int32(total + np.int32(np.rint(g[i] * factor) * levels[i]))  # 1023 * 127 < 2**24
    mean = (np.float32(total) * (magnitude * INVERSE_GRADIENT_LIMIT)) * (r * np.float32(1.0 / width))
    for i in range(width):
        g[i] = (g[i] - (levels[i] * r) * mean) * s
    first, second = g[:half], g[half:]
    for i in range(half):
        out[i] = first[i] * cos[i] - second[i] * -sin[i]
        out[half + i] = second[i] * cos[i] + first[i] * -sin[i]
