"""Two-part codes of higher orders: round trips, sizes that include the parameters, and data near their entropy."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.baselines import two_part
from prequential_codecs.baselines.two_part_counts import count_ranges, round_counts
from prequential_corpora.bundled import sample_path

from prequential.errors import CorruptArchiveError

ORDERS = (1, 2, 3)
ENWIK6 = Path(__file__).parents[3] / "shared" / "corpora" / "text" / "enwik6"
words = st.lists(st.sampled_from([b"a", b"ab", b"\0", b"\xff", b"the ", bytes(range(256))]), max_size=40)


def carol() -> bytes:
    return sample_path("christmas_carol").read_bytes()


def entropy_bits(data: bytes, order: int) -> float:
    """-log2 of the data under the exact relative frequencies of bytes after contexts, from byte `order` on."""
    grams = Counter(data[i : i + order + 1] for i in range(len(data) - order))
    contexts: Counter[bytes] = Counter()
    for gram, count in grams.items():
        contexts[gram[:-1]] += count
    return -sum(count * math.log2(count / contexts[gram[:-1]]) for gram, count in grams.items())


@pytest.mark.parametrize("order", ORDERS)
@given(st.one_of(st.binary(max_size=300), words.map(b"".join)))
@settings(max_examples=20, deadline=None)
def test_round_trip(order: int, data: bytes) -> None:
    assert two_part.decompress(two_part.compress(data, order), order) == data


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "data", [b"aaaa", b"a" * 100_000, bytes(range(256)) * 600, bytes(70_000) + b"x" + bytes(70_000)]
)
def test_large_counts_and_complete_alphabets_round_trip(order: int, data: bytes) -> None:
    assert two_part.decompress(two_part.compress(data, order), order) == data


@pytest.mark.parametrize("order", ORDERS)
def test_noise_round_trips(order: int) -> None:
    data = np.random.default_rng(order).integers(0, 256, 30_000, np.uint8).tobytes()
    assert two_part.decompress(two_part.compress(data, order), order) == data


@pytest.mark.parametrize(("order", "bits_per_byte"), [(1, 0.002), (2, 0.006), (3, 0.010)])
def test_data_cost_their_entropy_and_little_more_for_rounded_counts(order: int, bits_per_byte: float) -> None:
    data = carol()
    compressed = two_part.compress(data, order)
    data_bits = 8 * (len(compressed) - two_part.parameter_bytes(compressed, order))
    excess_bits = data_bits - entropy_bits(data, order)
    assert 0 < excess_bits < bits_per_byte * len(data)


def test_higher_orders_cost_more_parameters_and_fewer_bits_of_data() -> None:
    sizes = [two_part.compress(carol(), order) for order in ORDERS]
    parameters = [two_part.parameter_bytes(each, order) for each, order in zip(sizes, ORDERS, strict=True)]
    data = [len(each) - n for each, n in zip(sizes, parameters, strict=True)]
    assert parameters == sorted(parameters)
    assert data == sorted(data, reverse=True)


def test_a_deterministic_sequence_costs_only_its_parameters() -> None:
    data = bytes(range(256)) * 100
    compressed = two_part.compress(data, 1)
    assert len(compressed) < 700
    assert len(compressed) - two_part.parameter_bytes(compressed, 1) < 10


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 1023, 1024, 2**31 + 12345])
def test_a_count_is_in_the_range_of_its_rounded_count(count: int) -> None:
    codes = round_counts(np.array([count]))
    floors, further = count_ranges(codes)
    assert 0 <= codes[0] < 255
    assert floors[0] <= count <= floors[0] + further[0]
    assert further[0] <= max(1, count**0.5 * 2, count / 8)


def test_a_payload_with_more_bytes_is_refused() -> None:
    compressed = two_part.compress(b"some words and some more " * 40, 2)
    with pytest.raises(CorruptArchiveError):
        two_part.decompress(compressed + b"\xff" * 8, 2)


@pytest.mark.slow
@pytest.mark.skipif(not ENWIK6.exists(), reason="enwik6 is not next to the project")
def test_figures_on_enwik6() -> None:
    data = ENWIK6.read_bytes()
    found = [8 * len(two_part.compress(data, order)) / len(data) for order in ORDERS]
    assert found == pytest.approx([3.880, 3.120, 2.749], abs=0.005)
