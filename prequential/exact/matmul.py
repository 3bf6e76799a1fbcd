"""Products of integer matrices, and the self-test that decides which implementation this machine may use (docs/EXACT.md).

A sum of integers that fits its accumulator is exact. So three implementations give the same bits: int8 (`torch._int_mm` with
int32 sums), integers carried in float32 (exact below 2**24) and integers carried in float64 (exact below 2**53).

Letters: (M, K) @ (K, N) -> (M, N); "..." a stack of matrices.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn.functional import pad

from prequential.errors import InexactMachineError

Tensor = torch.Tensor

# 127 * 127 * K < 2**24 needs K <= 1040. Longer sums are cut into parts, which are added as int32.
FLOAT32_MAX_SUM = 1040
BACKEND_NAMES = ("int8", "float32", "float64")
SELF_TEST_SHAPES = (
    (1, 64, 64), (64, 1, 64), (16, 256, 768), (64, 1024, 256), (256, 1024, 64), (33, 65, 257), (3, 2080, 40)
)  # fmt: skip
# M, K, N of the products that are timed: so large that their launch does not dominate.
TIMED_SHAPES = {"cuda": (4096, 1024, 4096), "cpu": (1024, 256, 1024)}


@dataclass(frozen=True)
class Matmul:
    """Exact products of integer matrices by the implementation `name`, one of BACKEND_NAMES."""

    name: str

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(..., M, K) int8 @ (..., K, N) int8 -> (..., M, N) int32. Entries lie in [-127, 127]; 127 * 127 * K < 2**31: K < 2**17.

        With int8, float32 computes two cases: stacks, which `torch._int_mm` does not have, and M = 1 or K = 1, for which torch
        2.13's `_int_mm` returns unwritten memory in some layouts.
        """
        if self.name == "int8" and a.dim() == 2 and a.device.type == "cuda":
            return tensor_core_product(a, b)
        if self.name == "int8" and a.dim() == 2 and 1 not in a.shape:
            return torch._int_mm(a, b)
        if self.name == "float64":
            return (a.double() @ b.double()).to(torch.int32)
        a, b = a.float(), b.float()
        total = (a[..., :FLOAT32_MAX_SUM] @ b[..., :FLOAT32_MAX_SUM, :]).to(torch.int32)
        for k in range(FLOAT32_MAX_SUM, a.shape[-1], FLOAT32_MAX_SUM):
            total += (a[..., k : k + FLOAT32_MAX_SUM] @ b[..., k : k + FLOAT32_MAX_SUM, :]).to(torch.int32)
        return total

    def batched(self, a: Tensor, b: Tensor) -> Tensor:
        """(..., M, K) @ (..., K, N) of carried integers in float32: float32, exact if each sum is below 2**24 in magnitude."""
        if self.name == "float64":
            return (a.double() @ b.double()).float()
        return a @ b


def tensor_core_product(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) int8 @ (K, N) int8 -> (M, N) int32 by `torch._int_mm` on CUDA.

    It needs more than 16 rows, and K and N in multiples of 8: zeros fill the operands up. The first operand is laid out by rows
    and the second by columns, because not every device has a kernel for two operands by rows (pytorch/pytorch#169956).
    """
    (m, k), n = a.shape, b.shape[1]
    if m <= 16 or k % 8:
        a = pad(a, (0, -k % 8, 0, max(0, 32 - m)))
    if k % 8 or n % 8:
        b = pad(b, (0, -n % 8, 0, -k % 8))
    return torch._int_mm(a.contiguous(), b.t().contiguous().t())[:m, :n]


@dataclass(frozen=True)
class Trial:
    """Result of the self-test of one implementation: whether it is exact, the first fault if not, and operations per second."""

    name: str
    exact: bool
    reason: str
    ops_per_s: float


def _operands(shape: tuple[int, int, int]) -> Iterable[tuple[Tensor, Tensor]]:
    """Pairs of operands (M, K) and (K, N) int8: extreme ones that provoke saturation, and random ones of a fixed generator."""
    m, k, n = shape
    for a_value, b_value in ((127, 127), (-127, 127), (127, -127), (-127, -127)):
        yield torch.full((m, k), a_value, dtype=torch.int8), torch.full((k, n), b_value, dtype=torch.int8)
    sign = (torch.arange(k) % 2 * 2 - 1).to(torch.int8)
    yield (127 * sign).expand(m, k).contiguous(), (127 * sign)[:, None].expand(k, n).contiguous()
    generator = torch.Generator().manual_seed(shape[0] * 1000003 + k * 1009 + n)
    for _ in range(2):
        a = torch.randint(-127, 128, (m, k), dtype=torch.int8, generator=generator)
        b = torch.randint(-127, 128, (n, k), dtype=torch.int8, generator=generator)
        yield a, b.t()  # the second operand transposed, as in the backward pass
        yield a, b.t().contiguous()
        yield a.t().contiguous().t(), b.t().contiguous()  # the first operand transposed, as in weight gradients


def _first_fault(matmul: Matmul, device: torch.device) -> str:
    """The first fault that the self-test finds, as a text; "" if `matmul` equals the int64 product for all operands."""
    for shape in SELF_TEST_SHAPES:
        operands = list(_operands(shape))
        if device.type == "cuda":  # only devices multiply stacks of matrices
            operands.append((torch.stack([a for a, _ in operands]), torch.stack([b for _, b in operands])))
        for a, b in operands:
            expected = (a.long() @ b.long()).to(torch.int32)
            try:
                got = matmul(a.to(device), b.to(device)).cpu()
            except (RuntimeError, NotImplementedError) as error:
                return f"not available: {str(error).splitlines()[0]}"
            wrong = int((got != expected).sum())
            if wrong:
                return f"{wrong} of {expected.numel()} sums wrong at shape {shape}"
    if matmul.name != "int8":  # attention: 255 * 127 * 512 < 2**24
        generator = torch.Generator().manual_seed(7)
        a = torch.randint(0, 256, (7, 5, 512), generator=generator)
        b = torch.randint(-127, 128, (7, 512, 64), generator=generator)
        a[0], b[0] = 255, 127
        a[1, :, 128:] = 0  # gradients have 1023 levels, which a mantissa of 8 bits would round
        a[1, :, :128] = torch.randint(-1023, 1024, (5, 128), generator=generator)
        got = matmul.batched(a.float().to(device), b.float().to(device)).cpu()
        wrong = int((got != (a @ b).float()).sum())
        if wrong:
            return f"{wrong} of {got.numel()} batched sums wrong"
    return ""


def _rate(matmul: Matmul, device: torch.device) -> float:
    """Operations per second, the best of four products; a multiplication and an addition are two operations."""
    m, k, n = TIMED_SHAPES[device.type]
    a = torch.full((m, k), 127, dtype=torch.int8, device=device)
    b = torch.full((k, n), 127, dtype=torch.int8, device=device)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        matmul(a, b)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * m * k * n / best


@cache
def trials(device: torch.device | str = "cpu") -> list[Trial]:
    """Tests every implementation on `device` and measures its rate, in the order of BACKEND_NAMES; once per process."""
    device = torch.device(device)
    torch.set_float32_matmul_precision("highest")
    results = []
    for name in BACKEND_NAMES:
        reason = _first_fault(Matmul(name), device)
        results.append(Trial(name, not reason, reason, 0.0 if reason else _rate(Matmul(name), device)))
    return results


def choose(device: torch.device | str = "cpu", name: str | None = None) -> Matmul:
    """The fastest implementation that passes its self-test, or the named one.

    int8 leaves the batched products of attention to float32, so int8 needs float32 to pass as well. Raises InexactMachineError
    if none passes, or if the named one does not.
    """
    torch.set_float32_matmul_precision("highest")  # lower settings silently round the operands
    results = {trial.name: trial for trial in trials(device)}
    passed = [t for t in results.values() if t.exact and (t.name != "int8" or results["float32"].exact)]
    candidates = [trial for trial in passed if name in (None, trial.name)]
    if not candidates:
        reasons = "; ".join(f"{t.name}: {t.reason or 'exact'}" for t in results.values())
        what = f"matmul backend {name} is not exact here" if name else "no matmul backend is exact on this machine"
        raise InexactMachineError(f"{what}: {reasons}")
    return Matmul(max(candidates, key=lambda t: t.ops_per_s).name)
