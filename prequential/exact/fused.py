"""The exact primitives as compiled loops: the same bits as `plain`, several times faster on a processor.

Each function has the name, the signature and the contract of its definition in `plain`; those that would not become faster are
imported from there. Each call runs in one thread without the interpreter lock, so a Pool
runs several calls in parallel. Tensors are on the host, and strided tensors are copied first. Letters as in plain.py.
"""

import math
from functools import cache

import numpy as np
import torch

from prequential.exact.fused_attention import attention, attention_backward  # noqa: F401
from prequential.exact.fused_loops import (
    INVERSE_GRADIENT_LIMIT,
    INVERSE_INT8_LIMIT,
    SMALLEST_SCALE,
    array,
    int8_level,
    inverse_rms,
    largest,
    largest_magnitude,
    levels_per_unit,
    magnitude_bits,
    ones,
    round_row_to_int8,
    scale_of,
)
from prequential.exact.plain import (  # noqa: F401
    EMBEDDING_LIMIT,
    FINE,
    GRADIENT_LIMIT,
    INT8_LIMIT,
    TINY,
    TOTAL,
    adagrad_change,
    loss_gradient,
    peak_of,
    row_squares,
)
from prequential.exact.tables import FREQUENCY_TABLE_SIZE, LOGIT_STEPS_PER_NAT, frequency_table
from prequential.machine.compiled import Array, kernel

Tensor = torch.Tensor

COMPILED = True


# ---- rounding to int8


def quantise_rows(x: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor]:
    n_rows, n_columns = x.shape
    q, scale = torch.empty((n_rows, n_columns), dtype=torch.int8), torch.empty(n_rows)
    factor = ones(n_columns) if column_factor is None else array(column_factor)
    _quantise_rows(array(x), factor, q.numpy(), scale.numpy())
    return q, scale


@kernel
def _quantise_rows(x: Array, column_factor: Array, q: Array, scale: Array) -> None:
    for i in range(x.shape[0]):
        row, levels, top = x[i], q[i], np.int32(0)
        for j in range(row.size):
            top = max(top, magnitude_bits(row[j] * column_factor[j]))
        magnitude = scale_of(top)
        factor = levels_per_unit(magnitude, INT8_LIMIT)
        for j in range(row.size):
            levels[j] = int8_level((row[j] * column_factor[j]) * factor)
        scale[i] = magnitude * INVERSE_INT8_LIMIT


def quantise_rows_finely(x: Tensor, column_factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    high, low = torch.empty(x.shape, dtype=torch.int8), torch.empty(x.shape, dtype=torch.int8)
    scale = torch.empty(len(x))
    _quantise_rows_finely(array(x), array(column_factor), high.numpy(), low.numpy(), scale.numpy())
    return high, low, scale


@kernel
def _quantise_rows_finely(x: Array, column_factor: Array, high: Array, low: Array, scale: Array) -> None:
    row = np.empty(x.shape[1], np.float32)
    for i in range(x.shape[0]):
        for j in range(row.size):
            row[j] = x[i, j] * column_factor[j]
        magnitude = largest_magnitude(row)
        factor = levels_per_unit(magnitude, INT8_LIMIT)
        for j in range(row.size):
            level = row[j] * factor
            nearest = np.float32(np.rint(level))
            high[i, j] = np.int8(nearest)
            low[i, j] = int8_level((level - nearest) * np.float32(FINE))
        scale[i] = magnitude * np.float32(1.0 / (INT8_LIMIT * FINE))


def column_peaks(x: Tensor, row_factor: Tensor | None = None) -> Tensor:
    n_rows, n_columns = x.shape
    peaks = torch.empty(n_columns)
    _column_peaks(array(x), ones(n_rows) if row_factor is None else array(row_factor), peaks.numpy())
    return peaks


@kernel
def _column_peaks(x: Array, row_factor: Array, peaks: Array) -> None:
    top = np.zeros(peaks.size, dtype=np.int32)
    for i in range(x.shape[0]):
        for j in range(peaks.size):
            top[j] = max(top[j], magnitude_bits(x[i, j] * row_factor[i]))
    for j in range(peaks.size):
        peaks[j] = scale_of(top[j])


def round_columns(x: Tensor, peaks: Tensor, row_factor: Tensor | None = None) -> Tensor:
    q = torch.empty(x.shape, dtype=torch.int8)
    _round_columns(array(x), ones(len(x)) if row_factor is None else array(row_factor), array(peaks), q.numpy())
    return q


@kernel
def _round_columns(x: Array, row_factor: Array, peaks: Array, q: Array) -> None:
    factor = np.empty(peaks.size, dtype=np.float32)
    for j in range(peaks.size):
        factor[j] = levels_per_unit(peaks[j], INT8_LIMIT)
    for i in range(x.shape[0]):
        for j in range(peaks.size):
            q[i, j] = int8_level((x[i, j] * row_factor[i]) * factor[j])


# ---- RMS norm


def normalise_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n_rows = x.shape[0]
    q, r, s = torch.empty(x.shape, dtype=torch.int8), torch.empty(n_rows), torch.empty(n_rows)
    _normalise_rows(array(x), q.numpy(), r.numpy(), s.numpy())
    return q, r, s


@kernel
def _normalise_rows(x: Array, q: Array, r: Array, s: Array) -> None:
    n_columns = x.shape[1]
    for i in range(x.shape[0]):
        magnitude, squares = round_row_to_int8(x[i], 0, q[i])
        r[i] = inverse_rms(squares, n_columns)
        s[i] = r[i] / (magnitude * INVERSE_INT8_LIMIT)


def normalise_rows_backward(g: Tensor, q: Tensor, r: Tensor, s: Tensor, base: Tensor) -> Tensor:
    y = torch.empty(base.shape)
    _normalise_rows_backward(array(g), array(q), array(r), array(s), array(base), y.numpy())
    return y


@kernel
def _normalise_rows_backward(g: Array, q: Array, r: Array, s: Array, base: Array, y: Array) -> None:
    n_columns = g.shape[1]
    for i in range(g.shape[0]):
        magnitude = largest_magnitude(g[i])
        factor = levels_per_unit(magnitude, GRADIENT_LIMIT)
        total = np.int32(0)  # 1023 * 127 * C < 2**31
        for j in range(n_columns):
            total = np.int32(total + np.int32(np.rint(g[i, j] * factor)) * np.int32(q[i, j]))
        dot = np.float32(total) * (magnitude * INVERSE_GRADIENT_LIMIT)
        mean = dot * (r[i] * np.float32(1.0 / n_columns))
        for j in range(n_columns):
            y[i, j] = base[i, j] + (g[i, j] - (np.float32(q[i, j]) * r[i]) * mean) * s[i]


# ---- integer sums back to float32


def _sums(acc: Tensor) -> Array:
    """Integer sums (N, C) for a kernel, int32."""
    return np.asarray(acc.to(torch.int32).contiguous().numpy())


def dequantise(
    acc: Tensor, row: Tensor | None, column: Tensor | None,
    base: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
) -> Tensor:  # fmt: skip
    n_rows, n_columns = acc.shape
    y = torch.empty(n_rows, n_columns)
    _dequantise(
        _sums(acc), ones(n_rows) if row is None else array(row), ones(n_columns) if column is None else array(column),
        np.float32(beta), y.numpy() if base is None else array(base), base is not None, np.float32(alpha), y.numpy(),
    )  # fmt: skip
    return y


@kernel
def _dequantise(
    sums: Array, row: Array, column: Array, beta: np.float32, base: Array, has_base: bool, alpha: np.float32, y: Array
) -> None:
    for i in range(len(y)):
        out, own, onto, factor = y[i], sums[i], base[i], row[i]
        for j in range(out.size):
            value = ((np.float32(own[j]) * factor) * column[j]) * beta
            out[j] = onto[j] * alpha + value if has_base else value


# ---- squared ReLU


def squared_relu(acc: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, scale, a = torch.empty(acc.shape, dtype=torch.int8), torch.empty(acc.shape[0]), torch.empty(acc.shape)
    _squared_relu(_sums(acc), array(row), array(column), q.numpy(), scale.numpy(), a.numpy())
    return q, scale, a


@kernel
def _squared_relu(sums: Array, row: Array, column: Array, q: Array, scale: Array, a: Array) -> None:
    for i in range(len(a)):
        out, own, levels, factor, top = a[i], sums[i], q[i], row[i], np.int32(0)
        for j in range(out.size):
            value = max((np.float32(own[j]) * factor) * column[j], np.float32(0.0))
            out[j] = value
            top = max(top, magnitude_bits(value * value))
        magnitude = scale_of(top)
        unit = levels_per_unit(magnitude, INT8_LIMIT)
        for j in range(out.size):
            levels[j] = int8_level((out[j] * out[j]) * unit)
        scale[i] = magnitude * INVERSE_INT8_LIMIT


def squared_relu_backward(acc: Tensor, row: Tensor, a: Tensor) -> Tensor:
    y = torch.empty(acc.shape)
    _squared_relu_backward(_sums(acc), array(row), array(a), y.numpy())
    return y


@kernel
def _squared_relu_backward(sums: Array, row: Array, a: Array, y: Array) -> None:
    for i in range(len(y)):
        out, own, before, factor = y[i], sums[i], a[i], row[i]
        for j in range(out.size):
            out[j] = (np.float32(own[j]) * factor) * (before[j] + before[j])


# ---- frequencies


@cache
def integer_frequency_table() -> Array:
    return frequency_table().numpy().astype(np.int32)


def frequencies(logits: Tensor) -> Tensor:
    f = torch.empty(logits.shape, dtype=torch.int32)
    fill_frequencies(array(logits), integer_frequency_table(), f.numpy())
    return f


@kernel
def fill_frequencies(logits: Array, table: Array, f: Array) -> None:
    n_symbols = logits.shape[1]
    last_step = np.float32(FREQUENCY_TABLE_SIZE - 1)
    to_share = np.float64(TOTAL - n_symbols)
    for i in range(logits.shape[0]):
        row, e = logits[i], f[i]
        peak = largest(row)
        total = np.int64(0)
        for v in range(n_symbols):
            step = np.rint((peak - row[v]) * np.float32(LOGIT_STEPS_PER_NAT))
            e[v] = table[np.int32(step if step < last_step else last_step)]  # last_step also for NaN
            total += e[v]
        divisor = np.float64(total)
        rest = np.int64(TOTAL)
        for v in range(n_symbols):
            e[v] = np.int32((np.float64(e[v]) * to_share) / divisor) + 1  # converting a positive number is its floor
            rest -= e[v]
        best = 0
        while best < n_symbols - 1 and row[best] != peak:
            best += 1
        e[best] += rest


# ---- gradient at the embedding, optimiser


def embedding_sums(g: Tensor, symbols: Tensor, n_symbols: int, peak: Tensor) -> Tensor:
    total = torch.zeros(symbols.shape[1], n_symbols, g.shape[1], dtype=torch.int32)
    _embedding_sums(array(g), array(symbols), array(peak), total.numpy())
    return total


@kernel
def _embedding_sums(g: Array, symbols: Array, peak: Array, total: Array) -> None:
    factor, levels = levels_per_unit(peak[0], EMBEDDING_LIMIT), np.empty(g.shape[1], np.int32)
    for i in range(g.shape[0]):
        row = g[i]
        for j in range(row.size):
            levels[j] = np.int32(np.rint(row[j] * factor))
        for e in range(symbols.shape[1]):
            into = total[e, symbols[i, e]]
            for j in range(into.size):
                into[j] += levels[j]


def adam_(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor,
    step_size: float | Tensor, beta1: float, beta2: float,
) -> None:  # fmt: skip
    n = parameter.numel()
    p, g, m, v = (x.view(n).numpy() for x in (parameter, gradient.contiguous(), mean, square))
    _adam(p, g, m, v, float(step_size), beta1, 1.0 - beta1, beta2, 1.0 - beta2)


@kernel
def _adam(
    parameter: Array, gradient: Array, mean: Array, square: Array,
    step_size: float, beta1: float, rest1: float, beta2: float, rest2: float,
) -> None:  # fmt: skip
    keep1, new1 = np.float32(beta1), np.float32(rest1)
    keep2, new2 = np.float32(beta2), np.float32(rest2)
    step, tiny = np.float32(step_size), np.float32(TINY)
    for i in range(parameter.size):
        g = gradient[i]
        m = mean[i] * keep1 + g * new1
        v = square[i] * keep2 + (g * g) * new2
        # Tiny state becomes zero, because some machines flush denormals.
        mean[i] = np.float32(0.0) if abs(m) < tiny else m
        square[i] = np.float32(0.0) if v < tiny else v
        root = np.float32(math.sqrt(np.float64(square[i])))
        parameter[i] -= (mean[i] / (root + np.float32(1e-8))) * step


def nesterov_(momentum: Tensor, gradient: Tensor, mu: float) -> Tensor:
    y = torch.empty(gradient.shape)
    _nesterov(momentum.numpy(), array(gradient), np.float32(mu), np.float32(1.0 - mu), y.numpy())
    return y


@kernel
def _nesterov(momentum: Array, gradient: Array, mu: np.float32, rest: np.float32, y: Array) -> None:
    for i in range(len(momentum)):
        for j in range(momentum.shape[1]):
            scaled = gradient[i, j] * rest
            m = momentum[i, j] * mu + scaled
            momentum[i, j] = m = np.float32(0.0) if abs(m) < SMALLEST_SCALE else m
            y[i, j] = scaled + m * mu
