"""The loop with a coder that only follows: costs of bytes, of which nothing is written."""

from collections.abc import Iterable, Iterator

import numpy as np
from prequential_codecs.archive_header import OTHER
from prequential_codecs.bit_coder import FOLLOW, UNIT_BITS, BitCoder

from prequential.learners.subject import Subject, spread, tokenise
from prequential.model.schedule import blocks
from prequential.online.coding import OnProgress, Progress
from prequential.online.loop import Learner, run


def byte_costs(symbols: np.ndarray, subject: Subject, learner: Learner | None = None) -> Iterator[np.ndarray]:
    """The costs (n,) in bits of the next bytes of `symbols` (N,) uint8, after each run of the learner; whole units of 2**-22.

    The cost of an id is divided among the bytes that it stands for. Raises what the learner and its tokenizer raise.
    """
    ids, widths = symbols.astype(np.int64), np.ones(len(symbols), np.int64)
    if subject.tokenizer:
        ids, widths = tokenise(symbols.tobytes(), subject.tokenizer, subject.description[OTHER]["n_symbols"])
    learner, before = learner or subject.make(), np.zeros(0, np.int64)
    n_bytes, n_paid = np.cumsum(widths), 0
    for block in blocks(len(ids), subject.schedule):
        for done, bits in run(learner, BitCoder(FOLLOW), block, ids[block]):
            stop = block.start + done
            units = np.concatenate((before, np.rint(bits / UNIT_BITS).astype(np.int64)))
            # If these ids stand for no byte, the next byte takes their cost. The last byte also takes the cost of ids after it.
            if stop < len(ids) and n_bytes[stop - 1] in (n_paid, len(symbols)):
                before = units
                continue
            before, n_paid = units[:0], n_bytes[stop - 1]
            yield spread(units, widths[stop - len(units) : stop]) * UNIT_BITS


def follow(learner: Learner, symbols: np.ndarray) -> Iterator[np.ndarray]:
    """The costs (n,) in bits of the next symbols (N,) uint8 under a learner, after each segment. It learns as in `compress`."""
    for block in blocks(len(symbols), learner.schedule):
        for _, bits in run(learner, BitCoder(FOLLOW), block, np.array(symbols[block])):
            yield bits


def reported(costs: Iterable[np.ndarray], symbols: np.ndarray, on_progress: OnProgress) -> Iterator[np.ndarray]:
    """The same costs, of the next bytes of `symbols` each, after on_progress was called with the totals so far."""
    done = Progress()
    for bits in costs:
        stop = done.n_bytes + len(bits)
        done = Progress(
            n_bytes=stop,
            code_bits=done.code_bits + float(bits.sum()),
            segment=symbols[done.n_bytes : stop],
            segment_bits=bits,
        )
        on_progress(done, len(symbols))
        yield bits
