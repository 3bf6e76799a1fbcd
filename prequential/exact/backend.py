"""What an exact computation runs on: elementwise primitives, integer matrix products and threads; and Muon's orthogonalisation.

The three choices are independent and change only the speed: each gives the same bits.

Muon (Jordan et al. 2024) replaces the gradient of a matrix by an approximation of the nearest orthogonal matrix. Five
Newton-Schulz steps compute it, with products of int8 matrices.

Letters: R rows, C columns, "..." a stack of matrices of one shape, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from prequential.exact.matmul import Matmul
    from prequential.exact.pool import Pool

# A module with the functions of exact/plain.py, and COMPILED: whether the GPT may also use its own compiled kernels.
Primitives = ModuleType
NEWTON_SCHULZ_STEPS = 5
# Quintic coefficients of Jordan et al.: x -> a x + b x^3 + c x^5 drives singular values towards 1.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


@dataclass(frozen=True)
class Arithmetic:
    """Everything that a computation of the GPT runs on."""

    primitives: Primitives
    matmul: Matmul
    pool: Pool


def muon_step_(w: Tensor, g: Tensor, n_blocks: int, step_size: float, backend: Arithmetic) -> None:
    """w -= step_size * orthogonalise(g), for each of n_blocks blocks of equal numbers of columns. w, g: (R, C) float32."""
    if backend.primitives.COMPILED and backend.matmul.name == "int8":
        from prequential.exact.byte_products import has_byte_products
        from prequential.exact.fused_muon import muon_step_in_kernel

        if has_byte_products():
            size, *factors = map(np.float32, (step_size, *NEWTON_SCHULZ))
            muon_step_in_kernel(w.numpy(), g.numpy(), n_blocks, size, NEWTON_SCHULZ_STEPS, *factors)
            return
    for block, direction in zip(w.chunk(n_blocks, 1), g.chunk(n_blocks, 1), strict=True):
        block.sub_(orthogonalise(direction, backend).mul_(step_size))


def orthogonalise(g: Tensor, backend: Arithmetic) -> Tensor:
    """An approximately orthogonal matrix with the row and column spaces of g, for each matrix of the stack.

    g: (..., R, C) float32; a stack needs the plain primitives. Returns (..., R, C) float32. A matrix gives the same bits alone
    and in a stack.
    """
    if g.shape[-2] > g.shape[-1]:
        return orthogonalise(g.mT, backend).mT.contiguous()
    ops, matmul = backend.primitives, backend.matmul
    a, b, c = NEWTON_SCHULZ
    q, s = ops.quantise_rows(g)

    def rounded(y: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return y, *ops.quantise_rows(y, column_factor)

    # The Frobenius norm comes from two integer sums: of the squares of each row, and of the rows, rounded to one scale.
    x, q, s = rounded(ops.dequantise(q, s * _inverse_norm(ops.row_squares(q), s), None))
    for _ in range(NEWTON_SCHULZ_STEPS):
        # X X^T, (R, R), is symmetric, so the scales of its rows are also those of its columns.
        gram, p, t = rounded(ops.dequantise(matmul(q, q.mT), s, s))
        _, w, u = rounded(ops.dequantise(matmul(p, p.mT), t, t, base=gram, alpha=b, beta=c), s)
        x, q, s = rounded(ops.dequantise(matmul(w, q), u, None, base=x, alpha=a))
    return x


def _inverse_norm(squares: Tensor, s: Tensor) -> Tensor:
    """1 / Frobenius norm of matrices with rows q * s: (..., 1) float32. squares: sum(q * q) of each row; s: its scale, (..., R).

    All sums are of integers. The energies s * s * squares of the rows are rounded to 2**24 levels of the largest one and summed
    in int64. The relative error is below R * 2**-25.
    """
    largest_scale = s.amax(-1, keepdim=True).clamp_min(1e-18)  # its square must stay far above denormals
    ratio = s / largest_scale
    energy = squares * (ratio * ratio)  # <= 127**2 * C
    peak = energy.amax(-1, keepdim=True).clamp_min(1e-12)
    levels = (energy * (peak.reciprocal() * 16777216.0)).round_().long().sum(-1, keepdim=True).clamp_min(1)
    total = levels.float() * (peak * 2.0**-24)
    return 1.0 / (total.double().sqrt().float() * largest_scale)
