"""What the Triton kernels share: roundings that are meant to be the definition's on every device, and launching.

Each operation rounds once. Kernels are compiled without fusing products and sums, quotients and roots are the correctly rounded
ones, and integers are rounded to even by adding and subtracting 2**23, which IEEE arithmetic prescribes in every bit.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from prequential.exact import plain

Tensor = torch.Tensor

# As constants of kernels. Letters and meanings as in plain.py.
TINY = tl.constexpr(plain.TINY)
FINE = tl.constexpr(float(plain.FINE))
SIGN = tl.constexpr(-(1 << 31))
ROUNDING = tl.constexpr(8388608.0)  # 2**23

block_of = triton.next_power_of_2  # the smallest that holds n entries


@triton.jit
def rounded(x):
    """The nearest whole number of float32 below 2**23 in magnitude, ties to even. Its sign stays, also if it is zero."""
    magnitude = (tl.abs(x) + ROUNDING) - ROUNDING
    bits = (x.to(tl.int32, bitcast=True) & SIGN) | magnitude.to(tl.int32, bitcast=True)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def inverse(x):
    """1 / x, correctly rounded."""
    return tl.div_rn(tl.full(x.shape, 1.0, tl.float32), x)


@triton.jit
def largest(x):
    """The largest magnitude of a row, at least TINY."""
    return tl.maximum(tl.max(tl.abs(x), 0), TINY)


@triton.jit
def levels(x, scale, LIMIT: tl.constexpr):
    """x in LIMIT levels of its largest magnitude `scale`, which broadcasts: whole numbers in float32."""
    return rounded(x * (inverse(scale) * LIMIT))


@triton.jit
def inverse_rms(squares, SHARE: tl.constexpr):
    """1 / rms from the sum of the squares, int32. SHARE: one divided by how many they are."""
    mean = tl.maximum(squares, 1).to(tl.float32) * SHARE
    return inverse(tl.sqrt_rn(mean))


@triton.jit
def row_dot(g, q, LIMIT: tl.constexpr):
    """The sum of g * q, where g is rounded to LIMIT levels of its largest magnitude: float32. q: whole numbers, int32."""
    scale = largest(g)
    total = tl.sum(levels(g, scale, LIMIT).to(tl.int32) * q, 0)
    return total.to(tl.float32) * (scale * (1.0 / LIMIT))


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, width: int, **constants: Any) -> None:
    """Runs a kernel on a grid of programs. width: entries that one program holds at a time."""
    if 0 not in grid:
        kernel[grid](*arguments, **constants, num_warps=4 if width <= 1024 else 8, enable_fp_fusion=False)
