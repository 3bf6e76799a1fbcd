"""Adaptive order 0: round trips, and a length within a hair of the estimator's own."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prequential.codecs.baselines import adaptive
from prequential.corpora.bundled import sample_path
from prequential.errors import CorruptArchiveError


def estimator_bits(data: bytes) -> float:
    """-log2 of what Krichevsky and Trofimov's mixture gives to data: it depends on the counts alone."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    ones = sum(math.lgamma(count + 0.5) - math.lgamma(0.5) for count in counts.tolist())
    return -(ones - math.lgamma(len(data) + 128.0) + math.lgamma(128.0)) / math.log(2.0)


@given(st.binary(max_size=600))
@settings(max_examples=25, deadline=None)
def test_data_come_back(data: bytes) -> None:
    assert adaptive.decompress(adaptive.compress(data)) == data


@pytest.mark.parametrize("n_bytes", [63, 64, 65, 128, 129, 20_000])
def test_data_come_back_however_batches_are_cut(n_bytes: int) -> None:
    data = sample_path("christmas_carol").read_bytes()[:n_bytes]
    assert adaptive.decompress(adaptive.compress(data)) == data


def test_the_length_is_the_estimators_own_but_for_late_counts() -> None:
    data = sample_path("christmas_carol").read_bytes()
    excess_bits = 8 * len(adaptive.compress(data)) - estimator_bits(data)
    assert 0 < excess_bits < 1000  # of 750,000


def test_an_early_byte_is_paid_for_and_then_learned() -> None:
    one, many = (8 * len(adaptive.compress(b"a" * n)) for n in (1, 10_000))
    assert one >= 8 + 8
    assert many < 128 * math.log2(10_000) + 100


def test_a_payload_that_goes_on_is_refused() -> None:
    compressed = adaptive.compress(b"some words " * 40)
    with pytest.raises(CorruptArchiveError):
        adaptive.decompress(compressed + b"\xff" * 8)
