"""The contexts of binary data, which take the places of contexts of words; and which contexts there are in each kind of input."""

from collections.abc import Sequence

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.config import CONTEXTS
from prequential.model.hashing import hashed
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.entries import byte_at
from prequential.model.mixer.past.records import BINARY, MAX_RECORD, RECORDS

# Contexts of records of binary data. They have no name in a configuration, and follow those of CONTEXTS in `every`.
RECORD_CONTEXTS = (
    "n,nw,ne,w", "n,nn,w", "n,nw,ne,nn,w,ww", "n,nn,nnn", "gradient,n", "n,nw,w,ww", "line,w", "n,nn,ne,nw", "column,w",
    "line", "n", "gradient", "parabola,w", "mean,w", "n,nn,nnn,nnnn", "n,nn,w by column", "n,w,ww by column",
    "upper n,nn,nnn,w",
)  # fmt: skip
# In other binary data: which of the last eight bytes make a context, after the last complete pair of bytes at an even position.
# Code and tables of many processors consist of such pairs. Each context also has the first byte of a pair that is not complete.
PAIR_MASKS = np.array([
    (0xFFFF, 0), (0xFFFF0000, 0), (0, 0xFFFF), (0xFFFFFFFF, 0), (0xFFFF, 0xFFFF), (0xFFFF0000, 0xFFFF), (0xFFFFFFFF, 0xFFFF),
    (0, 0xFFFF0000), (0xFFFFFFFF, 0xFFFFFFFF), (0xF0F0F0F0, 0), (0, 0xFFFFFFFF), (0xFF00FF00, 0xFF00),
    (0xFFFF0000, 0xFFFF0000), (0xFFFF0000, 0xFFFFFFFF), (0xFF00, 0), (0xFFFFFF00, 0), (0, 0xFF00FF00), (0xFF0000, 0xFF),
    (0xFF000000, 0xFFFF),
])  # fmt: skip
N_CONTEXTS = len(CONTEXTS)
FIRST_PAIR = N_CONTEXTS + len(RECORD_CONTEXTS)
N_HASHES = FIRST_PAIR + len(PAIR_MASKS)

# In binary data, and in records of binary data, these take the places of contexts of words, in this order.
OF_WORDS = (
    "word", "word2", "keyword,gap", "word,gaps", "vowels,length", "word3", "nest,word", "first,word", "letters5",
    "word,word3-4", "word,marks", "word,word3", "word,2", "word2,gap2", "phrase", "tags,word", "nextword", "word,suffix",
    "indent,word", "afterword,1", "vowels6,1", "firstword,word", "keyword,word,1", "sentence,word", "case,word", "3,word2",
    "word4", "opened,word", "place,word", "paragraph,word", "tag,word", "word,word4", "nextword2",
)  # fmt: skip
OF_BINARY = (
    "skip3-4", "skip4-6", "skip3-5", "skip2", "1", "nibbles4", "skip1,4", "nibbles7", "after1,2", "match,1", "after1,3",
)  # fmt: skip
SHORT_RECORD = 16  # bytes: the column is part of the context


def kinds_by_input(names: Sequence[str]) -> Array:
    """(3, C) int64: the indices of contexts of these names in text, in binary data, and in records of binary data."""
    by_input = np.tile([CONTEXTS.index(name) for name in names], (3, 1))
    places = [names.index(name) for name in OF_WORDS if name in names]
    binary = [CONTEXTS.index(name) for name in OF_BINARY if name not in names]
    for kind, own in ((BINARY, range(FIRST_PAIR, N_HASHES)), (RECORDS, range(N_CONTEXTS, FIRST_PAIR))):
        new = [*own, *binary][: len(places)]
        by_input[kind, places[: len(new)]] = new
    return by_input


@inlined
def pair_contexts(past: Array, h: Array) -> None:
    """PAIR_MASKS."""
    last4, last8 = past[at.LAST4], past[at.LAST8]
    first = 0
    if past[at.POSITION] & 1:
        first = last4 & 255 | 256
        last4, last8 = last4 >> 8 | (last8 & 255) << 24, last8 >> 8 | (past[at.LAST12] & 255) << 24
    for i in range(PAIR_MASKS.shape[0]):
        h[FIRST_PAIR + i] = hashed(hashed(first, last4 & PAIR_MASKS[i, 0]), last8 & PAIR_MASKS[i, 1])


@inlined
def record_contexts(past: Array, ring: Array, h: Array) -> None:
    """RECORD_CONTEXTS.

    w and ww are the last two bytes. The others have the names of directions in a picture whose rows are the records: n is the
    byte above the next one, nn the one above that, nw and ne are left and right of n.
    """
    position, record = past[at.POSITION], past[at.RECORD]
    w, ww, column = past[at.LAST4] & 255, past[at.LAST4] >> 8 & 255, min(position - past[at.LINE], MAX_RECORD)
    n, nn = byte_at(ring, position - record), byte_at(ring, position - 2 * record)
    nw, ne = byte_at(ring, position - record - 1), byte_at(ring, position - record + 1)
    in_short = column << 8 if record <= SHORT_RECORD else np.int64(0)
    around = hashed(n | nw << 8 | ne << 16, w)
    h[N_CONTEXTS] = around
    h[N_CONTEXTS + 1] = hashed(n | nn << 8, w)
    h[N_CONTEXTS + 2] = hashed(around, nn | ww << 8)
    h[N_CONTEXTS + 3] = hashed(n | nn << 8, byte_at(ring, position - 3 * record))
    h[N_CONTEXTS + 4] = hashed((n + w - nw) & 511, n | in_short)
    h[N_CONTEXTS + 5] = hashed(n | nw << 8, w | ww << 8)
    h[N_CONTEXTS + 6] = hashed((2 * n - nn) & 511, w | in_short)
    h[N_CONTEXTS + 7] = hashed(n | nn << 8 | ne << 16, nw)
    h[N_CONTEXTS + 8] = hashed(column, w)
    nnn, nnnn = byte_at(ring, position - 3 * record), byte_at(ring, position - 4 * record)
    h[N_CONTEXTS + 9] = hashed((2 * n - nn) & 511, in_short)
    h[N_CONTEXTS + 10] = n
    h[N_CONTEXTS + 11] = hashed((n + w - nw) & 511, column & 31)
    h[N_CONTEXTS + 12] = hashed((3 * (n - nn) + nnn) & 1023, w | in_short)
    h[N_CONTEXTS + 13] = hashed((n + nn) >> 1, w | in_short)
    h[N_CONTEXTS + 14] = hashed(n | nn << 8 | nnn << 16, nnnn | in_short)
    h[N_CONTEXTS + 15] = hashed(n | nn << 8, w | in_short)
    h[N_CONTEXTS + 16] = hashed(n | w << 8, ww | in_short)
    h[N_CONTEXTS + 17] = hashed((n & 0xF0) << 8 | (nn & 0xF0) << 4 | nnn & 0xF0, w | in_short)
