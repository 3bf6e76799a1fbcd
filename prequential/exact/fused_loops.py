"""What the compiled kernels share: how they are compiled, and the rounding of one row.

Compiled without fast-math, so LLVM neither reorders nor contracts: `a * b + c` rounds twice, here as in plain torch.
Literals are wrapped in np.float32, because numba computes float32 with a Python float in float64, unlike torch.
numba's cache looks only at the file of the kernel itself, so kernels older than any file of this folder are deleted first.
"""

import math
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

from prequential.exact.plain import INT8_LIMIT, TINY

Tensor = torch.Tensor
Array = np.ndarray


def _forget_stale_kernels() -> None:
    """Deletes compiled kernels that are older than a source beside them: constants and inlined helpers are compiled in."""
    folder = Path(__file__).parent
    newest = max(source.stat().st_mtime for source in folder.glob("*.py"))
    for compiled in (folder / "__pycache__").glob("*.nb[ic]"):
        with suppress(OSError):
            if compiled.stat().st_mtime < newest:
                compiled.unlink()


_forget_stale_kernels()
# numba types the parameters of what it compiles by itself; Any keeps starred arguments readable at the calls.
inlined: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
kernel: Any = inlined

MAGNITUDE = np.int32(0x7FFFFFFF)
SMALLEST_SCALE = np.float32(TINY)
ONE = np.float32(1.0)
INVERSE_INT8_LIMIT = np.float32(1.0 / INT8_LIMIT)


def array(x: Tensor) -> Array:
    """The values of x, row-major: a view where x is laid out so, else a copy."""
    return x.contiguous().numpy()


@cache
def ones(n: int) -> Array:
    """(n,) float32, never written. Multiplying by 1 changes no bit: an absent factor needs no kernel of its own."""
    return np.ones(n, dtype=np.float32)


@inlined
def magnitude_bits(x: np.float32) -> np.int32:
    """The bits of |x| as int32, in the order of the magnitudes: an integer maximum vectorises, a float one does not."""
    return np.int32(np.float32(x).view(np.int32) & MAGNITUDE)


@inlined
def scale_of(bits: np.int32) -> np.float32:
    """The float32 magnitude with these bits, clamped to TINY."""
    return max(np.int32(bits).view(np.float32), SMALLEST_SCALE)


@inlined
def largest_magnitude(x: Array) -> np.float32:
    """Largest |x| of a float32 row, at least TINY."""
    top = np.int32(0)
    for j in range(x.size):
        top = max(top, magnitude_bits(x[j]))
    return scale_of(top)


@inlined
def largest(x: Array) -> np.float32:
    """Largest entry of a float32 row, +0 above -0. The bits of negative numbers are flipped into integer order."""
    top = np.int32(-0x7FFFFFFF)
    for j in range(x.size):
        bits = np.float32(x[j]).view(np.int32)
        top = max(top, np.int32(bits ^ ((bits >> 31) & MAGNITUDE)))
    return np.int32(top ^ ((top >> 31) & MAGNITUDE)).view(np.float32)


@inlined
def limit_over(scale: np.float32, limit: int) -> np.float32:
    """limit / scale as plain torch rounds it: the reciprocal first."""
    return (ONE / scale) * np.float32(limit)


@inlined
def round_row(x: Array, limit: int, levels: Array) -> np.float32:
    """levels = x rounded to `limit` steps of its largest magnitude; returns that magnitude. levels may be x."""
    scale = largest_magnitude(x)
    factor = limit_over(scale, limit)
    for j in range(x.size):
        levels[j] = np.rint(x[j] * factor)
    return scale


@inlined
def round_row_to_int8(x: Array, zero: int, levels: Array) -> tuple[np.float32, np.int32]:
    """levels = zero + x rounded to 127 steps of its largest magnitude; returns that magnitude and the sum of the squares.

    levels: int8 with zero = 0, or uint8 with zero = 128.
    """
    magnitude = largest_magnitude(x)
    factor = limit_over(magnitude, INT8_LIMIT)
    squares = np.int32(0)  # 127 * 127 * C < 2**31
    for j in range(x.size):
        level = np.int32(np.rint(x[j] * factor))
        levels[j] = level + zero
        squares = np.int32(squares + level * level)
    return magnitude, squares


@inlined
def inverse_root(x: np.float32) -> np.float32:
    """1 / sqrt(x) of float32 x >= 0, each step correctly rounded."""
    return ONE / np.float32(math.sqrt(np.float64(x)))


@inlined
def inverse_rms(squares: np.int32, n: int) -> np.float32:
    """1 / rms of n integers from the sum of their squares: float32."""
    return inverse_root(np.float32(max(squares, np.int32(1))) * np.float32(1.0 / n))
