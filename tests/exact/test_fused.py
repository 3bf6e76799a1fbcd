"""The compiled loops give the bits of the definition: at the shapes in use, on views, with one thread or two."""

import math
from inspect import signature

import pytest
import torch
from same_bits import check_attention, check_rows

from prequential.exact import fused, plain


@pytest.mark.parametrize("shape", [(16, 256), (1024, 256), (256, 1024), (513, 769)])
def test_rows_agree_at_the_shapes_in_use(shape):
    check_rows(fused, *shape, seed=1)


@pytest.mark.parametrize("shape", [(16, 1, 4, 64, 128, 100), (16, 64, 4, 64, 128, 0), (4, 33, 2, 32, 17, 16)])
def test_attention_agrees_at_the_shapes_in_use(shape):
    check_attention(fused, *shape, seed=2)


def test_every_primitive_of_the_definition_has_a_compiled_counterpart():
    public = {name: x for name, x in vars(plain).items() if callable(x) and name[0] != "_" and name != "sqrt"}
    own = {name for name, x in public.items() if x.__module__.startswith(plain.__name__)}
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
