"""The loop: predict, code, learn. compress, decompress, test and evaluate are this with another coder attached.

Every probability that is coded comes from weights and symbols strictly before it (C1, C3), is a full integer distribution
(C2), and every symbol is coded once, in one pass (C4). The coders differ in one thing: one that knows the symbols lets the GPT
read a segment at once, one that must find them out goes symbol by symbol. The learner gives both the same bits.
"""

from collections.abc import Iterator

import numpy as np

from prequential.codecs.bit_coder import BitCoder
from prequential.model.learner import Learner
from prequential.online.schedule import segments


def run(learner: Learner, coder: BitCoder, block: slice, symbols: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Codes a block and learns from it; yields after each segment how many symbols are done, and the ideal bits of each new one.

    symbols: (n,) uint8 of the block, known or to be filled in.
    """
    done = 0
    for segment in segments(block, learner.config.schedule):
        n = segment.stop - segment.start
        part = symbols[done : done + n].astype(np.int64)
        learner.begin(n)  # the GPT starts to learn from what came before
        bits = learner.code(part, coder)  # predict, code; the mixer learns from each bit
        learner.end(n)  # the GPT has learned
        coder.check()
        symbols[done : done + n] = part
        done += n
        yield done, bits
