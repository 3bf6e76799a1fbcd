"""Attention of complete rows as two compiled loops, forward and backward, with the bits of the functions of `plain`.

One head of one row is a task. Its products are of bytes (byte_products.py): what is not negative, or shifted by OFFSET, times
signed levels. Gradients with more levels are two bytes: x = FIRST_BYTE * first + second. Letters as in plain.py.
"""

import numpy as np
import torch

from prequential.exact.byte_products import (
    OFFSET,
    PART,
    ROWS,
    STRIP,
    TILE,
    fill_shifts,
    interleave,
    interleave_rows,
    multiply_strip,
    new_levels,
)
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
from prequential.machine.compiled import Array, helper, inlined, kernel

Tensor = torch.Tensor

WEIGHT_LIMIT = 255  # levels of attention weights times value scales, and of gradients at the scores by rows
SOFTMAX_LIMIT = 2047  # levels of gradients at the attention weights, in the sum of the softmax gradient
FIRST_BITS, FIRST_BYTE = 4, 16  # 1023 levels are 16 * 64 - 1


def attention(
    qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int], score_scale: float, window: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output (N, D) float32 from the rows (N, 3D), and what `attention_backward` needs. shape = (B, T, H)."""
    n_rows, n_time, n_heads = shape
    width = qkv.shape[1] // (3 * n_heads)
    size = (n_rows, n_heads, n_time + -n_time % STRIP)  # filled up to whole strips
    q, k, v = (torch.zeros(*size, width + -width % PART, dtype=torch.int8) for _ in range(3))
    e, factors = torch.zeros(*size, size[2], dtype=torch.uint8), torch.empty(6, n_rows, n_heads, n_time)
    out = torch.empty(n_rows * n_time, n_heads * width)
    saved = (q, k, v, e, factors)
    arguments = array(qkv), array(cos), array(sin), np.float32(score_scale), window, attention_table().numpy()
    _attention(*arguments, *[x.numpy() for x in saved], out.numpy())
    return out, saved


def attention_backward(
    grad: Tensor, saved: tuple[Tensor, ...], cos: Tensor, sin: Tensor, score_scale: float, window: int
) -> Tensor:
    """The gradient (N, 3D) float32 at queries, keys and values, from that at the output, (N, D)."""
    y = torch.empty(len(grad), 3 * grad.shape[1])
    arguments = array(grad), array(cos), array(sin), np.float32(score_scale), window
    _attention_backward(*arguments, *[x.numpy() for x in saved], y.numpy())
    return y


# ---- products


@helper
def _by_row(levels: Array) -> Array:
    """levels (T, K) int8 in the layout for products x (.., K) times the transposed levels."""
    words = new_levels(levels.shape[1], levels.shape[0])
    interleave_rows(levels.view(np.uint32), np.uint32(0), words)
    return words


@helper
def _by_column(levels: Array) -> Array:
    """levels (T, K) int8 in the layout for products x (.., T) times the levels."""
    words = new_levels(levels.shape[0], levels.shape[1])
    interleave(levels.view(np.uint8), np.uint32(0), words)
    return words


@helper
def _product(x: Array, w: Array, is_shifted: bool) -> Array:
    """x (n, T, K) uint8 times the levels of w: (T, ROWS * blocks) int32. Entries of x have n bytes, all or none shifted."""
    shift, tile = np.zeros(len(w) * ROWS, np.int32), np.empty((TILE, ROWS), np.int32)
    if is_shifted:
        fill_shifts(w, shift)
    sums, strip = np.zeros((x.shape[1], shift.size), np.int32), np.empty((STRIP, shift.size), np.int32)
    for n in range(len(x)):
        for start in range(0, len(sums), STRIP):
            multiply_strip(x[n, start : start + STRIP], w, 0, shift, tile, strip)
            for r in range(STRIP):
                own, total = strip[r], sums[start + r]
                for j in range(total.size):
                    total[j] = np.int32(FIRST_BYTE * total[j] + own[j])
    return sums


@inlined
def _split(levels: Array, first: Array, second: Array) -> None:
    """The two shifted bytes of levels, float32 integers."""
    for i in range(levels.size):
        level = np.int32(levels[i])
        upper = (level + FIRST_BYTE // 2) >> FIRST_BITS
        first[i] = upper + OFFSET
        second[i] = level - FIRST_BYTE * upper + OFFSET


@helper
def _shifted(levels: Array) -> Array:
    """levels (T, K) int8, shifted: (1, T, K) uint8."""
    out = np.empty((1, levels.shape[0], levels.shape[1]), np.uint8)
    for t in range(len(levels)):
        for i in range(levels.shape[1]):
            out[0, t, i] = levels[t, i] + OFFSET
    return out


# ---- forward


@kernel
def _attention(
    qkv: Array, cos: Array, sin: Array, score_scale: np.float32, window: int, table: Array,
    q: Array, k: Array, v: Array, e: Array, factors: Array, out: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_steps = q.shape[:3]
    n_time, width = factors.shape[3], out.shape[1] // n_heads
    depth, levels = n_heads * width, np.empty(width, np.float32)
    scores, weights = np.empty(n_time, np.float32), np.empty(n_time, np.float32)
    weighted, scale = np.zeros((1, n_steps, n_steps), np.uint8), np.empty(n_time, np.float32)
    for task in range(n_rows * n_heads):
        b, h = task // n_heads, task % n_heads
        q_r, q_s, k_r = factors[0, b, h], factors[1, b, h], factors[2, b, h]
        k_s, v_scale, inverse_sum = factors[3, b, h], factors[4, b, h], factors[5, b, h]
        for t in range(n_time):
            row, start = qkv[b * n_time + t], h * width
            q_r[t], q_s[t] = normalised_levels(row[start : start + width], cos[t], sin[t], levels)
            _to_bytes(levels, q[b, h, t])
            start += depth
            k_r[t], k_s[t] = normalised_levels(row[start : start + width], cos[t], sin[t], levels)
            _to_bytes(levels, k[b, h, t])
            start += depth
            v_scale[t] = round_row(row[start : start + width], INT8_LIMIT, levels) * INVERSE_INT8_LIMIT
            _to_bytes(levels, v[b, h, t])
        sums = _product(_shifted(q[b, h]), _by_row(k[b, h]), True)
        for t in range(n_time):
            visible = slice(max(t - window + 1, 0), t + 1)
            seen, values, own = weights[visible], v_scale[visible], sums[t, visible]
            for j in range(seen.size):
                scores[j] = own[j]
            total = softmax_numerators(scores[: seen.size], q_r[t] * score_scale, k_r[visible], table, seen)
            inverse_sum[t] = ONE / np.float32(total)
            _to_bytes(seen, e[b, h, t, visible])
            for j in range(seen.size):
                seen[j] = seen[j] * values[j]
            scale[t] = round_row(seen, WEIGHT_LIMIT, seen) * np.float32(1.0 / WEIGHT_LIMIT)
            _to_bytes(seen, weighted[0, t, visible])
        sums = _product(weighted, _by_column(v[b, h]), False)
        for t in range(n_time):
            row, factor, own = out[b * n_time + t, h * width : (h + 1) * width], scale[t] * inverse_sum[t], sums[t]
            for i in range(width):
                row[i] = np.float32(own[i]) * factor


@inlined
def _to_bytes(levels: Array, out: Array) -> None:
    """Integers in float32 as bytes, signed if they are."""
    for i in range(levels.size):
        out[i] = np.int32(levels[i])


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


@kernel
def _attention_backward(
    grad: Array, cos: Array, sin: Array, score_scale: np.float32, window: int,
    q: Array, k: Array, v: Array, e: Array, factors: Array, y: Array,
) -> None:  # fmt: skip
    n_rows, n_heads, n_steps, padded = q.shape
    n_time, width = factors.shape[3], grad.shape[1] // n_heads
    depth, g = n_heads * width, np.empty(width, np.float32)
    by_query, g_scale = np.empty((2, n_steps, padded), np.uint8), np.empty(n_time, np.float32)
    columns, by_column = np.empty((n_time, width), np.float32), np.zeros((n_steps, padded), np.int8)
    transposed = np.zeros((1, n_steps, n_steps), np.uint8)
    products, ds = np.empty(n_time, np.float32), np.empty(n_time, np.float32)
    by_key, row_scale = np.zeros((n_time, n_time), np.float32), np.empty(n_time, np.float32)
    for task in range(n_rows * n_heads):
        b, h = task // n_heads, task % n_heads
        q_r, q_s, k_r = factors[0, b, h], factors[1, b, h], factors[2, b, h]
        k_s, v_scale, inverse_sum = factors[3, b, h], factors[4, b, h], factors[5, b, h]
        rows = y[b * n_time : (b + 1) * n_time]
        top = np.zeros(width, np.int32)
        for t in range(n_time):
            own = grad[b * n_time + t, h * width : (h + 1) * width]
            for i in range(width):
                columns[t, i] = own[i] * inverse_sum[t]
                top[i] = max(top[i], magnitude_bits(columns[t, i]))
            g_scale[t] = round_row(own, GRADIENT_LIMIT, g) * INVERSE_GRADIENT_LIMIT
            _split(g, by_query[0, t], by_query[1, t])
        value_scale = _round_columns(columns, top)
        for t in range(n_time):
            _to_bytes(columns[t], by_column[t])
            for j in range(t + 1):
                transposed[0, j, t] = e[b, h, t, j]
        sums = _product(transposed, _by_column(by_column), False)  # 255 * 127 * T < 2**24 needs T <= 518
        for t in range(n_time):
            for i in range(width):
                rows[t, 2 * depth + h * width + i] = np.float32(sums[t, i]) * value_scale[i]

        sums = _product(by_query, _by_row(v[b, h]), True)  # 1023 * 127 * K < 2**24 needs K <= 129
        row_bytes = np.full((2, n_steps, n_steps), np.uint8(OFFSET), np.uint8)
        top = np.zeros(n_time, np.int32)
        for t in range(n_time):
            visible = slice(max(t - window + 1, 0), t + 1)
            seen, of_columns, of_keys, highest = ds[visible], by_key[t, visible], k_r[visible], top[visible]
            own, some = sums[t, visible], products[visible]
            for j in range(seen.size):
                some[j] = own[j]
            _softmax_gradient(some, g_scale[t], v_scale[visible], e[b, h, t, visible], inverse_sum[t], seen)
            for j in range(seen.size):
                of_columns[j] = seen[j] * q_r[t]
                highest[j] = max(highest[j], magnitude_bits(of_columns[j]))
                seen[j] = seen[j] * of_keys[j]
            row_scale[t] = round_row(seen, WEIGHT_LIMIT, seen) * np.float32(1.0 / WEIGHT_LIMIT)
            _split(seen, row_bytes[0, t, visible], row_bytes[1, t, visible])
        sums = _product(row_bytes, _by_column(k[b, h]), True)
        for t in range(n_time):
            out, scale = rows[t, h * width : (h + 1) * width], row_scale[t] * score_scale
            _normalised_gradient(sums[t, :width], scale, q[b, h, t], q_r[t], q_s[t], cos[t], sin[t], g, out)
        key_scale = _round_columns(by_key, top)
        key_bytes = np.full((1, n_steps, n_steps), np.uint8(OFFSET), np.uint8)
        for t in range(n_time):
            for j in range(max(t - window + 1, 0), t + 1):
                key_bytes[0, j, t] = np.int32(by_key[t, j]) + OFFSET
        sums = _product(key_bytes, _by_column(q[b, h]), True)
        for t in range(n_time):
            out, scale = rows[t, depth + h * width : depth + (h + 1) * width], key_scale[t] * score_scale
            _normalised_gradient(sums[t, :width], scale, k[b, h, t], k_r[t], k_s[t], cos[t], sin[t], g, out)


@helper
def _round_columns(x: Array, top: Array) -> Array:
    """Rounds x (T, C) in place to 127 levels per column; returns the scales (C,). top: the bits of the largest magnitudes."""
    scale, factor = np.empty(top.size, np.float32), np.empty(top.size, np.float32)
    for j in range(top.size):
        magnitude = scale_of(top[j])
        factor[j] = levels_per_unit(magnitude, INT8_LIMIT)
        scale[j] = magnitude * INVERSE_INT8_LIMIT
    for t in range(x.shape[0]):
        row = x[t]
        for j in range(row.size):
            row[j] = np.rint(row[j] * factor[j])
    return scale


@inlined
def _softmax_gradient(
    products: Array, g_scale: np.float32, v_scale: Array, e: Array, inverse: np.float32, ds: Array
) -> None:
    """ds = P * (dP - sum(P * dP)) of one query. P = e * inverse; dP = products * g_scale * v_scale if e > 0, otherwise 0."""
    for j in range(ds.size):
        dp = (products[j] * g_scale) * v_scale[j]
        ds[j] = dp if e[j] > 0 else np.float32(0.0)
    magnitude = largest_magnitude(ds)
    factor = levels_per_unit(magnitude, SOFTMAX_LIMIT)
    total = np.int64(0)
    for j in range(ds.size):
        total += np.int32(np.rint(ds[j] * factor)) * np.int32(e[j])  # 2047 * 255 < 2**24
    mean = (np.float32(total) * (magnitude * np.float32(1.0 / SOFTMAX_LIMIT))) * inverse
    for j in range(ds.size):
        ds[j] = (np.float32(e[j]) * inverse) * (ds[j] - mean)


@inlined
def _normalised_gradient(
    acc: Array, scale: np.float32, levels: Array, r: np.float32, s: np.float32, cos: Array, sin: Array, g: Array, out: Array
) -> None:  # fmt: skip
    """out = the gradient acc * scale, taken backward through the RMS norm and the rotation. g: scratch memory for one row."""
    width, half = g.size, cos.size
    for i in range(width):
        g[i] = np.float32(acc[i]) * scale
    magnitude = largest_magnitude(g)
    factor = levels_per_unit(magnitude, GRADIENT_LIMIT)
    total = np.int32(0)  # 1023 * 127 * K < 2**31
    for i in range(width):
        total = np.int32(total + np.int32(np.rint(g[i] * factor)) * np.int32(levels[i]))
    mean = (np.float32(total) * (magnitude * INVERSE_GRADIENT_LIMIT)) * (r * np.float32(1.0 / width))
    for i in range(width):
        g[i] = (g[i] - (np.float32(levels[i]) * r) * mean) * s
    first, second = g[:half], g[half:]
    for i in range(half):
        out[i] = first[i] * cos[i] - second[i] * -sin[i]
        out[half + i] = second[i] * cos[i] + first[i] * -sin[i]
