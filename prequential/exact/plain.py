"""The exact primitives in plain torch: the definition of the arithmetic, on any device.

Every function is a fixed sequence of single-rounding IEEE float32 operations and of integer sums whose bound is stated, so
its result does not depend on thread count, vector width, memory layout or device (docs/EXACT.md). `fused` computes the
same bits in compiled loops. Integer matrices come in two forms: int8 tensors for matmuls of weights, and "carried" integers
in float32, exact below 2**24, for the batched matmuls of attention.

Shapes: R rows, C columns, "..." a stack of such matrices or nothing; B rows of symbols, H heads, T queries, J keys, K width of a
head; N = B*T, D = H*K.
"""

import torch

from prequential.exact.tables import (
    ATTENTION_TABLE_SIZE,
    FREQUENCY_TABLE_SIZE,
    LOGIT_STEPS_PER_NAT,
    SCORE_STEPS_PER_NAT,
    attention_table,
    frequency_table,
)

Tensor = torch.Tensor

TINY = 1e-30  # scales are clamped here, far above denormals
FINE = 254  # low levels in a high one
INT8_LIMIT = 127
GRADIENT_LIMIT = 1023  # operands of integer dot products: 1023 * 127 * K < 2**31 for K <= 16529
EMBEDDING_LIMIT = 262143  # 18 bits: sums of 8192 rows fit int32
TOTAL = 1 << 24  # sum of the frequencies of a distribution


def sqrt(x: Tensor) -> Tensor:
    """Correctly rounded float32 square root. torch.sqrt of float32 is not; the float64 route is (never near a midpoint)."""
    return x.double().sqrt().float()


def _limit_over(scale: Tensor, limit: int) -> Tensor:
    return scale.reciprocal() * float(limit)


def _absmax(x: Tensor, dim: int) -> Tensor:
    return x.abs().amax(dim).clamp_min(TINY)


def quantise_rows(x: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(..., R, C) float32 -> int8 integers in [-127, 127] and a float32 scale per row, x * column_factor ~ q * scale[:, None]."""
    if column_factor is not None:
        x = x * column_factor[..., None, :]
    scale = _absmax(x, -1)
    q = (x * _limit_over(scale, INT8_LIMIT)[..., None]).round_().to(torch.int8)
    return q, scale * (1.0 / INT8_LIMIT)


def quantise_rows_finely(x: Tensor, column_factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(R, C) float32 -> two int8 integers in [-127, 127] and a scale per row, x * column_factor ~ (FINE * high + low) * scale."""
    x = x * column_factor
    scale = _absmax(x, 1)
    levels = x * _limit_over(scale, INT8_LIMIT)[:, None]
    high = levels.round()
    low = ((levels - high) * float(FINE)).round_()  # the difference is exact, and at most 1/2
    return high.to(torch.int8), low.to(torch.int8), scale * (1.0 / (INT8_LIMIT * FINE))


def quantise_columns(x: Tensor, row_factor: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(R, C) float32 -> int8 integers and a float32 scale per column, x * row_factor[:, None] ~ q * scale."""
    peaks = column_peaks(x, row_factor)
    return round_columns(x, peaks, row_factor), peaks * (1.0 / INT8_LIMIT)


def column_peaks(x: Tensor, row_factor: Tensor | None = None) -> Tensor:
    """The largest magnitude in each column of x * row_factor[:, None], at least TINY: (C,) float32."""
    return _absmax(x if row_factor is None else x * row_factor[:, None], 0)


def round_columns(x: Tensor, peaks: Tensor, row_factor: Tensor | None = None) -> Tensor:
    """The int8 integers of `quantise_columns` for columns of these peaks, which may be those of more rows than these."""
    if row_factor is not None:
        x = x * row_factor[:, None]
    return (x * _limit_over(peaks, INT8_LIMIT)).round_().to(torch.int8)


def normalise_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """RMS norm and quantisation at once: int8 q and two float32 factors per row.

    Returns q, r, s with x / rms(x) ~ q * r[:, None] and 1 / rms(x) ~ s. The sum of squares is an integer: 127**2 * C < 2**24
    for C <= 1040, and it is taken in int32.
    """
    q, scale = quantise_rows(x)
    r = _inverse_rms(q)
    return q, r, r / scale


def _inverse_rms(q: Tensor) -> Tensor:
    squares = q.to(torch.int32).square().sum(-1, dtype=torch.int64).clamp_min(1)
    return 1.0 / sqrt(squares.float() * (1.0 / q.shape[-1]))


def normalise_rows_backward(g: Tensor, q: Tensor, r: Tensor, s: Tensor, base: Tensor) -> Tensor:
    """`base` plus the gradient with respect to x of a loss whose gradient at x / rms(x) is g, all (R, C).

    (g - y * mean(g * y)) * s with y = q * r; the mean's sum is an integer product of q with g rounded to 1023 levels a row.
    """
    y = q.float() * r[:, None]
    mean = _row_dot(g, q) * (r * (1.0 / q.shape[-1]))
    return base + (g - y * mean[:, None]) * s[:, None]


def _row_dot(g: Tensor, q: Tensor) -> Tensor:
    """Sum over the last axis of g * q, g rounded to 1023 levels of its row's largest magnitude: float32."""
    scale = _absmax(g, -1)
    levels = (g * _limit_over(scale, GRADIENT_LIMIT)[..., None]).round_().to(torch.int32)
    total = (levels * q.to(torch.int32)).sum(-1, dtype=torch.int64)
    return total.float() * (scale * (1.0 / GRADIENT_LIMIT))


def dequantise(
    acc: Tensor,
    row: Tensor | None,
    column: Tensor | None,
    base: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Tensor:
    """base * alpha + acc * row[:, None] * column * beta, each product and the sum rounded once, left to right.

    (..., R, C) float32.
    """
    y = acc.float()
    if row is not None:
        y = y * row[..., None]
    if column is not None:
        y = y * column[..., None, :]
    if beta != 1.0:
        y = y * beta
    if base is not None:
        y = (base if alpha == 1.0 else base * alpha) + y
    return y


def squared_relu(acc: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a = max(0, acc * row * column) as (R, C) float32, and a*a quantised by rows: (int8, scale, a)."""
    a = dequantise(acc, row, column).clamp_min_(0.0)
    return *quantise_rows(a * a), a


def squared_relu_backward(acc: Tensor, row: Tensor, a: Tensor) -> Tensor:
    """Gradient before the squared ReLU, given the dequantised gradient after it: (acc * row) * (2 a)."""
    return dequantise(acc, row, None) * (a + a)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (i, i + K/2) of the last axis by the angles of cos, sin (broadcast over (..., K/2))."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _unit_levels(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Like normalise_rows over the last axis of any shape, with carried integers: (levels float32, r, s)."""
    scale = _absmax(x, -1)
    levels = (x * _limit_over(scale, INT8_LIMIT)[..., None]).round_()
    r = _inverse_rms(levels)
    return levels, r, r / (scale * (1.0 / INT8_LIMIT))


def attention_inputs(qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, ...]:
    """Rotated, RMS-normalised queries and keys and quantised values of (N, 3D) float32, as carried integers.

    shape = (B, T, H); cos and sin are (T, K/2). Returns q, q_r, q_s, k, k_r, k_s, v, v_scale: integers (B, H, T, K) with
    normalised vector ~ integers * r and 1/rms ~ s, each factor (B, H, T). Rotation keeps the norm, so one rounding does both.
    """
    n_rows, n_time, n_heads = shape
    q, k, v = qkv.view(n_rows, n_time, 3, n_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
    v_scale = _absmax(v, -1)
    v_levels = (v * _limit_over(v_scale, INT8_LIMIT)[..., None]).round_()
    return (
        *_unit_levels(rotate(q, cos, sin)),
        *_unit_levels(rotate(k, cos, sin)),
        v_levels,
        v_scale * (1.0 / INT8_LIMIT),
    )


def attention_weights(
    scores: Tensor, q_r: Tensor, k_r: Tensor, v_scale: Tensor, first_query: int, first_valid: int, window: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Integer softmax numerators of integer scores (B, H, T, J), and the same times v_scale, requantised.

    Query t may see keys j with max(first_valid, first_query + t - window) < j + 1 <= first_query + t + 1, that is, the
    `window` keys up to its own index first_query + t. q_r (B, H, T) holds the score scale already; k_r, v_scale (B, H, J).
    Returns e (integers 0..255), 1 / sum(e), levels (integers 0..255) and their scale per query: e * v_scale ~ levels * scale.
    Bound: the sum of e is at most 255 * J < 2**24.
    """
    n_queries, n_keys = scores.shape[-2:]
    query = torch.arange(n_queries, device=scores.device)[:, None] + first_query
    key = torch.arange(n_keys, device=scores.device)
    hidden = (key > query) | (key <= query - window) | (key < first_valid)
    z = scores * q_r[..., None] * k_r[:, :, None, :]
    z = z.masked_fill(hidden, -1e9)
    steps = (z.amax(-1, keepdim=True) - z) * float(SCORE_STEPS_PER_NAT)
    e = attention_table(scores.device)[steps.round_().clamp_max_(ATTENTION_TABLE_SIZE - 1.0).to(torch.int64)]
    e = e.masked_fill(hidden, 0.0)
    inverse_sum = 1.0 / e.sum(-1, dtype=torch.float64).float()
    weighted = e * v_scale[:, :, None, :]
    scale = weighted.amax(-1).clamp_min(TINY)
    levels = (weighted * _limit_over(scale, 255)[..., None]).round_()
    return e, inverse_sum, levels, scale * (1.0 / 255)


def attention_output(acc: Tensor, factor: Tensor) -> Tensor:
    """(B, H, T, K) integer sums times factor (B, H, T), as (B*T, H*K) float32 rows."""
    n_rows, n_heads, n_time, width = acc.shape
    return (acc * factor[..., None]).transpose(1, 2).reshape(n_rows * n_time, n_heads * width)


Column = None  # plain torch composes a decoder's column from the functions here


def attention_backward_values(grad: Tensor, inverse_sum: Tensor, n_heads: int) -> tuple[Tensor, ...]:
    """The gradient rows (N, D) at attention's output, rounded twice for the two matmuls that need it.

    Returns by_query (B, H, T, K) with its scale (B, H, T): 1023 levels a query; by_column with its scale (B, H, 1, K): 127 levels
    of grad / sum(e), constant along the queries that are summed.
    """
    n_rows, _, n_time = inverse_sum.shape
    g = grad.view(n_rows, n_time, n_heads, -1).transpose(1, 2)  # (B, H, T, K)
    scale = _absmax(g, -1)
    by_query = (g * _limit_over(scale, GRADIENT_LIMIT)[..., None]).round_()
    g = g * inverse_sum[..., None]
    column = g.abs().amax(-2, keepdim=True).clamp_min(TINY)
    by_column = (g * _limit_over(column, INT8_LIMIT)).round_()
    return by_query, scale * (1.0 / GRADIENT_LIMIT), by_column, column * (1.0 / INT8_LIMIT)


def attention_backward_scores(
    products: Tensor,
    g_scale: Tensor,
    v_scale: Tensor,
    e: Tensor,
    inverse_sum: Tensor,
    q_r: Tensor,
    k_r: Tensor,
) -> tuple[Tensor, ...]:
    """Gradient at the scores, rounded by rows for the queries and by columns for the keys.

    products (B, H, T, J) = integer gradient . value dot products. dP = products * g_scale * v_scale; the softmax gradient
    P * (dP - sum(P dP)) has its sum taken in integers: dP rounded to 2047 levels a row, times e; 2047*255*J < 2**53.
    Returns by_query (255 levels, k_r folded in), its scale (B, H, T), by_key (127 levels, q_r folded in), its scale
    (B, H, J).
    """
    dp = products * g_scale[..., None] * v_scale[:, :, None, :]
    dp = dp.masked_fill(e == 0.0, 0.0)
    scale = _absmax(dp, -1)
    levels = (dp * _limit_over(scale, 2047)[..., None]).round_()
    mean = (levels.double() * e).sum(-1).float() * (scale * (1.0 / 2047)) * inverse_sum
    ds = (e * inverse_sum[..., None]) * (dp - mean[..., None])
    rows = ds * k_r[:, :, None, :]
    row_scale = _absmax(rows, -1)
    by_query = (rows * _limit_over(row_scale, 255)[..., None]).round_()
    columns = ds * q_r[..., None]
    column_scale = _absmax(columns, -2)
    by_key = (columns * _limit_over(column_scale, INT8_LIMIT)[..., None, :]).round_()
    return by_query, row_scale * (1.0 / 255), by_key, column_scale * (1.0 / INT8_LIMIT)


def attention_inputs_backward(
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dq_scale: Tensor,
    dk_scale: Tensor,
    dv_scale: Tensor,
    saved: tuple[Tensor, ...],
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    """Gradient at (N, 3D) qkv. dq, dk, dv: integer sums (B, H, T, K), with scales (B, H, T), (B, H, T) and (B, H, 1, K).

    saved: the first six results of attention_inputs. dq_scale and dk_scale carry the score scale and the other side's factors.
    """
    q, q_r, q_s, k, k_r, k_s = saved
    gradients = []
    for levels, acc, scale, r, s in ((q, dq, dq_scale, q_r, q_s), (k, dk, dk_scale, k_r, k_s)):
        g = acc * scale[..., None]
        mean = _row_dot(g, levels) * (r * (1.0 / levels.shape[-1]))
        g = (g - (levels * r[..., None]) * mean[..., None]) * s[..., None]
        gradients.append(rotate(g, cos, -sin))
    gradients.append(dv * dv_scale)
    n_rows, n_heads, n_time, width = dq.shape
    return torch.stack(gradients, 0).permute(1, 3, 0, 2, 4).reshape(n_rows * n_time, 3 * n_heads * width)


def frequencies(logits: Tensor) -> Tensor:
    """(R, V) float32 logits (nats) -> (R, V) int32 frequencies, each >= 1, each row's sum exactly 2**24.

    e = table[round(64 * (max - z))]; f = 1 + floor(e * (2**24 - V) / sum(e)) in float64 (the product is exact: 48 bits, the
    division rounds once); what is left over goes to the first largest logit (argmax).
    """
    n_symbols = logits.shape[1]
    largest = logits.amax(1)
    steps = ((largest[:, None] - logits) * float(LOGIT_STEPS_PER_NAT)).round_().clamp_max_(FREQUENCY_TABLE_SIZE - 1.0)
    e = frequency_table(logits.device)[steps.to(torch.int64)]
    share = (e * float(TOTAL - n_symbols)) / e.sum(1, keepdim=True)  # integer sum < 2**53: exact in any order
    f = share.floor_().to(torch.int32) + 1
    f.scatter_add_(
        1, logits.argmax(1, keepdim=True), (TOTAL - f.sum(1, keepdim=True, dtype=torch.int64)).to(torch.int32)
    )
    return f


def loss_gradient(frequency: Tensor, symbols: Tensor) -> Tensor:
    """Gradient of the code length in nats at the logits: frequency * 2**-24 - onehot, (R, V) float32; symbols (R,) int64."""
    g = frequency.float() * 2.0**-24
    rows = torch.arange(len(symbols), device=g.device)
    g[rows, symbols] -= 1.0
    return g


def embedding_gradient(g: Tensor, symbols: Tensor, n_symbols: int) -> Tensor:
    """(N, D) float32 gradient rows summed by their symbols (N, E) into (E, V, D): 18 bits in int32, exact for N <= 8192."""
    peak = peak_of(g)
    return embedding_sums(g, symbols, n_symbols, peak).float() * (peak * (1.0 / EMBEDDING_LIMIT))


def peak_of(x: Tensor) -> Tensor:
    """The largest magnitude of all, at least TINY: (1,) float32."""
    return x.abs().amax().clamp_min(TINY)[None]


def embedding_sums(g: Tensor, symbols: Tensor, n_symbols: int, peak: Tensor) -> Tensor:
    """The sums (E, V, D) int32 of `embedding_gradient` for this peak (1,), which may be that of more rows than these."""
    levels = (g * _limit_over(peak, EMBEDDING_LIMIT)).round_().to(torch.int32)
    total = torch.zeros(symbols.shape[1], n_symbols, g.shape[1], dtype=torch.int32, device=g.device)
    for table, column in zip(total, symbols.t(), strict=True):
        table.index_add_(0, column, levels)
    return total


def adam_(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    step_size: float | Tensor,
    beta1: float,
    beta2: float,
) -> None:
    """One Adam step in place, without bias correction: p -= step_size * m / (sqrt(v) + 1e-8)."""
    mean.mul_(beta1).add_(gradient * (1.0 - beta1))
    square.mul_(beta2).add_(gradient * gradient * (1.0 - beta2))
    # tiny state is rounded to zero: denormals are flushed on some machines
    mean.masked_fill_(mean.abs() < TINY, 0.0)
    square.masked_fill_(square < TINY, 0.0)
    parameter.sub_(mean / (sqrt(square) + 1e-8) * step_size)


def nesterov_(momentum: Tensor, gradient: Tensor, mu: float) -> Tensor:
    """Advances the momentum in place, m = mu * m + (1 - mu) * g, and returns the direction (1 - mu) * g + mu * m."""
    scaled = gradient * (1.0 - mu)
    momentum.mul_(mu).add_(scaled)
    momentum.masked_fill_(momentum.abs() < TINY, 0.0)  # before it decays into denormals, which some processes flush
    return scaled + momentum * mu


def row_squares(q: Tensor) -> Tensor:
    """Sums of squares of int8 rows, (..., R, C) -> (..., R) float32; exact below 2**24, else rounded once."""
    return q.to(torch.int32).square().sum(-1, dtype=torch.int64).float()
