"""The weight sets of the mixer: which row of weights each of them uses for the next bit.

A set has one row of weights for each value of a small context, its selector. All sets get the same inputs; the last weights
combine their results, and are selected in the same way. To add a set, append its name to WEIGHT_SETS in model/config.py, its
size to SET_SIZES, and a line to `select_rows`.

`known` counts the contexts, of three kinds, that have been seen before; `votes` are the bits that runs and recent followers
expect.
"""

from typing import Any

import numpy as np

from prequential.compiled import Array, inlined, merged
from prequential.model.config import WEIGHT_SETS
from prequential.model.hashing import hashed
from prequential.model.mixer.histories import HISTORY_GROUP
from prequential.model.mixer.nodes import expected_bit
from prequential.model.mixer.past import (
    AFTER_2,
    AFTER_3,
    AFTER_4,
    CLASS,
    FIRST,
    LAST4,
    LENGTH,
    LINE,
    MATCH,
    MATCH_LENGTH,
    NEST,
    POSITION,
    SUFFIX,
    TAGS,
    VOWELS,
    WORD,
    byte_above,
    byte_at,
    place_after,
)

N_CLASSES, MAX_KNOWN = 16, 15
SET_SIZES = (
    1, 256, 256 * 8, 16 * 4 * 8, 256 * 8, 16 * 16 * 8, 256 * 4, 256, 16 * 8 * 8, 257 * 4, 32 * 8 * 8, 729 * 8, 4096, 256 * 16,
    2048, 8 * 8 * 8, 256 * 8, 64 * 8 * 4, 16 * 16 * 8, 256 * 8, 16 * 8 * 4, 81 * 8, 2048, 2048, 257 * 8,
)  # fmt: skip
N_SETS = len(SET_SIZES)
assert len(WEIGHT_SETS) == N_SETS
# What selects the last weights: the same selectors.
LAST_SETS = np.array([WEIGHT_SETS.index(name) for name in ("bits", "1", "match,known", "classes3", "history2,length")])
LAST_SIZES = tuple(SET_SIZES[i] for i in LAST_SETS)
N_LAST = len(LAST_SIZES)
LAST_STARTS = np.cumsum((0, *LAST_SIZES))[:-1].astype(np.int64)
# The scratch values that are constant for a byte: see `describe_byte` and `describe_gpt`. GPT_BYTE changes with each bit.
(
    EXPECTED_BYTE, MATCH_STEP, MATCH_CLASS, KNOWN_BYTES, KNOWN_WORDS, KNOWN_LINES, ABOVE, COLUMN, WORD_HASH,
    AFTER2, AFTER3, AFTER4, LIKELIEST, SECOND, GPT_CONFIDENCE, GPT_BYTE,
) = range(16)  # fmt: skip
N_FACTS = 16
NO_BYTE = 256
GPT_TOTAL_BITS = 24  # the frequencies of the GPT have this total


def kinds_of_contexts(n: int) -> Array:
    """(n,) int64: what each of the first n of CONTEXTS counts as: 0 bytes, 1 words, 2 lines and structure, 3 none of these."""
    kinds = np.full(n, 3, np.int64)
    kinds[1:8] = 0
    kinds[[8, 9, 10, 11, 12, 13, *range(24, 34)]] = 1
    kinds[[17, 18, 19, 43, 44, 45, *range(58, 63), *range(95, 106)]] = 2
    return kinds


@merged
def describe_byte(past: Array, ring: Array, indirect: Array, runs: Array, groups: Array, facts: Array) -> None:
    """facts (N_FACTS,) int64: what the selectors need and what is constant for a byte. groups: of the contexts, see above."""
    last4, length = past[LAST4], past[MATCH_LENGTH]
    facts[EXPECTED_BYTE] = byte_at(ring, past[MATCH]) if length > 0 else 256
    steps = min(length, 31) if length < 32 else min(63, 32 + ((length - 32) >> 3))
    facts[MATCH_STEP] = steps
    facts[MATCH_CLASS] = 0 if length == 0 else 1 if length < 16 else 2 if length < 32 else 3
    facts[KNOWN_BYTES] = facts[KNOWN_WORDS] = facts[KNOWN_LINES] = 0
    for c in range(runs.size):
        if runs[c] != 0 and groups[c] < 3:
            facts[KNOWN_BYTES + groups[c]] += 1
    facts[ABOVE] = byte_above(past, ring)
    facts[COLUMN] = min(past[POSITION] - past[LINE], 31)
    facts[WORD_HASH] = hashed(past[WORD], last4 & 255)
    facts[AFTER2] = indirect[AFTER_2 + (last4 & 0xFFFF)] & 255
    facts[AFTER3] = indirect[place_after(AFTER_3, hashed(last4 & 0xFFFFFF, 5))] & 255
    facts[AFTER4] = indirect[place_after(AFTER_4, hashed(last4, 7))] & 255


@inlined
def describe_gpt(frequencies: Array, i: int, facts: Array) -> None:
    """The two bytes that the GPT expects most at byte i, and how likely the first is. frequencies (n, 256); n = 0: no GPT."""
    facts[LIKELIEST] = facts[SECOND] = NO_BYTE
    most: Any = np.int64(-1)
    next_most: Any = np.int64(-1)
    for byte in range(256 if frequencies.shape[0] else 0):
        frequency = np.int64(frequencies[i, byte])
        if frequency > most:
            facts[SECOND], next_most = facts[LIKELIEST], most
            facts[LIKELIEST], most = byte, frequency
        elif frequency > next_most:
            facts[SECOND], next_most = byte, frequency
    eighths = max(most, 0) >> (GPT_TOTAL_BITS - 3)
    facts[GPT_CONFIDENCE] = 0 if eighths < 2 else 1 if eighths < 4 else 2 if eighths < 7 else 3


@inlined
def likeliest_left(facts: Array, prefix: int, k: int) -> Any:
    """The first of the two bytes that the bits so far do not exclude; NO_BYTE if they exclude both, or without a GPT."""
    for fact in (LIKELIEST, SECOND):
        if facts[fact] != NO_BYTE and expected_bit(facts[fact], prefix, k) >= 0:
            return facts[fact]
    return np.int64(NO_BYTE)


@merged
def select_rows(
    prefix: int, k: int, gpt_step: int, past: Array, facts: Array, seen: Array, places: Array, every: Array
) -> None:
    """every[i] = the row of set i of WEIGHT_SETS, (N_SETS,) int64."""
    c1, c2, c3 = past[LAST4] & 255, past[LAST4] >> 8 & 255, past[LAST4] >> 16 & 255
    class1, class2, class3 = np.int64(CLASS[c1]), np.int64(CLASS[c2]), np.int64(CLASS[c3])
    known, words, lines = min(facts[KNOWN_BYTES], 7), min(facts[KNOWN_WORDS], 15), min(facts[KNOWN_LINES], 15)
    expects = expected_bit(facts[EXPECTED_BYTE], prefix, k) if facts[EXPECTED_BYTE] < 256 else -1
    match = facts[MATCH_CLASS] if expects >= 0 else 0
    expected = facts[EXPECTED_BYTE] if expects >= 0 else 256
    steps = 1 + min(facts[MATCH_STEP] >> 2, 14) if expects >= 0 else 0
    group = np.int64(HISTORY_GROUP[seen[2]]) if seen.size > 2 else 0
    every[0] = 0  # "none"
    every[1] = prefix  # "bits"
    every[2] = c1 * 8 + k  # "1"
    every[3] = (steps * 4 + (known >> 1)) * 8 + k  # "match,known"
    every[4] = prefix * 8 + known  # "bits,known"
    every[5] = (words * 16 + gpt_step) * 8 + k  # "words,gpt"
    every[6] = c2 * 4 + match  # "2,match"
    every[7] = c3  # "3"
    every[8] = (words * 8 + known) * 8 + k  # "words,known"
    every[9] = expected * 4 + match  # "expected"
    every[10] = (facts[COLUMN] * 8 + (facts[ABOVE] >> 5)) * 8 + k  # "column,above"
    every[11] = run_votes(places) * 8 + k  # "runs"
    every[12] = class1 << 8 | class2 << 4 | class3  # "classes3"
    every[13] = prefix << 4 | class1  # "bits,class"
    every[14] = hashed(facts[WORD_HASH], k) & 2047  # "word"
    every[15] = run_counts(places) * 8 + k  # "run counts"
    every[16] = (past[VOWELS] & 0xFF) * 8 + k  # "vowels"
    every[17] = (group * 8 + min(past[LENGTH], 7)) * 4 + match  # "history2,length"
    every[18] = (np.int64(CLASS[past[NEST] & 255]) * 16 + class1) * 8 + k  # "nest"
    every[19] = past[FIRST] * 8 + k  # "first"
    every[20] = (lines * 8 + k) * 4 + match  # "lines,match"
    every[21] = follower_votes(facts, prefix, k) * 8 + k  # "followers"
    every[22] = (hashed(past[SUFFIX] & 0xFFFF, min(past[LENGTH], 3)) * 8 + k) & 2047  # "suffix"
    every[23] = hashed(past[TAGS] & 0xFFFF, prefix) & 2047  # "tags"
    every[24] = facts[GPT_BYTE] * 8 + k  # "gpt"


@inlined
def run_votes(places: Array) -> Any:
    """What the runs of the second to seventh context expect: nothing, zero or one each. Below 3**6."""
    votes = 0
    for c in range(1, 7):
        place = places[c] if c < places.size else -1
        votes = votes * 3 + (0 if place < 0 else 1 + (place & 1))
    return votes


@inlined
def run_counts(places: Array) -> Any:
    """How many runs expect a one and a zero, in eighths of half of the contexts. Below 64."""
    ones = zeros = 0
    for c in range(places.size):
        if places[c] >= 16:  # the last byte was seen here
            ones += places[c] & 1
            zeros += 1 - (places[c] & 1)
    return min(ones * 16 // places.size, 7) * 8 + min(zeros * 16 // places.size, 7)


@inlined
def follower_votes(facts: Array, prefix: int, k: int) -> Any:
    """What the last followers of 2, 3 and 4 bytes and the byte above expect. Below 81."""
    votes = 0
    for fact in (AFTER2, AFTER3, AFTER4, ABOVE):
        votes = votes * 3 + expected_bit(facts[fact], prefix, k) + 1
    return votes
