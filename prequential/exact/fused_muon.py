"""Muon's step as one compiled loop, with the bits of `backend.orthogonalise`, for processors with byte products.

STRIP rows of a product stay in the processor's cache until they are rounded again. Letters as in backend.py; R <= C.
"""

import math

import numpy as np

from prequential.exact.byte_products import (
    OFFSET,
    ROWS,
    SIGNS,
    STRIP,
    TILE,
    fill_shifts,
    interleave,
    interleave_rows,
    multiply_strip,
    new_levels,
)
from prequential.exact.fused_loops import (
    INVERSE_INT8_LIMIT,
    ONE,
    levels_per_unit,
    magnitude_bits,
    round_row_to_int8,
    scale_of,
)
from prequential.exact.plain import INT8_LIMIT
from prequential.machine.compiled import Array, helper, inlined, kernel


@kernel
def muon_step_in_kernel(
    w: Array, g: Array, n_blocks: int, step_size: np.float32, n_steps: int, a: np.float32, b: np.float32, c: np.float32
) -> None:  # fmt: skip
    """`backend.muon_step_`. Zeros fill up the tiles of a block and change no bit of it."""
    n_rows, width = len(w), w.shape[1] // n_blocks
    is_tall, shape = n_rows > width, (-(-min(n_rows, width) // ROWS) * ROWS, -(-max(n_rows, width) // ROWS) * ROWS)
    for start in range(0, w.shape[1], width):
        x = np.zeros(shape, np.float32)
        for i in range(n_rows):
            row = g[i, start : start + width]
            for j in range(width):
                if is_tall:
                    x[j, i] = row[j]
                else:
                    x[i, j] = row[j]
        _orthogonalise(x, n_steps, a, b, c)
        for i in range(n_rows):
            row = w[i, start : start + width]
            for j in range(width):
                row[j] -= (x[j, i] if is_tall else x[i, j]) * step_size


@helper
def _orthogonalise(x: Array, n_steps: int, a: np.float32, b: np.float32, c: np.float32) -> None:
    """x (R, C) float32: from the matrix to the orthogonal one. q, p and w are the rounded x, X X^T and factor of x, shifted."""
    n_rows, n_columns = x.shape
    q, s = np.empty(x.shape, np.uint8), np.empty(n_rows, np.float32)
    p, t = np.empty((n_rows, n_rows), np.uint8), np.empty(n_rows, np.float32)
    w, u = np.empty((n_rows, n_rows), np.uint8), np.empty(n_rows, np.float32)
    gram, ones = np.zeros((n_rows, n_rows), np.float32), np.ones(max(n_rows, n_columns), np.float32)
    by_row, by_gram = new_levels(n_columns, n_rows), new_levels(n_rows, n_rows)
    by_column = new_levels(n_rows, n_columns)
    square_sums, sums = np.empty((n_rows, n_rows), np.int32), np.empty((STRIP, n_columns), np.int32)
    _normalise(x, q, s, ones)
    for _ in range(n_steps):
        # X X^T is symmetric, so the scales of its rows are also those of its columns.
        interleave_rows(q.view(np.uint32), SIGNS, by_row)
        _requantise(square_sums, q, s, by_row, s, np.float32(0.0), gram, ONE, ones, p, t)
        interleave_rows(p.view(np.uint32), SIGNS, by_gram)
        _requantise(square_sums, p, t, by_gram, t, b, gram, c, s, w, u)
        interleave(q, SIGNS, by_column)
        _requantise(sums, w, u, by_column, ones, a, x, ONE, ones, q, s)


@helper
def _normalise(x: Array, q: Array, s: Array, ones: Array) -> None:
    """x, q and s = x / Frobenius norm, rounded to levels at first; the norm is that of `backend._inverse_norm`."""
    n_rows = len(x)
    energy, largest = np.empty(n_rows, np.float32), np.float32(1e-18)
    for i in range(n_rows):
        magnitude, squares = round_row_to_int8(x[i], 0, x[i])
        s[i], energy[i] = magnitude * INVERSE_INT8_LIMIT, np.float32(squares)
        largest = max(largest, s[i])
    peak = np.float32(1e-12)
    for i in range(n_rows):
        ratio = s[i] / largest
        energy[i] = energy[i] * (ratio * ratio)
        peak = max(peak, energy[i])
    factor, total = (ONE / peak) * np.float32(16777216.0), np.int64(0)
    for i in range(n_rows):
        total += np.int64(np.rint(energy[i] * factor))
    squared = np.float32(max(total, np.int64(1))) * (peak * np.float32(2.0**-24))
    inverse = ONE / (np.float32(math.sqrt(np.float64(squared))) * largest)
    for i in range(n_rows):
        row, factor, out, top = x[i], s[i] * inverse, q[i], np.int32(0)
        for j in range(row.size):
            row[j] = row[j] * factor
            top = max(top, magnitude_bits(row[j]))
        s[i] = _round_shifted(row, ones, top, out)


@inlined
def _round_shifted(y: Array, column_factor: Array, top: np.int32, q: Array) -> np.float32:
    """q = y * column_factor, rounded to int8 and shifted; returns the scale. top: the bits of the largest magnitude."""
    magnitude = scale_of(top)
    factor = levels_per_unit(magnitude, INT8_LIMIT)
    for j in range(y.size):
        q[j] = np.int32(np.int32(np.rint((y[j] * column_factor[j]) * factor)) + OFFSET)
    return magnitude * INVERSE_INT8_LIMIT


@helper
def _requantise(
    sums: Array, q: Array, s: Array, levels: Array, t: Array, alpha: np.float32, y: Array, beta: np.float32, column_factor: Array,
    rounded: Array, scale: Array,
) -> None:  # fmt: skip
    """y = y * alpha + (q levels) * s * t * beta, and y * column_factor rounded: of a product, a strip at a time.

    q (R, K) and `rounded` are uint8, shifted. s belongs to rows of q, t to columns of the product, `scale` to rows of `rounded`.
    sums: for a strip; or for all rows of a symmetric product, whose blocks before the diagonal are those of earlier rows.
    """
    shift, tile = np.empty(len(levels) * ROWS, np.int32), np.empty((TILE, ROWS), np.int32)
    fill_shifts(levels, shift)
    is_symmetric = len(sums) == len(q)
    for start in range(0, len(q), STRIP):
        first, strip = (start // ROWS, sums[start : start + STRIP]) if is_symmetric else (0, sums)
        multiply_strip(q[start : start + STRIP], levels, first, shift, tile, strip)
        for j in range(first * ROWS):
            known = sums[j, start : start + STRIP]
            for r in range(STRIP):
                strip[r, j] = known[r]
        for r in range(STRIP):
            i, own = start + r, strip[r]
            row, factor, out, top = y[i], s[i], rounded[i], np.int32(0)
            for j in range(row.size):
                value = row[j] * alpha + ((np.float32(own[j]) * factor) * t[j]) * beta
                row[j] = value
                top = max(top, magnitude_bits(value * column_factor[j]))
            scale[i] = _round_shifted(row, column_factor, top, out)
