"""The code length of a learner whose symbols are not written: of ids, or one that no decoder can repeat.

An interrupted run leaves in its folder, if its learner can be resumed:

    .archive.pq.prequential/    the learner's state, as of `compress`
    costs, seconds              the cost of each byte; the time that the run has taken
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import Header

from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.draft import DraftFolder, check_costs, seconds_before
from prequential.evaluation.runs import ARCHIVE, COSTS, SECONDS
from prequential.evaluation.trace import ArrayFile, Trace
from prequential.files import checkpoint_path
from prequential.files.work_folder import hold_work_folder
from prequential.learners.adapted import NOT_RESUMED
from prequential.learners.spec import Earlier, Subject, byte_costs, reported
from prequential.online.checkpoint import FOLLOW, TOTALS, Checkpoints, Saved, check_identity, identity
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner


class Followed(NamedTuple):
    """The costs of all bytes, the ends (n,) of runs in bytes, and the wall time without checkpoints."""

    trace: Trace
    ends: NDArray[np.int64]
    wall_s: float


def follow_corpus(
    symbols: NDArray[np.uint8],
    header: Header,
    subject: Subject,
    folder: DraftFolder | None,
    on_progress: OnProgress,
) -> Followed:
    """Runs the learner over the corpus. Raises what it raises, and CheckpointError if the folder is of another run."""
    if folder is not None and folder.resume and not subject.resumes:
        raise ConfigError(NOT_RESUMED)
    if folder is None or not subject.resumes or not (folder.keep or folder.resume):
        return _followed(_Run(Trace((MODEL,), len(symbols)), subject.make()), symbols, subject, on_progress)
    archive = Path(folder.path) / ARCHIVE
    with _saved_run(archive, header, subject, resume=folder.resume) as this:
        return _followed(this, symbols, subject, on_progress)


class _Run:
    """A learner and its costs, from the start or from a checkpoint."""

    def __init__(self, trace: Trace, learner: Learner) -> None:
        self.trace, self.learner = trace, learner
        self.n_paid, self.n_ids, self.before_s = 0, 0, 0.0
        self.start_s = time.perf_counter()
        self.checkpoints: Checkpoints | None = None
        self.header: Header | None = None

    def wall_s(self) -> float:
        spent_s = self.checkpoints.spent_s if self.checkpoints else 0.0
        return self.before_s + time.perf_counter() - self.start_s - spent_s

    def save_if_due(self, n_bytes: int) -> None:
        def saved() -> Saved:
            code_bits = self.trace.sums(MODEL, np.array([n_bytes]))[0]
            return Saved(totals=dict.fromkeys(TOTALS, 0) | {"n_bytes": n_bytes, "code_bits": float(code_bits)})

        if self.checkpoints and self.header:
            self.checkpoints.save_if_due(FOLLOW, self.header, self.learner, saved)


@contextmanager
def _saved_run(archive: Path, header: Header, subject: Subject, *, resume: bool) -> Iterator[_Run]:
    """A run that is saved beside `archive`, which never exists, and continues from there. Its checkpoint stays at the end."""
    path = checkpoint_path(archive)
    if resume and path.exists():
        check_identity(path, identity(FOLLOW, header))
    with hold_work_folder(archive):
        trace = Trace((MODEL,), header.n_bytes, archive.with_name(COSTS))
        this, seconds = _Run(trace, subject.make()), ArrayFile(np.float64, 1, archive.with_name(SECONDS))

        def sync() -> None:
            trace.sync()
            seconds.write(0, np.array([this.wall_s()]))
            seconds.sync()

        this.header, this.checkpoints = header, Checkpoints(path, resume=resume, sync=sync)
        if saved := this.checkpoints.load(FOLLOW, header, this.learner):
            this.n_paid, this.n_ids = saved.totals["n_bytes"], this.learner.n_symbols
            check_costs(trace.sums(MODEL, np.array([this.n_paid]))[0], saved.totals["code_bits"])
            this.before_s = seconds_before(seconds)
        with this.checkpoints.holding_signals():
            yield this


def _followed(this: _Run, symbols: NDArray[np.uint8], subject: Subject, on_progress: OnProgress) -> Followed:
    sizes, n_bytes = [], 0
    earlier = Earlier(this.n_ids, this.n_paid, lambda where: this.trace.bits(MODEL, where)) if this.n_ids else None
    costs = byte_costs(symbols, subject, this.learner, earlier)
    for bits in reported(costs, symbols, on_progress, after=this.n_paid):
        this.trace.append(MODEL, bits)
        sizes.append(len(bits))
        n_bytes += len(bits)
        if n_bytes > this.n_paid:
            this.save_if_due(n_bytes)
    return Followed(this.trace, np.cumsum(sizes), this.wall_s())
