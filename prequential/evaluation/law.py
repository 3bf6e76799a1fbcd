"""The law that expected costs are taken to follow: E + A (t + s)^-b bits for the byte at place t, a share of the text."""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def integral(exponent: Values, shift: Values, start: Values | float, end: Values) -> Values:
    """The integral of (t + s)^-b from start to end; b is not 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = (end + shift) ** (1 - exponent) - (start + shift) ** (1 - exponent)
    return np.asarray(powers / (1 - exponent))


def cell_means(exponents: Values, shifts: Values, edges: Values) -> Values:
    """The mean of (t + s)^-b over each cell between edges (m + 1,), for every pair of an exponent and a shift: (pairs, m)."""
    exponent, shift = (grid.reshape(-1, 1) for grid in np.meshgrid(exponents, shifts, indexing="ij"))
    with np.errstate(divide="ignore"):
        means = integral(exponent, shift, edges[:-1], edges[1:]) / np.diff(edges)
    return np.where(np.isfinite(means).all(1, keepdims=True), means, 1.0)  # b >= 1 without a shift has no mean
