"""A learner that does not learn: it codes with the weights and tables of another learner, for held-out measurements.

Weights, tables, maps, the index of matches and what the GPT recalls do not change, so new text that repeats is not recognised.
The arithmetic is that of an OnlineLearner, so a decoder with the same weights and tables can decode the bits.
"""

from copy import copy

import numpy as np

from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import Reader
from prequential.model.history import History
from prequential.model.learner import OnlineLearner
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.past import MAX_VERIFIED


class FrozenLearner(OnlineLearner):
    """Starts at the position of `learner`, which must be between two segments, and advances independently.

    It shares weights and tables with `learner` and copies only the keys and values and the ring. It does not change `learner`,
    which must not learn while this object is in use.
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self._learner, self.config = learner, learner.config
        recall = learner.history.recall
        self.history: History = History(learner.config.schedule.history_bits, recall.frozen() if recall else None)
        self.history.ring[:] = learner.history.ring
        self.history.n_symbols = learner.history.n_symbols
        self.mixer: Mixer | None = learner.mixer.frozen(self.history.ring) if learner.mixer else None
        self.gpt: GPT | None = copy(learner.gpt)
        if self.gpt:
            self.gpt._reader = self.gpt._reader.fork()
        self.gpt_bits: np.ndarray | None = None
        self._step, self._last_segment_size = None, 0

    def begin(self, n_symbols: int) -> None:
        """Opens a segment of n_symbols symbols."""
        if self.gpt:
            self.gpt.begin(n_symbols)

    def restart(self) -> None:
        """Starts a new stream: the GPT and the contexts of the mixer forget all symbols. Matches still lead to learned text.

        The ring becomes that of the learner again, followed by MAX_VERIFIED symbols 0, which precede the first symbol of any
        stream. So later code lengths do not depend on the symbols read before.
        """
        old, ring = self._learner.history, self.history.ring
        end = self.history.n_symbols
        written = np.arange(max(old.n_symbols, end - len(ring)), end) % len(ring)
        ring[written] = old.ring[written]
        self.history.n_symbols = old.n_symbols
        if self.history.recall:
            self.history.recall.restart(old.n_symbols)
        self.history.append(np.zeros(MAX_VERIFIED, np.uint8))
        if self.gpt:
            self.gpt._reader = Reader(self.gpt.config)  # no keys and values
        if self.mixer:
            self.mixer.restart(self.history.n_symbols)
