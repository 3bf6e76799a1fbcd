"""Rounding, norm, dequantisation, squared ReLU, gradients at both ends, Adam: against numpy, float32 and int64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from in_numpy import SEEDS, F, before_norm, normalised, rounded, same_bits
from in_numpy import tensors as t

from prequential.model.gpt.weights import embedding_gradient

EXTREMES = (0.0, -0.0, 1.0, 1e-30, -1e-30, 2e-30, 1e-10, -1e10, 1e30)


def entries(limit: float) -> st.SearchStrategy[float]:
    extremes = [float(F(x)) for x in EXTREMES if abs(x) <= limit]
    bound = float(F(limit))
    return st.floats(-bound, bound, width=32, allow_subnormal=False) | st.sampled_from(extremes)


def matrices(limit: float = float(np.finfo(F).max)) -> st.SearchStrategy[np.ndarray]:
    shapes = array_shapes(min_dims=2, max_dims=2, max_side=24)
    constant = shapes.flatmap(lambda shape: entries(limit).map(lambda x: np.full(shape, x, dtype=F)))
    return arrays(F, shapes, elements=entries(limit)) | constant


def drawn(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(F)


def factors(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1e-4, 2.0, shape).astype(F)


def integers(seed: int, *shape: int, limit: int = 127, dtype: type = np.int8) -> np.ndarray:
    return np.random.default_rng(seed).integers(-limit, limit + 1, shape).astype(dtype)


SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 300))


@pytest.mark.parametrize("by", ["rows", "columns"])
@given(matrices(limit=1e38), SEEDS)
def test_rounding_equals_numpy_with_a_factor_and_without(ops, by, x, seed):
    def columns(x, *factor):
        return ops.round_columns(x, peaks := ops.column_peaks(x, *factor), *factor), peaks * (1.0 / 127)

    quantise = ops.quantise_rows if by == "rows" else columns
    axis = 1 if by == "rows" else 0
    factor = factors(seed, x.shape[axis])
    for scaled, given_factor in ((x, []), (x * np.expand_dims(factor, 1 - axis), t(factor))):
        q, scale = quantise(*t(x), *given_factor)
        levels, expected = rounded(scaled, 127, axis)
        assert same_bits(q, levels.astype(np.int8)) and same_bits(scale, expected)


@given(SEEDS)
def test_fine_rounding_equals_numpy(ops, seed):
    x, column = drawn(seed, 5, 30), factors(seed, 30)
    top = np.abs(x * column).max(1, keepdims=True)
    exact = (x * column) * ((F(1) / top) * F(127))
    levels = np.rint(exact)
    high, low, scale = ops.quantise_rows_finely(*t(x, column))
    assert same_bits(high, levels.astype(np.int8))
    assert same_bits(low, np.rint((exact - levels) * F(254)).astype(np.int8))
    assert same_bits(scale, (top * F(1.0 / (127 * 254)))[:, 0])


@given(matrices(limit=1e18))
def test_normalise_rows_equals_numpy(ops, x):
    q, r, s = ops.normalise_rows(*t(x))
    levels, *expected = normalised(x)
    assert same_bits(q, levels.astype(np.int8)) and same_bits(r, expected[0]) and same_bits(s, expected[1])


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-25, 1.0, 1e10]))
def test_normalise_rows_backward_equals_numpy(ops, shape, seed, scale):
    g, out = drawn(seed, *shape, scale=scale), drawn(seed + 1, *shape)
    q, r, s = integers(seed, *shape), factors(seed, shape[0]), factors(seed + 1, shape[0])
    result = ops.normalise_rows_backward(*t(g, q, r, s, out))
    assert same_bits(result, out + before_norm(g, q, r, s))


def test_normalise_rows_backward_is_exact_at_the_bound_of_its_sum(ops):
    n = 4096
    g, q = np.ones((2, n), dtype=F), np.full((2, n), 127, dtype=np.int8)
    r, s, out = np.ones(2, dtype=F), np.ones(2, dtype=F), np.zeros((2, n), dtype=F)
    result = ops.normalise_rows_backward(*t(g, q, r, s, out))
    assert same_bits(result, out + before_norm(g, q, r, s))


@given(SHAPES, SEEDS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([(1.0, 1.0), (-4.775, 2.0315)]))
def test_dequantise_equals_numpy(ops, shape, seed, with_row, with_column, with_base, alpha_beta):
    acc = integers(seed, *shape, limit=2**31 - 2, dtype=np.int32)
    row, column, base = factors(seed, shape[0]), factors(seed, shape[1]), drawn(seed, *shape)
    expected = acc.astype(F)
    if with_row:
        expected = expected * row[:, None]
    if with_column:
        expected = expected * column
    alpha, beta = alpha_beta
    expected = expected * F(beta)
    if with_base:
        expected = base * F(alpha) + expected
    row_t, column_t, base_t = t(row, column, base)
    y = ops.dequantise(
        *t(acc), row_t if with_row else None, column_t if with_column else None,
        base=base_t if with_base else None, alpha=alpha, beta=beta,
    )  # fmt: skip
    assert same_bits(y, expected)


@given(SHAPES, SEEDS)
def test_squared_relu_and_its_gradient_equal_numpy(ops, shape, seed):
    acc = integers(seed, *shape, limit=2**24, dtype=np.int32)
    row, column = factors(seed, shape[0]), factors(seed, shape[1])
    q, scale, a = ops.squared_relu(*t(acc, row, column))
    expected = np.maximum((acc.astype(F) * row[:, None]) * column, F(0))
    levels, level = rounded(expected * expected, 127)
    assert same_bits(a, expected) and same_bits(q, levels.astype(np.int8)) and same_bits(scale, level)
    assert same_bits(
        ops.squared_relu_backward(*t(acc, row, expected)), (acc.astype(F) * row[:, None]) * (F(2) * expected)
    )


@given(st.integers(1, 60), st.integers(2, 300), SEEDS)
def test_loss_gradient_is_the_probability_minus_one_at_the_symbol(ops, n, n_symbols, seed):
    rng = np.random.default_rng(seed)
    frequency = rng.integers(1, 2**24, (n, n_symbols)).astype(np.int32)
    symbols = rng.integers(0, n_symbols, n)
    expected = frequency.astype(F) * F(2.0**-24)
    expected[np.arange(n), symbols] -= F(1)
    assert same_bits(ops.loss_gradient(*t(frequency, symbols)), expected)


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-20, 1.0, 1e10]))
def test_embedding_gradient_sums_rounded_rows_by_symbol(ops, shape, seed, scale):
    g, n_symbols = drawn(seed, *shape, scale=scale), 256
    symbols = np.random.default_rng(seed).integers(0, 11, (shape[0], 2))
    top = max(np.abs(g).max(), F(1e-30))
    levels = np.rint(g * ((F(1) / top) * F(262143))).astype(np.int64)
    sums = np.zeros((2, n_symbols, shape[1]), dtype=np.int64)
    for total, column in zip(sums, symbols.T, strict=True):
        np.add.at(total, column, levels)
    expected = sums.astype(F) * (top * F(1 / 262143))
    assert same_bits(embedding_gradient(ops, *t(g, symbols)), expected)


@given(st.integers(1, 300), SEEDS, st.sampled_from([0.0, 1e-30, 1e-3, 1e6]))
def test_adam_equals_numpy(ops, n, seed, scale):
    p, g, m = drawn(seed, n), drawn(seed + 1, n, scale=scale), drawn(seed + 2, n, scale=scale)
    v = drawn(seed + 3, n, scale=scale) ** 2
    state = t(p, g, m, v)
    ops.adam_(*state, 0.003, 0.9, 0.99)
    m = m * F(0.9) + g * F(1.0 - 0.9)
    v = v * F(0.99) + (g * g) * F(1.0 - 0.99)
    m[np.abs(m) < F(1e-30)] = 0
    v[v < F(1e-30)] = 0
    p = p - (m / (np.sqrt(v) + F(1e-8))) * F(0.003)
    assert same_bits(state[0], p) and same_bits(state[2], m) and same_bits(state[3], v)


@given(SEEDS)
def test_nesterov_equals_numpy_and_sets_tiny_values_to_zero(ops, seed):
    m, g = drawn(seed, 5, 7), drawn(seed + 1, 5, 7)
    m[0], g[0] = F(1e-31), F(0)
    momentum, gradient = t(m, g)
    direction = ops.nesterov_(momentum, gradient, 0.8)
    expected = m * F(0.8) + g * F(1.0 - 0.8)
    expected[np.abs(expected) < F(1e-30)] = 0
    assert same_bits(momentum, expected) and same_bits(direction, g * F(1.0 - 0.8) + expected * F(0.8))
