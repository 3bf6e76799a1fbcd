"""The code word of each byte: the eight binary decisions by which the mixer codes it.

A node remembers what followed a context and the first bits of a code word, so it matters which bytes begin alike. In text,
letters that follow similar contexts begin alike, and the space stands beside the ends of lines. This order was searched for with
the mixer of -1 on slices of 16 texts, code and data, and checked on others (dev/LOG.md, 2026-11-26). In binary data a byte is
its own code word, because near numbers are alike. What the input is, is decided from the past.
"""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.mixer.past import BINARY_UNTIL, POSITION

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


@inlined
def code_of(past: Array) -> Any:
    """By which code the next byte is coded."""
    return np.int64(AS_NUMBERS if past[POSITION] < past[BINARY_UNTIL] else AS_TEXT)
