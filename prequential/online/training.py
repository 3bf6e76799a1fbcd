"""A learner reads a corpus and learns from all of it: what `compress` does, with nothing written.

The loop lets the GPT learn from a segment while the next one is read, so the last segment of a corpus has not been learned from
when it ends. `finish` makes up for that; a learner that was trained is one that is finished.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive_header import Header
from prequential.codecs.bit_coder import FOLLOW, BitCoder
from prequential.errors import CheckpointError, CorpusError, OutputError
from prequential.files import PathLike, checkpoint_path, forget, own_lock
from prequential.model.learner import Learner
from prequential.online.checkpoint import TOTALS, Checkpoints, Saved
from prequential.online.coding import NO_BITS, NOTHING, OnProgress, Progress, ignore
from prequential.online.loop import run
from prequential.online.schedule import blocks

DIRECTION = "train"  # of a checkpoint


def train(
    learner: Learner,
    symbols: NDArray[np.uint8],
    on_progress: OnProgress = ignore,
    insurance: tuple[Checkpoints, Header] | None = None,
) -> Progress:
    """Lets the learner read symbols (n,) behind whatever it has read before, and learn from all of them; what they cost.

    on_progress: called after each segment with (totals so far, n), and once in the end; the cost of each byte is in segment_bits,
    and only there: memory does not depend on n, symbols may be mapped. The totals are of `symbols`, and of no archive:
    code_bits is the prequential code length. insurance, of a fresh learner: where the run is saved, and may go on from, and
    the header that an archive of `symbols` would have. Raises CorpusError for an empty corpus, CheckpointError where a run
    cannot be gone on with.
    """
    if not len(symbols):
        raise CorpusError("nothing to learn from: the corpus is empty")
    done = _went_on(learner, *insurance) if insurance else Progress()
    start, n_ahead = learner.history.n_symbols - done.n_bytes, done.n_bytes
    coder = BitCoder(FOLLOW)
    for block in blocks(len(symbols), learner.config.schedule):
        if block.stop <= n_ahead:
            continue
        first = max(block.start, n_ahead)
        part, n_done = np.array(symbols[first : block.stop]), 0
        for n, bits in run(learner, coder, slice(start + first, start + block.stop), part):
            done = Progress(
                n_bytes=first + n,
                code_bits=done.code_bits + float(bits.sum()),
                segment=part[n_done:n],
                segment_bits=bits,
                segment_gpt_bits=learner.gpt_bits,
                update_size=learner.update_size,
            )
            n_done = n
            on_progress(done, len(symbols))
            if insurance:
                checkpoints, header = insurance
                checkpoints.insure(DIRECTION, header, learner, partial(_saved, done))
    finish(learner)
    done = replace(done, segment=NOTHING, segment_bits=NO_BITS, segment_gpt_bits=None, update_size=learner.update_size)
    on_progress(done, len(symbols))
    return done


def _went_on(learner: Learner, checkpoints: Checkpoints, header: Header) -> Progress:
    """What an interrupted run had done, which is the learner's state then; nothing, where there was none."""
    saved = checkpoints.load(DIRECTION, header, learner)
    return Progress(**saved.totals) if saved else Progress()


def _saved(done: Progress) -> Saved:
    return Saved(totals={name: getattr(done, name) for name in TOTALS})


@contextmanager
def insured(model: PathLike, *, resume: bool) -> Iterator[Checkpoints]:
    """Where the training of what becomes `model` is saved: MODEL.checkpoint, which goes when the body is done.

    resume: whether to go on from there. Raises OutputError for a checkpoint that is not to be gone on from, and where
    another training has the same model.
    """
    path = checkpoint_path(model)
    with own_lock(path.with_name(path.name + ".lock"), model):
        if path.exists() and not resume:
            raise OutputError(f"an interrupted run left {str(path)!r}: go on with --resume, or delete it")
        try:
            yield Checkpoints(path, resume=resume)
        except BaseException as error:
            if path.exists() and not isinstance(error, CheckpointError):
                error.add_note("--resume goes on from where it was last saved")
            raise
        forget(path)


def finish(learner: Learner) -> None:
    """Lets the GPT learn from the last segment, too: an empty one is begun and ended behind it. Once for each corpus."""
    learner.begin(0)
    learner.end(0)
