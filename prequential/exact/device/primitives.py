"""The exact primitives as Triton kernels for a CUDA device: the bits of `plain`, in one or two launches instead of up to forty.

Each function has the name, the signature and the contract of its definition in `plain`; those that would not need fewer launches
are imported from there. With TRITON_INTERPRET=1 a processor runs the kernels, slowly: for tests. docs/MACHINES.md has more.

A program of a kernel holds one row, or a block of columns, of a matrix. Strided tensors are copied first. Letters as in plain.py.
"""

import torch
import triton
import triton.language as tl

from prequential.exact.device import rounding
from prequential.exact.device.attention import (  # noqa: F401
    attention_backward_scores,
    attention_backward_values,
    attention_inputs,
    attention_inputs_backward,
    attention_output,
    attention_weights,
)
from prequential.exact.device.rounding import FINE as FINE_LEVELS
from prequential.exact.device.rounding import TINY, block_of, inverse, inverse_rms, largest, levels, rounded, row_dot
from prequential.exact.plain import (  # noqa: F401
    FINE,
    GRADIENT_LIMIT,
    INT8_LIMIT,
    TOTAL,
    embedding_sums,
    loss_gradient,
    peak_of,
    row_squares,
)
from prequential.exact.tables import FREQUENCY_TABLE_SIZE, LOGIT_STEPS_PER_NAT, frequency_table

Tensor = torch.Tensor

COMPILED = False  # these kernels are not those of a processor's decoder
FLAT_BLOCK = 1024  # entries of a program that works on each entry alone
COLUMN_BLOCK, ROW_BLOCK = 32, 32  # of a program that reduces columns


# ---- rounding to int8


def quantise_rows(x: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    q, scale = torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[:-1])
    n_rows, n = scale.numel(), x.shape[-1]
    factor = x if column_factor is None else column_factor.contiguous()
    rounding.launch(
        _quantise_rows, (n_rows,), x, factor, q, scale, n, x.shape[-2],
        HAS_FACTOR=column_factor is not None, LIMIT=INT8_LIMIT, BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return q, scale


@triton.jit
def _quantise_rows(
    x, factor, q, scale, n, rows_per_matrix, HAS_FACTOR: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr
):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, row.to(tl.int64) * n + j
    y = tl.load(x + at, inside, 0.0)
    if HAS_FACTOR:
        y = y * tl.load(factor + (row // rows_per_matrix) * n + j, inside, 0.0)
    magnitude = largest(y)
    tl.store(q + at, levels(y, magnitude, LIMIT).to(tl.int8), inside)
    tl.store(scale + row, magnitude * (1.0 / LIMIT))


def quantise_rows_finely(x: Tensor, column_factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x = x.contiguous()
    high, low = (torch.empty_like(x, dtype=torch.int8) for _ in range(2))
    scale, n = x.new_empty(len(x)), x.shape[1]
    rounding.launch(
        _quantise_rows_finely, (len(x),), x, column_factor.contiguous(), high, low, scale, n,
        LIMIT=INT8_LIMIT, SHARE=1.0 / (INT8_LIMIT * FINE), BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return high, low, scale


@triton.jit
def _quantise_rows_finely(
    x, factor, high, low, scale, n, LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr
):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, row.to(tl.int64) * n + j
    y = tl.load(x + at, inside, 0.0) * tl.load(factor + j, inside, 0.0)
    magnitude = largest(y)
    exact = y * (inverse(magnitude) * LIMIT)
    nearest = rounded(exact)
    tl.store(high + at, nearest.to(tl.int8), inside)
    tl.store(low + at, rounded((exact - nearest) * FINE_LEVELS).to(tl.int8), inside)
    tl.store(scale + row, magnitude * SHARE)


def column_peaks(x: Tensor, row_factor: Tensor | None = None) -> Tensor:
    x = x.contiguous()
    n_rows, n = x.shape
    peaks, factor = x.new_empty(n), x if row_factor is None else row_factor.contiguous()
    rounding.launch(
        _column_peaks, (-(-n // COLUMN_BLOCK),), x, factor, peaks, n_rows, n, HAS_FACTOR=row_factor is not None,
        ROWS=ROW_BLOCK, COLUMNS=COLUMN_BLOCK, width=ROW_BLOCK * COLUMN_BLOCK,
    )  # fmt: skip
    return peaks


@triton.jit
def _column_peaks(x, factor, peaks, n_rows, n, HAS_FACTOR: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    top = tl.full([COLUMNS], TINY, tl.float32)
    for start in range(0, n_rows, ROWS):
        i = start + tl.arange(0, ROWS)
        inside = (i < n_rows)[:, None] & (j < n)[None, :]
        y = tl.load(x + i.to(tl.int64)[:, None] * n + j[None, :], inside, 0.0)
        if HAS_FACTOR:
            y = y * tl.load(factor + i, i < n_rows, 0.0)[:, None]
        top = tl.maximum(top, tl.max(tl.abs(y), 0))
    tl.store(peaks + j, top, j < n)


def round_columns(x: Tensor, peaks: Tensor, row_factor: Tensor | None = None) -> Tensor:
    x = x.contiguous()
    q, factor = torch.empty_like(x, dtype=torch.int8), x if row_factor is None else row_factor.contiguous()
    rounding.launch(
        _round_columns, (_flat(x),), x, peaks.contiguous(), factor, q, x.numel(), x.shape[1],
        HAS_FACTOR=row_factor is not None, LIMIT=INT8_LIMIT, BLOCK=FLAT_BLOCK, width=FLAT_BLOCK,
    )  # fmt: skip
    return q


@triton.jit
def _round_columns(x, peaks, factor, q, size, n, HAS_FACTOR: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    y = tl.load(x + i, inside, 0.0)
    if HAS_FACTOR:
        y = y * tl.load(factor + i // n, inside, 0.0)
    tl.store(q + i, levels(y, tl.load(peaks + i % n, inside, 1.0), LIMIT).to(tl.int8), inside)


# ---- norms, sums and their factors


def normalise_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x = x.contiguous()
    q, r, s = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x)), x.new_empty(len(x))
    n = x.shape[1]
    rounding.launch(
        _normalise_rows, (len(x),), x, q, r, s, n, LIMIT=INT8_LIMIT, SHARE=1.0 / n, BLOCK=block_of(n), width=n
    )  # fmt: skip
    return q, r, s


@triton.jit
def _normalise_rows(x, q, r, s, n, LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, row.to(tl.int64) * n + j
    y = tl.load(x + at, inside, 0.0)
    magnitude = largest(y)
    whole = levels(y, magnitude, LIMIT).to(tl.int32)
    factor = inverse_rms(tl.sum(whole * whole, 0), SHARE)
    tl.store(q + at, whole.to(tl.int8), inside)
    tl.store(r + row, factor)
    tl.store(s + row, tl.div_rn(factor, magnitude * (1.0 / LIMIT)))


def normalise_rows_backward(g: Tensor, q: Tensor, r: Tensor, s: Tensor, base: Tensor) -> Tensor:
    g = g.contiguous()
    out, n = torch.empty_like(g), g.shape[1]
    rounding.launch(
        _normalise_rows_backward, (len(g),), g, q.contiguous(), r.contiguous(), s.contiguous(), base.contiguous(), out, n,
        LIMIT=GRADIENT_LIMIT, SHARE=1.0 / n, BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return out


@triton.jit
def _normalise_rows_backward(g, q, r, s, base, out, n, LIMIT: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, row.to(tl.int64) * n + j
    gradient, whole = tl.load(g + at, inside, 0.0), tl.load(q + at, inside, 0).to(tl.int32)
    factor = tl.load(r + row)
    mean = row_dot(gradient, whole, LIMIT) * (factor * SHARE)
    y = whole.to(tl.float32) * factor
    moved = (gradient - y * mean) * tl.load(s + row)
    tl.store(out + at, tl.load(base + at, inside, 0.0) + moved, inside)


def dequantise(
    acc: Tensor, row: Tensor | None, column: Tensor | None,
    base: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
) -> Tensor:  # fmt: skip
    acc = acc.contiguous()
    out = torch.empty_like(acc, dtype=torch.float32)
    factors = [acc if x is None else x.contiguous() for x in (row, column, base)]
    rounding.launch(
        _dequantise, (_flat(acc),), acc, *factors, out, acc.numel(), acc.shape[-1], acc.shape[-2] * acc.shape[-1],
        HAS_ROW=row is not None, HAS_COLUMN=column is not None, HAS_BASE=base is not None, ALPHA=float(alpha),
        BETA=float(beta), BLOCK=FLAT_BLOCK, width=FLAT_BLOCK,
    )  # fmt: skip
    return out


@triton.jit
def _dequantise(
    acc, row, column, base, out, size, n, matrix, HAS_ROW: tl.constexpr, HAS_COLUMN: tl.constexpr, HAS_BASE: tl.constexpr,
    ALPHA: tl.constexpr, BETA: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    y = tl.load(acc + i, inside, 0).to(tl.float32)
    if HAS_ROW:
        y = y * tl.load(row + i // n, inside, 0.0)
    if HAS_COLUMN:
        y = y * tl.load(column + (i // matrix) * n + i % n, inside, 0.0)
    if BETA != 1.0:
        y = y * BETA
    if HAS_BASE:
        start = tl.load(base + i, inside, 0.0)
        if ALPHA != 1.0:
            start = start * ALPHA
        y = start + y
    tl.store(out + i, y, inside)


def squared_relu(acc: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    acc = acc.contiguous()
    q, a = torch.empty_like(acc, dtype=torch.int8), torch.empty_like(acc, dtype=torch.float32)
    scale, n = a.new_empty(len(acc)), acc.shape[1]
    rounding.launch(
        _squared_relu, (len(acc),), acc, row.contiguous(), column.contiguous(), q, scale, a, n,
        LIMIT=INT8_LIMIT, BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return q, scale, a


@triton.jit
def _squared_relu(acc, row, column, q, scale, a, n, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, i.to(tl.int64) * n + j
    x = tl.load(acc + at, inside, 0).to(tl.float32) * tl.load(row + i)
    x = tl.maximum(x * tl.load(column + j, inside, 0.0), 0.0)
    y = x * x
    magnitude = largest(y)
    tl.store(a + at, x, inside)
    tl.store(q + at, levels(y, magnitude, LIMIT).to(tl.int8), inside)
    tl.store(scale + i, magnitude * (1.0 / LIMIT))


def squared_relu_backward(acc: Tensor, row: Tensor, a: Tensor) -> Tensor:
    acc = acc.contiguous()
    out = torch.empty_like(acc, dtype=torch.float32)
    rounding.launch(
        _squared_relu_backward, (_flat(acc),), acc, row.contiguous(), a.contiguous(), out, acc.numel(), acc.shape[1],
        BLOCK=FLAT_BLOCK, width=FLAT_BLOCK,
    )  # fmt: skip
    return out


@triton.jit
def _squared_relu_backward(acc, row, a, out, size, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    x = tl.load(a + i, inside, 0.0)
    g = tl.load(acc + i, inside, 0).to(tl.float32) * tl.load(row + i // n, inside, 0.0)
    tl.store(out + i, g * (x + x), inside)


# ---- the loss


def frequencies(logits: Tensor) -> Tensor:
    logits = logits.contiguous()
    out, n = torch.empty_like(logits, dtype=torch.int32), logits.shape[1]
    rounding.launch(
        _frequencies, (len(logits),), logits, frequency_table(logits.device), out, n, STEPS=float(LOGIT_STEPS_PER_NAT),
        LAST=FREQUENCY_TABLE_SIZE - 1.0, TOTAL=TOTAL, BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return out


@triton.jit
def _frequencies(
    logits, table, out, n, STEPS: tl.constexpr, LAST: tl.constexpr, TOTAL: tl.constexpr, BLOCK: tl.constexpr
):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, row.to(tl.int64) * n + j
    z = tl.load(logits + at, inside, float("-inf"))
    top = tl.max(z, 0)
    steps = rounded(tl.minimum((top - z) * STEPS, LAST)).to(tl.int32)
    e = tl.where(inside, tl.load(table + steps), 0.0)  # float64
    share = (e * (TOTAL - n).to(tl.float64)) / tl.sum(e, 0)
    frequency = tl.where(inside, share.to(tl.int32) + 1, 0)  # shares are not negative: this is their floor
    first = tl.min(tl.where(z == top, j, BLOCK), 0)  # of the largest logits
    rest = TOTAL - tl.sum(frequency, 0)
    tl.store(out + at, tl.where(j == first, frequency + rest, frequency), inside)


# ---- steps


def adam_(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor,
    step_size: float | Tensor, beta1: float, beta2: float,
) -> None:  # fmt: skip
    assert parameter.is_contiguous() and mean.is_contiguous() and square.is_contiguous()
    step = torch.as_tensor(step_size, dtype=torch.float64).to(parameter.device)
    rounding.launch(
        _adam, (_flat(parameter),), parameter, gradient.contiguous(), mean, square, step, parameter.numel(),
        BETA1=beta1, REST1=1.0 - beta1, BETA2=beta2, REST2=1.0 - beta2, BLOCK=FLAT_BLOCK, width=FLAT_BLOCK,
    )  # fmt: skip


@triton.jit
def _adam(
    parameter, gradient, mean, square, step, size, BETA1: tl.constexpr, REST1: tl.constexpr, BETA2: tl.constexpr,
    REST2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    g = tl.load(gradient + i, inside, 0.0)
    m = tl.load(mean + i, inside, 0.0) * BETA1 + g * REST1
    v = tl.load(square + i, inside, 0.0) * BETA2 + (g * g) * REST2
    m = tl.where(tl.abs(m) < TINY, 0.0, m)
    v = tl.where(v < TINY, 0.0, v)
    tl.store(mean + i, m, inside)
    tl.store(square + i, v, inside)
    change = tl.div_rn(m, tl.sqrt_rn(v) + 1e-8) * tl.load(step).to(tl.float32)
    tl.store(parameter + i, tl.load(parameter + i, inside, 0.0) - change, inside)


def nesterov_(momentum: Tensor, gradient: Tensor, mu: float) -> Tensor:
    assert momentum.is_contiguous()
    out = torch.empty_like(momentum)
    rounding.launch(
        _nesterov, (_flat(momentum),), momentum, gradient.contiguous(), out, momentum.numel(), MU=mu, REST=1.0 - mu,
        BLOCK=FLAT_BLOCK, width=FLAT_BLOCK,
    )  # fmt: skip
    return out


@triton.jit
def _nesterov(momentum, gradient, out, size, MU: tl.constexpr, REST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    scaled = tl.load(gradient + i, inside, 0.0) * REST
    m = tl.load(momentum + i, inside, 0.0) * MU + scaled
    m = tl.where(tl.abs(m) < TINY, 0.0, m)
    tl.store(momentum + i, m, inside)
    tl.store(out + i, scaled + m * MU, inside)


def adagrad_change(
    sums: Tensor, unit: Tensor, squares: Tensor, step_size: float, units: float, limit: float
) -> tuple[Tensor, Tensor]:
    sums = sums.contiguous()
    new, change, n = torch.empty_like(squares.contiguous()), torch.empty_like(sums), sums.shape[1]
    rounding.launch(
        _adagrad_change, (len(sums),), sums, unit, squares.contiguous(), new, change, n,
        SHARE=1.0 / n, STEP=step_size, UNITS=units, MOST=limit, LIMIT=INT8_LIMIT, BLOCK=block_of(n), width=n,
    )  # fmt: skip
    return new, change


@triton.jit
def _adagrad_change(
    sums, unit, squares, new, change, n, SHARE: tl.constexpr, STEP: tl.constexpr, UNITS: tl.constexpr, MOST: tl.constexpr,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside, at = j < n, i.to(tl.int64) * n + j
    g = tl.load(sums + at, inside, 0).to(tl.float32) * tl.load(unit)
    magnitude = largest(g)
    whole = levels(g, magnitude, LIMIT).to(tl.int32)
    scale = magnitude * (1.0 / LIMIT)
    mean_square = tl.sum(whole * whole, 0).to(tl.float32) * (scale * scale) * SHARE
    square = tl.load(squares + i) + tl.where(mean_square < TINY, 0.0, mean_square)
    factor = inverse(tl.sqrt_rn(square) + 1e-8) * STEP
    exact = (g * factor) * UNITS
    level = tl.minimum(tl.maximum(rounded(exact), -MOST), MOST)
    tl.store(new + i, square)
    tl.store(change + at, tl.where(exact == exact, level, 0.0).to(tl.int32), inside)


def _flat(x: Tensor) -> int:
    """How many programs work on all entries of x, each alone."""
    return -(-x.numel() // FLAT_BLOCK)
