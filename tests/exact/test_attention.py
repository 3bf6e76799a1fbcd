"""Attention, forward and backward, against numpy loops over streams, heads and queries: IEEE float32 and int64 sums."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from in_numpy import SEEDS, F, before_norm, normalised, rounded, same_bits, tensors

from prequential.exact import plain
from prequential.exact.tables import attention_table

# streams, positions, heads, width of a head, window
SHAPES = st.tuples(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 3), st.sampled_from([2, 6, 64]), st.integers(1, 40)
)


def assert_same_bits(got: tuple[torch.Tensor, ...], *expected: np.ndarray) -> None:
    assert all(same_bits(g, x) for g, x in zip(got, expected, strict=True))


def factors(rng: np.random.Generator, *shape: int, top: float = 1.0) -> np.ndarray:
    return rng.uniform(1e-4 * top, top, shape).astype(F)


def phases(rng: np.random.Generator, n_time: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    angle = rng.uniform(0, 7, (n_time, width // 2))
    return np.cos(angle).astype(F), np.sin(angle).astype(F)


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    first, second = np.split(x, 2, -1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-25, 1.0, 1e12]))
def test_inputs_are_rotated_normalised_and_rounded(shape, seed, scale):
    rng, (b, n, h, k, _) = np.random.default_rng(seed), shape
    qkv = (rng.standard_normal((b * n, 3 * h * k)) * scale).astype(F)
    cos, sin = phases(rng, n, k)
    parts = qkv.reshape(b, n, 3, h, k).transpose(2, 0, 3, 1, 4)
    q, k = (normalised(turned(part, cos, sin)) for part in parts[:2])
    assert_same_bits(plain.attention_inputs(*tensors(qkv, cos, sin), (b, n, h)), *q, *k, *rounded(parts[2], 127))


@given(SHAPES, SEEDS, st.integers(-5, 60), st.sampled_from([0.0, 1e-9, 1e-4, 1.0]))
def test_weights_are_table_entries_for_visible_keys_and_0_for_others(shape, seed, first_valid, temperature):
    rng, (n_streams, n, n_heads, _, window) = np.random.default_rng(seed), shape
    leading, n_keys = (n_streams, n_heads), window - 1 + n
    first_valid = min(first_valid, window - 1)  # every query sees itself
    scores = rng.integers(-(2**20), 2**20, (*leading, n, n_keys)).astype(F)
    q_r = factors(rng, *leading, n) * F(temperature)
    k_r, v_scale = factors(rng, *leading, n_keys), factors(rng, *leading, n_keys)
    e, levels, table = np.zeros(scores.shape, dtype=F), np.zeros(scores.shape, dtype=F), attention_table().numpy()
    inverse, scale = np.zeros(q_r.shape, dtype=F), np.zeros(q_r.shape, dtype=F)
    for b, h, query in np.ndindex(q_r.shape):
        keys = [j for j in range(query, query + window) if j >= first_valid]
        z = (scores[b, h, query, keys] * q_r[b, h, query]) * k_r[b, h, keys]
        steps = np.minimum(np.rint((z.max() - z) * F(32)), F(255)).astype(np.int64)
        e[b, h, query, keys] = table[steps]
        inverse[b, h, query] = F(1) / F(table[steps].sum())
        levels[b, h, query], scale[b, h, query] = rounded(e[b, h, query] * v_scale[b, h], 255)
    got = plain.attention_weights(*tensors(scores, q_r, k_r, v_scale), mask=(window - 1, first_valid, window))
    assert_same_bits(got, e, inverse, levels, scale)


@given(SHAPES, SEEDS)
def test_output_puts_the_heads_side_by_side(shape, seed):
    rng, (b, n, h, k, _) = np.random.default_rng(seed), shape
    acc = rng.integers(-(2**24), 2**24, (b, h, n, k)).astype(F)
    factor = factors(rng, b, h, n)
    expected = (acc * factor[..., None]).transpose(0, 2, 1, 3).reshape(b * n, h * k)
    assert same_bits(plain.attention_output(*tensors(acc, factor)), expected)


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e12]))
def test_value_gradients_are_rounded_by_query_and_by_column(shape, seed, scale):
    rng, (b, n, h, k, _) = np.random.default_rng(seed), shape
    grad = (rng.standard_normal((b * n, h * k)) * scale).astype(F)
    inverse = factors(rng, b, h, n, top=1 / 255)
    g = grad.reshape(b, n, h, k).transpose(0, 2, 1, 3)
    by_column, column_scale = rounded(g * inverse[..., None], 127, axis=-2)
    got = plain.attention_backward_values(*tensors(grad, inverse), h)
    assert_same_bits(got, *rounded(g, 1023), by_column, column_scale[:, :, None])


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e8]))
def test_score_gradients_are_those_of_the_softmax(shape, seed, scale):
    rng, (b, n, h, _, window) = np.random.default_rng(seed), shape
    products = rng.integers(-(2**23), 2**23, (b, h, n, window - 1 + n)).astype(F)
    g_scale, q_r = factors(rng, b, h, n) * F(scale), factors(rng, b, h, n)
    v_scale, k_r = (factors(rng, b, h, window - 1 + n) for _ in range(2))
    e = rng.integers(0, 256, products.shape) * rng.integers(0, 2, products.shape)
    e[..., -1] = 255
    inverse = F(1) / e.sum(-1).astype(F)
    dp = np.where(e > 0, (products * g_scale[..., None]) * v_scale[:, :, None], F(0))
    levels, level = rounded(dp, 2047)
    mean = ((levels.astype(np.int64) * e).sum(-1).astype(F) * level) * inverse
    ds = (e.astype(F) * inverse[..., None]) * (dp - mean[..., None])
    got = plain.attention_backward_scores(*tensors(products, g_scale, v_scale, e.astype(F), inverse, q_r, k_r))
    assert_same_bits(got, *rounded(ds * k_r[:, :, None], 255), *rounded(ds * q_r[..., None], 127, axis=-2))


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e8]))
def test_input_gradients_pass_the_norm_and_the_inverse_rotation(shape, seed, scale):
    rng, (b, n, h, k, _) = np.random.default_rng(seed), shape
    sums = [rng.integers(-(2**24), 2**24, (b, h, n, k)).astype(F) for _ in range(3)]
    scales = [factors(rng, b, h, n) * F(scale), factors(rng, b, h, n) * F(scale), factors(rng, b, h, 1, k)]
    levels = [rng.integers(-127, 128, (b, h, n, k)).astype(F) for _ in range(2)]
    saved = [(x, factors(rng, b, h, n), factors(rng, b, h, n, top=1e4)) for x in levels]
    cos, sin = phases(rng, n, k)
    parts = [turned(before_norm(sums[i] * scales[i][..., None], *saved[i]), cos, -sin) for i in range(2)]
    parts.append(sums[2] * scales[2])
    expected = np.stack(parts).transpose(1, 3, 0, 2, 4).reshape(b * n, 3 * h * k)
    saved = tensors(*saved[0], *saved[1])
    assert same_bits(
        plain.attention_inputs_backward(tensors(*sums), tensors(*scales), saved, *tensors(cos, sin)), expected
    )
