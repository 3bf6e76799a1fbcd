"""Tokens of a stream of documents in UTF-8, as 64-bit hashes, in one compiled pass.

    token     a word: a maximal run of letters and digits of scripts that are written with spaces (Latin, Cyrillic, Arabic,
              Devanagari, Hangul, ...); or one other character that is not white space: punctuation, a symbol, or a letter of a
              script without spaces (Han, kana, Thai, Khmer, ...). Marks belong to the token directly before them; elsewhere
              they begin a word. characters.py has the kinds of all characters. Line wrapping has no influence
    case      Latin, Greek, Cyrillic and Armenian capitals count as small letters.
    no UTF-8  a byte that is not part of valid UTF-8 counts as a letter of its own, so it joins words. A character that is cut by
              the end of its document is not valid
    length    a token of more than 2**18 bytes is cut: each part is the longest of at most 2**18 bytes

Text is not normalised further: a letter with an accent as one code point or as two gives different tokens.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential_corpora.corpus import Document
from prequential_corpora.overlap.characters import character_table
from prequential_corpora.overlap.token_kernels import CHUNK_BYTES, tokenise

GRAM_TOKENS = 13

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]


def constants(n: int, seed: int) -> Keys:
    """(n,) odd numbers from splitmix64 (Steele et al. 2014)."""
    found = np.empty(n, np.uint64)
    for i in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        found[i] = z ^ z >> 31 | 1
    return found


MIX = constants(1, seed=6)[0]
_VALUES = constants(256, seed=9)[:128]  # of the characters below 128


def mixed(keys: Keys) -> Keys:
    """A one-to-one mapping of keys that mixes all bits, so that any part of the bits can represent a key."""
    keys = (keys ^ keys >> np.uint64(32)) * MIX
    keys ^= keys >> np.uint64(29)
    return keys


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
    stream = stream.view()
    stream.flags.writeable = False  # with a single type, the kernel is compiled once
    table, polynomial, state = character_table(), np.zeros(2, np.uint64), np.zeros(3, np.int64)
    n_before = GRAM_TOKENS - 1
    keys, owners = np.zeros(n_before, np.uint64), np.full(n_before, -1, np.int64)
    new, new_owners = np.empty(CHUNK_BYTES + 1, np.uint64), np.empty(CHUNK_BYTES + 1, np.int64)
    start = 0
    while start < len(stream):
        stop = min(start + CHUNK_BYTES, len(stream))
        start, n = tokenise(stream, *layout, start, stop, table, _VALUES, polynomial, state, new, new_owners)
        keys = np.concatenate([keys[-n_before:], mixed(new[:n])])
        owners = np.concatenate([owners[-n_before:], new_owners[:n]])
        yield keys, owners
