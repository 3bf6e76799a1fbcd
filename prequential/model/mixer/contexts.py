"""The contexts of the mixer: a hash of 32 bits for each, made of the past (past.py).

To add a context:

1. Append its name to CONTEXTS in model/config.py.
2. Append one line `h[i] = ...` to the function of its kind below, where i is the index of the name. If the context needs more
   than `past` holds, give `past` a new entry and update it in past_advance.py.
3. Give it an example in SAMPLES of tests/model/test_mixing.py.

Existing contexts keep their index. It is part of the hash, so another index would change the bits of existing archives.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.config import CONTEXTS
from prequential.model.hashing import hashed, is_letter
from prequential.model.mixer import past as at
from prequential.model.mixer.past import byte_above, byte_above2, byte_at, successor, word_or_gap
from prequential.model.mixer.past_advance import BINARY, MAX_RECORD, RECORDS, input_kind

# The contexts that are made of `successors`, and of `fields`. A mixer without them keeps none.
OF_SUCCESSORS = ("after3,2", "after4,2", "afterword,2", "afterword,1", "nextword", "nextword2")
OF_FIELDS = ("template,next", "words,next", "field,next")


@inlined
def context_hashes(past: Array, ring: Array, indirect: Array, successors: Array, parts: Array, every: Array) -> None:
    """every[i] = what the i-th context depends on, for each of N_HASHES: of records only within records, of parts only if needed.

    parts: see `parts_of`.
    """
    byte_contexts(past, every)
    word_contexts(past, every)
    phrase_contexts(past, every)
    line_contexts(past, ring, every)
    match_contexts(past, ring, every)
    if parts[0]:
        structure_contexts(past, every)
    if parts[1]:
        indirect_contexts(past, indirect, successors, every)
    if parts[2]:
        field_contexts(past, ring, every)
    kind = input_kind(past)
    if kind == RECORDS:
        record_contexts(past, ring, every)
    elif kind == BINARY:
        pair_contexts(past, every)


@inlined
def hash_of(every: Array, kinds: Array, kind: int, code: int, c: int) -> Any:
    """The hash of the mixer's context c. Where bytes have other code words (sets.py), it has another hash.

    kinds (3, C): the indices of the contexts in text, in binary data, and in records of binary data, by `kinds_by_input`.
    """
    i = kinds[kind, c]
    return hashed(every[i], i + 1 + code * N_HASHES)


@inlined
def byte_contexts(past: Array, h: Array) -> None:
    """The last bytes, all or some of them, and other views of them."""
    last4, last8, last12 = past[at.LAST4], past[at.LAST8], past[at.LAST12]
    c1, groups, folded = last4 & 255, past[at.GROUPS], past[at.FOLDED]
    h[0] = 0  # "0"
    h[1] = c1  # "1"
    h[2] = last4 & 0xFFFF  # "2"
    h[3] = last4 & 0xFFFFFF  # "3"
    h[4] = last4  # "4"
    h[5] = hashed(last4, last8 & 0xFF)  # "5"
    h[6] = hashed(last4, last8 & 0xFFFF)  # "6"
    h[7] = hashed(last4, last8)  # "8"
    h[23] = hashed(h[7], last12 & 0xFFFFFF)  # "11"
    h[75] = hashed(h[7], hashed(last12, past[at.LAST16]))  # "16"
    h[14] = last4 & 0xFFFF00  # "skip2-3"
    h[15] = last4 & 0xFF00FF  # "skip1,3"
    h[16] = last4 & 0xFFFF0000  # "skip3-4"
    h[41] = last4 & 0xFF0000FF  # "skip1,4"
    h[42] = last4 & 0xFF00  # "skip2"
    h[76] = last8 & 0xFF | last4 & 0xFFFF0000  # "skip3-5"
    h[77] = hashed(last8 & 0xFFFF, last4 >> 24)  # "skip4-6"
    h[80] = hashed(last4 & 0xF0F0F0FF, last8 & 0xF0F0)  # "halves"
    h[66] = past[at.NIBBLES] & 0xFFFF  # "nibbles4"
    h[67] = past[at.NIBBLES] & 0xFFFFFFF  # "nibbles7"
    h[20] = hashed(past[at.CLASSES], c1)  # "classes"
    h[36] = groups  # "groups4"
    h[37] = hashed(groups, last4 & 0xFFFF)  # "groups4,2"
    h[38] = hashed(past[at.COLLAPSED], past[at.COLLAPSED2])  # "collapsed8"
    h[39] = hashed(past[at.COLLAPSED], last4 & 0xFFFF)  # "collapsed4,2"
    h[40] = hashed(past[at.COLLAPSED], past[at.COLLAPSED2] & 0xFFFF)  # "collapsed6"
    h[63] = folded  # "folded4"
    h[64] = hashed(folded, last8 & 0xDF)  # "folded5"


@inlined
def word_contexts(past: Array, h: Array) -> None:
    """The current word, and words before it."""
    last4 = past[at.LAST4]
    c1, lengths = last4 & 255, min(past[at.LENGTH], 7)
    word, word2, word3, word4 = past[at.WORD], past[at.WORD2], past[at.WORD3], past[at.WORD4]
    in_word = is_letter(c1)
    mark = 0 if in_word else c1
    h[8] = word  # "word"
    h[9] = hashed(word, mark)  # "word,1"
    h[10] = hashed(word, word2)  # "word2"
    h[11] = hashed(word, word3)  # "word,word3"
    h[12] = hashed(word, hashed(word2, word3))  # "word3"
    h[13] = hashed(word, hashed(last4 >> 8 & 255, 77) if in_word else last4 & 0xFFFF)  # "word,2"
    h[22] = hashed(hashed(word, past[at.MARK]), past[at.MARK2])  # "word,marks"
    h[29] = hashed(hashed(word, c1), word4)  # "word,word4"
    h[30] = hashed(hashed(word, c1), hashed(word3, word4))  # "word,word3-4"
    h[68] = hashed(word, hashed(hashed(word2, word3), word4))  # "word4"
    h[81] = hashed(last4 & 0xFFFF, hashed(word2, 5))  # "2,word2"
    h[82] = hashed(last4 & 0xFFFFFF, hashed(word2, 9))  # "3,word2"
    h[31] = past[at.LETTERS]  # "letters5"
    h[93] = past[at.LETTERS] & 0xFFFFFF  # "letters4"
    h[56] = hashed(past[at.VOWELS], lengths)  # "vowels,length"
    h[57] = hashed(past[at.VOWELS] & 0xFFFFFF, c1)  # "vowels6,1"
    h[70] = hashed(hashed(lengths, past[at.LENGTH2]), past[at.GROUPS] & 0xFFFF)  # "lengths,groups2"
    h[71] = hashed(hashed(past[at.UPPER], word), past[at.GROUPS] & 0xFF)  # "case,word"
    h[84] = hashed(word, past[at.SUFFIX])  # "word,suffix"
    h[85] = hashed(hashed(word, past[at.SUFFIX] & 0xFFFF), past[at.SUFFIX2] & 0xFFFF)  # "word,suffixes2"
    h[86] = hashed(h[85], past[at.SUFFIX3] & 0xFFFF)  # "word,suffixes3"
    h[88] = hashed(hashed(last4 & 0xFFFF, lengths), past[at.SUFFIX] & 0xFFFF)  # "2,length,suffix"
    h[89] = hashed(word, past[at.INITIALS] & 0xFFFFFF)  # "word,initials"


@inlined
def phrase_contexts(past: Array, h: Array) -> None:
    """What stands between words, and the parts of a text."""
    c1, lengths = past[at.LAST4] & 255, min(past[at.LENGTH], 7)
    word, word2, gap, gap2 = past[at.WORD], past[at.WORD2], past[at.GAP], past[at.GAP2]
    h[24] = hashed(word, gap)  # "word,gap"
    h[25] = hashed(hashed(c1, word), gap2)  # "word,gap2,1"
    h[26] = hashed(hashed(c1, gap), word2)  # "gap,word2,1"
    h[27] = hashed(hashed(gap, word2), hashed(gap2, past[at.WORD3]))  # "gaps,words"
    h[28] = hashed(hashed(word, word2), gap2)  # "word2,gap2"
    h[90] = hashed(hashed(word, gap), gap2)  # "word,gaps"
    h[91] = hashed(hashed(lengths, gap), hashed(gap2, past[at.LENGTH2]))  # "lengths,gaps"
    h[73] = hashed(past[at.PHRASE], past[at.PHRASE2])  # "phrase"
    h[32] = hashed(past[at.KEYWORD], gap)  # "keyword,gap"
    h[33] = hashed(hashed(past[at.KEYWORD], word), c1)  # "keyword,word,1"
    h[65] = hashed(past[at.SENTENCE], word)  # "sentence,word"
    h[94] = hashed(min(past[at.SENTENCE_WORDS], 12), word)  # "place,word"
    h[78] = hashed(past[at.PARAGRAPH], word)  # "paragraph,word"


@inlined
def line_contexts(past: Array, ring: Array, h: Array) -> None:
    c1, word = past[at.LAST4] & 255, past[at.WORD]
    column = past[at.POSITION] - past[at.LINE]
    near_column = min(column, 255)
    above, above2 = byte_above(past, ring), byte_above2(past, ring)
    h[17] = hashed(above, c1)  # "above"
    h[18] = hashed(near_column, above)  # "line,above"
    h[19] = hashed(past[at.FIRST], word)  # "first,word"
    h[34] = hashed(past[at.FIRST_WORD], word)  # "firstword,word"
    h[43] = hashed(hashed(above, above2), c1)  # "above2"
    h[44] = hashed(hashed(above, min(past[at.ABOVE_RUN], 31)), c1)  # "above,run"
    h[45] = hashed(near_column, c1)  # "line,1"
    h[83] = hashed(hashed(past[at.FIRST], near_column), past[at.GROUPS] & 0xFF)  # "first,line"
    h[95] = past[at.LINE_HASH]  # "whole line"
    h[96] = hashed(hashed(above, byte_at(ring, past[at.LINE_ABOVE] + column + 1)), c1)  # "above,next"
    h[97] = hashed(past[at.INDENT], word)  # "indent,word"
    h[98] = hashed(hashed(past[at.INDENT], above), c1)  # "indent,above"
    h[99] = hashed(hashed(past[at.LINE_HASH], 1), hashed(above, above2))  # "whole line,above2"


@inlined
def structure_contexts(past: Array, h: Array) -> None:
    c1, word, nest = past[at.LAST4] & 255, past[at.WORD], past[at.NEST]
    mark = 0 if is_letter(c1) else c1
    h[35] = hashed(past[at.OPENED], word)  # "opened,word"
    h[58] = nest  # "nest"
    h[59] = hashed(nest, c1)  # "nest,1"
    h[60] = hashed(nest, word)  # "nest,word"
    h[61] = hashed(past[at.TAG], word)  # "tag,word"
    h[62] = hashed(past[at.TAG], c1)  # "tag,1"
    h[100] = past[at.INSIDE]  # "inside"
    h[101] = hashed(hashed(past[at.INSIDE], 3), nest)  # "inside,nest"
    h[102] = hashed(hashed(past[at.TAGS], 5), hashed(word, mark))  # "tags,word"
    h[103] = hashed(hashed(past[at.TAGS], 7), past[at.LINE_HASH])  # "tags,line"


@inlined
def indirect_contexts(past: Array, indirect: Array, successors: Array, h: Array) -> None:
    """The bytes or words that followed earlier occurrences of the last ones."""
    last4, word, lengths = past[at.LAST4], past[at.WORD], min(past[at.LENGTH], 7)
    c1 = last4 & 255
    after1, after2 = indirect[at.AFTER_1 + c1], indirect[at.AFTER_2 + (last4 & 0xFFFF)]
    after3 = successor(successors, at.AFTER_3, hashed(last4 & 0xFFFFFF, 5))
    after4 = successor(successors, at.AFTER_4, hashed(last4, 7))
    after_word = successor(successors, at.AFTER_WORD, hashed(word_or_gap(past), 6))
    next_word = successor(successors, at.NEXT_WORD, past[at.WORD2])
    next_word2 = successor(successors, at.NEXT_WORD2, hashed(past[at.WORD2], past[at.WORD3]))
    h[46] = hashed(after1 & 0xFFFF, c1)  # "after1,2"
    h[47] = after1 & 0xFFFFFF  # "after1,3"
    h[48] = hashed(after2 & 0xFF, last4 & 0xFFFF)  # "after2,1"
    h[49] = hashed(after2 & 0xFFFF, c1)  # "after2,2"
    h[51] = hashed(after3 & 0xFFFF, c1)  # "after3,2"
    h[72] = hashed(after4 & 0xFFFF, c1)  # "after4,2"
    h[52] = hashed(hashed(after_word & 0xFFFF, lengths), 0)  # "afterword,2"
    h[53] = hashed(hashed(after_word & 0xFF, lengths), c1)  # "afterword,1"
    h[104] = hashed(next_word, hashed(word, c1))  # "nextword"
    h[105] = hashed(hashed(next_word2, 3), hashed(word, c1))  # "nextword2"


@inlined
def match_contexts(past: Array, ring: Array, h: Array) -> None:
    """The byte that the longest match predicts."""
    length, last4 = past[at.MATCH_LENGTH], past[at.LAST4]
    expected = byte_at(ring, past[at.MATCH]) if length > 0 else np.int64(256)
    steps = 0 if length == 0 else 1 if length < 8 else 2 if length < 16 else 3 if length < 32 else 4
    h[21] = hashed(expected, min(length, 32))  # "match"
    h[54] = hashed(hashed(expected, steps), last4 & 255)  # "match,1"
    h[55] = hashed(hashed(expected, steps), last4 & 0xFFFF)  # "match,2"
    h[74] = hashed(hashed(last4, past[at.LAST8]), past[at.LAST12])  # "12"


@inlined
def field_contexts(past: Array, ring: Array, h: Array) -> None:
    """Templates of lines, fields, identifiers, keys, and brackets with what stands before them."""
    c1, identifier, template = past[at.LAST4] & 255, past[at.IDENTIFIER], past[at.TEMPLATE]
    within = hashed(identifier, 0 if identifier != 0 else c1)
    owner, outer = past[at.OWNERS + past[at.DEPTH]], past[at.OWNERS + max(past[at.DEPTH] - 1, 0)]
    h[50] = hashed(expected_next(past, ring, at.BY_WORDS), 1)  # "words,next"
    h[69] = hashed(owner, within)  # "owner,identifier"
    h[79] = expected_next(past, ring, at.BY_TEMPLATE)  # "template,next"
    h[87] = hashed(expected_next(past, ring, at.BY_FIELD), 2)  # "field,next"
    h[92] = hashed(hashed(owner, outer), c1)  # "owner2,1"
    h[106] = within  # "identifier"
    h[107] = hashed(within, past[at.IDENTIFIER2])  # "identifier2"
    h[108] = hashed(template, past[at.NUMBER])  # "template,number"
    h[109] = hashed(past[at.TEMPLATE2], past[at.LINE_HASH])  # "template2,line"
    h[110] = hashed(hashed(past[at.TEMPLATE2], past[at.TEMPLATE3]), template)  # "template3"
    h[111] = hashed(hashed(past[at.KEY], owner), past[at.VALUE])  # "key,value"
    h[112] = hashed(hashed(owner, 3), past[at.LINE_HASH])  # "owner,line"


@inlined
def expected_next(past: Array, ring: Array, by: int) -> Any:
    """What `follow_field` knows of the next byte: the byte that it expects, the one after it, and whether a byte has differed."""
    return hashed(byte_at(ring, past[by]) | past[by + 1] << 8, byte_at(ring, past[by] + 1))


def parts_of(kinds: Array) -> Array:
    """(3,) bool: whether contexts of these kinds need `structure_contexts`, `indirect_contexts` and `field_contexts`."""
    past, ring, indirect = np.zeros(at.PAST_SIZE, np.int64), np.zeros(1, np.uint8), np.zeros(at.INDIRECT_SIZE, np.int64)
    successors = np.zeros((at.N_SUCCESSORS, 1), np.uint32)
    needed = []
    for make, arguments in (
        (structure_contexts, (past,)), (indirect_contexts, (past, indirect, successors)), (field_contexts, (past, ring))
    ):  # fmt: skip
        made = np.full(N_HASHES, -1)
        getattr(make, "py_func", make)(*arguments, made)
        needed.append(bool((made[kinds] >= 0).any()))
    return np.array(needed)


# ---- contexts of binary data


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
