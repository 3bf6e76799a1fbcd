"""What was coded last: a ring of symbols, from which the mixer takes its contexts and the GPT the rows it learns from."""

import numpy as np


class History:
    """The last 2**bits symbols (uint8), and how many there have been."""

    def __init__(self, bits: int) -> None:
        self.ring = np.zeros(1 << bits, np.uint8)
        self.n_symbols = 0

    def append(self, symbols: np.ndarray) -> None:
        """Takes symbols (n,) of any integer type, n at most the ring's size."""
        self.ring[(self.n_symbols + np.arange(len(symbols))) % len(self.ring)] = symbols
        self.n_symbols += len(symbols)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The symbols at these positions, of any shape, int64; before the first one there was symbol 0."""
        return np.where(positions < 0, 0, self.ring[positions % len(self.ring)]).astype(np.int64)

    @property
    def oldest(self) -> int:
        """The first position still held."""
        return max(0, self.n_symbols - len(self.ring))
