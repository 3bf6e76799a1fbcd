"""Random words against Philox-4x64-10 in Python integers, as Salmon et al. (2011) define it."""

import hashlib

import numpy as np
import pytest

from prequential.exact.arrays import random_words, uniform

MASK = 2**64 - 1


def philox(counter: int, key: int) -> list[int]:
    """Four words of ten rounds."""
    c = [counter >> 64 * i & MASK for i in range(4)]
    k = [key & MASK, key >> 64]
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [right >> 64 ^ c[1] ^ k[0], right & MASK, left >> 64 ^ c[3] ^ k[1], left & MASK]
        k = [k[0] + 0x9E3779B97F4A7C15 & MASK, k[1] + 0xBB67AE8584CAA73B & MASK]
    return c


@pytest.mark.parametrize(("seed", "name"), [(0, "embedding"), (2**63 - 1, "2.qkv"), (7, "")])
def test_random_words_are_philox_from_counter_one(seed, name):
    key = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest(), "little")
    expected = [word for counter in range(1, 11) for word in philox(counter, key)]
    assert random_words(seed, name, 37).tolist() == expected[:37]


def test_uniform_is_the_top_23_bits_centred():
    half_width = 0.0541
    x = uniform(5, "w", (40, 25), half_width)
    centred = [(word >> 41) - 2**22 for word in random_words(5, "w", 1000).tolist()]
    expected = np.array([c / 2**22 for c in centred], dtype=np.float32) * np.float32(half_width)
    assert x.shape == (40, 25) and np.array_equal(x.reshape(-1), expected) and x.dtype == np.float32


def test_each_name_and_each_seed_has_its_own_numbers():
    draws = {tuple(random_words(seed, name, 4).tolist()) for seed in range(20) for name in ("a", "b", "0.out")}
    assert len(draws) == 60
