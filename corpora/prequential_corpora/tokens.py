"""Tokens of documents in UTF-8 and their 13-grams, as 64-bit hashes. docs/DATA.md defines tokens.

Hashes are not verified, and anybody can construct equal ones, because no key is secret.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from prequential.errors import CorpusError
from prequential_corpora.corpus import Document

# Characters that are a token of their own: of scripts without spaces between words, and signs.
ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # Thai, Khmer
    "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\uff61-\uff9f\U00016fe0-\U00018d7f\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"  # Han
    "\u2010-\u2bff\U0001f000-\U0001faff"  # punctuation, symbols, pictures; then those of alphabets
    "\x80-\xa9\xab\xac\xae-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u055a-\u055f\u0589\u060c\u061b\u061f\u06d4\u0964\u0965"
)
ASCII_SIGNS = r"\x00-/:-@\[-`{-\x7f"
TOKEN = re.compile(rf"[^\s{ASCII_SIGNS}{ALONE}]+|\S")  # a word, or one character

GRAM_TOKENS = 13
CHUNK_BYTES = 1 << 18

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_JOIN = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0x72419DB23951DF99], np.uint64)


def mixed(keys: Keys) -> Keys:
    """A one-to-one mapping of keys that mixes all bits, so that any part of the bits can represent a key."""
    keys = (keys ^ keys >> np.uint64(32)) * _MIX
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


def gram_chunks(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[Keys, Indices]]:
    """The n-grams of 13 tokens of one document each, in chunks: hashes (m,), none of them 0, and documents (m,), ascending."""
    keys, owners = list[int](), list[int]()
    for document, tokens in _tokens(stream, layout):
        keys += (xxh3_64_intdigest(token.encode("utf-8", "surrogateescape")) for token in tokens)
        owners += [document] * len(tokens)
        if len(keys) > CHUNK_BYTES:
            yield _grams(np.array(keys, np.uint64), np.array(owners))
            del keys[: 1 - GRAM_TOKENS], owners[: 1 - GRAM_TOKENS]
    yield _grams(np.array(keys, np.uint64), np.array(owners, np.int64))


def _grams(keys: Keys, owners: Indices) -> tuple[Keys, Indices]:
    """Joins hashes of 2, 4 and 8 tokens; the last two overlap."""
    n_before = GRAM_TOKENS - 1
    whole = owners[:-n_before] == owners[n_before:]
    for step, factor in zip((1, 2, 4, GRAM_TOKENS - 8), _JOIN, strict=True):
        keys = keys[:-step] * factor + keys[step:]
    return np.maximum(mixed(keys), np.uint64(1))[whole], owners[n_before:][whole]


def _tokens(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The number of a document and some of its tokens, in their order. A word of more than CHUNK_BYTES may be cut."""
    for document, (start, end) in enumerate(zip(layout.offsets.tolist(), layout.ends.tolist(), strict=True)):
        decoder, rest = getincrementaldecoder("utf-8")("surrogateescape"), ""
        for at in range(start, end, CHUNK_BYTES):
            stop = min(at + CHUNK_BYTES, end)
            text = rest + decoder.decode(stream[at:stop].tobytes(), final=stop == end).casefold()
            found, rest = TOKEN.findall(text), ""
            if stop < end and found and text.endswith(found[-1]) and len(found[-1]) < CHUNK_BYTES:
                rest = found.pop()  # the next chunk may continue it
            yield document, found
