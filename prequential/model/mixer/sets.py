"""The weight sets of the mixer: which row of weights each of them uses for the next bit.

A set has one row of weights for each value of a small context, its selector. The last weights are selected in the same way. To
add a set, append its name to WEIGHT_SETS in model/config.py, its size to SET_SIZES, and a line to `select_rows`.

`known` counts the contexts, of bytes and of words, that have been seen before; `states` says what five contexts know.

A node remembers what followed a context and the first bits of a code word. So in text, letters that follow similar contexts begin
alike, and the space stands beside the ends of lines (dev/LOG.md, 2026-11-26). In binary data a byte is its own code word.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined, span
from prequential.model.config import WEIGHT_SETS
from prequential.model.hashing import hashed
from prequential.model.mixer import past as at
from prequential.model.mixer.lookup import NONE, Places
from prequential.model.mixer.nodes import HISTORY_GROUP, ONE_BIT, expected_bit
from prequential.model.mixer.past import byte_above, byte_at
from prequential.model.mixer.past_advance import CLASS

AS_TEXT, AS_NUMBERS = 0, 1
# In text, the bytes of the code words from 0x00, 0x20, 0x40 and 0x60; those from 0x80 on are their own bytes.
TEXT = (
    bytes(range(10)) + b" \n" + bytes(range(0x0C, 0x20)),
    b"<\"*+&'.,\x0b!$%)#:-0123456789(;/=>?",
    b"JZSNDGPBRLFQKTCMEH^_YWVUX]@[\\IAO",
    b"jzsndgpbrlfqktcmeh~\x7fywvux}`{|iao",
)
# (2, 256) int64, by AS_TEXT or AS_NUMBERS: the byte of each code word, and the code word of each byte.
BYTE = np.array([[*b"".join(TEXT), *range(128, 256)], range(256)])
CODE_WORD = np.argsort(BYTE, axis=1)

SET_SIZES = (
    256, 256 * 8, 16 * 4 * 8, 256 * 8, 16 * 16 * 8, 256 * 4, 256, 16 * 8 * 8, 257 * 4, 32 * 8 * 8, 4096, 256 * 16, 2048,
    256 * 8, 64 * 8 * 4, 16 * 16 * 8, 2048, 2048, 257 * 8, 4**5,
)  # fmt: skip
N_SETS = len(SET_SIZES)
assert len(WEIGHT_SETS) == N_SETS
# What selects the last weights: the same selectors.
LAST_SETS = np.array(
    [WEIGHT_SETS.index(name) for name in ("bits", "1", "match,known", "classes3", "history2,length", "states")]
)
LAST_SIZES: tuple[int, ...] = tuple(SET_SIZES[i] for i in LAST_SETS)
N_LAST = len(LAST_SIZES)
LAST_STARTS = np.cumsum((0, *LAST_SIZES))[:-1].astype(np.int64)
# The scratch values that are constant for a byte: see `describe_byte` and `describe_gpt`. GPT_BYTE changes with each bit.
(
    EXPECTED_BYTE, LONG_EXPECTED, MATCH_STEP, MATCH_CLASS, KNOWN_BYTES, KNOWN_WORDS, ABOVE, COLUMN, WORD_HASH, LIKELIEST, SECOND,
    GPT_CONFIDENCE, GPT_BYTE, CODE,
) = range(14)  # fmt: skip
N_FACTS = 14
# The contexts whose histories select weights: the first that a mixer has, in "history2,length", and all but "2" in "states".
STATE_CONTEXTS = ("2", "3", "4", "6", "word", "word2")
NO_BYTE = 256
GPT_TOTAL_BITS = 24  # the frequencies of the GPT have this total


# Contexts that count as known bytes, and as known words:
OF_BYTES = ("1", "2", "3", "4", "5", "6", "8")
OF_WORDS = (
    "word", "word,1", "word2", "word,word3", "word3", "word,2", "word,gap", "word,gap2,1", "gap,word2,1", "gaps,words",
    "word2,gap2", "word,word4", "word,word3-4", "letters5", "keyword,gap", "keyword,word,1",
)  # fmt: skip


def groups_of_contexts(names: Sequence[str]) -> Array:
    """(C,) int64: what each context counts as: 0 bytes, 1 words, 2 neither."""
    return np.array([0 if name in OF_BYTES else 1 if name in OF_WORDS else 2 for name in names], np.int64)


@inlined
def code_of(past: Array) -> Any:
    """By which code the next byte is coded."""
    return np.int64(AS_NUMBERS if past[at.POSITION] < past[at.BINARY_UNTIL] else AS_TEXT)


@inlined
def count_known(places: Places, groups: Array, counts: Array) -> None:
    """counts[0], counts[1] = how many of these contexts, of bytes and of words, have been seen. groups: `groups_of_contexts`."""
    counts[0] = counts[1] = 0
    for c in span(places.first, places.stop):
        if places.runs[c] != 0 and groups[c] < 2:
            counts[groups[c]] += 1


@inlined
def describe_byte(past: Array, ring: Array, facts: Array) -> None:
    """facts (N_FACTS,) int64: what the selectors need and what is constant for a byte, but for what is known."""
    last4, length = past[at.LAST4], past[at.MATCH_LENGTH]
    facts[EXPECTED_BYTE] = CODE_WORD[facts[CODE], byte_at(ring, past[at.MATCH])] if length > 0 else 256
    facts[LONG_EXPECTED] = CODE_WORD[facts[CODE], byte_at(ring, past[at.LONG_MATCH])]
    steps = min(length, 31) if length < 32 else min(63, 32 + ((length - 32) >> 3))
    facts[MATCH_STEP] = steps
    facts[MATCH_CLASS] = 0 if length == 0 else 1 if length < 16 else 2 if length < 32 else 3
    facts[ABOVE] = byte_above(past, ring)
    facts[COLUMN] = min(past[at.POSITION] - past[at.LINE], 31)
    facts[WORD_HASH] = hashed(past[at.WORD], last4 & 255)
    if facts[CODE] == AS_NUMBERS:
        facts[WORD_HASH] = hashed(last4 & 0xFFFF, past[at.POSITION] & 3)


@inlined
def describe_gpt(frequencies: Array, i: int, facts: Array) -> None:
    """The two bytes that the GPT expects most at byte i, and how likely the first is. frequencies (n, 256); n = 0: no GPT."""
    facts[LIKELIEST] = facts[SECOND] = NO_BYTE
    most: Any = np.int64(-1)
    next_most: Any = np.int64(-1)
    for word in range(256 if frequencies.shape[0] else 0):
        frequency = np.int64(frequencies[i, BYTE[facts[CODE], word]])
        if frequency > most:
            facts[SECOND], next_most = facts[LIKELIEST], most
            facts[LIKELIEST], most = word, frequency
        elif frequency > next_most:
            facts[SECOND], next_most = word, frequency
    eighths = max(most, 0) >> (GPT_TOTAL_BITS - 3)
    facts[GPT_CONFIDENCE] = 0 if eighths < 2 else 1 if eighths < 4 else 2 if eighths < 7 else 3


@inlined
def likeliest_left(facts: Array, prefix: int, k: int) -> Any:
    """The first of the two bytes that the bits so far do not exclude; NO_BYTE if they exclude both, or without a GPT."""
    for fact in (LIKELIEST, SECOND):
        if facts[fact] != NO_BYTE and expected_bit(facts[fact], prefix, k) >= 0:
            return facts[fact]
    return np.int64(NO_BYTE)


@inlined
def select_rows(
    prefix: int, k: int, gpt_step: int, past: Array, facts: Array, state_contexts: Array, seen: Array, buckets: Array,
    every: Array,
) -> None:  # fmt: skip
    """every[i] = the row of set i of WEIGHT_SETS, (N_SETS,) int64."""
    c1, c2, c3 = past[at.LAST4] & 255, past[at.LAST4] >> 8 & 255, past[at.LAST4] >> 16 & 255
    class1, class2, class3 = np.int64(CLASS[c1]), np.int64(CLASS[c2]), np.int64(CLASS[c3])
    known, words = min(facts[KNOWN_BYTES], 7), min(facts[KNOWN_WORDS], 15)
    expects = expected_bit(facts[EXPECTED_BYTE], prefix, k) if facts[EXPECTED_BYTE] < 256 else -1
    match = facts[MATCH_CLASS] if expects >= 0 else 0
    expected = facts[EXPECTED_BYTE] if expects >= 0 else 256
    steps = 1 + min(facts[MATCH_STEP] >> 2, 14) if expects >= 0 else 0
    group = np.int64(HISTORY_GROUP[seen[0]])
    every[0] = prefix  # "bits"
    every[1] = c1 * 8 + k  # "1"
    every[2] = (steps * 4 + (known >> 1)) * 8 + k  # "match,known"
    every[3] = prefix * 8 + known  # "bits,known"
    every[4] = (words * 16 + gpt_step) * 8 + k  # "words,gpt"
    every[5] = c2 * 4 + match  # "2,match"
    every[6] = c3  # "3"
    every[7] = (words * 8 + known) * 8 + k  # "words,known"
    every[8] = expected * 4 + match  # "expected"
    every[9] = (facts[COLUMN] * 8 + (facts[ABOVE] >> 5)) * 8 + k  # "column,above"
    every[10] = class1 << 8 | class2 << 4 | class3  # "classes3"
    every[11] = prefix << 4 | class1  # "bits,class"
    every[12] = hashed(facts[WORD_HASH], k) & 2047  # "word"
    every[13] = (past[at.VOWELS] & 0xFF) * 8 + k  # "vowels"
    every[14] = (group * 8 + min(past[at.LENGTH], 7)) * 4 + match  # "history2,length"
    every[15] = (np.int64(CLASS[past[at.NEST] & 255]) * 16 + class1) * 8 + k  # "nest"
    every[16] = (hashed(past[at.SUFFIX] & 0xFFFF, min(past[at.LENGTH], 3)) * 8 + k) & 2047  # "suffix"
    every[17] = hashed(past[at.TAGS] & 0xFFFF, prefix) & 2047  # "tags"
    every[18] = facts[GPT_BYTE] * 8 + k  # "gpt"
    every[19] = states(state_contexts, seen, buckets)  # "states"
    if facts[CODE] == AS_NUMBERS:
        select_rows_of_numbers(prefix, k, past, every)


@inlined
def select_rows_of_numbers(prefix: int, k: int, past: Array, every: Array) -> None:
    """Other rows in binary data, of the sets that are made of classes, words and structure: of upper halves, places and pairs."""
    last4, position = past[at.LAST4], past[at.POSITION]
    c1, c2, c3 = last4 & 255, last4 >> 8 & 255, last4 >> 16 & 255
    odd = position & 1
    pair, first = (last4 >> 8 & 0xFFFF, c1 | 256) if odd else (last4 & 0xFFFF, 0)
    every[10] = c1 >> 4 << 8 | c2 >> 4 << 4 | c3 >> 4  # "classes3"
    every[11] = prefix << 4 | c1 >> 4  # "bits,class"
    every[13] = prefix * 8 + (position & 7)  # "vowels"
    every[15] = (c2 >> 4) << 7 | (c1 >> 5) << 4 | odd << 3 | k  # "nest"
    every[16] = (hashed(pair, odd) * 8 + k) & 2047  # "suffix"
    every[17] = (hashed(pair >> 8, first) * 8 + k) & 2047  # "tags"


@inlined
def states(which: Array, seen: Array, buckets: Array) -> Any:
    """What each of these contexts knows here: nothing, one byte, one bit, or both bits. Below 4**5."""
    number = 0
    for c in which[1:]:
        history = seen[c] if c >= 0 else 0
        if history == 0:
            state = 0
        elif buckets[c] == NONE:
            state = 1
        else:
            state = 2 if ONE_BIT[history] else 3
        number = number * 4 + state
    return number
