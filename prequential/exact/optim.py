"""Optimiser steps in exact arithmetic: Adam, and Muon's orthogonalised momentum.

Adam (Kingma & Ba 2015) is elementwise, so it only needs single-rounding operations in a fixed order. Muon (Jordan et al. 2024)
replaces a matrix gradient by its nearest orthogonal matrix, by five Newton-Schulz steps; their products run on int8.
"""

from types import ModuleType

import torch

from prequential.exact.matmul import Matmul

Tensor = torch.Tensor

# Quintic coefficients of Jordan et al.: x -> a x + b x^3 + c x^5 drives singular values towards 1.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalise(g: Tensor, ops: ModuleType, matmul: Matmul) -> Tensor:
    """An approximately orthogonal matrix with the row and column spaces of g: (R, C) float32 -> (R, C) float32.

    Or of each matrix of a stack (..., R, C), with the plain kernels: the same bits.
    """
    if g.shape[-2] > g.shape[-1]:
        return orthogonalise(g.mT.contiguous(), ops, matmul).mT.contiguous()
    a, b, c = NEWTON_SCHULZ
    q, s = ops.quantise_rows(g)
    # Frobenius norm from row sums of squares: integers per row, then integers again over rows rounded to one scale.
    x = ops.dequantise(q, s * _inverse_norm(ops.row_squares(q), s), None)
    for _ in range(NEWTON_SCHULZ_STEPS):
        q, s = ops.quantise_rows(x)
        gram = ops.dequantise(matmul(q, q.mT), s, s)  # X X^T, (R, R)
        p, t = ops.quantise_rows(gram)  # symmetric: rows are columns
        polynomial = ops.dequantise(matmul(p, p.mT), t, t, base=gram, alpha=b, beta=c)
        w, u = ops.quantise_rows(polynomial, column_factor=s)
        x = ops.dequantise(matmul(w, q), u, None, base=x, alpha=a)
    return x


def _inverse_norm(squares: Tensor, s: Tensor) -> Tensor:
    """1 / Frobenius norm of a matrix of rows q * s, from their squares sum(q*q), (..., R) -> (..., 1) float32; integer sums only.

    Row energies s*s * squares are rounded to 2**24 levels of the largest and summed in int64; the relative error is below
    R * 2**-25.
    """
    largest_scale = s.amax(-1, keepdim=True).clamp_min(1e-18)  # its square must stay far above denormals
    ratio = s / largest_scale
    energy = squares * (ratio * ratio)  # <= 127**2 * C
    peak = energy.amax(-1, keepdim=True).clamp_min(1e-12)
    levels = (energy * (peak.reciprocal() * 16777216.0)).round_().to(torch.int64).sum(-1, keepdim=True).clamp_min(1)
    total = levels.float() * (peak * 2.0**-24)
    return 1.0 / (total.double().sqrt().float() * largest_scale)
