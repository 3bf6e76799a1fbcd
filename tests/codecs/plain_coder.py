"""Range coder in plain Python: defines the words that the bit coder of archives and the coder of the static baselines produce.

The message is one number. All its words, in order, are the digits (base 2**32) of a fraction x in [0, 1). Each coded symbol
narrows the interval in which x may lie. Any x in the final interval identifies the complete message. The coder keeps only the 64
bits of the interval that can still change:

    low     its lower end, below the words already written, in units of the current 64-bit window
    width   its length in the same units; 2**32 <= width < 2**64 before every symbol

Start: low = 0, width = 2**64 - 1. For a symbol with frequency f, preceded in its row by frequencies of sum c:

    scale = width >> 24;   low += scale * c;   width = scale * f

The width stays at 2**8 or more, because scale >= 2**8 and f >= 1. Two steps then restore the invariants:

    carry   If low >= 2**64, low has left the window: subtract 2**64 and add one to the last word written. This turns trailing
            words 0xFFFFFFFF into 0. The first word never overflows, because x < 1. (Streaming coders delay the words that a
            carry may still change. Their result is the same.)
    shift   If width < 2**32, only a carry can still change the window's upper word: write it, and shift low and width left by
            32 bits. One shift is enough.

Flush: the reader pads the words with zeros. So point = low + 2**32 - 1 (with its carry), cut to its upper word, lies in the
interval, and this word is written. If the interval's end has the same upper word, more digits after it could leave the
interval, so a zero word is written after it. A message without symbols has no words.

A decoder keeps offset = x - low instead of low, so it needs no carry. The coded symbol is the one whose part of the row
contains offset // scale. It then takes the same steps.
"""

import numpy as np
from numpy.typing import NDArray

_WORD_BITS = 32
_WORD_MAX = (1 << 32) - 1
_WINDOW_MAX = (1 << 64) - 1


class Encoder:
    """From symbols to words. total_bits: each row of frequencies sums to 2**total_bits (24 above)."""

    def __init__(self, total_bits: int = 24) -> None:
        self._total_bits = total_bits
        self._words: list[int] = []
        self._low = 0
        self._width = _WINDOW_MAX

    def encode(self, symbols: NDArray[np.int64], frequencies: NDArray[np.int64]) -> None:
        """Codes symbols (n,) in order under the rows of frequencies (n, V)."""
        index = symbols.astype(np.int64)[:, None]
        ends = np.take_along_axis(np.cumsum(frequencies, axis=1, dtype=np.int64), index, axis=1)[:, 0]
        coded = np.take_along_axis(frequencies, index, axis=1)[:, 0].astype(np.int64)
        words, low, width = self._words, self._low, self._width
        for start, frequency in zip((ends - coded).tolist(), coded.tolist(), strict=True):
            scale = width >> self._total_bits
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
        """The words of the message so far, including a flush."""
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


def _carry(words: list[int]) -> None:
    """Adds one to the number that `words` represent, in place."""
    position = len(words) - 1
    while words[position] == _WORD_MAX:
        words[position] = 0
        position -= 1
    words[position] += 1


def plain_payload(symbols: NDArray[np.int64], frequencies: NDArray[np.int64], total_bits: int = 24) -> bytes:
    """The words of symbols (n,) under the rows of frequencies (n, V), as an archive or a baseline stores them."""
    encoder = Encoder(total_bits)
    encoder.encode(np.asarray(symbols), np.asarray(frequencies))
    return encoder.words().astype("<u4").tobytes()
