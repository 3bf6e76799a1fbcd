"""The primitives of attention as Triton kernels: see primitives.py. Letters as in plain.py."""

import torch
import triton
import triton.language as tl

from prequential.exact.device import rounding
from prequential.exact.device.rounding import TINY, block_of, inverse, inverse_rms, largest, levels, rounded, row_dot
from prequential.exact.plain import GRADIENT_LIMIT, INT8_LIMIT
from prequential.exact.tables import ATTENTION_TABLE_SIZE, SCORE_STEPS_PER_NAT, attention_table

Tensor = torch.Tensor

ROW_BLOCK, KEY_BLOCK = 32, 32  # of a program that reduces over queries


def attention_inputs(qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, ...]:
    n_rows, n_time, n_heads = shape
    qkv, width = qkv.contiguous(), qkv.shape[1] // (3 * n_heads)
    q, k, v = (qkv.new_empty(n_rows, n_heads, n_time, width) for _ in range(3))
    q_r, q_s, k_r, k_s, v_scale = (qkv.new_empty(n_rows, n_heads, n_time) for _ in range(5))
    rounding.launch(
        _attention_inputs, (n_rows * n_time, n_heads), qkv, cos.contiguous(), sin.contiguous(), q, q_r, q_s, k, k_r, k_s,
        v, v_scale, n_time, n_heads, width, LIMIT=INT8_LIMIT, SHARE=1.0 / width, BLOCK=block_of(width), width=width,
    )  # fmt: skip
    return q, q_r, q_s, k, k_r, k_s, v, v_scale


@triton.jit
def _attention_inputs(
    qkv, cos, sin, q, q_r, q_s, k, k_r, k_s, v, v_scale, n_time, n_heads, n, LIMIT: tl.constexpr, SHARE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row, head, j = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BLOCK)
    time, inside = row % n_time, j < n
    start = qkv + row * (3 * n_heads * n) + head * n
    place = (row // n_time * n_heads + head) * n_time + time
    _rotate_and_normalise(start, cos, sin, time, q, q_r, q_s, place, n, LIMIT, SHARE, BLOCK)
    _rotate_and_normalise(start + n_heads * n, cos, sin, time, k, k_r, k_s, place, n, LIMIT, SHARE, BLOCK)
    value = tl.load(start + 2 * n_heads * n + j, inside, 0.0)
    magnitude = largest(value)
    tl.store(v + place * n + j, levels(value, magnitude, LIMIT), inside)
    tl.store(v_scale + place, magnitude * (1.0 / LIMIT))


@triton.jit
def _rotate_and_normalise(
    x, cos, sin, time, q, r, s, place, n, LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr
):
    """Rotates the pairs (i, i + n/2) of n numbers by the angles of this time, divides by their rms and rounds."""
    j, half = tl.arange(0, BLOCK), n // 2
    inside, is_first = j < n, j < half
    other, angle = tl.where(is_first, j + half, j - half), tl.where(is_first, j, j - half)
    own, paired = tl.load(x + j, inside, 0.0), tl.load(x + other, inside, 0.0)
    c, d = tl.load(cos + time * half + angle, inside, 0.0), tl.load(sin + time * half + angle, inside, 0.0)
    y = tl.where(is_first, own * c - paired * d, own * c + paired * d)
    magnitude = largest(y)
    whole = levels(y, magnitude, LIMIT)
    squares = whole.to(tl.int32) * whole.to(tl.int32)
    factor = inverse_rms(tl.sum(squares, 0), SHARE)
    tl.store(q + place * n + j, whole, inside)
    tl.store(r + place, factor)
    tl.store(s + place, tl.div_rn(factor, magnitude * (1.0 / LIMIT)))


def attention_weights(
    scores: Tensor, q_r: Tensor, k_r: Tensor, v_scale: Tensor, mask: tuple[int, int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = scores.contiguous()
    n_rows, n_heads, n_queries, n_keys = scores.shape
    e, found = torch.empty_like(scores), torch.empty_like(scores)
    inverse_sum, scale = scores.new_empty(scores.shape[:3]), scores.new_empty(scores.shape[:3])
    rounding.launch(
        _attention_weights, (n_rows * n_heads * n_queries,), scores, q_r.contiguous(), k_r.contiguous(),
        v_scale.contiguous(), attention_table(scores.device), e, inverse_sum, found, scale, n_queries, n_keys, *mask,
        STEPS=float(SCORE_STEPS_PER_NAT), LAST=ATTENTION_TABLE_SIZE - 1.0, BLOCK=block_of(n_keys), width=n_keys,
    )  # fmt: skip
    return e, inverse_sum, found, scale


@triton.jit
def _attention_weights(
    scores, q_r, k_r, v_scale, table, e, inverse_sum, found, scale, n_queries, n, first_query, first_valid, window,
    STEPS: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside, at, keys = j < n, row * n + j, row // n_queries * n + j
    query = first_query + row % n_queries
    seen = inside & (j <= query) & (j > query - window) & (j >= first_valid)
    z = tl.load(scores + at, inside, 0.0) * tl.load(q_r + row) * tl.load(k_r + keys, inside, 0.0)
    z = tl.where(seen, z, -1e9)
    steps = rounded(tl.minimum((tl.max(z, 0) - z) * STEPS, LAST)).to(tl.int32)
    weight = tl.where(seen, tl.load(table + steps), 0.0)
    weighted = weight * tl.load(v_scale + keys, inside, 0.0)
    magnitude = tl.maximum(tl.max(weighted, 0), TINY)
    tl.store(e + at, weight, inside)
    tl.store(inverse_sum + row, inverse(tl.sum(weight.to(tl.int32), 0).to(tl.float32)))
    tl.store(found + at, levels(weighted, magnitude, 255), inside)
    tl.store(scale + row, magnitude * (1.0 / 255))


def attention_output(acc: Tensor, factor: Tensor) -> Tensor:
    acc = acc.contiguous()
    n_rows, n_heads, n_time, width = acc.shape
    out = acc.new_empty(n_rows * n_time, n_heads * width)
    rounding.launch(
        _attention_output, (n_rows * n_time, n_heads), acc, factor.contiguous(), out, n_time, n_heads, width,
        BLOCK=block_of(width), width=width,
    )  # fmt: skip
    return out


@triton.jit
def _attention_output(acc, factor, out, n_time, n_heads, n, BLOCK: tl.constexpr):
    row, head, j = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BLOCK)
    place = (row // n_time * n_heads + head) * n_time + row % n_time
    y = tl.load(acc + place * n + j, j < n, 0.0) * tl.load(factor + place)
    tl.store(out + (row * n_heads + head) * n + j, y, j < n)


def attention_backward_values(grad: Tensor, inverse_sum: Tensor, n_heads: int) -> tuple[Tensor, ...]:
    grad = grad.contiguous()
    n_rows, _, n_time = inverse_sum.shape
    width = grad.shape[1] // n_heads
    by_query, by_column = (grad.new_empty(n_rows, n_heads, n_time, width) for _ in range(2))
    scale, column = grad.new_empty(n_rows, n_heads, n_time), grad.new_empty(n_rows, n_heads, 1, width)
    rounding.launch(
        _attention_backward_values, (n_rows * n_heads,), grad, inverse_sum.contiguous(), by_query, scale, by_column, column,
        n_time, n_heads, width, QUERY_LIMIT=GRADIENT_LIMIT, COLUMN_LIMIT=INT8_LIMIT, ROWS=ROW_BLOCK,
        BLOCK=block_of(width), width=ROW_BLOCK * width,
    )  # fmt: skip
    return by_query, scale, by_column, column


@triton.jit
def _attention_backward_values(
    grad, inverse_sum, by_query, scale, by_column, column, n_time, n_heads, n, QUERY_LIMIT: tl.constexpr,
    COLUMN_LIMIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    stack, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    row, head = stack // n_heads, stack % n_heads
    top = tl.full([BLOCK], TINY, tl.float32)
    for start in range(0, n_time, ROWS):
        t = start + tl.arange(0, ROWS)
        inside, place = (t < n_time)[:, None] & (j < n)[None, :], stack * n_time + t
        g = tl.load(grad + ((row * n_time + t)[:, None] * n_heads + head) * n + j[None, :], inside, 0.0)
        magnitude = tl.maximum(tl.max(tl.abs(g), 1), TINY)
        tl.store(by_query + place[:, None] * n + j[None, :], levels(g, magnitude[:, None], QUERY_LIMIT), inside)
        tl.store(scale + place, magnitude * (1.0 / QUERY_LIMIT), t < n_time)
        g = g * tl.load(inverse_sum + place, t < n_time, 0.0)[:, None]
        top = tl.maximum(top, tl.max(tl.abs(g), 0))
    tl.store(column + stack * n + j, top * (1.0 / COLUMN_LIMIT), j < n)
    for start in range(0, n_time, ROWS):
        t = start + tl.arange(0, ROWS)
        inside, place = (t < n_time)[:, None] & (j < n)[None, :], stack * n_time + t
        g = tl.load(grad + ((row * n_time + t)[:, None] * n_heads + head) * n + j[None, :], inside, 0.0)
        g = g * tl.load(inverse_sum + place, t < n_time, 0.0)[:, None]
        tl.store(by_column + place[:, None] * n + j[None, :], levels(g, top[None, :], COLUMN_LIMIT), inside)


def attention_backward_scores(
    products: Tensor, g_scale: Tensor, v_scale: Tensor, e: Tensor, inverse_sum: Tensor, q_r: Tensor, k_r: Tensor
) -> tuple[Tensor, ...]:
    products = products.contiguous()
    n_rows, n_heads, n_queries, n_keys = products.shape
    by_query, by_key, columns = (torch.empty_like(products) for _ in range(3))
    row_scale, column_scale = products.new_empty(products.shape[:3]), products.new_empty(n_rows, n_heads, n_keys)
    per_query, per_key = (g_scale.contiguous(), inverse_sum.contiguous(), q_r.contiguous()), (v_scale, k_r)
    rounding.launch(
        _scores_by_query, (row_scale.numel(),), products, e.contiguous(), *per_query, *(x.contiguous() for x in per_key),
        by_query, row_scale, columns, n_queries, n_keys, BLOCK=block_of(n_keys), width=n_keys,
    )  # fmt: skip
    rounding.launch(
        _scores_by_key, (n_rows * n_heads, -(-n_keys // KEY_BLOCK)), columns, by_key, column_scale, n_queries, n_keys,
        LIMIT=INT8_LIMIT, ROWS=ROW_BLOCK, COLUMNS=KEY_BLOCK, width=ROW_BLOCK * KEY_BLOCK,
    )  # fmt: skip
    return by_query, row_scale, by_key, column_scale


@triton.jit
def _scores_by_query(
    products, e, g_scale, inverse_sum, q_r, v_scale, k_r, by_query, row_scale, columns, n_queries, n, BLOCK: tl.constexpr
):  # fmt: skip
    """The gradient of one query, rounded; and the same times q_r, for the keys."""
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside, at, keys = j < n, row * n + j, row // n_queries * n + j
    weight, share = tl.load(e + at, inside, 0.0), tl.load(inverse_sum + row)
    dp = tl.load(products + at, inside, 0.0) * tl.load(g_scale + row) * tl.load(v_scale + keys, inside, 0.0)
    dp = tl.where(weight == 0.0, 0.0, dp)
    scale = largest(dp)
    total = tl.sum(levels(dp, scale, 2047).to(tl.int64) * weight.to(tl.int64), 0)
    mean = total.to(tl.float32) * (scale * (1.0 / 2047)) * share
    ds = (weight * share) * (dp - mean)
    rows = ds * tl.load(k_r + keys, inside, 0.0)
    magnitude = largest(rows)
    tl.store(by_query + at, levels(rows, magnitude, 255), inside)
    tl.store(row_scale + row, magnitude * (1.0 / 255))
    tl.store(columns + at, ds * tl.load(q_r + row), inside)


@triton.jit
def _scores_by_key(
    columns, by_key, column_scale, n_queries, n, LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Rounds a block of columns of each stack."""
    stack, j = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    top = tl.full([COLUMNS], TINY, tl.float32)
    for start in range(0, n_queries, ROWS):
        t = start + tl.arange(0, ROWS)
        inside = (t < n_queries)[:, None] & (j < n)[None, :]
        x = tl.load(columns + (stack * n_queries + t)[:, None] * n + j[None, :], inside, 0.0)
        top = tl.maximum(top, tl.max(tl.abs(x), 0))
    tl.store(column_scale + stack * n + j, top * (1.0 / LIMIT), j < n)
    for start in range(0, n_queries, ROWS):
        t = start + tl.arange(0, ROWS)
        inside, at = (t < n_queries)[:, None] & (j < n)[None, :], (stack * n_queries + t)[:, None] * n + j[None, :]
        tl.store(by_key + at, levels(tl.load(columns + at, inside, 0.0), top[None, :], LIMIT), inside)


def attention_inputs_backward(
    sums: tuple[Tensor, ...], scales: tuple[Tensor, ...], saved: tuple[Tensor, ...], cos: Tensor, sin: Tensor
) -> Tensor:
    n_rows, n_heads, n_time, width = sums[0].shape
    out = sums[0].new_empty(n_rows * n_time, 3 * n_heads * width)
    given = (x.contiguous() for x in (*sums, *scales, *saved, cos, sin))
    rounding.launch(
        _attention_inputs_backward, (n_rows * n_time, n_heads), *given, out, n_time, n_heads, width,
        LIMIT=GRADIENT_LIMIT, SHARE=1.0 / width, BLOCK=block_of(width), width=width,
    )  # fmt: skip
    return out


@triton.jit
def _attention_inputs_backward(
    dq, dk, dv, dq_scale, dk_scale, dv_scale, q, q_r, q_s, k, k_r, k_s, cos, sin, out, n_time, n_heads, n,
    LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, head, j = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BLOCK)
    time, stack, inside = row % n_time, row // n_time * n_heads + head, j < n
    place = stack * n_time + time
    start = out + row * (3 * n_heads * n) + head * n
    _through_norm_and_rotation(dq, dq_scale, q, q_r, q_s, cos, sin, time, place, start, n, LIMIT, SHARE, BLOCK)
    _through_norm_and_rotation(
        dk, dk_scale, k, k_r, k_s, cos, sin, time, place, start + n_heads * n, n, LIMIT, SHARE, BLOCK
    )
    value = tl.load(dv + place * n + j, inside, 0.0) * tl.load(dv_scale + stack * n + j, inside, 0.0)
    tl.store(start + 2 * n_heads * n + j, value, inside)


@triton.jit
def _through_norm_and_rotation(
    acc, scale, q, r, s, cos, sin, time, place, out, n, LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr
):
    """The gradient of one vector before it was rotated and divided by its rms."""
    j, half = tl.arange(0, BLOCK), n // 2
    inside, is_first = j < n, j < half
    other, angle = tl.where(is_first, j + half, j - half), tl.where(is_first, j, j - half)
    factor, last = tl.load(r + place), tl.load(s + place)
    g, y = tl.load(acc + place * n + j, inside, 0.0) * tl.load(scale + place), tl.load(q + place * n + j, inside, 0.0)
    mean = row_dot(g, y.to(tl.int32), LIMIT) * (factor * SHARE)
    own = (g - (y * factor) * mean) * last
    # The other number of each pair, computed in the same way.
    g_other = tl.load(acc + place * n + other, inside, 0.0) * tl.load(scale + place)
    y_other = tl.load(q + place * n + other, inside, 0.0)
    paired = (g_other - (y_other * factor) * mean) * last
    c, d = tl.load(cos + time * half + angle, inside, 0.0), tl.load(sin + time * half + angle, inside, 0.0)
    tl.store(out + j, tl.where(is_first, own * c + paired * d, own * c - paired * d), inside)
