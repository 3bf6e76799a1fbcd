"""The Triton kernels give the bits of the definition, and their code for a device rounds each operation once.

On a machine with a device these tests are marked gpu, and the kernels run there. Elsewhere Triton's interpreter computes them on
the processor.
"""

# ruff: noqa: E402  Triton is looked for before modules that need it
import os
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

ON_DEVICE = torch.cuda.is_available()
if not ON_DEVICE:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined
triton = pytest.importorskip("triton", reason="Triton is not installed")

import triton.language as tl
from same_bits import Draw, assert_same_bits, check_attention, check_rows

from prequential.exact import plain
from prequential.exact.backend import Arithmetic
from prequential.exact.device import primitives as triton_primitives
from prequential.exact.device.rounding import rounded
from prequential.exact.matmul import choose
from prequential.exact.pool import Pool
from prequential.model.config import GPTConfig
from prequential.model.gpt.device import Accelerator
from prequential.online import accelerators

pytestmark = pytest.mark.gpu if ON_DEVICE else pytest.mark.thorough  # the interpreter is slow
DEVICE = torch.device("cuda" if ON_DEVICE else "cpu")


@example(3, 256, 1)
@example(40, 33, 1)
@example(70, 129, 1)
@given(st.integers(1, 9), st.integers(1, 70), st.integers(0, 2**32))
def test_rows_agree_at_any_shape(n, c, seed):
    check_rows(triton_primitives, n, c, seed)


@example((2, 9, 2, 32, 8), 3, 2)
@example((2, 40, 1, 3, 5), 0, 2)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 2), st.integers(1, 10), st.integers(1, 20)),
    st.integers(0, 20),
    st.integers(0, 2**32),
)
def test_attention_agrees_at_any_shape(shape, n_valid, seed):
    b, t, h, half_width, window = shape
    check_attention(triton_primitives, b, t, h, 2 * half_width, window, min(n_valid, window - 1), seed)


def test_stacks_of_matrices_agree():
    d = Draw(3)
    assert_same_bits(triton_primitives, "quantise_rows", d.reals(3, 5, 20))
    assert_same_bits(triton_primitives, "quantise_rows", d.reals(3, 5, 20), d.factors(3, 20))
    acc, row, column, base = d.integers(2**28, 3, 5, 7), d.factors(3, 5), d.factors(3, 7), d.reals(3, 5, 7)
    assert_same_bits(triton_primitives, "dequantise", acc, row, column, base, alpha=3.4445, beta=2.0315)


def test_zeros_subnormals_and_ties_agree():
    """Rounding keeps the sign of zero and takes the even neighbour; rows of zeros and of subnormal numbers do not divide by 0."""
    ties = torch.arange(-127, 128, dtype=torch.float32) / 2  # with 127 as the largest, levels are these numbers
    row = torch.cat((ties, torch.tensor([127.0, -0.0, 0.0, 0.4, -0.4])))[None]
    for x in (row, torch.zeros(2, 9), torch.full((2, 9), -1e-42), torch.full((2, 9), 3e38)):
        assert_same_bits(triton_primitives, "quantise_rows", x)
        assert_same_bits(triton_primitives, "normalise_rows", x)
        assert_same_bits(triton_primitives, "column_peaks", x)
        assert_same_bits(triton_primitives, "round_columns", x, plain.column_peaks(x))
    state = [torch.full((4, 5), v) for v in (1.0, 0.0, -1e-38, 1e-38)]
    assert_same_bits(triton_primitives, "adam_", *state, torch.tensor(0.003, dtype=torch.float64), 0.9, 0.99)
    assert_same_bits(triton_primitives, "nesterov_", torch.full((4, 5), -2e-30), torch.zeros(4, 5), 0.4)


def test_the_first_of_equal_logits_gets_the_rest():
    for x in (torch.zeros(3, 256), torch.tensor([[1.0, 3.0, 3.0, -2.0]]), torch.tensor([[-1e6, 1e6]])):
        assert_same_bits(triton_primitives, "frequencies", x)


def test_every_primitive_has_a_counterpart():
    own = {
        name
        for name, each in vars(plain).items()
        if callable(each) and each.__module__ == plain.__name__ and name[0] != "_"
    }
    own -= {"sqrt"}
    assert own <= vars(triton_primitives).keys()
    assert all(signature(getattr(triton_primitives, name)) == signature(getattr(plain, name)) for name in own)
    assert not triton_primitives.COMPILED  # a decoder's compiled kernels are for the processor


def test_a_gpt_learns_and_reads_with_the_same_bits(monkeypatch):
    config = GPTConfig(
        n_layers=1, width=16, n_heads=2, window=6, contexts=("2", "word"), context_bits=8, memory_bits=13
    )
    monkeypatch.setattr(accelerators, "TEST_COLUMNS", 9)
    accelerator = Accelerator(DEVICE, choose(DEVICE), triton_primitives)
    accelerators.compare_with_host(
        accelerator, config, (4, 4), Arithmetic(plain, choose(), Pool(1))
    )  # raises if bits differ


@triton.jit
def _round(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, rounded(tl.load(x + i)))


def test_rounding_is_exact_up_to_its_bound():
    near = torch.arange(-(2**19), 2**19).float() * 0.25  # the bound of 18-bit levels
    far = torch.arange(2**23 - 2**20, 2**23).float() - 0.5
    for x in (near.to(DEVICE), far.to(DEVICE), -far.to(DEVICE)):
        out = torch.empty_like(x)
        _round[(1,)](x, out, N=len(x))
        assert torch.equal(out.view(torch.int32), x.round().view(torch.int32))


@pytest.mark.parametrize("capability", [80, 90])
def test_code_for_a_device_rounds_each_operation_once(capability, tmp_path):
    """All kernels are compiled for a device, without one: no fused, approximate or flushing float instruction is in them."""
    child = Path(__file__).parent / "triton_child.py"
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(child), str(capability)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kernels = dict(line.split(": ") for line in done.stdout.splitlines())
    defined = {name for module in ("primitives", "attention") for name in _kernels_of(module)}
    assert set(kernels) == defined
    assert {name: instructions for name, instructions in kernels.items() if instructions != "[]"} == {}


def _kernels_of(module: str) -> set[str]:
    """The names of the kernels that this module launches."""
    source = (Path(plain.__file__).parent / "device" / f"{module}.py").read_text()
    return set(re.findall(r"\blaunch\(\s*(_\w+),", source))
