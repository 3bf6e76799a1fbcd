"""The past of the mixer: a summary of all bytes before the next one, as an array of a few integers. This file names its entries.

`advance` updates it after each byte. The contexts (contexts.py) and the choice of weights (sets.py) are made of it. Older bytes
are read from `ring`, which holds the last bytes (a power of two of them). `indirect` and `successors` hold what followed the last
occurrences of some contexts: their entries keep the last four bytes, or the last word. `fields` holds positions after some.

Names: a word is a sequence of letters, in lower case; a gap is what stands between two words. c1 is the last byte, c2 the one
before it. A group is a byte in which all letters, or all digits, count as equal.
"""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import HASH_MASK, hashed
from prequential.model.mixer import past as at

# The entries of `past`, int64:
(
    POSITION,  # of the next byte in the stream
    LAST4,  # the last 4 bytes, the newest in the lowest bits
    LAST8,  # the 4 bytes before those
    LAST12,  # the 4 bytes before those
    LAST16,  # the 4 bytes before those
    N_BITS,  # bits that the mixer has learned from
    # words
    WORD,  # hash of the letters of the current word; 0 outside a word
    WORD2,  # the same of the word before it, and so on
    WORD3,
    WORD4,
    LENGTH,  # letters of the current word, at most 15
    LENGTH2,  # letters of the word before it, at most 7
    GAP,  # hash of the current gap; 0 inside a word
    GAP2,  # hash of the gap before
    MARK,  # the first byte after the last complete word
    MARK2,  # the first byte after the word before that
    ENDING,  # the last three letters of the current word
    SUFFIX,  # the last three letters of the word before, and so on
    SUFFIX2,
    SUFFIX3,
    VOWELS,  # 4 bits for each letter of the current word: vowel, consonant or other; or the groups of the current gap
    INITIALS,  # the first letters of the last four words
    LETTERS,  # the last letters without what stands between words, 6 bits each
    UPPER,  # capital letters of the current word: bit 0 the first one, bit 1 a later one
    PHRASE,  # hash of the letters since the last space
    PHRASE2,  # hash of those before
    # sentences and paragraphs
    SENTENCE,  # the first word of the sentence
    SENTENCE_WORDS,  # words of the sentence so far
    PARAGRAPH,  # the first word of the paragraph
    KEYWORD,  # the last word before ":" or "="
    # lines
    LINE,  # position of the first byte of the current line
    LINE_ABOVE,  # the same of the line above
    LINE_ABOVE2,  # the same of the line above that
    FIRST,  # the first byte of the line that is not blank; 0 before it is known
    FIRST_WORD,  # the first word of the line
    INDENT,  # blanks at the beginning of the line
    LINE_HASH,  # hash of the line so far
    ABOVE_RUN,  # how many of the last bytes equal the bytes above them
    # records of binary data
    CONTROLS,  # control characters since the last piece of text, at most N_CONTROLS
    PRINTED,  # how many printable characters came last, at most N_PRINTED
    RECORD,  # the length of a record in bytes; 0 before one was found
    RECORD_SINCE,  # the position at which it was found
    CANDIDATE,  # a length that bytes suggest
    VOTES,  # how many did, less those that suggested another one since
    IN_RECORDS,  # 1 if the last byte belongs to a record, else 0
    BINARY_UNTIL,  # position up to which bytes have the code words of binary data (sets.py)
    # structure
    NEST,  # open brackets, 8 bits each, the innermost in the lowest bits
    OPENED,  # the last bracket or quotation mark that is still open
    INSIDE,  # hash of what follows the last open bracket
    TAG,  # the word before the last ">", "]" or "}"
    TAGS,  # open tags <...>, 8 bits each
    TAG_NAME,  # hash of the name of the tag that is being read; 0 outside one
    # fields
    IDENTIFIER,  # hash of the current identifier: letters, digits and _; 0 outside one
    IDENTIFIER2,  # the same of the identifier before
    KEY,  # the identifier before the last ":" or "="
    VALUE,  # hash of the line since then
    TEMPLATE,  # hash of the line so far, in which all numbers are equal
    TEMPLATE2,  # the same of the line above
    TEMPLATE3,  # and of the line above that
    NUMBER,  # hash of the digits of the current number; 0 outside one
    FIELD,  # separators of fields in the line so far, at most 255
    DEPTH,  # open brackets, < N_OWNERS
    # Positions: what followed there followed the last time, too. After each, whether a byte has differed since (`follow_field`).
    BY_TEMPLATE,
    BY_TEMPLATE_DIFFERS,
    BY_WORDS,
    BY_WORDS_DIFFERS,
    BY_FIELD,
    BY_FIELD_DIFFERS,
    # other views of the last bytes
    CLASSES,  # the classes of the last six characters, 5 bits each
    FOLDED,  # the last 4 bytes in lower case
    GROUPS,  # the groups of the last 4 bytes
    COLLAPSED,  # the groups of the last bytes without repetitions: 4 of them
    COLLAPSED2,  # the 4 before those
    NIBBLES,  # the upper halves of the last 8 bytes
    # matches
    MATCH,  # position of the byte that the longest match predicts
    MATCH_LENGTH,  # of the longest match, in bytes; 0: there is none
    LONG_MATCH,  # the same for matches that were found by more bytes
    LONG_MATCH_LENGTH,
) = range(78)
# For each open bracket: hash of the identifier before it, of which the lowest 3 bits count the commas in the bracket.
OWNERS, N_OWNERS = 78, 32
PAST_SIZE = OWNERS + N_OWNERS

# The entries of `indirect`.
(
    AFTER_1,  # by the last byte: the last four bytes that followed it
    SEEN_AT,  # by a byte: the position of its last occurrence
    APART,  # by a byte: the distance of its last two occurrences
    AFTER_2,  # by the last two bytes: the last four bytes that followed them
) = range(0, 1024, 256)
INDIRECT_SIZE = 768 + 65536
# The tables of `successors`, by a hash.
(
    AFTER_3,  # of the last three bytes: the last four bytes that followed them
    AFTER_4,  # of the last four bytes
    AFTER_WORD,  # of the current word or gap
    NEXT_WORD,  # of a word: the word that followed it
    NEXT_WORD2,  # of two words: the word that followed them
) = range(5)
N_SUCCESSORS, SUCCESSOR_BITS = 5, 20
# The tables of `fields`, by a hash: positions after the last occurrence of a template, of words, of a number of fields in a line.
AT_TEMPLATE, AT_WORDS, AT_FIELD = range(3)
N_FIELDS = 3


@inlined
def byte_at(ring: Array, position: int) -> Any:
    return np.int64(ring[position & (ring.size - 1)])


@inlined
def byte_above(past: Array, ring: Array) -> Any:
    """The byte above the next one, one line up; 0 if that line is shorter."""
    position = past[LINE_ABOVE] + past[POSITION] - past[LINE]
    return byte_at(ring, position) if position < past[LINE] else 0


@inlined
def byte_above2(past: Array, ring: Array) -> Any:
    """The byte above the next one, two lines up; 0 if that line is shorter."""
    position = past[LINE_ABOVE2] + past[POSITION] - past[LINE]
    return byte_at(ring, position) if position < past[LINE_ABOVE] else 0


@inlined
def shifted(bits: Any, n: int, new: Any) -> Any:
    """32 bits after n new ones were appended."""
    return ((bits << n) | new) & HASH_MASK


@inlined
def place_after(tables: Array, h: Any) -> Any:
    """The entry of each table of `successors` or of `fields` for a hash."""
    return h & (tables.shape[1] - 1)


@inlined
def successor(tables: Array, table: int, h: Any) -> Any:
    """What followed the last occurrence of what has this hash."""
    return np.int64(tables[table, place_after(tables, h)])


@inlined
def word_or_gap(past: Array) -> Any:
    return past[WORD] if past[WORD] != 0 else past[GAP]


# ---- matches


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
