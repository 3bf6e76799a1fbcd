"""Tables against mpmath, whose exp and sin share no code with `decimal`."""

import math

import mpmath
import torch

from prequential.exact.tables import attention_table, frequency_table, rotary_table, rotary_wave_numbers


def nearest(x: mpmath.mpf) -> int:
    return int(mpmath.nint(x))


def test_frequency_table_is_the_rounded_exponential():
    with mpmath.workdps(50):
        expected = [max(1, nearest(2**24 * mpmath.exp(mpmath.mpf(-i) / 64))) for i in range(1280)]
    assert frequency_table().dtype == torch.float64 and frequency_table().tolist() == expected


def test_attention_table_is_the_rounded_exponential_and_ends_in_0():
    with mpmath.workdps(50):
        expected = [nearest(255 * mpmath.exp(mpmath.mpf(-i) / 32)) for i in range(256)]
    assert attention_table().dtype == torch.float32 and attention_table().tolist() == expected
    assert expected[-1] == 0


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
