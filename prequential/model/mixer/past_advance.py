"""The past, updated after each byte."""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined, sharing_kernel
from prequential.model.hashing import HASH_MASK, hashed, is_letter
from prequential.model.mixer import past as at
from prequential.model.mixer.past import (
    byte_above,
    byte_at,
    follow_matches,
    place_after,
    shifted,
    successor,
    word_or_gap,
)

MAX_RECORD = 4096  # bytes
MIN_VOTES, MAX_VOTES = 16, 255
STEADY = 8192  # bytes after which a record counts as a good description of the data
N_PRINTED = 16  # printable characters in sequence are text
N_CONTROLS = 512  # control characters without text are binary data
BINARY, RECORDS = 1, 2  # kinds of input; 0: text
# After as many control characters, one that is not 0 (zeros fill up texts, as in a tar) lets bytes have the code words of binary
# data, for as many bytes more: texts within binary data are short.
FEW_CONTROLS, STAYS_BINARY = 32, 4096


@inlined
def advance_record(past: Array, indirect: Array, byte: int, learns: bool) -> None:
    """Whether the data are binary, and the length of their records."""
    past[at.PRINTED] = min(past[at.PRINTED] + 1, N_PRINTED) if BLANK <= byte < 127 else 0
    if past[at.PRINTED] == N_PRINTED:
        past[at.CONTROLS] = 0
    elif byte < BLANK and not 9 <= byte <= 13:
        past[at.CONTROLS] = min(past[at.CONTROLS] + 1, N_CONTROLS)
        if byte != 0 and past[at.CONTROLS] >= FEW_CONTROLS:
            past[at.BINARY_UNTIL] = past[at.POSITION] + STAYS_BINARY
    if learns:
        find_record(past, indirect, byte)
    past[at.IN_RECORDS] = 1 if past[at.RECORD] > 0 and past[at.CONTROLS] == N_CONTROLS else 0


@inlined
def find_record(past: Array, indirect: Array, byte: int) -> None:
    """A byte that came three times at equal distances votes for this distance, as in the record model of paq8 (Mahoney 2007)."""
    position = past[at.POSITION] & HASH_MASK
    apart = (position - indirect[at.SEEN_AT + byte]) & HASH_MASK
    if apart == indirect[at.APART + byte] and 1 < apart <= MAX_RECORD:
        if apart == past[at.CANDIDATE]:
            past[at.VOTES] = min(past[at.VOTES] + 1, MAX_VOTES)
            if past[at.VOTES] >= MIN_VOTES and past[at.RECORD] != apart:
                past[at.RECORD], past[at.RECORD_SINCE] = apart, past[at.POSITION]
        elif past[at.VOTES] > 0:
            past[at.VOTES] -= 1
        else:
            past[at.CANDIDATE] = apart
    indirect[at.SEEN_AT + byte], indirect[at.APART + byte] = position, apart


@inlined
def input_kind(past: Array) -> Any:
    """The kind of input that contexts are chosen by: BINARY, RECORDS if their length has not changed for a while, or 0."""
    if past[at.POSITION] >= past[at.BINARY_UNTIL]:
        return 0
    return RECORDS if past[at.IN_RECORDS] == 1 and past[at.POSITION] - past[at.RECORD_SINCE] >= STEADY else BINARY


@inlined
def advance_line_of_record(past: Array, byte: int) -> None:
    """A record counts as a line. Newlines are bytes like any other."""
    past[at.LINE_HASH] = hashed(past[at.LINE_HASH], byte)
    if past[at.POSITION] - past[at.LINE] >= past[at.RECORD]:
        past[at.LINE] = past[at.POSITION]
        past[at.FIRST] = past[at.FIRST_WORD] = past[at.LINE_HASH] = past[at.INDENT] = 0
    elif past[at.FIRST] == 0:
        past[at.FIRST] = byte
    past[at.LINE_ABOVE] = max(past[at.LINE] - past[at.RECORD], 0)
    past[at.LINE_ABOVE2] = max(past[at.LINE] - 2 * past[at.RECORD], 0)


MOST_COMMAS = 7


@inlined
def separates(byte: int) -> bool:
    """Whether the byte stands between two fields of a line."""
    return byte == 44 or byte == 59 or byte == 9 or byte == 124  # , ; tabulator |


@inlined
def advance_fields(past: Array, byte: int) -> None:
    """Identifiers, keys with their values, templates and fields."""
    is_digit = CLASS[byte] == DIGIT
    if is_digit or is_letter(byte) or byte == 95:
        past[at.IDENTIFIER] = hashed(past[at.IDENTIFIER], byte)
    elif past[at.IDENTIFIER] != 0:
        past[at.IDENTIFIER2], past[at.IDENTIFIER] = past[at.IDENTIFIER], 0
    if byte == NEWLINE:
        past[at.TEMPLATE3], past[at.TEMPLATE2], past[at.TEMPLATE] = past[at.TEMPLATE2], past[at.TEMPLATE], 0
        past[at.FIELD] = past[at.VALUE] = past[at.NUMBER] = 0
        return
    if not is_digit or past[at.NUMBER] == 0:
        past[at.TEMPLATE] = hashed(past[at.TEMPLATE], 48 if is_digit else byte)
    past[at.NUMBER] = hashed(past[at.NUMBER], byte) if is_digit else 0
    past[at.VALUE] = hashed(past[at.VALUE], byte)
    if byte == 58 or byte == 61:  # : or =
        past[at.KEY], past[at.VALUE] = past[at.IDENTIFIER2], 0
    elif separates(byte):
        past[at.FIELD] = min(past[at.FIELD] + 1, 255)


@inlined
def advance_owners(past: Array, byte: int) -> None:
    """What stands before each open bracket, and at which of its arguments the text is."""
    owner = at.OWNERS + past[at.DEPTH]
    if byte == 40 or byte == 91 or byte == 123:
        past[at.DEPTH] = min(past[at.DEPTH] + 1, at.N_OWNERS - 1)
        past[at.OWNERS + past[at.DEPTH]] = hashed(past[at.IDENTIFIER2], byte) & ~MOST_COMMAS
    elif byte == 41 or byte == 93 or byte == 125:
        past[at.DEPTH] = max(past[at.DEPTH] - 1, 0)
    elif byte == 44 and past[owner] & MOST_COMMAS < MOST_COMMAS:
        past[owner] += 1


@inlined
def follow_fields(past: Array, ring: Array, fields: Array, byte: int, learns: bool) -> None:
    """Positions after equal templates, words and fields. Digits only move them on, so numbers are compared digit by digit."""
    is_number = CLASS[byte] == DIGIT
    words = hashed(hashed(past[at.WORD2], past[at.WORD3]), hashed(past[at.WORD], past[at.COLLAPSED] & 0xFFFF))
    within = byte != NEWLINE and not separates(byte)
    follow_field(past, ring, fields, at.AT_TEMPLATE, hashed(past[at.TEMPLATE], 5), byte, is_number, learns)
    follow_field(past, ring, fields, at.AT_WORDS, words, byte, is_number, learns)
    follow_field(past, ring, fields, at.AT_FIELD, past[at.FIELD], byte, within, learns)


@inlined
def follow_field(
    past: Array, ring: Array, fields: Array, table: int, h: Any, byte: int, within: bool, learns: bool
) -> None:
    """The position of a table moves on within a field. Else it becomes that after the last occurrence of the hash h.

    After it: 0 while all bytes since are equal; then 1 if the first other one was larger by one, 2 larger by more, 3 smaller.
    """
    by = at.BY_TEMPLATE + 2 * table
    if within:
        expected = byte_at(ring, past[by])
        past[by] += 1
        if past[by + 1] == 0 and expected != byte:
            past[by + 1] = 1 if byte == expected + 1 else 2 if byte > expected else 3
    else:
        past[by], past[by + 1] = successor(fields, table, h), 0
        if learns:
            fields[table, place_after(fields, h)] = past[at.POSITION] & HASH_MASK


BLANK, NEWLINE = 32, 10
# Classes of bytes:
(
    CONTROL, LOWER, CAPITAL, DIGIT, SPACE, LINE_END, LEADING, TRAILING, STOP, COMMA, QUOTE, OPENING, CLOSING, OPERATOR, OTHER,
) = range(15)  # fmt: skip


def _classes() -> Array:
    found = np.full(256, OTHER, np.uint8)
    for name, members in (
        (CONTROL, bytes(range(32))),
        (LOWER, b"abcdefghijklmnopqrstuvwxyz"),
        (CAPITAL, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        (DIGIT, b"0123456789"),
        (SPACE, b" "),
        (LINE_END, b"\n"),
        (LEADING, bytes(range(192, 256))),
        (TRAILING, bytes(range(128, 192))),
        (STOP, b".!?"),
        (COMMA, b",;:"),
        (QUOTE, b"\"'"),
        (OPENING, b"([{<"),
        (CLOSING, b")]}>"),
        (OPERATOR, b"=|*/\\"),
    ):
        found[list(members)] = name
    return found


CLASS = _classes()
GROUP = np.where(np.isin(CLASS, (LOWER, CAPITAL, DIGIT, LEADING, TRAILING)), CLASS, np.arange(256)).astype(np.uint8)
# Groups of which a sequence counts as one:
COLLAPSES = np.isin(np.arange(256), (LOWER, CAPITAL, DIGIT, LEADING, TRAILING))
VOWEL, CONSONANT, HALF_VOWEL = 1, 2, 3


@inlined
def advance_views(past: Array, byte: int) -> None:
    """The last bytes, and other views of them."""
    past[at.LAST16] = shifted(past[at.LAST16], 8, past[at.LAST12] >> 24)
    past[at.LAST12] = shifted(past[at.LAST12], 8, past[at.LAST8] >> 24)
    past[at.LAST8] = shifted(past[at.LAST8], 8, past[at.LAST4] >> 24)
    past[at.LAST4] = shifted(past[at.LAST4], 8, byte)
    past[at.FOLDED] = shifted(past[at.FOLDED], 8, byte + 32 if 65 <= byte <= 90 else byte)
    group = np.int64(GROUP[byte])
    past[at.GROUPS] = shifted(past[at.GROUPS], 8, group)
    if not (COLLAPSES[group] and group == past[at.COLLAPSED] & 255):
        past[at.COLLAPSED2] = shifted(past[at.COLLAPSED2], 8, past[at.COLLAPSED] >> 24)
        past[at.COLLAPSED] = shifted(past[at.COLLAPSED], 8, group)
    past[at.NIBBLES] = shifted(past[at.NIBBLES], 4, 0 if byte == BLANK else byte >> 4)
    kind = 4 + (byte & 15)
    if is_letter(byte):
        kind = 0
    elif CLASS[byte] == DIGIT:
        kind = 1
    elif byte == BLANK:
        kind = 2
    elif byte == NEWLINE:
        kind = 3
    past[at.CLASSES] = shifted(past[at.CLASSES], 5, kind)


@inlined
def vowel_of(letter: int) -> Any:
    """The kind of a letter in lower case, in 4 bits."""
    if letter >= 128:
        return 4 + (letter >> 6 & 1)
    if letter == 121:  # y
        return HALF_VOWEL
    if letter == 97 or letter == 101 or letter == 105 or letter == 111 or letter == 117:
        return VOWEL
    return CONSONANT


@inlined
def advance_word(past: Array, byte: int) -> None:
    is_capital = 65 <= byte <= 90
    letter = byte + 32 if is_capital else byte
    if past[at.WORD] == 0:
        past[at.GAP2], past[at.GAP] = past[at.GAP], 0
        past[at.UPPER] = 1 if is_capital else 0
        past[at.INITIALS] = shifted(past[at.INITIALS], 8, letter)
        past[at.LENGTH] = past[at.ENDING] = past[at.VOWELS] = 0
    elif is_capital:
        past[at.UPPER] |= 2
    past[at.WORD] = hashed(past[at.WORD], letter)
    past[at.LENGTH] = min(past[at.LENGTH] + 1, 15)
    past[at.ENDING] = ((past[at.ENDING] << 8) | letter) & 0xFFFFFF
    past[at.LETTERS] = shifted(past[at.LETTERS], 6, letter & 63)
    past[at.VOWELS] = shifted(past[at.VOWELS], 4, vowel_of(letter))
    past[at.PHRASE] = hashed(past[at.PHRASE], letter)


@inlined
def advance_gap(past: Array, successors: Array, byte: int, learns: bool) -> None:
    if past[at.WORD] != 0:
        end_word(past, successors, byte, learns)
    past[at.GAP] = hashed(past[at.GAP], BLANK if byte == NEWLINE else byte)
    past[at.VOWELS] = shifted(past[at.VOWELS], 8, np.int64(GROUP[byte]))
    if byte in (BLANK, NEWLINE):
        if past[at.PHRASE] != 0:
            past[at.PHRASE2], past[at.PHRASE] = hashed(past[at.PHRASE2] & 0xFFFF, past[at.PHRASE]), 0
    elif byte != 39:  # an apostrophe belongs to the word
        past[at.PHRASE2] = past[at.PHRASE] = 0
    if CLASS[byte] == STOP:
        past[at.SENTENCE] = past[at.SENTENCE_WORDS] = 0


@inlined
def end_word(past: Array, successors: Array, byte: int, learns: bool) -> None:
    word = past[at.WORD]
    past[at.MARK2], past[at.MARK] = past[at.MARK], byte
    if byte == 58 or byte == 61:  # : or =
        past[at.KEYWORD] = word
    for start in (at.FIRST_WORD, at.SENTENCE):
        if past[start] == 0:
            past[start] = word
    past[at.SENTENCE_WORDS] += 1
    if learns:
        successors[at.NEXT_WORD, place_after(successors, past[at.WORD2])] = word
        successors[at.NEXT_WORD2, place_after(successors, hashed(past[at.WORD2], past[at.WORD3]))] = word
    past[at.WORD4], past[at.WORD3], past[at.WORD2], past[at.WORD] = past[at.WORD3], past[at.WORD2], word, 0
    past[at.SUFFIX3], past[at.SUFFIX2], past[at.SUFFIX] = past[at.SUFFIX2], past[at.SUFFIX], past[at.ENDING]
    past[at.LENGTH2], past[at.LENGTH], past[at.VOWELS] = min(past[at.LENGTH], 7), 0, 0


@inlined
def advance_structure(past: Array, byte: int) -> None:
    """Brackets, quotation marks and tags."""
    kind = CLASS[byte]
    if kind == OPENING:
        past[at.NEST], past[at.OPENED], past[at.INSIDE] = shifted(past[at.NEST], 8, byte), byte, byte
    elif kind == CLOSING:
        past[at.NEST], past[at.OPENED], past[at.INSIDE] = past[at.NEST] >> 8, 0, 0
        if byte != 41:  # not )
            past[at.TAG] = past[at.WORD2]
    elif byte == NEWLINE:
        past[at.INSIDE] = 0
    else:
        if kind == QUOTE:
            past[at.OPENED] = 0 if past[at.OPENED] == byte else byte
        if past[at.INSIDE] != 0:
            past[at.INSIDE] = hashed(past[at.INSIDE], byte)
    if byte == 60:  # <
        past[at.TAG_NAME] = 1
    elif past[at.TAG_NAME] != 0:
        if past[at.TAG_NAME] == 1 and byte == 47:  # </
            past[at.TAGS], past[at.TAG_NAME] = past[at.TAGS] >> 8, 0
        elif byte == 62 or byte == BLANK:
            past[at.TAGS], past[at.TAG_NAME] = shifted(past[at.TAGS], 8, past[at.TAG_NAME] & 255), 0
        else:
            past[at.TAG_NAME] = hashed(past[at.TAG_NAME], byte)


@inlined
def advance_line(past: Array, byte: int, last: int) -> None:
    """Lines and paragraphs. last: the byte before."""
    past[at.LINE_HASH] = hashed(past[at.LINE_HASH], byte)
    if byte == NEWLINE:
        past[at.LINE_ABOVE2], past[at.LINE_ABOVE], past[at.LINE] = past[at.LINE_ABOVE], past[at.LINE], past[at.POSITION]
        past[at.FIRST] = past[at.FIRST_WORD] = past[at.LINE_HASH] = past[at.INDENT] = past[at.ABOVE_RUN] = 0
        if last == NEWLINE:
            past[at.PARAGRAPH] = past[at.NEST] = past[at.OPENED] = 0
        return
    if past[at.FIRST] == 0:
        if byte == BLANK or byte == 9:
            past[at.INDENT] += 1
        else:
            past[at.FIRST] = byte
    if past[at.PARAGRAPH] == 0 and past[at.WORD] == 0 and past[at.WORD2] != 0:
        past[at.PARAGRAPH] = past[at.WORD2]


@sharing_kernel
def advance(
    past: Array, ring: Array, indirect: Array, successors: Array, fields: Array, byte: int, learns: bool
) -> None:
    """Updates all of the past after one more byte; `indirect`, `successors` and `fields` only with `learns`."""
    follow_matches(past, ring, byte)
    past[at.ABOVE_RUN] = min(past[at.ABOVE_RUN] + 1, 255) if byte_above(past, ring) == byte else 0
    if learns:
        record_successors(past, indirect, successors, byte)
    ring[past[at.POSITION] & (ring.size - 1)] = np.uint8(byte)
    past[at.POSITION] += 1
    last = past[at.LAST4] & 255
    advance_views(past, byte)
    if is_letter(byte):
        advance_word(past, byte)
    else:
        advance_gap(past, successors, byte, learns)
    advance_structure(past, byte)
    advance_record(past, indirect, byte, learns)
    if past[at.IN_RECORDS]:
        advance_line_of_record(past, byte)
    else:
        advance_line(past, byte, last)
    advance_fields(past, byte)
    advance_owners(past, byte)
    follow_fields(past, ring, fields, byte, learns)


@inlined
def record_successors(past: Array, indirect: Array, successors: Array, byte: int) -> None:
    last4 = past[at.LAST4]
    for place in (at.AFTER_1 + (last4 & 255), at.AFTER_2 + (last4 & 0xFFFF)):
        indirect[place] = shifted(indirect[place], 8, byte)
    for table, h in (
        (at.AFTER_3, hashed(last4 & 0xFFFFFF, 5)),
        (at.AFTER_4, hashed(last4, 7)),
        (at.AFTER_WORD, hashed(word_or_gap(past), 6)),
    ):
        place = place_after(successors, h)
        successors[table, place] = shifted(np.int64(successors[table, place]), 8, byte)
