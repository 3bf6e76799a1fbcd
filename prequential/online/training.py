"""A learner reads a corpus and learns from all of it: what `compress` does, with nothing written.

The loop lets the GPT learn from a segment while the next one is read, so the last segment of a corpus has not been learned from
when it ends. `finish` makes up for that; a learner that was trained is one that is finished.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential.exact.bit_coder import FOLLOW, BitCoder
from prequential.model.learner import Learner
from prequential.online.coding import NO_BITS, NOTHING, Progress
from prequential.online.loop import run
from prequential.online.schedule import blocks


def _ignore(done: Progress, n_bytes: int) -> None:
    pass


def train(
    learner: Learner, symbols: NDArray[np.uint8], on_progress: Callable[[Progress, int], object] = _ignore
) -> Progress:
    """Lets the learner read symbols (n,) behind whatever it has read before, and learn from all of them; what they cost.

    on_progress: called after each segment with (totals so far, n), and once in the end; the cost of each byte is in segment_bits,
    and only there: memory does not depend on n, symbols may be mapped. The totals are of `symbols`, and of no archive:
    code_bits is the prequential code length. Raises CorpusError for an empty corpus.
    """
    if not len(symbols):
        raise CorpusError("nothing to learn from: the corpus is empty")
    start, coder, done = learner.history.n_symbols, BitCoder(FOLLOW), Progress()
    for block in blocks(len(symbols), learner.config.schedule):
        part, n_done = np.array(symbols[block]), 0
        for n, bits in run(learner, coder, slice(start + block.start, start + block.stop), part):
            done = Progress(
                n_bytes=block.start + n,
                code_bits=done.code_bits + float(bits.sum()),
                segment=part[n_done:n],
                segment_bits=bits,
                segment_gpt_bits=learner.gpt_bits,
                update_size=learner.update_size,
            )
            n_done = n
            on_progress(done, len(symbols))
    finish(learner)
    done = replace(done, segment=NOTHING, segment_bits=NO_BITS, segment_gpt_bits=None, update_size=learner.update_size)
    on_progress(done, len(symbols))
    return done


def finish(learner: Learner) -> None:
    """Lets the GPT learn from the last segment, too: an empty one is begun and ended behind it. Once for each corpus."""
    learner.begin(0)
    learner.end(0)
