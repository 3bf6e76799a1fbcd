"""Confidence intervals of a loss over documents, by resampling.

The loss of a corpus is a ratio, sum of bits / sum of bytes. Of k documents, k are drawn with replacement. A document is drawn
with all its bytes, because they resemble each other. Each resample gives t = (its ratio - the ratio) / its standard error; this
error comes from the residuals bits_i - ratio * bytes_i. The interval is ratio +- q * standard error, with q the quantile of |t|:
the symmetric bootstrap-t (Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 12; Hall 1988, "Theoretical
comparison of bootstrap confidence intervals", Annals of Statistics 16). It assumes that documents are independent of each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError

CHUNK_RESAMPLES = 256  # resamples at a time, which take 8 MiB each
MIN_DOCUMENTS = 10  # with fewer there is no interval
MAX_CLUSTERS = 1000  # with more documents, equal numbers of neighbours form a cluster
NO_ERROR = 1e-9  # below this share of the complete sample's standard error, a resample has none


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How an interval is made. Raises ConfigError for a value out of range."""

    confidence: float = 0.95
    n_resamples: int = 1999
    seed: int = 0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.seed < 0:
            raise ConfigError(f"the seed {self.seed} is negative")
        if self.n_outside < 1:
            enough = math.ceil(2 / (1 - self.confidence)) - 1
            raise ConfigError(
                f"{self.n_resamples} resamples are too few for confidence {self.confidence}: take at least {enough}"
            )

    @property
    def n_outside(self) -> int:
        """The rank of the resample that bounds the interval, counted from either end."""
        return math.floor(round((self.n_resamples + 1) * (1 - self.confidence) / 2, 6))


def check_confidence(confidence: float) -> None:
    """Raises ConfigError for a level that no interval has."""
    if not 0 < confidence < 1:
        raise ConfigError(f"the confidence {confidence} is outside (0, 1): 0.95 is usual")


def letters(i: int) -> str:
    """The i-th label of A ... Z, A2 ... Z2, A3 ..."""
    repeat, letter = divmod(i, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(repeat + 1) if repeat else "")


# ---- losses over documents


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Bytes and bits (k,) of the documents that are not empty, or of equal numbers of neighbours, in the order of the corpus."""

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
    """The number of clusters that `cluster` makes of so many documents."""
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
    """The interval of sum of bits / sum of bytes, where bits may be differences; -bits give exactly the mirrored interval.

    None with fewer than MIN_DOCUMENTS documents, or if too many resamples have no standard error. This happens if nearly all
    documents have the same bits per byte and a few differ.
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
    """As `rate_interval`, for a code length. Also None if it reaches below 0: no code length does, so it says nothing."""
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
