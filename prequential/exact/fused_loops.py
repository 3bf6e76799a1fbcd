"""Loops over one row that the kernels share. Literals are np.float32: numba computes a float32 with a Python float in float64."""

import math
from functools import cache

import numpy as np
import torch

from prequential.exact.plain import GRADIENT_LIMIT, INT8_LIMIT, TINY
from prequential.machine.compiled import Array, inlined

Tensor = torch.Tensor

MAGNITUDE = np.int32(0x7FFFFFFF)  # the bits of a float32 without its sign
SMALLEST_SCALE = np.float32(TINY)
ONE = np.float32(1.0)
INVERSE_INT8_LIMIT, INVERSE_GRADIENT_LIMIT = np.float32(1.0 / INT8_LIMIT), np.float32(1.0 / GRADIENT_LIMIT)


def array(x: Tensor) -> Array:
    """The values of x in row-major order: a view if x has this layout, otherwise a copy."""
    return x.contiguous().numpy()


@cache
def ones(n: int) -> Array:
    """(n,) float32 for an absent factor; do not write to it. Multiplying by 1 changes no bit, so one kernel is enough."""
    return np.ones(n, dtype=np.float32)


@inlined
def magnitude_bits(x: np.float32) -> np.int32:
    """The bits of |x| as int32, in the order of the magnitudes. Compilers vectorise an integer maximum, but not a float one."""
    return np.int32(np.float32(x).view(np.int32) & MAGNITUDE)


@inlined
def scale_of(bits: np.int32) -> np.float32:
    """The float32 magnitude with these bits, at least TINY."""
    return max(np.int32(bits).view(np.float32), SMALLEST_SCALE)


@inlined
def largest_magnitude(x: Array) -> np.float32:
    """The largest |x| of a float32 row, at least TINY."""
    top = np.int32(0)
    for j in range(x.size):
        top = max(top, magnitude_bits(x[j]))
    return scale_of(top)


@inlined
def largest(x: Array) -> np.float32:
    """The largest entry of a float32 row; +0 is larger than -0. Negative numbers get the integer order by flipping bits."""
    top = np.int32(-0x7FFFFFFF)
    for j in range(x.size):
        bits = np.float32(x[j]).view(np.int32)
        top = max(top, np.int32(bits ^ ((bits >> 31) & MAGNITUDE)))
    return np.int32(top ^ ((top >> 31) & MAGNITUDE)).view(np.float32)


@inlined
def levels_per_unit(scale: np.float32, limit: int) -> np.float32:
    """limit / scale, as the reciprocal times the limit: what x is multiplied by before it is rounded."""
    return (ONE / scale) * np.float32(limit)


@inlined
def int8_level(x: np.float32) -> np.int8:
    """x rounded to an int8. The way through int32 takes two thirds of the time."""
    return np.int8(np.int32(np.rint(x)))


@inlined
def round_row(x: Array, limit: int, levels: Array) -> np.float32:
    """levels = x rounded to `limit` levels; returns the largest magnitude of x. levels may be x itself."""
    scale = largest_magnitude(x)
    factor = levels_per_unit(scale, limit)
    for j in range(x.size):
        levels[j] = np.rint(x[j] * factor)
    return scale


@inlined
def round_row_to_int8(x: Array, zero: int, levels: Array) -> tuple[np.float32, np.int32]:
    """levels = zero + x in 127 levels, int8 (zero 0) or uint8 (128); returns the largest |x| and the sum of squared levels."""
    magnitude = largest_magnitude(x)
    factor = levels_per_unit(magnitude, INT8_LIMIT)
    squares = np.int32(0)  # 127 * 127 * C < 2**31
    for j in range(x.size):
        level = np.int32(np.rint(x[j] * factor))
        levels[j] = level + zero
        squares = np.int32(squares + level * level)
    return magnitude, squares


@inlined
def inverse_rms(squares: np.int32, n: int) -> np.float32:
    """1 / rms of n integers, from the sum of their squares: float32. Root and quotient are each correctly rounded."""
    mean = np.float32(max(squares, np.int32(1))) * np.float32(1.0 / n)
    return ONE / np.float32(math.sqrt(np.float64(mean)))
