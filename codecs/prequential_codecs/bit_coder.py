"""The coder that writes archives: range coding of single bits inside compiled loops. docs/FORMAT.md specifies its steps.

The total is 2**16: the coder rounds a width down to a multiple of the total, and 2**24 would cost 1.3e-4 bits per decision.

state (6,) uint64: low, width, number of words written or read, offset, mode, fault. words (n,) uint32.
"""

import numpy as np

from prequential.errors import CorruptArchiveError
from prequential.machine.compiled import Array, inlined

LOW, WIDTH, N_WORDS, OFFSET, MODE, FAULT = range(6)
ENCODE, DECODE, SCORE = range(3)  # SCORE: the symbols are known and nothing is coded
STATE_SIZE = 6
WORDS_PER_SYMBOL = 5  # eight decisions of at most 16 bits each, and one to spare

TOTAL_BITS = np.uint64(16)
TOTAL = np.uint64(1 << 16)
WORD_BITS = np.uint64(32)
WORD_MAX = np.uint64((1 << 32) - 1)
WINDOW_MAX = np.uint64((1 << 64) - 1)
UNIT_BITS = 2.0**-22  # code lengths are reported in multiples of it
# (2**16,): the code length of a bit, in UNIT_BITS, by the frequency of its value in 2**-16, which is never 0.
UNITS = np.rint((16.0 - np.log2(np.maximum(np.arange(1 << 16), 1), dtype=np.float64)) / UNIT_BITS)


@inlined
def code_bit(bit: int, frequency: int, state: Array, words: Array) -> int:
    """Encodes `bit`, decodes a bit, or follows `bit` without coding, and returns it. frequency: of a one, in units of 2**-16."""
    mode = state[MODE]
    if mode == np.uint64(SCORE):
        return bit
    zero = TOTAL - np.uint64(frequency)
    width = state[WIDTH]
    scale = width >> TOTAL_BITS
    boundary = scale * zero
    if mode == np.uint64(DECODE):
        offset = state[OFFSET]
        if offset >= scale << TOTAL_BITS:  # the rounding gap at the top of the interval, which no encoder uses
            state[FAULT] = np.uint64(1)
        bit = 1 if offset >= boundary else 0
        if bit == 1:
            offset -= boundary
            width = scale * np.uint64(frequency)
        else:
            width = boundary
        if width <= WORD_MAX:
            read = np.int64(state[N_WORDS])
            word = np.uint64(words[read]) if read < words.size else np.uint64(0)  # zero after the payload's end
            state[N_WORDS] = np.uint64(read + 1)
            offset = (offset << WORD_BITS) | word
            width = width << WORD_BITS
        state[OFFSET] = offset
        state[WIDTH] = width
        return bit
    low = state[LOW]
    if bit == 1:
        before = low
        low = low + boundary
        width = scale * np.uint64(frequency)
        if low < before:  # overflow of the window: a carry
            carry(state[N_WORDS], words)
    else:
        width = boundary
    if width <= WORD_MAX:
        n = state[N_WORDS]
        words[np.int64(n)] = np.uint32(low >> WORD_BITS)
        state[N_WORDS] = n + np.uint64(1)
        low = (low & WORD_MAX) << WORD_BITS
        width = width << WORD_BITS
    state[LOW] = low
    state[WIDTH] = width
    return bit


@inlined
def carry(n_words: np.uint64, words: Array) -> None:
    """Adds one to the number that the words so far represent."""
    position = np.int64(n_words) - 1
    while position >= 0 and words[position] == np.uint32(0xFFFFFFFF):
        words[position] = np.uint32(0)
        position -= 1
    if position >= 0:  # always true, except after a crafted checkpoint
        words[position] = np.uint32(words[position] + np.uint32(1))


def ideal_bits(coded: Array) -> Array:
    """The ideal code length of each of n symbols, (n,) float64, in bits. coded: (n, 8), frequencies in units of 2**-16.

    Each is an integer multiple of UNIT_BITS, so sums below 2**31 bits are exact in any order. For reports only.
    """
    return UNITS[coded].sum(1) * UNIT_BITS


def symbol_bits(frequencies: Array, symbols: Array) -> Array:
    """The same of symbols (n,) that are coded in one step. frequencies: (n, V), each row of sum 2**24."""
    chosen = frequencies[np.arange(len(symbols)), symbols]
    return np.rint((24.0 - np.log2(chosen, dtype=np.float64)) / UNIT_BITS) * UNIT_BITS


class BitCoder:
    """The state of the coder. The compiled loops read and write its arrays `state` and `words`.

    mode: ENCODE, DECODE or SCORE. payload: the bytes to decode. Raises CorruptArchiveError if these are not complete words.
    """

    def __init__(self, mode: int, payload: bytes = b"") -> None:
        self.state: Array = np.zeros(STATE_SIZE, np.uint64)
        self.state[MODE], self.state[WIDTH] = mode, WINDOW_MAX
        self.words: Array = np.zeros(1 << 12, np.uint32)
        if mode == DECODE:
            if len(payload) % 4:
                raise CorruptArchiveError(f"coded payload of {len(payload)} bytes is not made of 32-bit words")
            self.words = np.frombuffer(payload, "<u4").astype(np.uint32)
            first = [int(w) for w in self.words[:2]] + [0, 0]
            self.state[OFFSET], self.state[N_WORDS] = first[0] << 32 | first[1], 2

    @property
    def decodes(self) -> bool:
        """Whether the coder decodes; in the other modes the symbols are known."""
        return bool(self.state[MODE] == DECODE)

    def saved(self) -> tuple[Array, Array]:
        """Copies of `state` and of the words encoded so far, for `restore`."""
        n_words = int(self.state[N_WORDS]) if self.state[MODE] == ENCODE else 0
        return self.state.copy(), self.words[:n_words].copy()

    def restore(self, state: Array, words: Array) -> bool:
        """Restores what `saved` returned, for a coder of the same mode and payload. False if no such coder can have saved it."""
        n_words = int(state[N_WORDS])
        if state[MODE] != self.state[MODE] or state[WIDTH] <= WORD_MAX or state[FAULT] != 0 or (
            n_words != len(words) if self.state[MODE] == ENCODE else n_words > len(self.words) + 2
        ):  # fmt: skip
            return False
        self.state[:] = state
        if self.state[MODE] == ENCODE:
            self.words = words.copy()
        return True

    def reserve(self, n_symbols: int) -> None:
        """Makes room in `words` for n_symbols more bytes, even improbable ones."""
        needed = int(self.state[N_WORDS]) + n_symbols * WORDS_PER_SYMBOL
        if self.state[MODE] == ENCODE and needed > len(self.words):
            self.words = np.concatenate((self.words, np.zeros(needed + len(self.words), np.uint32)))

    def payload(self) -> bytes:
        """The encoded bytes, flushed as docs/FORMAT.md specifies: little-endian 32-bit words."""
        low, width, n = (int(self.state[i]) for i in (LOW, WIDTH, N_WORDS))
        words = self.words[:n].copy()
        if width == int(WINDOW_MAX):
            return b""
        point = low + int(WORD_MAX)
        if point > int(WINDOW_MAX):
            point &= int(WINDOW_MAX)
            carry(np.uint64(n), words)
        flush = [point >> 32]
        if ((low + width) & int(WINDOW_MAX)) >> 32 == point >> 32:
            flush.append(0)
        return words.astype("<u4").tobytes() + np.array(flush, "<u4").tobytes()

    def check(self) -> None:
        """Raises CorruptArchiveError if no encoder can have written what was decoded so far."""
        if self.state[FAULT]:
            raise CorruptArchiveError("coded payload is damaged: it points outside the range of both bits")
        if self.decodes and int(self.state[N_WORDS]) > max(2, len(self.words) + 1):
            raise CorruptArchiveError("coded payload ends before its last symbol")

    def check_end(self) -> None:
        """Raises CorruptArchiveError if the payload is certainly longer or shorter than that of the decoded symbols."""
        self.check()
        width, offset = int(self.state[WIDTH]), int(self.state[OFFSET])
        untouched = width == int(WINDOW_MAX)
        missing = int(self.state[N_WORDS]) - len(self.words)  # the flush of the encoder writes one or two words
        if untouched != (len(self.words) == 0) or (
            not untouched and (missing not in (0, 1) or offset >= (1 << 33) - 1)
        ):
            raise CorruptArchiveError(f"coded payload of {len(self.words)} words does not end with its last symbol")
