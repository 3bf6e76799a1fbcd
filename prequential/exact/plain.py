"""The exact primitives in plain torch: the definition of the arithmetic, on any device.

Every function is a fixed sequence of two kinds of operation: IEEE float32 operations that round once, and sums of integers with
a stated bound. So the result does not depend on the thread count, the vector width, the memory layout or the device
(docs/EXACT.md). `fused` computes the same bits in compiled loops.

Integers have two forms: int8 tensors for products with weights, and "carried" integers, which are whole numbers in float32,
exact below 2**24, for the batched products of attention. A row is rounded to L levels as q = round(x * (L / m)), where m is its
largest magnitude. Its scale is m / L, and x ~ q * scale.

Letters: R rows, C columns, "..." a stack of such matrices or nothing; B rows of symbols, H heads, T queries, J keys, K width of
a head, N = B*T, D = H*K, V symbols of the alphabet, E embedding tables.
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

COMPILED = False
TINY = 1e-30  # the smallest scale, far above denormals
FINE = 254  # fine levels in one coarse level
INT8_LIMIT = 127
GRADIENT_LIMIT = 1023  # operands of integer dot products: 1023 * 127 * K < 2**31 for K <= 16529
EMBEDDING_LIMIT = 262143  # 18 bits: sums of 8192 rows fit int32
TOTAL = 1 << 24  # the sum of the frequencies of a distribution


def sqrt(x: Tensor) -> Tensor:
    """The correctly rounded float32 square root. torch.sqrt of float32 is not correctly rounded; this way through float64 is."""
    return x.double().sqrt().float()


def _levels_per_unit(scale: Tensor, limit: int) -> Tensor:
    """limit / scale, as the reciprocal times the limit: what x is multiplied by before it is rounded."""
    return scale.reciprocal() * float(limit)


def _largest_magnitude(x: Tensor, dim: int) -> Tensor:
    """The largest |x| along `dim`, at least TINY."""
    return x.abs().amax(dim).clamp_min(TINY)


def _rounded(x: Tensor, limit: int, dim: int = -1) -> tuple[Tensor, Tensor]:
    """x ~ integers * scale, in `limit` levels of the largest magnitude along `dim`: carried integers; the scale lacks `dim`."""
    top = _largest_magnitude(x, dim)
    return (x * _levels_per_unit(top, limit).unsqueeze(dim)).round_(), top * (1.0 / limit)


def quantise_rows(x: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """y = x * column_factor in 127 levels per row: int8 q (..., R, C) and float32 scale (..., R), y ~ q * scale[..., None]."""
    if column_factor is not None:
        x = x * column_factor[..., None, :]
    levels, scale = _rounded(x, INT8_LIMIT)
    return levels.to(torch.int8), scale


def quantise_rows_finely(x: Tensor, column_factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y = x * column_factor in 127 * FINE levels per row: int8 high and low (R, C) and float32 scale (R,).

    y ~ (FINE * high + low) * scale[:, None]; high and low lie in [-127, 127].
    """
    x = x * column_factor
    scale = _largest_magnitude(x, 1)
    levels = x * _levels_per_unit(scale, INT8_LIMIT)[:, None]
    high = levels.round()
    low = ((levels - high) * float(FINE)).round_()  # the difference is exact, and at most 1/2
    return high.to(torch.int8), low.to(torch.int8), scale * (1.0 / (INT8_LIMIT * FINE))


def column_peaks(x: Tensor, row_factor: Tensor | None = None) -> Tensor:
    """The largest magnitude in each column of x * row_factor[:, None], at least TINY: (C,) float32."""
    return _largest_magnitude(x if row_factor is None else x * row_factor[:, None], 0)


def round_columns(x: Tensor, peaks: Tensor, row_factor: Tensor | None = None) -> Tensor:
    """int8 integers in 127 levels of the `column_peaks`, which may be those of a matrix with further rows."""
    if row_factor is not None:
        x = x * row_factor[:, None]
    return (x * _levels_per_unit(peaks, INT8_LIMIT)).round_().to(torch.int8)


def normalise_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """RMS norm and quantisation in one: q (R, C) int8, r (R,) and s (R,) float32.

    x / rms(x) ~ q * r[:, None] and 1 / rms(x) ~ s. The sum of squares is an integer, at most 127**2 * C, taken in int64 and then
    rounded to float32; it is exact there for C <= 1040.
    """
    levels, r, s = _normalised_levels(x)
    return levels.to(torch.int8), r, s


def _normalised_levels(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`normalise_rows` along the last axis of any shape, with carried integers."""
    levels, scale = _rounded(x, INT8_LIMIT)
    squares = levels.to(torch.int32).square().sum(-1, dtype=torch.int64).clamp_min(1)
    r = 1.0 / sqrt(squares.float() * (1.0 / x.shape[-1]))
    return levels, r, r / scale


def normalise_rows_backward(g: Tensor, q: Tensor, r: Tensor, s: Tensor, base: Tensor) -> Tensor:
    """`base` plus the gradient at x of a loss whose gradient at x / rms(x) is g; all are (R, C).

    The gradient is (g - y * mean(g * y)) * s with y = q * r. The sum in the mean is a sum of integers: of q times g, where g is
    rounded to 1023 levels per row.
    """
    y = q.float() * r[:, None]
    mean = _row_dot(g, q) * (r * (1.0 / q.shape[-1]))
    return base + (g - y * mean[:, None]) * s[:, None]


def _row_dot(g: Tensor, q: Tensor) -> Tensor:
    """The sum of g * q along the last axis, where g is rounded to 1023 levels per row: float32."""
    levels, scale = _rounded(g, GRADIENT_LIMIT)
    total = (levels.to(torch.int32) * q.to(torch.int32)).sum(-1, dtype=torch.int64)
    return total.float() * scale


def dequantise(
    acc: Tensor, row: Tensor | None, column: Tensor | None,
    base: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """base * alpha + acc * row[:, None] * column * beta: (..., R, C) float32, computed from left to right.

    Each product and the sum are rounded once. acc: integers (..., R, C); row (..., R), column (..., C).
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
    """The squared ReLU of acc * row[:, None] * column, rounded to 127 levels per row.

    Returns the int8 levels of a * a, their scales (R,) and a = max(0, acc * row * column), (R, C) float32.
    """
    a = dequantise(acc, row, column).clamp_min_(0.0)
    return *quantise_rows(a * a), a


def squared_relu_backward(acc: Tensor, row: Tensor, a: Tensor) -> Tensor:
    """The gradient before the squared ReLU, (acc * row) * (2 a). acc, row: sums and scales of the gradient after it."""
    return dequantise(acc, row, None) * (a + a)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the pairs (i, i + K/2) of the last axis by the angles of cos and sin, which broadcast over (..., K/2)."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attention_inputs(qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, ...]:
    """Queries and keys, rotated, RMS-normalised and rounded, and rounded values, from the rows (N, 3D) float32.

    shape = (B, T, H); cos and sin are (T, K/2). Returns q, q_r, q_s, k, k_r, k_s, v, v_scale: carried integers (B, H, T, K) and
    factors (B, H, T). A normalised vector ~ integers * r, 1 / rms ~ s, and a value ~ integers * v_scale. Rotation keeps the norm,
    so one rounding is enough for rotation and norm.
    """
    n_rows, n_time, n_heads = shape
    q, k, v = qkv.view(n_rows, n_time, 3, n_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
    q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
    return *_normalised_levels(q), *_normalised_levels(k), *_rounded(v, INT8_LIMIT)


def attention_weights(
    scores: Tensor, q_r: Tensor, k_r: Tensor, v_scale: Tensor, mask: tuple[int, int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Softmax of integer scores (B, H, T, J) as integers, and the same times v_scale, rounded to 255 levels per query.

    mask = (first_query, first_valid, window): query t has the index i = first_query + t among the keys. It sees the `window` keys
    i - window + 1 .. i, except keys before first_valid. q_r (B, H, T) includes the score scale; k_r and v_scale are (B, H, J).

    Returns e (B, H, T, J), integers 0..255 in proportion to the softmax; 1 / sum(e), (B, H, T); levels (B, H, T, J), integers
    0..255; and their scale (B, H, T): e * v_scale ~ levels * scale. The sum of e is at most 255 * J < 2**24.
    """
    first_query, first_valid, window = mask
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
    return e, inverse_sum, *_rounded(e * v_scale[:, :, None, :], 255)


def attention_output(acc: Tensor, factor: Tensor) -> Tensor:
    """Integer sums (B, H, T, K) times factor (B, H, T), as rows (N, D) float32."""
    n_rows, n_heads, n_time, width = acc.shape
    return (acc * factor[..., None]).transpose(1, 2).reshape(n_rows * n_time, n_heads * width)


def attention_backward_values(grad: Tensor, inverse_sum: Tensor, n_heads: int) -> tuple[Tensor, ...]:
    """The gradient (N, D) at attention's output, rounded in two ways for the two products that need it.

    Returns by_query (B, H, T, K), 1023 levels per query, and its scale (B, H, T); by_column (B, H, T, K), grad / sum(e) in 127
    levels per column, and its scale (B, H, 1, K). The product that takes by_column sums over queries, so its scale must not
    depend on the query.
    """
    n_rows, _, n_time = inverse_sum.shape
    g = grad.view(n_rows, n_time, n_heads, -1).transpose(1, 2)  # (B, H, T, K)
    by_column, column_scale = _rounded(g * inverse_sum[..., None], INT8_LIMIT, -2)
    return *_rounded(g, GRADIENT_LIMIT), by_column, column_scale[:, :, None]


def attention_backward_scores(
    products: Tensor, g_scale: Tensor, v_scale: Tensor, e: Tensor, inverse_sum: Tensor, q_r: Tensor, k_r: Tensor
) -> tuple[Tensor, ...]:
    """The gradient at the scores, rounded by rows for the queries and by columns for the keys.

    products (B, H, T, J): integer dot products of gradients and values. dP = products * g_scale * v_scale is the gradient at the
    attention weights P. The softmax gradient is P * (dP - sum(P * dP)). Its sum is a sum of integers: e times dP rounded to 2047
    levels per row, 2047 * 255 * J < 2**53.

    Returns by_query (B, H, T, J), 255 levels per row of the gradient times k_r, and its scale (B, H, T); by_key (B, H, T, J), 127
    levels per column of the gradient times q_r, and its scale (B, H, J).
    """
    dp = products * g_scale[..., None] * v_scale[:, :, None, :]
    dp = dp.masked_fill(e == 0.0, 0.0)
    levels, scale = _rounded(dp, 2047)
    mean = (levels.double() * e).sum(-1).float() * scale * inverse_sum
    ds = (e * inverse_sum[..., None]) * (dp - mean[..., None])
    return *_rounded(ds * k_r[:, :, None, :], 255), *_rounded(ds * q_r[..., None], INT8_LIMIT, -2)


def attention_inputs_backward(
    sums: tuple[Tensor, ...], scales: tuple[Tensor, ...], saved: tuple[Tensor, ...], cos: Tensor, sin: Tensor
) -> Tensor:
    """The gradient at the input of `attention_inputs`: (N, 3D) float32.

    sums: dq, dk and dv, integer sums (B, H, T, K). scales: their scales (B, H, T), (B, H, T) and (B, H, 1, K); those of dq and dk
    include the score scale. saved: the first six results of `attention_inputs`.
    """
    (dq, dk, dv), (dq_scale, dk_scale, dv_scale) = sums, scales
    q, q_r, q_s, k, k_r, k_s = saved
    gradients = []
    for levels, acc, scale, r, s in ((q, dq, dq_scale, q_r, q_s), (k, dk, dk_scale, k_r, k_s)):
        g = acc * scale[..., None]
        mean = _row_dot(g, levels) * (r * (1.0 / levels.shape[-1]))
        g = (g - (levels * r[..., None]) * mean[..., None]) * s[..., None]
        gradients.append(_rotate(g, cos, -sin))
    gradients.append(dv * dv_scale)
    n_rows, n_heads, n_time, width = dq.shape
    return torch.stack(gradients, 0).permute(1, 3, 0, 2, 4).reshape(n_rows * n_time, 3 * n_heads * width)


def frequencies(logits: Tensor) -> Tensor:
    """Logits (R, V) float32, in nats -> frequencies (R, V) int32, each at least 1, with a sum of exactly 2**24 per row.

    e = table[round(64 * (max - z))]; f = 1 + floor(e * (2**24 - V) / sum(e)) in float64: the product is exact in 48 bits, and the
    quotient rounds once. The first largest logit (argmax) gets the rest of 2**24.
    """
    n_symbols = logits.shape[1]
    largest = logits.amax(1)
    steps = ((largest[:, None] - logits) * float(LOGIT_STEPS_PER_NAT)).round_().clamp_max_(FREQUENCY_TABLE_SIZE - 1.0)
    e = frequency_table(logits.device)[steps.to(torch.int64)]
    share = (e * float(TOTAL - n_symbols)) / e.sum(1, keepdim=True)  # integer sum < 2**53: exact in any order
    f = share.floor_().to(torch.int32) + 1
    rest = (TOTAL - f.sum(1, keepdim=True, dtype=torch.int64)).to(torch.int32)
    f.scatter_add_(1, logits.argmax(1, keepdim=True), rest)
    return f


def loss_gradient(frequency: Tensor, symbols: Tensor) -> Tensor:
    """The gradient (R, V) float32 at the logits of the code length in nats: frequency * 2**-24 - onehot. symbols: (R,) int64."""
    g = frequency.float() * 2.0**-24
    rows = torch.arange(len(symbols), device=g.device)
    g[rows, symbols] -= 1.0
    return g


def peak_of(x: Tensor) -> Tensor:
    """The largest magnitude of all entries, at least TINY: (1,) float32."""
    return x.abs().amax().clamp_min(TINY)[None]


def embedding_sums(g: Tensor, symbols: Tensor, n_symbols: int, peak: Tensor) -> Tensor:
    """Gradient rows (N, D) float32 summed by their symbols (N, E) into (E, V, D) int32, in 18 bits of the peak (1,).

    The peak may be that of a matrix with further rows. The sums are exact for N <= 8192.
    """
    levels = (g * _levels_per_unit(peak, EMBEDDING_LIMIT)).round_().to(torch.int32)
    total = torch.zeros(symbols.shape[1], n_symbols, g.shape[1], dtype=torch.int32, device=g.device)
    for table, column in zip(total, symbols.t(), strict=True):
        table.index_add_(0, column, levels)
    return total


def adam_(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor,
    step_size: float | Tensor, beta1: float, beta2: float,
) -> None:  # fmt: skip
    """One Adam step in place, without bias correction: p -= step_size * m / (sqrt(v) + 1e-8)."""
    mean.mul_(beta1).add_(gradient * (1.0 - beta1))
    square.mul_(beta2).add_(gradient * gradient * (1.0 - beta2))
    # Tiny state becomes zero, because some machines flush denormals.
    mean.masked_fill_(mean.abs() < TINY, 0.0)
    square.masked_fill_(square < TINY, 0.0)
    parameter.sub_(mean / (sqrt(square) + 1e-8) * step_size)


def nesterov_(momentum: Tensor, gradient: Tensor, mu: float) -> Tensor:
    """Advances the momentum in place, m = mu * m + (1 - mu) * g, and returns the direction (1 - mu) * g + mu * m."""
    scaled = gradient * (1.0 - mu)
    momentum.mul_(mu).add_(scaled)
    momentum.masked_fill_(momentum.abs() < TINY, 0.0)  # before it decays into denormals, which some machines flush
    return scaled + momentum * mu


def row_squares(q: Tensor) -> Tensor:
    """The sums of squares of int8 rows: (..., R, C) -> (..., R) float32, summed in int64 and rounded once."""
    return q.to(torch.int32).square().sum(-1, dtype=torch.int64).float()


def adagrad_change(
    sums: Tensor, unit: Tensor, squares: Tensor, step_size: float, units: float, limit: float
) -> tuple[Tensor, Tensor]:
    """A step of Adagrad with one size for each row, on rows that are whole numbers of 1 / units.

    g = sums * unit is the gradient; sums: integers (R, C), unit (1,) float32. squares (R,) float32: for each row, the sum of the
    mean squares of earlier gradients. Returns the new squares, and what the step subtracts: (R, C) int32, at most
    `limit` in magnitude, and 0 where it is not a number.
    """
    g = sums.float() * unit
    levels, scale = quantise_rows(g)
    mean_square = row_squares(levels) * (scale * scale) * (1.0 / g.shape[1])
    squares = squares + torch.where(mean_square < TINY, 0.0, mean_square)  # because some machines flush denormals
    factor = (sqrt(squares) + 1e-8).reciprocal() * step_size
    change = (g * factor[:, None] * units).round().nan_to_num(0.0, limit, -limit)
    return squares, change.clamp(-limit, limit).to(torch.int32)
