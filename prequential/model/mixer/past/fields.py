"""The past, updated by one more byte: identifiers, keys with values, templates of lines, fields, and what owns a bracket."""

from typing import Any

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import HASH_MASK, hashed, is_letter
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.entries import byte_at, follower, place_after
from prequential.model.mixer.past.text import CLASS, DIGIT, NEWLINE

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
        past[by], past[by + 1] = follower(fields, table, h), 0
        if learns:
            fields[table, place_after(fields, h)] = past[at.POSITION] & HASH_MASK
