"""Tokens of a stream of documents in UTF-8 and their 13-grams, as 64-bit hashes, in one compiled pass.

docs/DATA.md defines tokens, and characters.py the kinds of characters. Besides: a mark that follows no token begins a word. A
character that is cut by the end of its document is not valid. A token of more than 2**18 bytes is cut: each part is the longest
of at most 2**18 bytes. A letter with an accent as one code point or as two gives different tokens.

Hashes are not verified, and anybody can construct equal ones, because no key is secret. All arithmetic is on integers and the
same on every machine.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential.machine.compiled import inlined, kernel
from prequential_corpora.corpus import Document
from prequential_corpora.overlap.characters import KIND_SHIFT, MARK, N_CODE_POINTS, SPACE, WORD, character_table

GRAM_TOKENS = 13
CHUNK_BYTES = 1 << 18

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


_FORM = np.uint32((1 << KIND_SHIFT) - 1)
_STEP = np.uint64(0x72419DB23951DF99)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NONE = SPACE  # the kind of a token that has not begun
_JOIN = constants(8, seed=6)[2:6]
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


def gram_chunks(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[Keys, Indices]]:
    """The n-grams of 13 tokens of one document each, in chunks: hashes (m,), none of them 0, and documents (m,), ascending."""
    n_before = GRAM_TOKENS - 1
    for keys, owners in token_chunks(stream, layout):
        whole = (owners[:-n_before] == owners[n_before:]) & (owners[n_before:] >= 0)
        yield _joined(keys)[whole], owners[n_before:][whole]


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
        start, n = _tokenise(stream, *layout, start, stop, table, _VALUES, polynomial, state, new, new_owners)
        keys = np.concatenate([keys[-n_before:], mixed(new[:n])])
        owners = np.concatenate([owners[-n_before:], new_owners[:n]])
        yield keys, owners


def _joined(keys: Keys) -> Keys:
    """(m - 12,): a hash, not 0, of the 13 tokens from each on. Joins hashes of 2, 4 and 8 tokens; the last two overlap."""
    for step, factor in zip((1, 2, 4, GRAM_TOKENS - 8), _JOIN, strict=True):
        keys = keys[:-step] * factor + keys[step:]
    return np.maximum(mixed(keys), np.uint64(1))


@inlined
def _read(stream, at, end):  # type: ignore[no-untyped-def]
    """The code point at `at`, and its number of bytes. `end`: the end of the document.

    Valid are the forms of RFC 3629: the shortest ones, up to U+10FFFF, without surrogates. Another byte is 0x110000 + byte, 1.
    """
    first = np.int64(stream[at])
    if first < 0x80:
        return first, 1
    n, lowest, code = 0, 0, np.int64(0)
    if 0xC2 <= first < 0xE0:
        n, lowest, code = 2, 0x80, first & 0x1F
    elif 0xE0 <= first < 0xF0:
        n, lowest, code = 3, 0x800, first & 0x0F
    elif 0xF0 <= first < 0xF5:
        n, lowest, code = 4, 0x10000, first & 0x07
    valid = n > 0 and at + n <= end
    if valid:
        for i in range(1, n):
            byte = np.int64(stream[at + i])
            valid &= byte & 0xC0 == 0x80
            code = code << 6 | byte & 0x3F
    if valid and lowest <= code < N_CODE_POINTS and not 0xD800 <= code < 0xE000:
        return code, n
    return N_CODE_POINTS + first, 1


@inlined
def _value(code, values):  # type: ignore[no-untyped-def]
    """The number that stands for a character in the polynomial of a token: from a table, or by the mixer of splitmix64."""
    if code < 128:
        return values[code]
    z = np.uint64(code) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(30)) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(27)) * _SECOND_FACTOR
    return z ^ z >> np.uint64(31)


@kernel
def _tokenise(  # type: ignore[no-untyped-def]
    stream, offsets, ends, at, stop, table, values, polynomial, state, keys, owners
):
    """Fills keys and owners with the tokens that end in `stream` from `at` to `stop`; returns where to go on, and their number.

    The last character may reach beyond `stop`. table, values: of characters.py, and _VALUES. One call leaves the token that may
    continue for the next call: polynomial (2,) uint64, its hash so far and the next power; state (3,) int64, its bytes, its kind
    and the number of its document. Both are zeros at first.
    """
    key, power = polynomial[0], polynomial[1]
    n_bytes, kind, document = state[0], state[1], state[2]
    n = 0
    while document < len(ends):
        end = ends[document]
        at = max(at, offsets[document])
        while at < min(end, stop):
            code, width = _read(stream, at, end)
            here, form = np.int64(table[code] >> np.uint32(KIND_SHIFT)), table[code] & _FORM
            goes_on = kind != _NONE and (here == MARK or (here == WORD and kind == WORD))
            if not goes_on or n_bytes + width > CHUNK_BYTES:
                if kind != _NONE:
                    keys[n], owners[n], n = key, document, n + 1
                key, power, n_bytes = np.uint64(0), np.uint64(1), 0
                kind = WORD if here == MARK else here
            key += _value(form, values) * power
            power *= _STEP
            n_bytes += width
            at += width
        if at < end:
            break
        if kind != _NONE:
            keys[n], owners[n], n = key, document, n + 1
            kind = _NONE
        document += 1
    polynomial[0], polynomial[1] = key, power
    state[0], state[1], state[2] = n_bytes, kind, document
    return max(at, stop), n
