"""Attention, forward and backward, against numpy loops over streams, heads and queries: IEEE float32 and int64 sums."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prequential.exact.tables import attention_table

F = np.float32
SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True)
class Shape:
    n_streams: int
    n_time: int
    n_heads: int
    width: int
    window: int

    @property
    def n_keys(self) -> int:
        return self.window - 1 + self.n_time


SHAPES = st.builds(
    Shape,
    n_streams=st.integers(1, 3),
    n_time=st.integers(1, 9),
    n_heads=st.integers(1, 3),
    width=st.sampled_from([2, 6, 64]),
    window=st.integers(1, 40),
)


def t(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


def tensors(*xs: np.ndarray) -> list[torch.Tensor]:
    return [t(x) for x in xs]


def assert_same_bits(got: tuple[torch.Tensor, ...], expected: tuple[np.ndarray, ...]) -> None:
    assert len(got) == len(expected)
    for i, (g, x) in enumerate(zip(got, expected, strict=True)):
        assert x.dtype == F and g.dtype == torch.float32 and tuple(g.shape) == x.shape, i
        assert np.array_equal(g.numpy().view(np.int32), np.ascontiguousarray(x).view(np.int32)), i


def rounded(x: np.ndarray, limit: int, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Integers as float32, and the largest magnitude without `axis`."""
    top = np.maximum(np.abs(x).max(axis), F(1e-30))
    return np.rint(x * np.expand_dims((F(1) / top) * F(limit), axis)), top


def factors(rng: np.random.Generator, *shape: int, top: float = 1.0) -> np.ndarray:
    return rng.uniform(1e-4 * top, top, shape).astype(F)


def phases(rng: np.random.Generator, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    angle = rng.uniform(0, 7, (shape.n_time, shape.width // 2))
    return np.cos(angle).astype(F), np.sin(angle).astype(F)


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    first, second = np.split(x, 2, -1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def inverse_rms(levels: np.ndarray) -> np.ndarray:
    squares = np.maximum((levels.astype(np.int64) ** 2).sum(-1), 1)
    return F(1) / np.sqrt(squares.astype(F) * F(1 / levels.shape[-1]))


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-25, 1.0, 1e12]))
def test_inputs_are_rotated_normalised_and_rounded(ops, shape, seed, scale):
    rng = np.random.default_rng(seed)
    b, n, h, k = shape.n_streams, shape.n_time, shape.n_heads, shape.width
    qkv = (rng.standard_normal((b * n, 3 * h * k)) * scale).astype(F)
    cos, sin = phases(rng, shape)
    parts = qkv.reshape(b, n, 3, h, k).transpose(2, 0, 3, 1, 4)
    expected: list[np.ndarray] = []
    for part in parts[:2]:
        levels, top = rounded(turned(part, cos, sin), 127)
        r = inverse_rms(levels)
        expected += [levels, r, r / (top * F(1 / 127))]
    v, top = rounded(parts[2], 127)
    got = ops.attention_inputs(*tensors(qkv, cos, sin), (b, n, h))
    assert_same_bits(got, (*expected, v, top * F(1 / 127)))


@given(SHAPES, SEEDS, st.integers(-5, 60), st.sampled_from([0.0, 1e-9, 1e-4, 1.0]))
def test_weights_are_table_entries_for_visible_keys_and_0_for_others(ops, shape, seed, first_valid, temperature):
    rng = np.random.default_rng(seed)
    leading = (shape.n_streams, shape.n_heads)
    first_valid = min(first_valid, shape.window - 1)  # every query sees itself
    scores = rng.integers(-(2**20), 2**20, (*leading, shape.n_time, shape.n_keys)).astype(F)
    q_r = (factors(rng, *leading, shape.n_time) * F(temperature)).astype(F)
    k_r, v_scale = factors(rng, *leading, shape.n_keys), factors(rng, *leading, shape.n_keys)
    e, levels, table = np.zeros(scores.shape, dtype=F), np.zeros(scores.shape, dtype=F), attention_table().numpy()
    inverse, scale = np.zeros(q_r.shape, dtype=F), np.zeros(q_r.shape, dtype=F)
    for b, h, query in np.ndindex(q_r.shape):
        own = shape.window - 1 + query
        keys = [j for j in range(own - shape.window + 1, own + 1) if j >= first_valid]
        z = (scores[b, h, query, keys] * q_r[b, h, query]) * k_r[b, h, keys]
        steps = np.minimum(np.rint((z.max() - z) * F(32)), F(255)).astype(np.int64)
        e[b, h, query, keys] = table[steps]
        inverse[b, h, query] = F(1) / F(table[steps].sum())
        levels[b, h, query], top = rounded(e[b, h, query] * v_scale[b, h], 255)
        scale[b, h, query] = top * F(1 / 255)
    got = ops.attention_weights(*tensors(scores, q_r, k_r, v_scale), mask=(shape.window - 1, first_valid, shape.window))
    assert_same_bits(got, (e, inverse, levels, scale))


@given(SHAPES, SEEDS)
def test_output_puts_the_heads_side_by_side(ops, shape, seed):
    rng = np.random.default_rng(seed)
    b, n, h, k = shape.n_streams, shape.n_time, shape.n_heads, shape.width
    acc = rng.integers(-(2**24), 2**24, (b, h, n, k)).astype(F)
    factor = factors(rng, b, h, n)
    expected = (acc * factor[..., None]).transpose(0, 2, 1, 3).reshape(b * n, h * k)
    assert_same_bits((ops.attention_output(*tensors(acc, factor)),), (expected,))


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e12]))
def test_value_gradients_are_rounded_by_query_and_by_column(ops, shape, seed, scale):
    rng = np.random.default_rng(seed)
    b, n, h, k = shape.n_streams, shape.n_time, shape.n_heads, shape.width
    grad = (rng.standard_normal((b * n, h * k)) * scale).astype(F)
    inverse = factors(rng, b, h, n, top=1 / 255)
    g = grad.reshape(b, n, h, k).transpose(0, 2, 1, 3)
    by_query, query_top = rounded(g, 1023)
    by_column, column_top = rounded(g * inverse[..., None], 127, axis=-2)
    got = ops.attention_backward_values(*tensors(grad, inverse), h)
    expected = (by_query, query_top * F(1 / 1023), by_column, column_top[:, :, None] * F(1 / 127))
    assert_same_bits(got, expected)


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e8]))
def test_score_gradients_are_those_of_the_softmax(ops, shape, seed, scale):
    rng = np.random.default_rng(seed)
    leading = (shape.n_streams, shape.n_heads)
    products = rng.integers(-(2**23), 2**23, (*leading, shape.n_time, shape.n_keys)).astype(F)
    g_scale, q_r = factors(rng, *leading, shape.n_time) * F(scale), factors(rng, *leading, shape.n_time)
    v_scale, k_r = factors(rng, *leading, shape.n_keys), factors(rng, *leading, shape.n_keys)
    e = rng.integers(0, 256, products.shape) * rng.integers(0, 2, products.shape)
    e[..., -1] = 255
    inverse = (F(1) / e.sum(-1).astype(F)).astype(F)
    dp = np.where(e > 0, (products * g_scale[..., None]) * v_scale[:, :, None], F(0))
    levels, top = rounded(dp, 2047)
    mean = ((levels.astype(np.int64) * e).sum(-1).astype(F) * (top * F(1 / 2047))) * inverse
    ds = (e.astype(F) * inverse[..., None]) * (dp - mean[..., None])
    by_query, row_top = rounded(ds * k_r[:, :, None], 255)
    by_key, column_top = rounded(ds * q_r[..., None], 127, axis=-2)
    got = ops.attention_backward_scores(*tensors(products, g_scale, v_scale, e.astype(F), inverse, q_r, k_r))
    assert_same_bits(got, (by_query, row_top * F(1 / 255), by_key, column_top * F(1 / 127)))


@given(SHAPES, SEEDS, st.sampled_from([0.0, 1e-28, 1.0, 1e8]))
def test_input_gradients_pass_the_norm_and_the_inverse_rotation(ops, shape, seed, scale):
    rng = np.random.default_rng(seed)
    b, n, h, k = shape.n_streams, shape.n_time, shape.n_heads, shape.width
    sums = [rng.integers(-(2**24), 2**24, (b, h, n, k)).astype(F) for _ in range(3)]
    scales = [factors(rng, b, h, n) * F(scale), factors(rng, b, h, n) * F(scale), factors(rng, b, h, 1, k)]
    saved = [
        x
        for _ in range(2)
        for x in (
            rng.integers(-127, 128, (b, h, n, k)).astype(F),
            factors(rng, b, h, n),
            factors(rng, b, h, n, top=1e4),
        )
    ]
    cos, sin = phases(rng, shape)
    parts = []
    for acc, factor, (levels, r, s) in zip(sums[:2], scales[:2], (saved[:3], saved[3:]), strict=True):
        g = acc * factor[..., None]
        coarse, top = rounded(g, 1023)
        dot = (coarse.astype(np.int64) * levels.astype(np.int64)).sum(-1).astype(F) * (top * F(1 / 1023))
        mean = dot * (r * F(1 / k))
        parts.append(turned((g - (levels * r[..., None]) * mean[..., None]) * s[..., None], cos, -sin))
    parts.append(sums[2] * scales[2])
    expected = np.stack(parts).transpose(1, 3, 0, 2, 4).reshape(b * n, 3 * h * k)
    got = ops.attention_inputs_backward(tensors(*sums), tensors(*scales), tensors(*saved), *tensors(cos, sin))
    assert_same_bits((got,), (expected,))
