"""Intervals of a loss over documents: a cluster bootstrap, in which a document is drawn with all of its bytes.

The loss of a corpus is a ratio, sum of bits / sum of bytes. Bytes of one document resemble each other, so an interval that takes
n bytes as n independent values is far too short. Here documents are drawn with replacement, k of k, and both sums with them.

Each resample gives t = (its ratio - the ratio) / its standard error, the error from the residuals bits_i - ratio * bytes_i of the
documents. The interval is ratio +- q * standard error, where q is the quantile of |t|: the symmetric bootstrap-t (Efron and
Tibshirani 1993, An Introduction to the Bootstrap, chapter 12; Hall 1988, "Theoretical comparison of bootstrap confidence
intervals", Annals of Statistics 16). In simulations with few, uneven documents it covered more than percentiles of the ratio,
and more than Student's t. It assumes that documents are independent of each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.intervals import CHUNK_RESAMPLES, Bootstrap

MIN_DOCUMENTS = 10  # with fewer there is no interval
MAX_CLUSTERS = 1000  # of more documents, equal numbers of neighbours are one cluster
NO_ERROR = 1e-9  # a resample with a standard error below this share of the complete one has none


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Documents that are not empty, in the order of the corpus, or equal numbers of neighbouring ones.

    n_documents: of the corpus, without empty ones. n_bytes (k,) and bits (k,): of each cluster, k <= MAX_CLUSTERS.
    """

    n_documents: int
    n_bytes: tuple[int, ...]
    bits: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RateInterval:
    """A confidence interval of the expected loss, or difference of losses, over documents like these; in bits per byte."""

    low_bits_per_byte: float
    high_bits_per_byte: float
    n_documents: int
    n_clusters: int
    confidence: float
    n_resamples: int
    seed: int


def n_clusters_of(n_documents: int) -> int:
    """The number of clusters that `cluster` makes of so many documents that are not empty."""
    return math.ceil(n_documents / _cluster_size(n_documents))


def _cluster_size(n_documents: int) -> int:
    return max(1, math.ceil(n_documents / MAX_CLUSTERS))


def cluster(n_bytes: Sequence[int], bits: Sequence[float]) -> Clusters:
    """Clusters of the documents with these lengths and costs, both in the order of the corpus."""
    pairs = [pair for pair in zip(n_bytes, bits, strict=True) if pair[0]]
    size = _cluster_size(len(pairs))
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return Clusters(
        n_documents=len(pairs),
        n_bytes=tuple(sum(n for n, _ in part) for part in parts),
        bits=tuple(float(sum(cost for _, cost in part)) for part in parts),
    )


def rate_interval(clusters: Clusters, bootstrap: Bootstrap) -> RateInterval | None:
    """The interval of sum of bits / sum of bytes; None with fewer than MIN_DOCUMENTS documents.

    None also if too many resamples have no standard error, because nearly all documents have the same bits per byte and a few do
    not. Bits may be differences. The bits of -bits give exactly the mirrored interval. Equal arguments give equal results.
    """
    if clusters.n_documents < MIN_DOCUMENTS:
        return None
    sizes, costs = np.array(clusters.n_bytes, np.float64), np.array(clusters.bits, np.float64)
    rate, error = (float(value[0]) for value in _rates(sizes[None], costs[None]))
    half = _quantile(sizes, costs, rate, error, bootstrap) * error if error else 0.0
    if not math.isfinite(half):
        return None
    return RateInterval(
        low_bits_per_byte=rate - half,
        high_bits_per_byte=rate + half,
        n_documents=clusters.n_documents,
        n_clusters=len(sizes),
        confidence=bootstrap.confidence,
        n_resamples=bootstrap.n_resamples,
        seed=bootstrap.seed,
    )


def loss_interval(clusters: Clusters, bootstrap: Bootstrap) -> RateInterval | None:
    """As `rate_interval`, for a code length. None also if it reaches below 0, as no code length does: it says nothing then."""
    found = rate_interval(clusters, bootstrap)
    return found if found and found.low_bits_per_byte >= 0.0 else None


def _rates(sizes: NDArray[np.float64], costs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ratios of the sums (R,) and their standard errors (R,), for bytes and bits of k clusters in each of R rows, (R, k)."""
    k, totals = sizes.shape[1], sizes.sum(1)
    rates = costs.sum(1) / totals
    residuals = costs - rates[:, None] * sizes
    return rates, np.sqrt(k / (k - 1) * np.square(residuals).sum(1)) / totals


def _quantile(
    sizes: NDArray[np.float64], costs: NDArray[np.float64], rate: float, error: float, bootstrap: Bootstrap
) -> float:
    """The quantile of |t| over resamples; infinite if too many resamples differ from the rate but have no error."""
    k, random = len(sizes), np.random.default_rng([bootstrap.seed])
    found = np.empty(bootstrap.n_resamples)
    for start in range(0, bootstrap.n_resamples, CHUNK_RESAMPLES):
        chunk = slice(start, min(start + CHUNK_RESAMPLES, bootstrap.n_resamples))
        drawn = random.integers(0, k, (chunk.stop - start, k))
        rates, errors = _rates(sizes[drawn], costs[drawn])
        has_error, distance = errors > NO_ERROR * error, np.abs(rates - rate)
        found[chunk] = np.where(has_error, distance / np.where(has_error, errors, 1.0), np.inf)
    return float(np.sort(found)[-2 * bootstrap.n_outside])
