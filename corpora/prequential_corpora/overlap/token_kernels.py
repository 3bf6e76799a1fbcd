"""The compiled pass over a stream that finds its tokens, with all constants that are compiled into it."""

import numpy as np

from prequential.machine.compiled import inlined, kernel

SPACE, MARK, SINGLE, WORD = range(4)  # kinds of characters
N_CODE_POINTS = 0x110000
KIND_SHIFT = 24  # an entry of the table of characters is kind << 24 | lower-case form
CHUNK_BYTES = 1 << 18

_FORM = np.uint32((1 << KIND_SHIFT) - 1)
_STEP = np.uint64(0x72419DB23951DF99)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NONE = SPACE  # the kind of a token that has not begun


@inlined
def _read(stream, at, end):  # type: ignore[no-untyped-def]
    """The code point at `at`, and its number of bytes. `end`: the end of the document.

    Valid are the forms of RFC 3629: the shortest ones, up to U+10FFFF, without surrogates. Another byte is 0x110000 + byte, 1.
    """
    first = np.int64(stream[at])
    if first < 0x80:
        return first, 1
    n, lowest, code = 0, 0, np.int64(0)
    if 0xC2 <= first < 0xE0:
        n, lowest, code = 2, 0x80, first & 0x1F
    elif 0xE0 <= first < 0xF0:
        n, lowest, code = 3, 0x800, first & 0x0F
    elif 0xF0 <= first < 0xF5:
        n, lowest, code = 4, 0x10000, first & 0x07
    valid = n > 0 and at + n <= end
    if valid:
        for i in range(1, n):
            byte = np.int64(stream[at + i])
            valid &= byte & 0xC0 == 0x80
            code = code << 6 | byte & 0x3F
    if valid and lowest <= code < N_CODE_POINTS and not 0xD800 <= code < 0xE000:
        return code, n
    return N_CODE_POINTS + first, 1


@inlined
def _value(code, values):  # type: ignore[no-untyped-def]
    """The number that stands for a character in the polynomial of a token: from a table, or by the mixer of splitmix64."""
    if code < 128:
        return values[code]
    z = np.uint64(code) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(30)) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(27)) * _SECOND_FACTOR
    return z ^ z >> np.uint64(31)


@kernel
def tokenise(  # type: ignore[no-untyped-def]
    stream, offsets, ends, at, stop, table, values, polynomial, state, keys, owners
):
    """Fills keys and owners with the tokens that end in `stream` from `at` to `stop`; returns where to go on, and their number.

    The last character may reach beyond `stop`. table, values: of characters.py and tokens.py. One call leaves the token that may
    continue for the next call: polynomial (2,) uint64, its hash so far and the next power; state (3,) int64, its bytes, its kind
    and the number of its document. Both are zeros at first.
    """
    key, power = polynomial[0], polynomial[1]
    n_bytes, kind, document = state[0], state[1], state[2]
    n = 0
    while document < len(ends):
        end = ends[document]
        at = max(at, offsets[document])
        while at < min(end, stop):
            code, width = _read(stream, at, end)
            here, form = np.int64(table[code] >> np.uint32(KIND_SHIFT)), table[code] & _FORM
            goes_on = kind != _NONE and (here == MARK or (here == WORD and kind == WORD))
            if not goes_on or n_bytes + width > CHUNK_BYTES:
                if kind != _NONE:
                    keys[n], owners[n], n = key, document, n + 1
                key, power, n_bytes = np.uint64(0), np.uint64(1), 0
                kind = WORD if here == MARK else here
            key += _value(form, values) * power
            power *= _STEP
            n_bytes += width
            at += width
        if at < end:
            break
        if kind != _NONE:
            keys[n], owners[n], n = key, document, n + 1
            kind = _NONE
        document += 1
    polynomial[0], polynomial[1] = key, power
    state[0], state[1], state[2] = n_bytes, kind, document
    return max(at, stop), n
