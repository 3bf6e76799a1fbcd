"""Adaptive order 0: round trips, and a length very near to that of the estimator."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.baselines import adaptive
from prequential_corpora.bundled import sample_path

from prequential.errors import CorruptArchiveError


def estimator_bits(data: bytes) -> float:
    """-log2 of the probability of data under the estimator of Krichevsky and Trofimov. It depends only on the counts."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    ones = sum(math.lgamma(count + 0.5) - math.lgamma(0.5) for count in counts.tolist())
    return -(ones - math.lgamma(len(data) + 128.0) + math.lgamma(128.0)) / math.log(2.0)


@given(st.binary(max_size=600))
@settings(max_examples=25, deadline=None)
def test_round_trip(data: bytes) -> None:
    assert adaptive.decompress(adaptive.compress(data)) == data


@pytest.mark.parametrize("n_bytes", [63, 64, 65, 128, 129, 20_000])
def test_round_trip_at_the_ends_of_batches(n_bytes: int) -> None:
    data = sample_path("christmas_carol").read_bytes()[:n_bytes]
    assert adaptive.decompress(adaptive.compress(data)) == data


def test_the_length_is_that_of_the_estimator_except_for_delayed_counts() -> None:
    data = sample_path("christmas_carol").read_bytes()
    excess_bits = 8 * len(adaptive.compress(data)) - estimator_bits(data)
    assert 0 < excess_bits < 1000  # of 750,000


def test_the_first_byte_costs_8_bits_and_then_it_is_learned() -> None:
    one, many = (8 * len(adaptive.compress(b"a" * n)) for n in (1, 10_000))
    assert one >= 8 + 8
    assert many < 128 * math.log2(10_000) + 100


def test_a_payload_with_more_bytes_is_refused() -> None:
    compressed = adaptive.compress(b"some words " * 40)
    with pytest.raises(CorruptArchiveError):
        adaptive.decompress(compressed + b"\xff" * 8)
