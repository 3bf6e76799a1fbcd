"""The elementwise operations that the arithmetic is built from, against numpy, at each vector level of torch."""

import os
import subprocess
import sys

import pytest
import torch

CHILD = """
import numpy as np, torch

rng = np.random.default_rng(0)
n = 2_000_003  # odd: the tails of vector loops too
bits = rng.integers(0, 2**32, 4 * n, dtype=np.uint32)
x = bits.view(np.float32)
with np.errstate(invalid="ignore"):
    x = x[(np.abs(x) > 1e-18) & (np.abs(x) < 1e18)]
x, y = x[: len(x) // 2], x[len(x) // 2 : len(x) // 2 * 2]
assert len(x) > 1_500_000
small = (rng.standard_normal(len(x)) * 100).astype(np.float32)
small[:1000] = np.arange(-500, 500) + 0.5  # ties
i = rng.integers(-(2**31), 2**31, len(x)).astype(np.int32)
f = np.float32


def check(name, got, expected):
    got = got.numpy()
    assert got.dtype == expected.dtype, name
    wrong = int((got.view(f"u{got.itemsize}") != expected.view(f"u{got.itemsize}")).sum())
    assert wrong == 0, f"{name}: {wrong} of {len(got)} differ, {torch.backends.cpu.get_cpu_capability()}"


a, b, s, k = (torch.from_numpy(v) for v in (x, y, small, i))
check("sum", a + b, x + y)
check("difference", a - b, x - y)
check("product", a * b, x * y)
check("quotient", a / b, x / y)
check("reciprocal", a.reciprocal(), f(1) / x)
check("scalar over tensor", 127.0 / a, (f(1) / x) * f(127))
check("times a Python float", a * 0.1, x * f(0.1))
check("plus a Python float", a + 1e-8, x + f(1e-8))
check("in place", a.clone().mul_(0.9).add_(b), x * f(0.9) + y)
check("round", s.round(), np.rint(small))
check("floor", s.double().floor(), np.floor(small.astype(np.float64)))
check("float64 quotient", a.double() / b.double(), x.astype(np.float64) / y.astype(np.float64))
check("square root", a.abs().double().sqrt().float(), np.sqrt(np.abs(x)))
check("int32 to float32", k.float(), i.astype(np.float32))
check("int64 to float32", k.long().mul(12345).float(), (i.astype(np.int64) * 12345).astype(np.float32))
check("float32 to int32", s.round().to(torch.int32), np.rint(small).astype(np.int32))
check("float32 to int8", s.clamp(-127, 127).round().to(torch.int8), np.rint(np.clip(small, -127, 127)).astype(np.int8))
check("clamp", a.clamp_min(1e-3), np.maximum(x, f(1e-3)))
table = x[: len(x) // 1000 * 1000].reshape(-1, 1000)
check("largest magnitude", torch.from_numpy(table).abs().amax(1), np.abs(table).max(1))
print(torch.backends.cpu.get_cpu_capability())
"""


@pytest.mark.parametrize("level", ["default", "avx2", "avx512"])
@pytest.mark.first_quick
def test_operations_round_once_at_every_vector_level(level):
    if level == "avx512" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX-512")
    environment = os.environ | {"ATEN_CPU_CAPABILITY": level, "OMP_NUM_THREADS": "1"}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    if level == "default":
        assert child.stdout.strip() == "DEFAULT"  # the variable is obeyed
