"""Range coder in plain Python: defines the words that every other implementation must produce.

It is the fallback where constriction has no wheel, and the oracle that constriction is tested against.

The message is one number. Read the words written so far, and all those still to come, as the digits (base 2**32) of a
fraction x in [0, 1). Coding a symbol narrows the interval in which x may lie; any x inside the last interval names the
whole message. Only the 64 bits of the interval that can still change are kept:

    low     its lower end, below the words already written, in units of the current 64-bit window
    width   its length in the same units; 2**32 <= width < 2**64 before every symbol

Start: low = 0, width = 2**64 - 1. A symbol with frequency f, preceded in its row by frequencies that sum to c, does

    scale = width >> 24;   low += scale * c;   width = scale * f

and width stays at 2**8 or more, because scale does and f >= 1. Two things then restore the invariants:

    carry   if low >= 2**64, x has outgrown the window: subtract 2**64 and add one to the last word written, which turns
            trailing words 0xFFFFFFFF into 0. The first word never overflows, for x < 1. (Streaming coders hold back
            the words that a carry may still change, with the same result.)
    shift   if width < 2**32, only a carry can still change the window's upper word: write it, and shift low and width
            left by 32 bits. Once is enough.

Flush: the reader pads the words with zeros, so point = low + 2**32 - 1 (carry included), cut to its upper word, lies in
the interval: that word is written. If the interval's end has the same upper word, digits that followed it could leave
the interval, so a zero word is written after it. A message of no symbols has no words.

The decoder keeps offset = x - low instead of low, so it never sees a carry: the coded symbol is the one whose share of
the row holds offset // scale, and it then takes the same steps.
"""

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.frequencies import TOTAL, TOTAL_BITS, IntArray
from prequential.errors import CorruptArchiveError

_WORD_BITS = 32
_WORD_MAX = (1 << 32) - 1
_WINDOW_MAX = (1 << 64) - 1


class Encoder:
    """Words for symbols; trusts its arguments (`RangeEncoder` checks them)."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._low = 0
        self._width = _WINDOW_MAX

    def encode(self, symbols: IntArray, frequencies: IntArray) -> None:
        """Code symbols (n,) in order under the rows of frequencies (n, V); under 2 microseconds a symbol."""
        index = symbols.astype(np.int64)[:, None]
        ends = np.take_along_axis(np.cumsum(frequencies, axis=1, dtype=np.int64), index, axis=1)[:, 0]
        coded = np.take_along_axis(frequencies, index, axis=1)[:, 0].astype(np.int64)
        words, low, width = self._words, self._low, self._width
        for start, frequency in zip((ends - coded).tolist(), coded.tolist(), strict=True):
            scale = width >> TOTAL_BITS
            low += scale * start
            width = scale * frequency
            if low > _WINDOW_MAX:
                low &= _WINDOW_MAX
                _carry(words)
            if width <= _WORD_MAX:
                words.append(low >> _WORD_BITS)
                low = (low & _WORD_MAX) << _WORD_BITS
                width <<= _WORD_BITS
        self._low, self._width = low, width

    def words(self) -> NDArray[np.uint32]:
        """The message so far, flushed; the encoder itself is left as it was."""
        words = list(self._words)
        if self._width == _WINDOW_MAX:  # only before the first symbol: later widths are multiples of a scale
            return np.array(words, dtype=np.uint32)
        point = self._low + _WORD_MAX
        if point > _WINDOW_MAX:
            point &= _WINDOW_MAX
            _carry(words)
        words.append(point >> _WORD_BITS)
        end = (self._low + self._width) & _WINDOW_MAX
        if end >> _WORD_BITS == point >> _WORD_BITS:
            words.append(0)
        return np.array(words, dtype=np.uint32)


class Decoder:
    """Symbols from words; trusts its frequencies (`RangeDecoder` checks them)."""

    def __init__(self, words: NDArray[np.uint32]) -> None:
        self._words: list[int] = words.tolist()
        self._n_words_read = 2
        self._width = _WINDOW_MAX
        self._offset = self._word(0) << _WORD_BITS | self._word(1)

    def decode(self, frequencies: IntArray) -> NDArray[np.int64]:
        """Symbols (n,) int64 under the rows of frequencies (n, V). Raises CorruptArchiveError if words name none."""
        symbols = np.empty(len(frequencies), dtype=np.int64)
        ends = np.cumsum(frequencies, axis=1, dtype=np.int64)
        for row, row_ends in enumerate(ends):
            scale = self._width >> TOTAL_BITS
            quantile = self._offset // scale
            if quantile >= TOTAL:  # the rounding gap at the top of the interval, where no encoder goes
                raise CorruptArchiveError("coded payload points outside the distribution it was coded under")
            symbol = int(np.searchsorted(row_ends, quantile, side="right"))
            start = int(row_ends[symbol - 1]) if symbol else 0
            self._advance(scale * start, scale * (int(row_ends[symbol]) - start))
            symbols[row] = symbol
        return symbols

    def _advance(self, start: int, width: int) -> None:
        """Narrow the interval to `width` from `start` on, and read a word wherever the encoder wrote one."""
        self._offset -= start
        self._width = width
        if width <= _WORD_MAX:
            self._offset = self._offset << _WORD_BITS | self._word(self._n_words_read)
            self._width <<= _WORD_BITS
            self._n_words_read += 1

    def _word(self, position: int) -> int:
        return self._words[position] if position < len(self._words) else 0

    def maybe_exhausted(self) -> bool:
        """False when words are certainly left over: unread, or read and too large to be a flush."""
        # The flush writes a point less than 2**32 above low, and data after it could add less than 2**32 more.
        return self._n_words_read >= len(self._words) and (
            self._width == _WINDOW_MAX or self._offset < (1 << _WORD_BITS + 1) - 1
        )


def _carry(words: list[int]) -> None:
    """Add one to the number that `words` spell, in place."""
    position = len(words) - 1
    while words[position] == _WORD_MAX:
        words[position] = 0
        position -= 1
    words[position] += 1
