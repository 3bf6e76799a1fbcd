"""The digest depends on every bit of every tensor, but not on its layout in memory."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from prequential.exact.arrays import digest


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
    variants = [
        {"a": x},
        {"b": x},
        {"a": x.view(6, 4)},
        {"a": x.view(24)},
        {"a": x.view(torch.int32)},
        {"a": x, "b": x},
        {},
    ]
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
