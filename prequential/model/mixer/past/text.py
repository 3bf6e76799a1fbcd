"""The past, updated by one more byte: other views of the last bytes, words, structure and lines."""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import hashed, is_letter
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.entries import place_after, shifted

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
    """One more letter."""
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
def advance_gap(past: Array, followers: Array, byte: int, learns: bool) -> None:
    """One more byte that is not a letter."""
    if past[at.WORD] != 0:
        end_word(past, followers, byte, learns)
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
def end_word(past: Array, followers: Array, byte: int, learns: bool) -> None:
    word = past[at.WORD]
    past[at.MARK2], past[at.MARK] = past[at.MARK], byte
    if byte == 58 or byte == 61:  # : or =
        past[at.KEYWORD] = word
    for start in (at.FIRST_WORD, at.SENTENCE):
        if past[start] == 0:
            past[start] = word
    past[at.SENTENCE_WORDS] += 1
    if learns:
        followers[at.NEXT_WORD, place_after(followers, past[at.WORD2])] = word
        followers[at.NEXT_WORD2, place_after(followers, hashed(past[at.WORD2], past[at.WORD3]))] = word
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
