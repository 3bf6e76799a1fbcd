"""A learner that is audited while it runs: a replica reads along in lockstep, and a difference between the two stops the run.

docs/RELIABILITY.md says what is compared and when, which faults are found, and what it costs. The audit changes no coded bit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import SCORE, BitCoder

from prequential.errors import FaultError
from prequential.model.learner import OnlineLearner

MAX_NAMES = 10  # of tensors in a message


class AuditedLearner(OnlineLearner):
    """An OnlineLearner with a replica, which codes the same bits. `end`, `state` and `digest` may raise FaultError."""

    def __init__(self, *arguments: Any, replica: OnlineLearner, every: int, **named: Any) -> None:
        """Other arguments: of OnlineLearner. replica: a fresh learner of the same configuration, best with other kernels. every:
        segments between two comparisons of states.
        """
        super().__init__(*arguments, **named)
        self._replica, self._every = replica, every
        if replica.mixer:
            replica.mixer.threads.fixed = 1
        self._n_segments = 0
        self._compared = 0  # symbols read at the last comparison of states
        self._costs_differ = False

    def begin(self, n_symbols: int) -> None:
        super().begin(n_symbols)
        self._replica.begin(n_symbols)

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        bits = super().code(symbols, coder)
        self._costs_differ = not np.array_equal(bits, self._replica.code(symbols.copy(), BitCoder(SCORE)))
        return bits

    def end(self, n_symbols: int) -> None:
        super().end(n_symbols)
        self._replica.end(n_symbols)
        self._n_segments += 1
        if self._costs_differ:
            self._compared = self.n_symbols - n_symbols
        if self._costs_differ or self._n_segments % self._every == 0:
            self._compare_states()

    def _compare_states(self) -> None:
        """Raises FaultError if a tensor differs, or the costs in the segment that has just ended."""
        own, other = super().state(), self._replica.state()
        counts = {}  # of values that differ in a bit
        for name, array in own.items():
            words = f"u{array.itemsize}"
            counts[name] = int(np.count_nonzero(array.view(words) != other[name].view(words)))
        names = sorted(filter(counts.get, counts), key=counts.__getitem__)  # a fault spreads: the fewest first
        differing = ["the costs of symbols"] * self._costs_differ
        differing += [f"{name} ({counts[name]:,} of {own[name].size:,} values)" for name in names[:MAX_NAMES]]
        if differing:
            block = self._compared // self.config.schedule.block_symbols
            where = f"block {block} (original bytes {self._compared}-{self.n_symbols})"
            raise FaultError(f"audit: {where}: the replica differs in {', '.join(differing)}")
        self._compared = self.n_symbols

    def state(self) -> dict[str, np.ndarray]:
        """`OnlineLearner.state`, after a comparison: a digest or a checkpoint will be made of it."""
        self._compare_states()
        return super().state()

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().load_state(arrays)
        self._replica.load_state(arrays)
        self._n_segments, self._compared = 0, self.n_symbols
