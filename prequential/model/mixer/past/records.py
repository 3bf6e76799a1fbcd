"""The past, updated by one more byte: whether the data are binary, and the records of which tables of numbers consist."""

from typing import Any

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import HASH_MASK, hashed
from prequential.model.mixer.past import entries as at
from prequential.model.mixer.past.text import BLANK

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
