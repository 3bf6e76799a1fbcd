"""Tokens, their n-grams, and documents that are nearly the same (MinHash, Broder 1997, over 5-grams, in bands).

    token     a maximal run of word bytes (A-Z, a-z, 0-9, and bytes from 128 on), or one other byte that is not white space (9-13
              and 32). A-Z count as a-z. A run of more than 2**18 bytes is cut every 2**18 bytes. Line wrapping has no influence
    n-gram    n consecutive tokens of one document, as a 64-bit hash. Hashes are not verified. Between one million n-grams and
              another million, the probability of a false match is 1 in 10**7, unless somebody constructs one: no key is secret
    document  the shingles of a document are its distinct 5-grams. Two documents are near duplicates if |A & B| >= 0.75 |A | B|

A signature is 64 minima in 16 bands of 4. Documents that agree in all 4 minima of a band are candidates. At a similarity of 0.75,
99.8 % of pairs are candidates. The shingles of each candidate pair are compared, so LSH can miss a pair but cannot report a wrong
one. The constants come from splitmix64 with fixed seeds. All arithmetic is on integers and the same on every machine.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.corpus import Document
from prequential.errors import CorpusError

GRAM_TOKENS = 13
SHINGLE_TOKENS = 5
NEAR_JACCARD = 0.75
N_BANDS, BAND_ROWS = 16, 4
CHUNK_BYTES = 1 << 18
MIN_AGREEMENT = 0.5  # of the 64 minima: 4.6 standard deviations below 0.75; pairs below it are not compared
MAX_BUCKET = 8  # candidates in a bucket, so that a thousand equal documents do not make a million pairs
MAX_COMPARED = 8  # candidates of one document that are compared, in descending order of agreement
MAX_SHINGLED_BYTES = 1 << 22  # for longer documents, a sample of about 2**20 shingles is compared

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]
_Integer = TypeVar("_Integer", np.uint64, np.int64)


def constants(n: int, seed: int) -> Keys:
    """(n,) odd numbers from splitmix64 (Steele et al. 2014)."""
    found = np.empty(n, np.uint64)
    for i in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        found[i] = z ^ z >> 31 | 1
    return found


_MIX, _STEP, *_JOIN = constants(8, seed=6)
_ROWS = constants(2 * N_BANDS * BAND_ROWS, seed=7).astype(np.uint32).reshape(2, -1)  # factors are odd
_BAND = constants(BAND_ROWS, seed=8)


def _powers(base: int, n: int) -> Keys:
    """(n,): base**0 .. base**(n-1) modulo 2**64."""
    return np.concatenate([[np.uint64(1)], np.full(n - 1, base, np.uint64)]).cumprod(dtype=np.uint64)


_POWERS = _powers(int(_STEP), CHUNK_BYTES)
_INVERSES = _powers(pow(int(_STEP), -1, 2**64), CHUNK_BYTES)

_LOW_HALF = np.uint64(2**32 - 1)
_WORD = np.zeros(256, np.bool_)
_WORD[[*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), *range(0x80, 0x100)]] = True
_SINGLE = ~_WORD
_SINGLE[[*range(9, 14), 32]] = False
_VALUES = constants(256, seed=9)
_VALUES[0x41:0x5B] = _VALUES[0x61:0x7B]


def mixed(keys: Keys) -> Keys:
    """A one-to-one mapping of keys that mixes all bits, so that any part of the bits can represent a key."""
    keys = (keys ^ keys >> np.uint64(32)) * _MIX
    keys ^= keys >> np.uint64(29)
    return keys


def distinct(keys: NDArray[_Integer]) -> NDArray[_Integer]:
    """The distinct keys of (m,), ascending. np.unique would hash 64-bit integers: slower, and quadratic for chosen integers."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=~keys[:1]) != 0]


class Layout(NamedTuple):
    """The start and the end of each document in a stream; both (D,) int64, ascending."""

    offsets: Indices
    ends: Indices

    @classmethod
    def of(cls, documents: Sequence[Document], n_bytes: int) -> Self:
        """The layout of `documents` in a stream of n_bytes. Raises CorpusError if they overlap or are outside the stream."""
        offsets = np.array([d.offset for d in documents], np.int64)
        ends = offsets + np.array([d.n_bytes for d in documents], np.int64)
        wrong = (offsets < np.concatenate([[0], ends[:-1]])) | (ends < offsets) | (ends > n_bytes)
        if len(documents) and wrong.any():
            at = int(wrong.argmax())
            raise CorpusError(
                f"document {documents[at].name!r} ({offsets[at]} to {ends[at]}) overlaps another or is outside the corpus "
                f"of {n_bytes} bytes; list documents in the order of the stream"
            )
        return cls(offsets, ends)

    def inside(self, start: int, end: int, margin: int = 0) -> NDArray[np.bool_]:
        """(end - start,) bool: whether one document contains the byte and the `margin` bytes after it."""
        first, last = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.offsets, end, "left")
        begin = self.offsets[first:last].clip(start) - start
        stop = (self.ends[first:last] - margin).clip(start, end) - start
        steps = np.zeros(end - start + 1, np.int8)
        some = begin < stop
        steps[begin[some]] = 1
        steps[stop[some]] -= 1  # if the next document starts here, the two steps cancel
        return steps[:-1].cumsum(dtype=np.int8).view(np.bool_)


def token_chunks(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[Keys, Indices]]:
    """The tokens of a stream in chunks: hashes (12 + m,), and the number of each token's document (12 + m,).

    The first 12 tokens repeat the last 12 of the previous chunk, so that every n-gram of up to 13 tokens ends in one chunk. In
    the first chunk, they belong to document -1. The memory does not depend on the length of the stream.
    """
    keys, owners = np.zeros(GRAM_TOKENS - 1, np.uint64), np.full(GRAM_TOKENS - 1, -1, np.int64)
    start = 0
    while start < len(stream):
        new, begins, end = _tokens(stream, layout, start)
        new_owners = np.searchsorted(layout.offsets, begins, "right") - 1
        keys = np.concatenate([keys[1 - GRAM_TOKENS :], new])
        owners = np.concatenate([owners[1 - GRAM_TOKENS :], new_owners])
        yield keys, owners
        start = end


def _tokens(stream: NDArray[np.uint8], layout: Layout, start: int) -> tuple[Keys, Indices, int]:
    """Hashes and offsets of the tokens in a chunk that starts at `start`, and the start of the next chunk.

    If the last token reaches the chunk's end, it may continue. Then the next chunk starts with it, unless it fills this chunk.
    """
    data = stream[start : start + CHUNK_BYTES]
    inside = layout.inside(start, start + len(data))
    word, single = _WORD[data] & inside, _SINGLE[data] & inside
    goes_on = np.zeros(len(data) + 1, np.bool_)
    goes_on[1:-1] = word[1:] & word[:-1]
    first, last = np.searchsorted(layout.offsets, [start, start + len(data)])
    goes_on[layout.offsets[first:last] - start] = False
    used = word | single
    begins = np.flatnonzero(used & ~goes_on[:-1])
    ends = np.flatnonzero(used & ~goes_on[1:]) + 1
    end = start + len(data)
    if len(begins) and ends[-1] == len(data) and begins[-1] > 0 and end < len(stream):
        end = start + int(begins[-1])
        begins, ends = begins[:-1], ends[:-1]
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_VALUES[data] * _POWERS[: len(data)], out=sums[1:])
    return mixed((sums[ends] - sums[begins]) * _INVERSES[begins]), begins + start, end


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
