"""Training: a learner reads a corpus and learns from all of it, as in `compress`, but nothing is written."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import SCORE, BitCoder

from prequential import files
from prequential.errors import CheckpointError, CorpusError, OutputError
from prequential.files import PathLike
from prequential.model.config import blocks
from prequential.online.checkpoint import Checkpoints, Saved
from prequential.online.coding import OnProgress, Progress, ignore
from prequential.online.loop import Learner, run

DIRECTION = "train"  # of a checkpoint


def train(
    learner: Learner,
    symbols: NDArray[np.uint8],
    on_progress: OnProgress = ignore,
    saving: tuple[Checkpoints, Header] | None = None,
) -> Progress:
    """Lets the learner read symbols (n,) after everything it has read before, and learn from all of them. Returns their cost.

    on_progress: called after each segment with (totals so far, n), and once at the end. saving, for a fresh learner: the
    checkpoints of the run, from which it may resume, and the header that an archive of `symbols` would have. Raises CorpusError
    for an empty corpus, CheckpointError if the interrupted run cannot be resumed.
    """
    if not len(symbols):
        raise CorpusError("nothing to learn from: the corpus is empty")
    with saving[0].holding_signals() if saving else nullcontext():
        saved = saving[0].load(DIRECTION, saving[1], learner) if saving else None
        done = Progress(**saved.totals) if saved else Progress()
        start, n_ahead = learner.n_symbols - done.n_bytes, done.n_bytes
        for block in blocks(len(symbols), learner.schedule):
            if block.stop <= n_ahead:
                continue
            first = max(block.start, n_ahead)
            part, n_done = np.array(symbols[first : block.stop]), 0
            for n, bits in run(learner, BitCoder(SCORE), slice(start + first, start + block.stop), part):
                done, n_done = done.after(part[n_done:n], bits, learner, n - n_done, float(bits.sum())), n
                on_progress(done, len(symbols))
                if saving:
                    saving[0].save_if_due(DIRECTION, saving[1], learner, partial(Saved, totals=done.totals()))
    # the GPT learns from the last segment, too
    learner.begin(0)
    learner.end(0)
    done = Progress(n_bytes=done.n_bytes, code_bits=done.code_bits, update_size=learner.update_size)
    on_progress(done, len(symbols))
    return done


@contextmanager
def training_checkpoints(model: PathLike, *, resume: bool) -> Iterator[Checkpoints]:
    """Checkpoints of a training of `model`, deleted on success. Raises OutputError if one exists without resume or is in use."""
    path = files.checkpoint_path(model)
    with files.hold_work_folder(model) as folder:
        files.check_new_folder(model)  # again, now that no other run writes it
        if path.exists() and not resume:
            raise OutputError(f"an interrupted run left {str(folder)!r}: resume=True continues it, or delete it")
        try:
            yield Checkpoints(path, resume=resume)
        except BaseException as error:
            if path.exists() and not isinstance(error, CheckpointError):
                error.add_note(files.RESUMABLE)
            raise
        files.delete_checkpoint(path)
