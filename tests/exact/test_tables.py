"""Tables against mpmath, whose exp and sin share no code with `decimal`, and frequencies against integer division."""

import math

import mpmath
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prequential.exact.tables import attention_table, frequency_table, rotary_table, rotary_wave_numbers

TOTAL = 1 << 24
LOGITS = st.floats(-1e4, 1e4, width=32) | st.floats(-8, 8, width=32) | st.sampled_from([0.0, -0.0, 1e30, -1e30])
ROWS = st.integers(2, 300).flatmap(lambda n: arrays(np.float32, (2, n), elements=LOGITS))


def nearest(x: mpmath.mpf) -> int:
    return int(mpmath.nint(x))


with mpmath.workdps(50):
    FREQUENCIES = [max(1, nearest(TOTAL * mpmath.exp(mpmath.mpf(-i) / 64))) for i in range(1280)]
    NUMERATORS = [nearest(255 * mpmath.exp(mpmath.mpf(-i) / 32)) for i in range(256)]


def test_tables_are_the_rounded_exponentials():
    assert frequency_table().dtype == torch.float64 and frequency_table().tolist() == FREQUENCIES
    assert attention_table().dtype == torch.float32 and attention_table().tolist() == NUMERATORS
    assert NUMERATORS[-1] == 0


def test_rotary_table_is_the_rounded_cosine_and_sine():
    cos, sin = rotary_table()
    with mpmath.workdps(50):
        angles = [2 * mpmath.pi * j / 4096 for j in range(4096)]
        assert (cos * 2**20).tolist() == [nearest(2**20 * mpmath.cos(a)) for a in angles]
        assert (sin * 2**20).tolist() == [nearest(2**20 * mpmath.sin(a)) for a in angles]


def test_wave_numbers_fall_geometrically_from_652_to_1():
    for n in (2, 8, 32, 128):
        waves = rotary_wave_numbers(n).tolist()
        assert waves[0] == 652 and waves[-1] == 1 and waves == sorted(waves, reverse=True)
        with mpmath.workdps(400):
            for i, wave in enumerate(waves):
                exact = mpmath.mpf(652) ** (mpmath.mpf(n - 1 - i) / (n - 1))
                # 10**-300, because an exact integer may be computed as just below it
                assert wave == math.floor(exact + mpmath.mpf(10) ** -300)
    assert rotary_wave_numbers(1).tolist() == [652]


def reference(logits: np.ndarray) -> list[int]:
    """One row: table entries by rounded distance from the maximum, shares floored, the rest to the first maximum."""
    steps = np.minimum(np.rint((logits.max() - logits) * np.float32(64)), np.float32(1279))
    weights = [FREQUENCIES[int(step)] for step in steps]
    shares = [1 + w * (TOTAL - len(logits)) // sum(weights) for w in weights]
    shares[int(np.argmax(logits))] += TOTAL - sum(shares)
    return shares


@given(ROWS)
def test_frequencies_equal_integer_arithmetic(ops, logits):
    got = ops.frequencies(torch.from_numpy(logits))
    assert got.dtype == torch.int32
    assert got.tolist() == [reference(row) for row in logits]
