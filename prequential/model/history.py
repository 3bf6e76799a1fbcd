"""The last symbols of the stream, in a ring. The mixer computes contexts from it, and the GPT learns from its rows."""

import numpy as np


class History:
    """The last 2**bits symbols (uint8), and the number of symbols in the stream so far."""

    def __init__(self, bits: int) -> None:
        self.ring = np.zeros(1 << bits, np.uint8)
        self.n_symbols = 0

    def append(self, symbols: np.ndarray) -> None:
        """Appends symbols (n,) of any integer type; n is at most the size of the ring."""
        self.ring[(self.n_symbols + np.arange(len(symbols))) % len(self.ring)] = symbols
        self.n_symbols += len(symbols)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The symbols at these positions, int64 of the same shape. Positions before the stream hold the symbol 0."""
        return np.where(positions < 0, 0, self.ring[positions % len(self.ring)]).astype(np.int64)

    @property
    def oldest(self) -> int:
        """The first position that is still in the ring."""
        return max(0, self.n_symbols - len(self.ring))
