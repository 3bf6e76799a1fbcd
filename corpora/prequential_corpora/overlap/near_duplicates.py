"""Tokens, their n-grams, and documents that are nearly the same (MinHash, Broder 1997, over 5-grams, in bands).

    token     a word, or a character of a script without spaces, or another one that is not white space: tokens.py
    n-gram    n consecutive tokens of one document, as a 64-bit hash. Hashes are not verified. Between one million n-grams and
              another million, the probability of a false match is 1 in 10**7, unless somebody constructs one: no key is secret
    document  the shingles of a document are its distinct 5-grams. Two documents are near duplicates if |A & B| >= 0.75 |A | B|

A signature is 64 minima in 16 bands of 4. Documents that agree in all 4 minima of a band are candidates. At a similarity of 0.75,
99.8 % of pairs are candidates. The shingles of each candidate pair are compared, so LSH can miss a pair but cannot report a wrong
one. The constants come from splitmix64 with fixed seeds. All arithmetic is on integers and the same on every machine.
"""

from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from prequential_corpora.overlap.tokens import (
    GRAM_TOKENS,
    Indices,
    Keys,
    Layout,
    constants,
    mixed,
    token_chunks,
)

SHINGLE_TOKENS = 5
NEAR_JACCARD = 0.75
N_BANDS, BAND_ROWS = 16, 4
MIN_AGREEMENT = 0.5  # of the 64 minima: 4.6 standard deviations below 0.75; pairs below it are not compared
MAX_BUCKET = 8  # candidates in a bucket, so that a thousand equal documents do not make a million pairs
MAX_COMPARED = 8  # candidates of one document that are compared, in descending order of agreement
MAX_SHINGLED_BYTES = 1 << 22  # for longer documents, a sample of about 2**20 shingles is compared

_Integer = TypeVar("_Integer", np.uint64, np.int64)

_JOIN = constants(8, seed=6)[2:]
_ROWS = constants(2 * N_BANDS * BAND_ROWS, seed=7).astype(np.uint32).reshape(2, -1)  # factors are odd
_BAND = constants(BAND_ROWS, seed=8)
_LOW_HALF = np.uint64(2**32 - 1)


def distinct(keys: NDArray[_Integer]) -> NDArray[_Integer]:
    """The distinct keys of (m,), ascending. np.unique would hash 64-bit integers: slower, and quadratic for chosen integers."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=~keys[:1]) != 0]


def grams(keys: Keys, owners: Indices, n_tokens: int) -> tuple[Keys, Indices]:
    """Hashes of the n-grams that end in a chunk of `token_chunks`, and their documents, ascending. n_tokens: at most 13."""
    keys, owners = keys[GRAM_TOKENS - n_tokens :], owners[GRAM_TOKENS - n_tokens :]
    last = n_tokens - 1
    whole = (owners[: len(owners) - last] == owners[last:]) & (owners[last:] >= 0)
    width = 1
    for factor in _JOIN:
        if width == n_tokens:
            break
        step = min(width, n_tokens - width)  # the last two halves overlap
        keys = keys[:-step] * factor + keys[step:]
        width += step
    return np.maximum(mixed(keys)[whole], np.uint64(1)), owners[last:][whole]


class Signatures:
    """The 64 minima of the shingles of each of n documents, (n, 64) uint32. empty: (n,), the documents without shingles."""

    def __init__(self, n_documents: int) -> None:
        self.minima = np.full((n_documents, N_BANDS * BAND_ROWS), 2**32 - 1, np.uint32)
        self.empty = np.ones(n_documents, np.bool_)

    def add(self, keys: Keys, owners: Indices) -> None:
        """Adds the shingles `keys` (m,) of the documents `owners` (m,), ascending."""
        if not len(keys):
            return
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        documents = owners[starts]
        halves = (keys >> np.uint64(32)).astype(np.uint32)
        minima = np.empty((len(starts), len(_ROWS[0])), np.uint32)
        hashes = np.empty_like(halves)
        for row, (factor, flip) in enumerate(_ROWS.T):
            np.multiply(np.bitwise_xor(halves, flip, out=hashes), factor, out=hashes)
            minima[:, row] = np.minimum.reduceat(hashes, starts)
        self.minima[documents] = np.minimum(self.minima[documents], minima)
        self.empty[documents] = False

    def bands(self) -> Keys:
        """(n, 16) uint64: a hash of each band."""
        bands = np.zeros((len(self.minima), N_BANDS), np.uint64)
        for row, factor in enumerate(_BAND):
            bands += self.minima[:, row::BAND_ROWS].astype(np.uint64) * factor
            bands = mixed(bands)
        return bands


class Side(NamedTuple):
    """A corpus for `nearest`: its bytes, its documents and their signatures."""

    stream: NDArray[np.uint8]
    layout: Layout
    signatures: Signatures


class Shingles(NamedTuple):
    """The distinct shingles of a document whose low half is below `limit`, ascending."""

    keys: Keys
    limit: int


def nearest(query: Side, index: Side, *, earlier: bool = False) -> tuple[Indices, NDArray[np.float64]]:
    """For each document of `query`, a near duplicate in `index` and their Jaccard similarity; -1 and 0 if there is none.

    earlier: both are the same corpus, and only earlier documents count. The best of up to MAX_COMPARED candidates is taken. The
    similarity is exact if both documents have at most MAX_SHINGLED_BYTES. For longer ones its standard error is below 0.001 in
    prose.
    """
    found, jaccard = np.full(len(query.signatures.empty), -1, np.int64), np.zeros(len(query.signatures.empty))
    queries, indices = _candidates(query.signatures, index.signatures, earlier)
    place = np.arange(len(queries)) - np.searchsorted(queries, queries)  # among the candidates of its query
    for i in range(MAX_COMPARED):
        pairs = np.flatnonzero((place == i) & (jaccard[queries] < 1))
        held, theirs = -1, Shingles(np.empty(0, np.uint64), 0)
        # In the order of `index`: many short documents may resemble parts of one long one, whose shingles take long.
        for at, other in sorted(zip(queries[pairs].tolist(), indices[pairs].tolist(), strict=True), key=itemgetter(1)):
            if other != held:
                held, theirs = other, _shingles(index, other)
            similarity = _jaccard(_shingles(query, at), theirs)
            if similarity >= NEAR_JACCARD and similarity > jaccard[at]:
                found[at], jaccard[at] = other, similarity
    return found, jaccard


def _candidates(query: Signatures, index: Signatures, earlier: bool) -> tuple[Indices, Indices]:
    """Pairs (document of query, of index) that share a band and half of the minima, sorted by query and descending agreement."""
    queries, indices = np.flatnonzero(~query.empty), np.flatnonzero(~index.empty)
    n_index = max(len(index.empty), 1)
    pairs = [np.empty(0, np.int64)]
    for wanted, held in zip(query.bands()[queries].T, index.bands()[indices].T, strict=True):
        order = np.argsort(held, kind="stable")
        held = np.append(held[order], np.uint64(0))
        at = np.searchsorted(held[:-1], wanted, "left")
        for _ in range(MAX_BUCKET):
            same = (at < len(indices)) & (held[np.minimum(at, len(indices))] == wanted)
            pairs.append(queries[same] * n_index + indices[order[at[same]]])
            at = at + 1
    first, second = np.divmod(distinct(np.concatenate(pairs)), n_index)
    if earlier:
        first, second = first[second < first], second[second < first]
    agreeing = _agreeing(query.minima, first, index.minima, second)
    kept = agreeing >= MIN_AGREEMENT * query.minima.shape[1]
    first, second, agreeing = first[kept], second[kept], agreeing[kept]
    order = np.lexsort((second, -agreeing, first))
    return first[order], second[order]


def _agreeing(a: NDArray[np.uint32], rows_a: Indices, b: NDArray[np.uint32], rows_b: Indices) -> Indices:
    """The number of equal minima for each pair of rows. Computed in parts: a million pairs at once would need 512 MB."""
    agreeing = np.empty(len(rows_a), np.int64)
    for start in range(0, len(rows_a), 1 << 16):
        part = slice(start, start + (1 << 16))
        agreeing[part] = (a[rows_a[part]] == b[rows_b[part]]).sum(axis=1)
    return agreeing


def _jaccard(a: Shingles, b: Shingles) -> float:
    """The shingles in both of two documents, divided by the shingles in either of them."""
    limit = np.uint64(min(a.limit, b.limit))
    ours, theirs = (keys[(keys & _LOW_HALF) < limit] for keys in (a.keys, b.keys))
    n_common = len(np.intersect1d(ours, theirs, assume_unique=True))
    return n_common / max(len(ours) + len(theirs) - n_common, 1)


def _shingles(side: Side, at: int) -> Shingles:
    """The shingles of document `at`."""
    start, end = int(side.layout.offsets[at]), int(side.layout.ends[at])
    limit = min(2**32 * MAX_SHINGLED_BYTES // (end - start), 2**32)
    layout = Layout(np.zeros(1, np.int64), np.array([end - start]))
    parts = [np.empty(0, np.uint64)]
    for keys, owners in token_chunks(side.stream[start:end], layout):
        shingles, _ = grams(keys, owners, SHINGLE_TOKENS)
        parts.append(distinct(shingles[(shingles & _LOW_HALF) < np.uint64(limit)]))
    return Shingles(distinct(np.concatenate(parts)), limit)
