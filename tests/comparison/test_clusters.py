"""Intervals over clusters: coverage of documents in folders and of sizes with heavy tails; planted differences; signs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from prequential.comparison.clusters import (
    MAX_CLUSTERS,
    Clusters,
    Grouping,
    cluster,
    equal_weights,
    folders_of,
    loss_interval,
    rate_interval,
    reason_for_none,
)

RATE = 2.0  # bits per byte expected of every document


def documents(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and bits of n documents: log-normal lengths around 1,100 bytes; each document has a rate of its own, sd 0.4."""
    n_bytes = np.maximum(1, np.exp(random.normal(7, 0.8, n))).astype(int)
    return n_bytes, n_bytes * random.normal(RATE, 0.4, n) + np.sqrt(n_bytes) * random.normal(0, 2.0, n)


def holds(clusters: Clusters, truth: float) -> bool:
    found = rate_interval(clusters)
    return found is not None and found.low_bits_per_byte <= truth <= found.high_bits_per_byte


@pytest.mark.thorough
@pytest.mark.parametrize("noise", ["normal", "skewed"])
@pytest.mark.parametrize("n_folders", [3, 10, 30])
def test_documents_of_folders_are_covered_by_folders_and_not_by_documents(n_folders: int, noise: str) -> None:
    """Half of the variance of a document's rate is its folder's."""
    n, hits = 500, np.zeros(2)
    for seed in range(n):
        random = np.random.default_rng([seed, n_folders])
        draw = random.standard_normal if noise == "normal" else lambda k, random=random: random.exponential(size=k) - 1
        folders = np.repeat(np.arange(n_folders), random.poisson(9, n_folders) + 1)
        n_bytes = np.exp(random.normal(7, 0.8, len(folders))).astype(int) + 1
        bits = n_bytes * (RATE + 0.3 * draw(n_folders)[folders] + 0.3 * draw(len(folders)))
        grouping = Grouping("folder", folders.astype(str).tolist())
        hits += [holds(cluster(n_bytes.tolist(), bits.tolist(), g), RATE) for g in (grouping, None)]
    assert hits[0] >= 0.9 * n
    assert hits[1] < 0.8 * n


@pytest.mark.thorough
@pytest.mark.parametrize("n_documents", [3, 10, 30, 100])
@pytest.mark.parametrize("tail", ["pareto 1.05", "pareto 1.5", "log-normal 2"])
def test_sizes_of_heavy_tails_are_covered(n_documents: int, tail: str) -> None:
    """Each document costs 500 bits to begin with, so that long ones are cheaper a byte."""
    kind, shape = tail.split()[0], float(tail.split()[1])
    mean = 1000 * shape / (shape - 1) if kind == "pareto" else np.exp(7 + shape**2 / 2)
    n, hits = 1000, 0
    for seed in range(n):
        random = np.random.default_rng([seed, n_documents])
        uniform, normal = random.random(n_documents), random.normal(7, shape, n_documents)
        n_bytes = 1000 * (1 - uniform) ** (-1 / shape) if kind == "pareto" else np.maximum(1, np.exp(normal))
        n_bytes = n_bytes.astype(int)
        bits = 500 + n_bytes * random.normal(RATE, 0.4, n_documents)
        hits += holds(cluster(n_bytes.tolist(), bits.tolist()), RATE + 500 / mean)
    assert hits >= 0.9 * n


@pytest.mark.thorough
@pytest.mark.parametrize("sigma", [0.0, 2.0])
def test_clusters_of_equal_weight_find_a_difference_whatever_their_sizes(sigma: float) -> None:
    """Eleven commits whose rates differ by 0.03: weighted by bytes, a difference of 0.05 is found in a quarter of cases."""
    random, n, found, held = np.random.default_rng(1), 1000, np.zeros(2), 0
    for _ in range(n):
        n_bytes = np.maximum(1, 1e4 * np.exp(sigma * random.standard_normal(11))).astype(int)
        clusters = cluster(n_bytes.tolist(), (n_bytes * random.normal(-0.05, 0.03, 11)).tolist())
        equal, weighted = equal_weights(clusters), rate_interval(clusters)
        held += equal.low_bits_per_byte <= -0.05 <= equal.high_bits_per_byte
        found += equal.high_bits_per_byte < 0, weighted.high_bits_per_byte < 0
    assert 0.93 * n <= held <= 0.97 * n and found[0] > 0.98 * n
    assert sigma == 0 or found[1] < 0.4 * n


PAIRS = st.lists(st.tuples(st.integers(1, 9999), st.integers(-(2**30), 2**30)), min_size=3, max_size=30)


@settings(max_examples=30, deadline=None)
@given(PAIRS)
def test_opposite_differences_have_exactly_the_mirrored_interval(pairs) -> None:
    n_bytes, bits = zip(*pairs, strict=True)
    there, back = (rate_interval(cluster(n_bytes, [sign * b for b in bits])) for sign in (1, -1))
    mirrored = -back.high_bits_per_byte, -back.low_bits_per_byte
    assert (there.low_bits_per_byte, there.high_bits_per_byte) == mirrored


def test_the_variance_and_its_degrees_of_freedom_are_those_of_the_definition() -> None:
    """For rates = RATE + noise of variance 1: the expectation of the estimate is the variance of the loss; t has its freedom."""
    n_bytes, bits = documents(np.random.default_rng(3), 12)
    shares = n_bytes / n_bytes.sum()
    residuals = np.eye(12) - shares  # of the rates: R @ rates
    weights = shares**2 / (residuals @ residuals.T).diagonal()
    assert weights @ (residuals @ residuals.T).diagonal() == pytest.approx(shares @ shares)  # unbiased
    form = residuals.T @ np.diag(weights) @ residuals
    freedom = np.trace(form) ** 2 / np.trace(form @ form)
    half = t.ppf(0.975, freedom) * np.sqrt(weights @ (residuals @ (bits / n_bytes)) ** 2)
    found, loss = rate_interval(cluster(n_bytes.tolist(), bits.tolist())), bits.sum() / n_bytes.sum()
    assert found.freedom == pytest.approx(freedom) and 1 < freedom < 11
    assert found.low_bits_per_byte == pytest.approx(loss - half) and found.high_bits_per_byte == pytest.approx(
        loss + half
    )
    assert rate_interval(cluster([100] * 8, [float(i) for i in range(8)])).freedom == pytest.approx(7)
    assert rate_interval(cluster([10**6, 1, 1], [1.0, 2.0, 3.0])).freedom < 1.01


def test_too_few_clusters_and_an_interval_below_0_are_refused_with_the_reason() -> None:
    two = cluster([100, 100, 0, 100], [200.0, 300.0, 0.0, 250.0], Grouping("folder", ["a/", "b/", "c/", "a/"]))
    assert (two.n_documents, two.n_bytes, two.bits) == (3, (200, 100), (450.0, 300.0))  # empty ones do not count
    assert rate_interval(two) is None
    assert reason_for_none(two) == "an interval needs 3 folders, and there are 2"
    assert rate_interval(Clusters(n_documents=0, n_bytes=(), bits=())) is None
    equal = rate_interval(cluster([100, 300] * 5, [200.0, 600.0] * 5))
    assert (equal.low_bits_per_byte, equal.high_bits_per_byte) == (2.0, 2.0)
    below_zero = cluster([1000] * 4, [1.0, 2000.0, 1.0, 20.0])
    assert rate_interval(below_zero).low_bits_per_byte < 0
    assert loss_interval(below_zero) is None
    assert reason_for_none(below_zero).startswith("4 documents are too uneven for an interval")
    assert rate_interval(cluster([1 << 60, 1, 1], [1.0, 2.0, 3.0])) is None  # a float cannot tell the shares


@pytest.mark.parametrize(
    ("names", "by", "labels"),
    [
        (["a.py", "b.py"], "document", ["a.py", "b.py"]),
        (["a/x", "a/y/z", "b/x", "README"], "folder", ["a/", "a/", "b/", "README"]),
        (["src/a/x", "src/b/y", "src/b/c/z"], "folder", ["src/a/", "src/b/", "src/b/"]),
        (["src/x", "src/a/y", "src/a/z"], "folder", ["src/x", "src/a/", "src/a/"]),
        (["src/x", "src/y"], "document", ["src/x", "src/y"]),
        ([], "document", []),
    ],
)
def test_the_cluster_of_a_document_is_the_top_folder_below_the_common_one(names, by, labels) -> None:
    assert folders_of(names) == (by, labels)
    assert folders_of(["src/a/x/1", "src/a/x/2", "src/a/1", "src/b/y/z/1"], 2) == (
        "folder", ["src/a/x/", "src/a/x/", "src/a/1", "src/b/y/"],
    )  # fmt: skip


@pytest.mark.parametrize(("n", "n_clusters"), [(999, 999), (1000, 1000), (1001, 501), (2500, 834)])
def test_more_than_a_thousand_clusters_are_groups_of_equal_numbers_of_neighbours(n, n_clusters) -> None:
    n_bytes, bits = list(range(1, n + 1)), [float(i) for i in range(n)]
    found = cluster(n_bytes, bits)
    assert (found.n_documents, len(found.n_bytes), found.by) == (n, n_clusters, "document" if n <= 1000 else "group")
    assert (sum(found.n_bytes), sum(found.bits)) == (sum(n_bytes), sum(bits))
    size = -(-n // MAX_CLUSTERS)
    assert found.n_bytes[1] == sum(n_bytes[size : 2 * size])
