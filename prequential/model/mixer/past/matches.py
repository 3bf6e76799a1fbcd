"""The past: matches, which are earlier occurrences of the last bytes."""

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import hashed
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.entries import byte_at

MIN_MATCH, MIN_LONG_MATCH = 5, 12  # bytes of a match when it is found
MAX_VERIFIED = 32  # bytes that are compared when a match is found
MAX_MATCH_LENGTH = 65535


@inlined
def find_matches(past: Array, ring: Array, matches: Array, learns: bool) -> None:
    """Looks for earlier occurrences of the last bytes where no match continues.

    matches: the position after the newest occurrence of MIN_MATCH bytes, by their hash, and in its second half that of
    MIN_LONG_MATCH bytes; with `learns`, this one is recorded. The long match replaces a shorter one.
    """
    half = matches.size // 2
    short = hashed(past[at.LAST4], past[at.LAST8] & 0xFF) & (half - 1)
    long = half + (hashed(hashed(past[at.LAST4], past[at.LAST8]), past[at.LAST12]) & (half - 1))
    find_match(past, ring, np.int64(matches[short]), at.MATCH, MIN_MATCH)
    find_match(past, ring, np.int64(matches[long]), at.LONG_MATCH, MIN_LONG_MATCH)
    if learns:
        matches[short] = matches[long] = past[at.POSITION]
    if past[at.LONG_MATCH_LENGTH] > past[at.MATCH_LENGTH]:
        past[at.MATCH], past[at.MATCH_LENGTH] = past[at.LONG_MATCH], past[at.LONG_MATCH_LENGTH]


@inlined
def find_match(past: Array, ring: Array, candidate: int, match: int, min_length: int) -> None:
    """Compares the bytes before the candidate with the last bytes, if this match does not continue."""
    position = past[at.POSITION]
    if past[match + 1] > 0 or candidate == 0 or position - candidate >= ring.size - MAX_VERIFIED:
        return
    length = 0
    while (
        length < MAX_VERIFIED
        and length < candidate
        and byte_at(ring, candidate - 1 - length) == byte_at(ring, position - 1 - length)
    ):
        length += 1
    if length >= min_length:
        past[match], past[match + 1] = candidate, length


@inlined
def follow_matches(past: Array, ring: Array, byte: int) -> None:
    for match in (at.MATCH, at.LONG_MATCH):
        if past[match + 1] > 0:
            if byte_at(ring, past[match]) == byte:
                past[match + 1] = min(past[match + 1] + 1, MAX_MATCH_LENGTH)
                past[match] += 1
            else:
                past[match + 1] = 0
