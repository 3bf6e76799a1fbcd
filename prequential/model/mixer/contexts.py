"""The contexts of the mixer: a summary of the bytes before the next one, a hash for each context, and the longest match.

The summary, `past`, is an array of a few integers. `advance` updates it after each byte, and `context_hashes` makes the hashes
of all contexts from it. Older bytes are read from `ring`, which holds the last bytes (a power of two of them). As in mixing.py,
all numbers are integers.

To add a context:

1. Append its name to CONTEXTS in model/config.py.
2. Append one line `all_hashes[i] = ...` to `context_hashes`, where i is the index of the name, and increase N_CONTEXTS. If the
   context needs more than `past` holds, give `past` a new entry and update it in `advance`.
3. Describe the context in the docstring of mixer.py, and give it an example in SAMPLES of tests/model/test_mixing.py.

Existing contexts keep their index. It is part of the hash, so another index would change the bits of existing archives.
"""

from typing import Any

import numpy as np

from prequential.compiled import Array, inlined
from prequential.model.config import CONTEXTS
from prequential.model.hashing import HASH_MASK, hashed, is_letter

N_CONTEXTS = len(CONTEXTS)  # `context_hashes` has a line for each, in this order

# The entries of `past`, int64:
(
    POSITION,  # of the next byte in the stream
    LAST4,  # the last 4 bytes, the newest in the lowest bits
    LAST8,  # the 4 bytes before those
    WORD,  # hash of the letters of the current word, in lower case; 0 outside a word
    WORD2,  # the same of the word before it
    WORD3,  # the same of the word before that
    CLASSES,  # the classes of the last characters, 5 bits each
    LINE,  # position of the first byte of the current line
    LINE_ABOVE,  # position of the first byte of the line above
    FIRST,  # the first byte of the current line; 0 before it is known
    MARK,  # the first byte after the last complete word
    MARK2,  # the first byte after the word before that
    MATCH,  # position of the byte that the longest match predicts
    MATCH_LENGTH,  # of the longest match, in bytes; 0: there is none
    N_BITS,  # bits that the mixer has learned from
) = range(15)
PAST_SIZE = 15

MIN_MATCH = 6  # bytes of a match when it is found
MAX_VERIFIED = 32  # bytes that are compared when a match is found
MAX_MATCH_LENGTH = 65535


@inlined
def context_hashes(past: Array, ring: Array, kinds: Array, all_hashes: Array, hashes: Array) -> None:
    """hashes[i] = the hash of context kinds[i], an index in CONTEXTS. all_hashes: scratch memory, (N_CONTEXTS,) int64."""
    last4, last8 = past[LAST4], past[LAST8]
    c1 = last4 & 255
    word, word2, word3 = past[WORD], past[WORD2], past[WORD3]
    in_word = is_letter(c1)
    mark = 0 if in_word else c1
    column = past[POSITION] - past[LINE]
    above: Any = 0
    if past[LINE_ABOVE] + column < past[LINE]:
        above = np.int64(ring[(past[LINE_ABOVE] + column) & (ring.size - 1)])
    expected: Any = 256
    if past[MATCH_LENGTH] > 0:
        expected = np.int64(ring[past[MATCH] & (ring.size - 1)])
    # The hash of each context, with its name:
    all_hashes[0] = 0  # "0"
    all_hashes[1] = c1  # "1"
    all_hashes[2] = last4 & 0xFFFF  # "2"
    all_hashes[3] = last4 & 0xFFFFFF  # "3"
    all_hashes[4] = last4  # "4"
    all_hashes[5] = hashed(last4, last8 & 0xFF)  # "5"
    all_hashes[6] = hashed(last4, last8 & 0xFFFF)  # "6"
    all_hashes[7] = hashed(last4, last8)  # "8"
    all_hashes[8] = word  # "word"
    all_hashes[9] = hashed(word, mark)  # "word,1"
    all_hashes[10] = hashed(word, word2)  # "word2"
    all_hashes[11] = hashed(word, word3)  # "word,word3"
    all_hashes[12] = hashed(word, hashed(word2, word3))  # "word3"
    all_hashes[13] = hashed(word, hashed(last4 >> 8 & 0xFF, 77) if in_word else last4 & 0xFFFF)  # "word,2"
    all_hashes[14] = last4 & 0xFFFF00  # "skip2-3"
    all_hashes[15] = last4 & 0xFF00FF  # "skip1,3"
    all_hashes[16] = last4 & 0xFFFF0000  # "skip3-4"
    all_hashes[17] = hashed(above, c1)  # "above"
    all_hashes[18] = hashed(min(column, 255), above)  # "line,above"
    all_hashes[19] = hashed(past[FIRST], word)  # "first,word"
    all_hashes[20] = hashed(past[CLASSES], c1)  # "classes"
    all_hashes[21] = hashed(expected, min(past[MATCH_LENGTH], 32))  # "match"
    all_hashes[22] = hashed(hashed(word, past[MARK]), past[MARK2])  # "word,marks"
    for i in range(kinds.size):
        hashes[i] = hashed(all_hashes[kinds[i]], kinds[i] + 1)


@inlined
def find_match(past: Array, ring: Array, matches: Array, learns: bool = True) -> None:
    """Looks for an earlier occurrence of the last MIN_MATCH bytes if no match continues.

    matches: the position after the newest occurrence of MIN_MATCH bytes, by their hash; with `learns`, this one is recorded.
    """
    position, mask = past[POSITION], ring.size - 1
    slot = hashed(past[LAST4], past[LAST8] & 0xFFFF) & (matches.size - 1)
    candidate = matches[slot]
    if learns:
        matches[slot] = position
    if past[MATCH_LENGTH] > 0 or candidate == 0 or position - candidate >= ring.size - MAX_VERIFIED:
        return
    length = 0
    while (
        length < MAX_VERIFIED and length < candidate
        and ring[(candidate - 1 - length) & mask] == ring[(position - 1 - length) & mask]
    ):  # fmt: skip
        length += 1
    if length >= MIN_MATCH:
        past[MATCH], past[MATCH_LENGTH] = candidate, length


@inlined
def advance(past: Array, ring: Array, byte: int) -> None:
    """Updates `past` and `ring` after one more byte."""
    position, mask = past[POSITION], ring.size - 1
    if past[MATCH_LENGTH] > 0:
        if np.int64(ring[past[MATCH] & mask]) == byte:
            past[MATCH_LENGTH] = min(past[MATCH_LENGTH] + 1, MAX_MATCH_LENGTH)
            past[MATCH] += 1
        else:
            past[MATCH_LENGTH] = 0
    ring[position & mask] = np.uint8(byte)
    position += 1
    past[POSITION] = position
    past[LAST8] = ((past[LAST8] << 8) | (past[LAST4] >> 24)) & HASH_MASK
    past[LAST4] = ((past[LAST4] << 8) | byte) & HASH_MASK
    if is_letter(byte):
        past[WORD] = hashed(past[WORD], byte + 32 if 65 <= byte <= 90 else byte)
        kind = 0
    else:
        if past[WORD] != 0:
            past[MARK2], past[MARK] = past[MARK], byte
            past[WORD3], past[WORD2], past[WORD] = past[WORD2], past[WORD], 0
        kind = 1 if 48 <= byte <= 57 else 2 if byte == 32 else 3 if byte == 10 else 4 + (byte & 15)
    past[CLASSES] = ((past[CLASSES] << 5) | kind) & HASH_MASK
    if byte == 10:
        past[LINE_ABOVE], past[LINE], past[FIRST] = past[LINE], position, 0
    elif past[FIRST] == 0:
        past[FIRST] = byte
