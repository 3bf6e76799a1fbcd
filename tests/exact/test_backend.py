"""Orthogonalisation: its purpose, its independence of the backend, and its scale."""

from functools import cache

import pytest
import torch

from prequential.exact import fused, plain
from prequential.exact.backend import Arithmetic, Primitives, muon_step_, orthogonalise
from prequential.exact.matmul import Matmul, trials
from prequential.exact.pool import Pool

SHAPES = [(64, 64), (64, 256), (256, 64), (300, 130)]


def drawn(shape: tuple[int, int], seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@cache
def exact_products() -> list[str]:
    return [trial.name for trial in trials() if trial.exact]


def backend(ops: Primitives, products: str = "float64") -> Arithmetic:
    return Arithmetic(ops, Matmul(products), Pool(1))


def stepped(g: torch.Tensor, ops: Primitives, products: str = "float64", n_blocks: int = 1) -> torch.Tensor:
    muon_step_(w := torch.zeros(g.shape), g, n_blocks, -1.0, backend(ops, products))  # a step of size 1 from zero
    return w


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one(ops, shape):
    values = torch.linalg.svdvals(stepped(drawn(shape), ops).double())
    wide = values[values > values.max() / 1e3] if shape[0] == shape[1] else values
    assert 0.5 < float(wide.median()) < 1.3 and float(values.max()) < 1.4
    if shape[0] != shape[1]:  # a square Gaussian matrix has singular values near 0, which five steps do not lift
        assert float(values.min()) > 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_result_does_not_depend_on_backend_or_implementation(shape):
    g = drawn(shape, seed=4)
    results = [stepped(g, ops, name) for ops in (plain, fused) for name in exact_products()]
    assert len(results) >= 4 and all(torch.equal(x, results[0]) for x in results)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stack_of_matrices_gives_the_bits_of_each(shape):
    stack = torch.stack([drawn(shape, seed) * 10.0 ** (seed - 2) for seed in range(5)])
    for name in exact_products():
        each = torch.stack([stepped(g, fused, name) for g in stack])
        assert torch.equal(orthogonalise(stack, backend(plain, name)), each)


def test_a_zero_gradient_stays_zero(ops):
    assert torch.equal(stepped(torch.zeros(32, 48), ops), torch.zeros(32, 48))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_takes_its_size_off_each_block_of_columns(shape):
    g, before = torch.cat([drawn(shape, seed) for seed in range(3)], 1), drawn((shape[0], 3 * shape[1]), 9)
    for ops, name in [(ops, name) for ops in (plain, fused) for name in exact_products()]:
        w = before.clone()
        muon_step_(w, g, 3, 0.04, backend(ops, name))
        each = torch.cat([stepped(part, ops, name) for part in g.chunk(3, 1)], 1)
        assert torch.equal(w, before - each * 0.04)
