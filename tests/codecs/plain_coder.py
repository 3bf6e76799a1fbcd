"""Range coder in plain Python: defines the words that the bit coder of archives produces.

docs/FORMAT.md defines the coder. Here, `low` may use Python's long integers, and a word that a carry changes is changed in place.
"""

import numpy as np
from numpy.typing import NDArray

TOTAL_BITS = 16
_WORD_BITS = 32
_WORD_MAX = (1 << 32) - 1
_WINDOW_MAX = (1 << 64) - 1


class Encoder:
    """From symbols to words. Each row of frequencies sums to 2**TOTAL_BITS."""

    def __init__(self) -> None:
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


def plain_payload(symbols: NDArray[np.int64], frequencies: NDArray[np.int64]) -> bytes:
    """The words of symbols (n,) under the rows of frequencies (n, V), as an archive stores them."""
    encoder = Encoder()
    encoder.encode(np.asarray(symbols), np.asarray(frequencies))
    return encoder.words().astype("<u4").tobytes()
