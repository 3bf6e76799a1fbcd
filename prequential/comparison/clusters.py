"""Intervals of a loss over documents, where documents of one cluster (a commit, a folder) depend on each other.

The loss of a corpus is a ratio, sum of bits / sum of bytes. So it is the mean of the rates r_i = bits_i / bytes_i of k clusters,
weighted with their shares h_i of the bytes. With S = sum of h_i^2, its variance is estimated by

    sum of h_i^2 (r_i - loss)^2 / (1 - 2 h_i + S),

which is unbiased for rates of equal variance, whatever their sizes. The interval takes Student's t with the degrees of freedom
that this estimate has for normal rates: k - 1 for clusters of equal size, and about 1 if one of them has nearly all bytes. So it
holds for few clusters, and for a few that have most bytes, if clusters are independent of each other. Source: R. Bell and D.
McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage samples", Survey Methodology 28.

The *difference* of two models is judged over clusters of equal weight: the unit of evidence is the commit, not its bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def label_of(i: int) -> str:
    """The i-th label of A ... Z, A2 ... Z2, A3 ..."""
    repeat, letter = divmod(i, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(repeat + 1) if repeat else "")


MIN_CLUSTERS = 3  # with fewer there is no interval
MAX_CLUSTERS = 1000  # of more, equal numbers of neighbours form a group
CONFIDENCE, LEVEL = 0.95, "95 %"  # of every interval of a comparison and of a loss
KINDS = ("document", "folder", "commit", "group")


class Grouping(NamedTuple):
    """Which documents form a cluster: those of equal labels, one for each document. by: what the label is, as in Clusters."""

    by: str
    labels: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Bytes and bits (k,) of clusters of documents, in the order of the corpus. n_documents: that are not empty.

    by: what a cluster is: one of KINDS (a group: neighbouring clusters, where there are more than MAX_CLUSTERS), or a field.
    """

    n_documents: int
    n_bytes: tuple[int, ...]
    bits: tuple[float, ...]
    by: str = "document"

    @property
    def largest_share(self) -> float:
        """The largest share of the bytes that a cluster has; 0 without clusters."""
        return max(self.n_bytes, default=0) / max(1, sum(self.n_bytes))

    @property
    def n_effective(self) -> float:
        """How many clusters of equal length they are worth: 1 / the sum of their squared shares of the bytes."""
        shares = np.divide(self.n_bytes, max(1, sum(self.n_bytes)))
        return float(1 / max(shares @ shares, 1e-300))

    def minus(self, other: "Clusters") -> "Clusters":
        """The same clusters with the differences of their bits."""
        bits = tuple(ours - theirs for ours, theirs in zip(self.bits, other.bits, strict=True))
        return Clusters(n_documents=self.n_documents, n_bytes=self.n_bytes, bits=bits, by=self.by)


@dataclass(frozen=True, kw_only=True)
class RateInterval:
    """A confidence interval of the expected loss over clusters of these sizes, in bits per byte. freedom: of its t."""

    low_bits_per_byte: float
    high_bits_per_byte: float
    n_documents: int
    n_clusters: int
    by: str
    freedom: float
    confidence: float


@dataclass(frozen=True)
class EqualWeights:
    """The mean rate of clusters of equal weight, and its interval. p_value: of a mean of 0. n_lower: those with rates below 0."""

    bits_per_byte: float
    low_bits_per_byte: float
    high_bits_per_byte: float
    p_value: float
    n_lower: int


def folders_of(names: Sequence[str], n_levels: int = 1) -> Grouping:
    """The top folder, or n_levels of folders, of each document below the folder that all share; itself if it has none."""
    folders = [name.split("/")[:-1] for name in names]
    uneven = (i for i, parts in enumerate(zip(*folders, strict=False)) if len(set(parts)) > 1)
    depth = next(uneven, min(map(len, folders), default=0))
    labels = [
        "/".join(folder[: depth + n_levels]) + "/" if len(folder) >= depth + n_levels else name
        for folder, name in zip(folders, names, strict=True)
    ]
    return Grouping("folder" if labels != list(names) else "document", labels)


def cluster(n_bytes: Sequence[int], bits: Sequence[float], grouping: Grouping | None = None) -> Clusters:
    """Clusters of the documents with these lengths and costs, in the order of the corpus; without a grouping, each is alone."""
    by, labels = grouping or Grouping("document", [str(i) for i in range(len(n_bytes))])
    members: dict[str, list[tuple[int, float]]] = {}
    for label, n, cost in zip(labels, n_bytes, bits, strict=True):
        if n:
            members.setdefault(label, []).append((n, cost))
    found, size = list(members.values()), max(1, math.ceil(len(members) / MAX_CLUSTERS))
    parts = [list(chain.from_iterable(found[start : start + size])) for start in range(0, len(found), size)]
    return Clusters(
        n_documents=sum(map(len, found)),
        n_bytes=tuple(sum(n for n, _ in part) for part in parts),
        bits=tuple(float(sum(cost for _, cost in part)) for part in parts),
        by=by if size == 1 else "group",
    )


def rate_interval(clusters: Clusters) -> RateInterval | None:
    """The interval of sum of bits / sum of bytes; -bits give exactly the mirrored interval. None with fewer than MIN_CLUSTERS."""
    sizes, costs = np.array(clusters.n_bytes, np.float64), np.array(clusters.bits, np.float64)
    if len(sizes) < MIN_CLUSTERS:
        return None
    rate, error, freedom = _ratio(sizes, costs)
    low, high, _ = student(rate, error, freedom)
    if not math.isfinite(high - low):  # one cluster has all bytes that a float can tell
        return None
    return RateInterval(
        low_bits_per_byte=low,
        high_bits_per_byte=high,
        n_documents=clusters.n_documents,
        n_clusters=len(sizes),
        by=clusters.by,
        freedom=freedom,
        confidence=CONFIDENCE,
    )


def loss_interval(clusters: Clusters) -> RateInterval | None:
    """As `rate_interval`, for a code length. Also None if it reaches below 0: no code length does, so it says nothing."""
    interval = rate_interval(clusters)
    return interval if interval and interval.low_bits_per_byte >= 0.0 else None


def equal_weights(clusters: Clusters) -> EqualWeights | None:
    """The mean rate of clusters, by Student's t; -bits give exactly the mirrored interval. None with fewer than MIN_CLUSTERS."""
    rates = np.divide(clusters.bits, clusters.n_bytes)
    if (k := len(rates)) < MIN_CLUSTERS:
        return None
    mean, error = float(rates.mean()), float(rates.std(ddof=1)) / math.sqrt(k)
    return EqualWeights(mean, *student(mean, error, k - 1), n_lower=int((rates < 0).sum()))


def student(mean: float, error: float, freedom: float) -> tuple[float, float, float]:
    """The ends of Student's interval of a mean with this standard error, and the probability of one as far from 0."""
    from scipy.special import stdtr, stdtrit  # not every command compares

    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p_value = float(2 * stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)
    return mean - half, mean + half, p_value


def _ratio(sizes: NDArray[np.float64], costs: NDArray[np.float64]) -> tuple[float, float, float]:
    """The ratio of the sums, its standard error, and the degrees of freedom of the error's square."""
    total = sizes.sum()
    shares, rate = sizes / total, float(costs.sum() / total)
    squares = shares @ shares
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = 1 - 2 * shares + squares  # the variance of r_i - loss, if that of each rate is 1
        factors = shares**2 / kept
        error = math.sqrt(factors @ (costs / sizes - rate) ** 2)
        shifts = squares - shares[:, None] - shares  # the covariances of r_i - loss and r_j - loss
        np.fill_diagonal(shifts, kept)
        freedom = squares**2 / (factors @ shifts**2 @ factors)
    return rate, error, float(freedom)


# ---- words


def plural(by: str) -> str:
    """`folders`; of a field, `values of author`."""
    return f"{by}s" if by in KINDS else f"values of {by}"


def count_of(what: str, n: int) -> str:
    """`1 folder`, `12 folders`; of a field, `12 values of author`."""
    return f"{n:,} {what if n == 1 and what in KINDS else plural(what)}"


def reason_for_none(clusters: Clusters) -> str:
    """Why clusters have no interval."""
    if (n := len(clusters.n_bytes)) < MIN_CLUSTERS:
        return f"an interval needs {MIN_CLUSTERS} {plural(clusters.by)}, and there {'is' if n == 1 else 'are'} {n}"
    return f"{count_of(clusters.by, n)} are too uneven for an interval: a few hold most bytes, or differ widely"


def by_holm(low: float, high: float) -> str:
    """Why an interval that does not decide may exclude 0: words before the doubt, "" for one that holds 0."""
    return "not enough for all comparisons together (Holm's method), " if low * high > 0 else ""


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses fall, if the probability that a true one is among them is at most `level`. Source: Holm (1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    n_fallen = next((n for n, i in enumerate(order) if p_values[i] * (len(order) - n) > level), len(order))
    return [i in order[:n_fallen] for i in range(len(order))]
