"""The cluster bootstrap: its coverage, where single bytes fail; planted differences; exact signs; too few documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prequential.comparison.intervals import (
    MAX_CLUSTERS,
    Bootstrap,
    Clusters,
    cluster,
    loss_interval,
    n_clusters_of,
    rate_interval,
)

RATE = 2.0  # bits per byte expected of every document


def documents(random: np.random.Generator, n: int, spread: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and bits of n documents: log-normal lengths around 1,100 bytes; each document has a rate of its own, sd 0.4."""
    n_bytes = np.maximum(1, np.exp(random.normal(7, spread, n))).astype(int)
    return n_bytes, n_bytes * random.normal(RATE, 0.4, n) + np.sqrt(n_bytes) * random.normal(0, 2.0, n)


def byte_wise(n_bytes: np.ndarray, bits: np.ndarray, byte_deviation: float) -> tuple[float, float]:
    """The 90 % interval of an author who takes all bytes as independent, with this deviation of a byte's cost."""
    rate, half = bits.sum() / n_bytes.sum(), 1.645 * byte_deviation / np.sqrt(n_bytes.sum())
    return rate - half, rate + half


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize("n_documents", [pytest.param(10, marks=THOROUGH), 30, pytest.param(100, marks=THOROUGH)])
def test_documents_cover_the_expected_loss_and_single_bytes_do_not(n_documents) -> None:
    n, nominal, how = 300, 0.9, Bootstrap(confidence=0.9, n_resamples=199)
    hits = np.zeros(2)
    for seed in range(n):
        n_bytes, bits = documents(np.random.default_rng([seed, n_documents]), n_documents)
        found = rate_interval(cluster(n_bytes.tolist(), bits.tolist()), how)
        low, high = byte_wise(n_bytes, bits, np.hypot(2.0, 0.4))
        hits += [found.low_bits_per_byte <= RATE <= found.high_bits_per_byte, low <= RATE <= high]
    assert abs(hits[0] - n * nominal) <= 3 * np.sqrt(n * nominal * (1 - nominal))
    assert hits[1] < 0.6 * n


def test_a_planted_difference_is_found_by_pairs_of_documents_and_hidden_without_pairs() -> None:
    random = np.random.default_rng(1)
    n_bytes, bits = documents(random, 60)
    better = bits - n_bytes * random.normal(0.02, 0.02, 60)  # 0.02 bits/byte less; rates differ by 0.4 among documents
    how = Bootstrap()
    paired = rate_interval(cluster(n_bytes.tolist(), (better - bits).tolist()), how)
    assert paired.high_bits_per_byte < 0
    assert paired.low_bits_per_byte < -0.02 < paired.high_bits_per_byte
    alone = [rate_interval(cluster(n_bytes.tolist(), each.tolist()), how) for each in (bits, better)]
    assert alone[1].high_bits_per_byte > alone[0].low_bits_per_byte  # the single intervals overlap


PAIRS = st.lists(st.tuples(st.integers(1, 9999), st.integers(-(2**30), 2**30)), min_size=10, max_size=30)


@settings(max_examples=30, deadline=None)
@given(PAIRS, st.integers(0, 2**64))
def test_opposite_differences_have_exactly_the_mirrored_interval(pairs, seed) -> None:
    n_bytes, bits = zip(*pairs, strict=True)
    how = Bootstrap(n_resamples=99, seed=seed)
    there, back = (rate_interval(cluster(n_bytes, [sign * b for b in bits]), how) for sign in (1, -1))
    assert (there is None) == (back is None)
    if there and back:
        mirrored = -back.high_bits_per_byte, -back.low_bits_per_byte
        assert (there.low_bits_per_byte, there.high_bits_per_byte) == mirrored


def test_the_interval_is_the_ratio_and_the_quantile_of_studentised_resamples() -> None:
    """As the definition, one resample at a time."""
    n_bytes, bits = documents(np.random.default_rng(3), 12)
    how = Bootstrap(confidence=0.9, n_resamples=39, seed=5)

    def ratio_and_error(x, y):
        ratio = y.sum() / x.sum()
        return ratio, np.sqrt(12 / 11 * np.sum((y - ratio * x) ** 2)) / x.sum()

    ratio, error = ratio_and_error(n_bytes, bits)
    drawn = np.random.default_rng([5]).integers(0, 12, (39, 12))
    ts = []
    for places in drawn:
        other, its_error = ratio_and_error(n_bytes[places], bits[places])
        ts.append(abs(other - ratio) / its_error)
    half = sorted(ts)[-4] * error  # 4 of 40 lie outside at 90 %
    found = rate_interval(cluster(n_bytes.tolist(), bits.tolist()), how)
    assert found.low_bits_per_byte == pytest.approx(ratio - half, rel=1e-12)
    assert found.high_bits_per_byte == pytest.approx(ratio + half, rel=1e-12)


def test_too_few_documents_and_a_single_odd_one_have_no_interval() -> None:
    how, n_bytes, bits = Bootstrap(), [100] * 9 + [0, 0], [100.0 + i for i in range(9)] + [0.0, 0.0]
    assert cluster(n_bytes, bits).n_documents == 9  # empty ones do not count
    assert rate_interval(cluster(n_bytes, bits), how) is None
    assert rate_interval(Clusters(n_documents=0, n_bytes=(), bits=()), how) is None
    assert rate_interval(cluster([*n_bytes, 100], [*bits, 109.0]), how) is not None
    assert rate_interval(cluster([100] * 10, [200.0] * 9 + [300.0]), how) is None  # a third of the resamples lack it
    equal = rate_interval(cluster([100, 300] * 5, [200.0, 600.0] * 5), how)
    assert (equal.low_bits_per_byte, equal.high_bits_per_byte) == (2.0, 2.0)
    below_zero = cluster([1000] * 12, [1.0] * 8 + [2000.0, 1500.0, 20.0, 30.0])
    assert rate_interval(below_zero, how).low_bits_per_byte < 0
    assert loss_interval(below_zero, how) is None


@pytest.mark.parametrize(("n", "n_clusters"), [(999, 999), (1000, 1000), (1001, 501), (2500, 834)])
def test_many_documents_are_clusters_of_equal_numbers_of_neighbours(n, n_clusters) -> None:
    n_bytes, bits = list(range(1, n + 1)), [float(i) for i in range(n)]
    found = cluster(n_bytes, bits)
    assert (found.n_documents, len(found.n_bytes)) == (n, n_clusters)
    assert len(found.n_bytes) == n_clusters_of(n) <= MAX_CLUSTERS
    assert (sum(found.n_bytes), sum(found.bits)) == (sum(n_bytes), sum(bits))
    size = -(-n // MAX_CLUSTERS)
    assert found.n_bytes[1] == sum(n_bytes[size : 2 * size])
