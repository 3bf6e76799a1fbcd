"""The compiled loops give the bits of the definition: at the shapes in use, on views, with one thread or two."""

import math
from inspect import signature

import pytest
import torch
from same_bits import check_rows

from prequential.exact import fused, plain


@pytest.mark.parametrize("shape", [(16, 256), (1024, 256), (256, 1024), (513, 769)])
def test_rows_agree_at_the_shapes_in_use(shape):
    check_rows(fused, *shape, seed=1)


@pytest.mark.parametrize("size", [0.0, 1e-25, 1.0, 1e12])
@pytest.mark.parametrize(
    "shape",
    [
        (4, 128, 3, 64, 128),
        (3, 33, 2, 32, 17),
        (2, 7, 2, 2, 3),
        (2, 130, 1, 50, 400),
        (1, 512, 1, 128, 512),
        (2, 1, 1, 6, 5),
    ],
)
def test_attention_has_the_bits_of_its_definition(shape, size):
    """Rows, positions, heads, width of a head, window."""
    b, t, h, k, window = shape
    generator, scale, n = torch.Generator().manual_seed(b * t), 11.5 / k, b * t
    qkv, grad = (torch.randn(n, d * h * k, generator=generator) * size for d in (3, 1))
    angle = torch.rand(t, k // 2, generator=generator) * 7
    phases = angle.cos(), angle.sin()
    q, q_r, q_s, k, k_r, k_s, v, v_scale = plain.attention_inputs(qkv, *phases, (b, t, h))
    e, inverse, levels, level = plain.attention_weights(q @ k.mT, q_r * scale, k_r, v_scale, (0, 0, window))
    out, saved = fused.attention(qkv, *phases, (b, t, h), scale, window)
    assert torch.equal(out, plain.attention_output(levels @ v, level * inverse))
    by_query, g_scale, by_column, dv_scale = plain.attention_backward_values(grad, inverse, h)
    folded = (g_scale, v_scale, e, inverse, q_r, k_r)
    rows, row_scale, columns, column_scale = plain.attention_backward_scores(by_query @ v.mT, *folded)
    sums, scales = (rows @ k, columns.mT @ q, e.mT @ by_column), (row_scale * scale, column_scale * scale, dv_scale)
    expected = plain.attention_inputs_backward(sums, scales, (q, q_r, q_s, k, k_r, k_s), *phases)
    assert torch.equal(fused.attention_backward(grad, saved, *phases, scale, window), expected)


def test_every_primitive_of_the_definition_has_a_compiled_counterpart():
    public = {name: x for name, x in vars(plain).items() if callable(x) and name[0] != "_" and name != "sqrt"}
    own = {name for name, x in public.items() if x.__module__ == plain.__name__ and not name.startswith("attention")}
    assert own <= vars(fused).keys()
    assert all(signature(getattr(fused, name)) == signature(getattr(plain, name)) for name in own)
    assert fused.COMPILED and not plain.COMPILED


def test_a_product_and_a_sum_round_twice():
    # a * a = 1 + 2**-11 + 2**-24: a separate rounding drops the last bit, a fused operation keeps it
    a = 1.0 + 2.0**-12
    acc, row = torch.full((40, 64), 4097, dtype=torch.int32), torch.full((40,), 2.0**-12)
    y = fused.dequantise(acc, row, torch.full((64,), a), base=torch.full((40, 64), -1.0 - 2.0**-11))
    assert torch.equal(y, torch.zeros(40, 64))


@pytest.mark.parametrize("unit", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_changes_no_context(ops, unit):
    sums = torch.tensor([[1, -2, 0]], dtype=torch.int32)
    _, change = ops.adagrad_change(sums, torch.tensor([unit]), torch.zeros(1), 0.1, 4096.0, 65534.0)
    assert not change.any()


@pytest.mark.parametrize("odd", [math.nan, -math.nan, math.inf, -math.inf])
def test_kernels_survive_logits_that_are_not_finite(odd):
    """A GPT that has diverged must not crash the process: these loops check no index."""
    logits = torch.randn(4, 256, generator=torch.Generator().manual_seed(1))
    logits[1], logits[2, 7], logits[3, ::2] = odd, odd, odd
    assert fused.frequencies(logits).shape == (4, 256)
