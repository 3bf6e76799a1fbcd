"""The code word of each byte: the eight binary decisions by which the mixer codes it.

A node remembers what followed a context and the first bits of a code word. So it matters which bytes begin alike. In ASCII a
small letter and a capital share their first two bits, and "d" and "e" their first seven. Here the first bit tells small letters
from all other ASCII, and letters that follow similar contexts begin alike. The order was searched for with small mixers on slices
of nine texts, code and data (docs/LOG.md, 2026-11-26). In binary data a byte is its own code word, because near numbers are alike.
What the input is, is decided from the past.
"""

from typing import Any

import numpy as np

from prequential.compiled import Array, inlined
from prequential.model.mixer.past import BINARY_UNTIL, POSITION

AS_TEXT, AS_NUMBERS = 0, 1
# The code words from 0xC0 on: the small letters, and the six characters that follow or precede them in ASCII.
LETTERS = "jqnsdvpbmzrlkfctew~\x7fuyghx}`{ao|i"


def _text_order() -> Array:
    """(256,) int64: the byte of each code word."""
    order = np.arange(256)
    small = np.array([ord(letter) for letter in LETTERS])
    order[0xC0:0xE0], order[0x60:0x80] = small, np.arange(0xC0, 0xE0)
    order[0x40:0x60] = small - 32  # capitals in the same order
    order[[0x0D, 0x20]] = 0x20, 0x0D  # the space stands beside the ends of lines, not among marks
    return order


# (2, 256) int64, by AS_TEXT or AS_NUMBERS: the byte of each code word, and the code word of each byte.
BYTE = np.stack([_text_order(), np.arange(256)])
CODE_WORD = np.argsort(BYTE, axis=1)


@inlined
def code_of(past: Array) -> Any:
    """By which code the next byte is coded."""
    return np.int64(AS_NUMBERS if past[POSITION] < past[BINARY_UNTIL] else AS_TEXT)
