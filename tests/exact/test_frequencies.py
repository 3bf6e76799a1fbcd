"""Frequencies against integer arithmetic: the table from mpmath, the shares by integer division."""

from functools import cache

import mpmath
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

TOTAL = 1 << 24
LOGITS = st.floats(-1e4, 1e4, width=32) | st.floats(-8, 8, width=32) | st.sampled_from([0.0, -0.0, 1e30, -1e30])
ROWS = st.integers(2, 300).flatmap(lambda n: arrays(np.float32, (2, n), elements=LOGITS))


@cache
def exponential(step: int) -> int:
    with mpmath.workdps(50):
        return max(1, int(mpmath.nint(2**24 * mpmath.exp(mpmath.mpf(-step) / 64))))


def reference(logits: np.ndarray) -> list[int]:
    """One row: table entries by rounded distance from the maximum, shares floored, the rest to the first maximum."""
    steps = np.minimum(np.rint((logits.max() - logits) * np.float32(64)), np.float32(1279))
    weights = [exponential(int(step)) for step in steps]
    shares = [1 + w * (TOTAL - len(logits)) // sum(weights) for w in weights]
    shares[int(np.argmax(logits))] += TOTAL - sum(shares)
    return shares


@given(ROWS)
def test_frequencies_equal_integer_arithmetic(ops, logits):
    got = ops.frequencies(torch.from_numpy(logits))
    assert got.dtype == torch.int32
    assert got.tolist() == [reference(row) for row in logits]
