"""Digests depend on every bit of every tensor, but not on its layout; random words are Philox-4x64-10 (Salmon et al. 2011)."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prequential.exact.arrays import digest, random_words, uniform


def state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "weights": torch.randn(7, 9, generator=generator),
        "levels": torch.randint(-127, 128, (64,), dtype=torch.int8, generator=generator),
        "counters": torch.tensor([3, 1 << 40]),
    }


@given(st.sampled_from(sorted(state())), st.data())
def test_any_flipped_bit_changes_the_digest(name, data):
    tensors = state()
    flat = tensors[name].view(-1).view(torch.uint8)
    byte, bit = data.draw(st.integers(0, len(flat) - 1)), data.draw(st.integers(0, 7))
    flat[byte] ^= 1 << bit
    assert digest(tensors) != digest(state())


def test_names_dtypes_and_shapes_are_part_of_the_digest():
    x = torch.zeros(4, 6)
    reshaped = [{"a": y} for y in (x, x.view(6, 4), x.view(24), x.view(torch.int32))]
    variants = [*reshaped, {"b": x}, {"a": x, "b": x}, {}]
    assert len({digest(v) for v in variants}) == len(variants)


def test_memory_layout_and_order_of_names_do_not_matter():
    tensors = state()
    strided = {name: torch.stack((x, x), -1)[..., 0] for name, x in reversed(tensors.items())}
    strided["weights"] = tensors["weights"].t().contiguous().t()
    assert not strided["weights"].is_contiguous() and digest(strided) == digest(tensors)


def test_digest_has_the_requested_length_and_a_fixed_value():
    tensors = {"x": torch.arange(5, dtype=torch.int32)}
    assert len(digest(tensors)) == 8 and len(digest(tensors, n_bytes=16)) == 16
    assert digest(tensors).hex() == "4e40039454a10cb4"


# ---- random numbers

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
