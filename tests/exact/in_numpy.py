"""Roundings and the norm in numpy, for comparison: IEEE float32 operations and sums in int64."""

import numpy as np
import torch
from hypothesis import strategies as st

F = np.float32
SEEDS = st.integers(0, 2**32)


def tensors(*xs: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(np.array(x, order="C")) for x in xs]


def same_bits(got: torch.Tensor, expected: np.ndarray) -> bool:
    values = got.contiguous().numpy()
    assert values.dtype == expected.dtype and values.shape == expected.shape
    return values.tobytes() == np.ascontiguousarray(expected).tobytes()


def rounded(x: np.ndarray, limit: int, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """x ~ integers * scale: the integers as float32, the scale without `axis`."""
    top = np.maximum(np.abs(x).max(axis), F(1e-30))
    return np.rint(x * np.expand_dims((F(1) / top) * F(limit), axis)), top * F(1 / limit)


def normalised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels, r and s of the RMS norm of each row."""
    levels, scale = rounded(x, 127)
    squares = np.maximum((levels.astype(np.int64) ** 2).sum(-1), 1)
    r = F(1) / np.sqrt(squares.astype(F) * F(1 / x.shape[-1]))  # numpy's square root is correctly rounded
    return levels, r, r / scale


def before_norm(g: np.ndarray, levels: np.ndarray, r: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The gradient before the RMS norm, whose gradient after it is g."""
    coarse, scale = rounded(g, 1023)
    dot = (coarse.astype(np.int64) * levels.astype(np.int64)).sum(-1).astype(F) * scale
    mean = dot * (r * F(1 / g.shape[-1]))
    return (g - (levels.astype(F) * r[..., None]) * mean[..., None]) * s[..., None]
