"""Matmul backends: exact if they pass the self-test, otherwise refused, also if the library's instruction set is capped."""

import os
import subprocess
import sys
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prequential.errors import InexactMachineError
from prequential.exact import matmul
from prequential.exact.matmul import BACKEND_NAMES, Matmul, choose, trials

Tensor = torch.Tensor


@cache
def exact_backends() -> list[str]:
    return [trial.name for trial in trials() if trial.exact]


@pytest.fixture(autouse=True)
def small_fresh_self_test(monkeypatch):
    monkeypatch.setattr(matmul, "SELF_TEST_SHAPES", [(1, 64, 64), (33, 65, 57), (3, 2080, 40)])
    trials.cache_clear()
    yield
    trials.cache_clear()


SIZES = st.integers(2, 50)


@pytest.mark.parametrize("name", exact_backends())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, st.integers(2, 2200), SIZES, st.integers(0, 2**32), st.booleans())
def test_exact_backends_equal_int64_products(name, m, k, n, seed, transposed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-127, 128, (m, k), dtype=torch.int8, generator=generator)
    b = torch.randint(-127, 128, (n, k) if transposed else (k, n), dtype=torch.int8, generator=generator)
    b = b.t() if transposed else b
    product = Matmul(name)(a, b)
    assert product.dtype == torch.int32 and torch.equal(product.long(), a.long() @ b.long())


@pytest.mark.parametrize("name", BACKEND_NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, st.integers(1, 512), SIZES, st.integers(0, 2**32))
def test_batched_products_of_attention_are_exact(name, m, k, n, seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(0, 256, (3, m, k), generator=generator)
    b = torch.randint(-127, 128, (3, k, n), generator=generator)
    a[0], b[0] = 255, 127  # 255 * 127 * 512 < 2**24
    product = Matmul(name).batched(a.float(), b.float())
    assert product.dtype == torch.float32 and torch.equal(product.long(), a @ b)


def saturating(self: Matmul, a: Tensor, b: Tensor) -> Tensor:
    """The 16-bit multiply-add: a + 128 is unsigned, sums of pairs saturate, and 128 * sum(b) is subtracted at the end."""
    products = (a.long() + 128)[:, :, None] * b.long()
    pairs = products[:, 0::2].clone()
    pairs[:, : products.shape[1] // 2] += products[:, 1::2]
    return (pairs.clamp(-(2**15), 2**15 - 1).sum(1) - 128 * b.long().sum(0)).to(torch.int32)


def eight_bit_mantissa(self: Matmul, a: Tensor, b: Tensor) -> Tensor:
    """The effect of a lowered float32 precision on longer sums: the result is rounded to bfloat16."""
    return (a.double() @ b.double()).bfloat16().to(torch.int32)


def one_sum_off(self: Matmul, a: Tensor, b: Tensor) -> Tensor:
    product = (a.double() @ b.double()).to(torch.int32)
    product[-1, -1] += product.shape[0] == 33
    return product


def unavailable(self: Matmul, a: Tensor, b: Tensor) -> Tensor:
    raise NotImplementedError("no such kernel\nsecond line")


@pytest.mark.parametrize("fault", [saturating, eight_bit_mantissa, one_sum_off, unavailable])
def test_self_test_rejects_a_wrong_backend_and_choose_refuses(monkeypatch, fault):
    monkeypatch.setattr(Matmul, "__call__", fault)
    assert [trial.exact for trial in trials()] == [False] * len(BACKEND_NAMES)
    assert all(trial.reason and "\n" not in trial.reason and trial.ops_per_s == 0 for trial in trials())
    with pytest.raises(InexactMachineError, match="no matmul backend is exact"):
        choose()
    with pytest.raises(InexactMachineError, match="float64 is not exact here"):
        choose(name="float64")


def test_self_test_rejects_wrong_batched_products(monkeypatch):
    monkeypatch.setattr(Matmul, "batched", lambda self, a, b: (a @ b).bfloat16().float())
    with pytest.raises(InexactMachineError):
        choose()


def test_choose_takes_an_exact_backend_or_the_named_one_and_pins_the_float32_precision():
    torch.set_float32_matmul_precision("medium")
    assert choose().name in exact_backends()
    assert torch.get_float32_matmul_precision() == "highest"
    assert choose(name="float64") == Matmul("float64")


CHILD = """
import torch
from prequential.exact.matmul import choose
matmul = choose()
for m, k, n in ((16, 256, 768), (64, 1024, 256), (256, 256, 256)):
    a, b = torch.full((m, k), -127, dtype=torch.int8), torch.full((k, n), 127, dtype=torch.int8)
    a[::2] = 127
    drawn = torch.randint(-127, 128, (m, k), dtype=torch.int8), torch.randint(-127, 128, (n, k), dtype=torch.int8).t()
    for x, y in ((a, b), drawn):
        assert torch.equal(matmul(x, y).long(), x.long() @ y.long()), (matmul.name, m, k, n)
print(matmul.name)
"""


@pytest.mark.parametrize("cap", ["AVX2", "SSE41"])
@pytest.mark.first_quick
def test_a_library_capped_below_vnni_still_yields_an_exact_backend(cap):
    """With this cap `torch._int_mm` saturates silently (pytorch/pytorch#136746), so it must not be trusted by its name."""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": cap}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() in BACKEND_NAMES
