"""The loop: predict, code, learn. compress, decompress, test and evaluate are this loop with different coders.

Every probability that is coded depends only on what is strictly before it, and is part of a complete integer distribution. With
a coder that knows the symbols the learner may read a segment at once, else symbol by symbol: both give the same bits.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
from prequential_codecs.bit_coder import BitCoder

from prequential.model.config import ScheduleConfig, segments


class Learner(Protocol):
    """The loop calls begin(n), code(symbols), end(n) for each segment of n symbols. Equal states code symbols to equal bits."""

    @property
    def schedule(self) -> ScheduleConfig:
        """How the stream is cut into blocks and segments."""

    @property
    def n_symbols(self) -> int:
        """Symbols read so far."""

    @property
    def gpt_bits(self) -> np.ndarray | None:
        """Report: the bits (n,) that the last segment's symbols cost the GPT alone; None where that is not known."""

    @property
    def update_size(self) -> float | None:
        """Report: the size of the last step against that of the weights; None where there was none."""

    def begin(self, n_symbols: int) -> None:
        """Opens a segment. Its predictions are fixed by what came before; learning from that may start in parallel."""

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """Codes the segment's symbols (n,) int64, or decodes them in place. Returns their ideal code lengths in bits, (n,)."""

    def end(self, n_symbols: int) -> None:
        """Closes the segment. What was learned in parallel takes effect."""

    def state(self) -> dict[str, np.ndarray]:
        """Every array that later predictions depend on, by name; between segments only."""

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continues from the `state` of an equal learner. Raises ValueError for values that no learner has."""

    def digest(self) -> bytes:
        """8 bytes from `state`. Except by chance, they are equal only for learners that predict alike."""


def run(learner: Learner, coder: BitCoder, block: slice, symbols: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Codes a block and learns from it; yields, after each segment, the symbols done so far and the ideal bits of the new ones.

    symbols: (n,) uint8 of the block, known or to be filled in.
    """
    done = 0
    for segment in segments(block, learner.schedule):
        n = segment.stop - segment.start
        part = symbols[done : done + n].astype(np.int64)
        learner.begin(n)  # the GPT's weights are fixed
        bits = learner.code(part, coder)  # predict, code; the mixer learns from each bit, the GPT from what came before
        learner.end(n)  # the GPT has learned
        coder.check()
        symbols[done : done + n] = part
        done += n
        yield done, bits
