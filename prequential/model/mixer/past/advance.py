"""The past, updated after each byte."""

import numpy as np

from prequential.machine.compiled import Array, inlined, sharing_kernel
from prequential.model.hashing import hashed, is_letter
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.entries import byte_above, place_after, shifted, word_or_gap
from prequential.model.mixer.past.fields import advance_fields, advance_owners, follow_fields
from prequential.model.mixer.past.matches import follow_matches
from prequential.model.mixer.past.records import advance_line_of_record, advance_record
from prequential.model.mixer.past.text import advance_gap, advance_line, advance_structure, advance_views, advance_word


@sharing_kernel
def advance(
    past: Array, ring: Array, indirect: Array, followers: Array, fields: Array, byte: int, learns: bool
) -> None:
    """Updates all of the past after one more byte; `indirect`, `followers` and `fields` only with `learns`."""
    follow_matches(past, ring, byte)
    past[at.ABOVE_RUN] = min(past[at.ABOVE_RUN] + 1, 255) if byte_above(past, ring) == byte else 0
    if learns:
        record_followers(past, indirect, followers, byte)
    ring[past[at.POSITION] & (ring.size - 1)] = np.uint8(byte)
    past[at.POSITION] += 1
    last = past[at.LAST4] & 255
    advance_views(past, byte)
    if is_letter(byte):
        advance_word(past, byte)
    else:
        advance_gap(past, followers, byte, learns)
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
def record_followers(past: Array, indirect: Array, followers: Array, byte: int) -> None:
    last4 = past[at.LAST4]
    for place in (at.AFTER_1 + (last4 & 255), at.AFTER_2 + (last4 & 0xFFFF)):
        indirect[place] = shifted(indirect[place], 8, byte)
    for table, h in (
        (at.AFTER_3, hashed(last4 & 0xFFFFFF, 5)),
        (at.AFTER_4, hashed(last4, 7)),
        (at.AFTER_WORD, hashed(word_or_gap(past), 6)),
    ):
        place = place_after(followers, h)
        followers[table, place] = shifted(np.int64(followers[table, place]), 8, byte)
