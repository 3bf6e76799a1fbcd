"""The last symbols of the stream, in a ring. The mixer computes contexts from it, and the GPT learns from its rows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prequential.model.config import Config

# A mixer alone needs no torch, which the modules of the GPT import.
if TYPE_CHECKING:
    from prequential.model.gpt.recall import Recall


class History:
    """The last 2**bits symbols (uint8), the number of symbols in the stream so far, and what the GPT recalls there, if any."""

    def __init__(self, bits: int, recall: "Recall | None" = None) -> None:
        self.ring: NDArray[np.uint8] = np.zeros(1 << bits, np.uint8)
        self.n_symbols = 0
        self.recall = recall
        self._ahead = np.zeros(0, np.uint8)  # symbols that `look_ahead` has read and `append` has not

    @classmethod
    def of(cls, config: Config) -> "History":
        """An empty history for a learner of this configuration."""
        if not (config.gpt and config.gpt.recalls):
            return cls(config.schedule.history_bits)
        from prequential.model.gpt.recall import Recall

        return cls(config.schedule.history_bits, Recall(config.gpt.recall_bits))

    def append(self, symbols: np.ndarray) -> None:
        """Appends symbols (n,) of any integer type; n is at most the size of the ring."""
        self.look_ahead(symbols)
        self.ring[(self.n_symbols + np.arange(len(symbols))) & (len(self.ring) - 1)] = symbols
        self.n_symbols += len(symbols)
        self._ahead = self._ahead[:0]

    def look_ahead(self, symbols: np.ndarray) -> None:
        """Lets the GPT recall symbols (n,) before they are appended. Raises ValueError if they differ from those it has read."""
        if self.recall:
            if not np.array_equal(self._ahead[: len(symbols)], symbols[: len(self._ahead)]):
                raise ValueError("these symbols follow others than those that the GPT has read ahead")
            self.recall.read(symbols[self.recall.n_read - self.n_symbols :].astype(np.int64))
            self._ahead = max(self._ahead, symbols, key=len).astype(np.uint8)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The symbols at these positions, int64 of the same shape. Positions before the stream hold the symbol 0."""
        return np.where(positions < 0, 0, self.ring[positions % len(self.ring)]).astype(np.int64)

    def recalled(self, positions: np.ndarray) -> np.ndarray:
        """The values that are recalled at positions (..): (.., X) int64, X = 0 if none are."""
        return self.recall.at(positions) if self.recall else np.empty((*positions.shape, 0), np.int64)

    @property
    def oldest(self) -> int:
        """The first position whose inputs can still be read: it is still in the ring, and its values are."""
        oldest = max(0, self.n_symbols - len(self.ring))
        return max(oldest, self.recall.oldest) if self.recall else oldest

    def state(self) -> dict[str, np.ndarray]:
        """Every array of it, by name, without the number of symbols."""
        recall = {f"recall.{name}": array for name, array in self.recall.state().items()} if self.recall else {}
        return {"history": self.ring, **recall}

    def load_state(self, arrays: Mapping[str, np.ndarray], n_symbols: int) -> None:
        """Copies the `state` of another history of n_symbols symbols."""
        self.n_symbols, self._ahead = n_symbols, self._ahead[:0]
        self.ring[:] = arrays["history"]
        if self.recall:
            own = {name.removeprefix("recall."): array for name, array in arrays.items() if name.startswith("recall.")}
            self.recall.load_state(own, n_symbols)
