"""The run of an evaluation: the cost of each byte of a corpus, while its archive is written, if the learner can have one.

To resume, its folder holds the working folder of archive.pq; `costs` of bytes; and `seconds`: up to the last checkpoint; and of a
finished archive, with its code length.
"""

import math
import time
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader, summarise
from prequential_codecs.archive_header import Header

from prequential.errors import CheckpointError, ConfigError, CorruptArchiveError
from prequential.evaluation.curves import GPT, MIXER, MODEL
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import ARCHIVE, COSTS, SECONDS, DraftFolder
from prequential.evaluation.trace import ArrayFile, Trace
from prequential.files import checkpoint_path, hold_work_folder, output_file, partial_path, reading, writing
from prequential.learners.adapted import NOT_RESUMED
from prequential.learners.given import is_model
from prequential.learners.spec import Earlier, LearnerSpec, byte_costs, reported
from prequential.model.config import blocks, segments
from prequential.model.learner import OnlineLearner
from prequential.online import coding
from prequential.online.checkpoint import SCORE, TOTALS, Checkpoints, Saved, check_identity, identity
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner
from prequential.records import MAX_TIME_S

MAX_EXACT_BITS = 2.0**31  # up to here code lengths are exact sums of float64
START_AGAIN = "start again without resume=True"


class Scored(NamedTuple):
    """What a run measured.

    ledger: of the archive, or of the code length alone. ends (n,) int64: where the learner's segments end, in bytes. wall_s: with
    that of interrupted runs, and without the time spent on checkpoints. mixing: how many threads mixed, as in records; None:
    none did, or it is not known.
    """

    ledger: Ledger
    ends: NDArray[np.int64]
    wall_s: float
    mixing: dict[str, Any] | None = None


class Scoring:
    """A run over a corpus, from the start or from what an interrupted one has left in its folder.

    trace: costs under the learner and, if it has both, under GPT and mixer; `score` does not fill in the mixer's.
    """

    def __init__(self, header: Header, spec: LearnerSpec, folder: DraftFolder) -> None:
        """Raises ConfigError for a learner that cannot be resumed, CheckpointError if the folder is of another run."""
        if folder.resume and not spec.resumes:
            raise ConfigError(NOT_RESUMED)
        self._header, self._spec, self._folder = header, spec, Path(folder.path)
        self.archive = self._folder / ARCHIVE
        self._saves, self._before_s = (folder.keep or folder.resume) and spec.resumes, 0.0
        checkpoint = checkpoint_path(self.archive)
        if folder.resume and checkpoint.exists():
            check_identity(checkpoint, identity("compress" if spec.is_coded else SCORE, header))
        self._is_finished = folder.resume and spec.is_coded and self.archive.exists()
        has_both = spec.config and spec.config.gpt and spec.config.mixer and not is_model(spec.given)
        self.trace = Trace((MODEL, GPT, MIXER) if has_both else (MODEL,), header.n_bytes, self._folder / COSTS)
        self._seconds = ArrayFile(np.float64, 3, self._folder / SECONDS)
        draft = partial_path(self.archive) if spec.is_coded else None
        self._checkpoints = Checkpoints(checkpoint, draft, resume=folder.resume, sync=self._sync)

    def score(self, symbols: NDArray[np.uint8], on_progress: OnProgress) -> Scored:
        """Runs the learner over the corpus; writes the archive, if there is one. Raises what the learner raises."""
        self._start_s = time.perf_counter()
        if self._is_finished:
            return self._finished()
        return (self._coded if self._spec.is_coded else self._scored)(symbols, on_progress)

    def _coded(self, symbols: NDArray[np.uint8], on_progress: OnProgress) -> Scored:
        with output_file(self.archive, resume=self._checkpoints.resume) as sink:
            self._start_s = time.perf_counter()
            learner, saves = self._spec.make(), self._checkpoints if self._saves else None
            reports = coding.compress(symbols, self._header, sink, learner, saves)
            first = next(reports)
            if n_before := first.n_bytes - len(first.segment):
                self._continue(n_before, first.code_bits - float(first.segment_bits.sum()))
            for done in chain((first,), reports):
                if len(done.segment):
                    self.trace.append(MODEL, done.segment_bits)
                    if GPT in self.trace.parts and done.segment_gpt_bits is not None:
                        self.trace.append(GPT, done.segment_gpt_bits)
                on_progress(done, len(symbols))
            wall_s, mixer = self._wall_s(), learner.mixer if isinstance(learner, OnlineLearner) else None
            with writing(self._folder / SECONDS):
                self._seconds.write(1, np.array([wall_s, self.trace.total_bits(MODEL)]))
                self._sync()
        return Scored(Ledger.from_progress(done), self._ends(), wall_s, mixer.threads.to_record() if mixer else None)

    def _scored(self, symbols: NDArray[np.uint8], on_progress: OnProgress) -> Scored:
        """Its checkpoint stays at the end: there is no other proof of the costs until the run folder is complete."""
        signals = self._checkpoints.holding_signals() if self._saves else nullcontext()
        with hold_work_folder(self.archive), signals:
            learner, sizes, earlier = self._spec.make(), list[int](), None
            n_before = n_bytes = 0
            if saved := self._checkpoints.load(SCORE, self._header, learner):
                n_before = saved.totals["n_bytes"]
                self._continue(n_before, saved.totals["code_bits"])
                self.trace.resume(MODEL, 0)  # the costs come again, run by run
                earlier = Earlier(learner.n_symbols, n_before, lambda where: self.trace.bits(MODEL, where))
            costs = byte_costs(symbols, self._spec, learner, earlier)
            for bits in reported(costs, symbols, on_progress, after=n_before):
                self.trace.append(MODEL, bits)
                sizes.append(len(bits))
                n_bytes += len(bits)
                if self._saves and n_bytes > n_before:
                    self._checkpoints.save_if_due(SCORE, self._header, learner, partial(self._saved, n_bytes))
        ledger = Ledger.of_code_length(len(symbols), self.trace.total_bits(MODEL))
        return Scored(ledger, np.cumsum(sizes), self._wall_s())

    def _saved(self, n_bytes: int) -> Saved:
        code_bits = float(self.trace.sums(MODEL, np.array([n_bytes]))[0])
        return Saved(totals=dict.fromkeys(TOTALS, 0) | {"n_bytes": n_bytes, "code_bits": code_bits})

    def _continue(self, n_bytes: int, code_bits: float, before_s: float | None = None) -> None:
        """Goes on after the first n_bytes, whose costs an earlier run has written. Raises CheckpointError if they are others."""
        costs = self.trace.sums(MODEL, np.array([n_bytes]))[0]
        if not (costs and math.isclose(costs, code_bits, rel_tol=1e-9 if costs > MAX_EXACT_BITS else 0.0)):
            raise CheckpointError(f"the recorded costs do not belong to this run: {START_AGAIN}")
        for part in {MODEL, GPT} & set(self.trace.parts):
            self.trace.resume(part, n_bytes)
        self._before_s = float(self._seconds.read(0, 1)[0]) if before_s is None else before_s
        if not 1e-9 <= self._before_s <= MAX_TIME_S:
            raise CheckpointError(f"the recorded times are damaged: {START_AGAIN}")

    def _wall_s(self) -> float:
        return self._before_s + time.perf_counter() - self._start_s - self._checkpoints.spent_s

    def _sync(self) -> None:
        self.trace.file.sync()
        self._seconds.write(0, np.array([self._wall_s()]))
        self._seconds.sync()

    def _ends(self) -> NDArray[np.int64]:
        schedule = self._spec.schedule
        in_blocks = (segments(block, schedule) for block in blocks(self._header.n_bytes, schedule))
        return np.array([segment.stop for segment in chain.from_iterable(in_blocks)], np.int64)

    def _finished(self) -> Scored:
        """Of an archive that an earlier run finished. Raises CheckpointError if it or its costs are not of it."""
        try:
            summary = summarise(self.archive)
        except CorruptArchiveError as error:
            raise CheckpointError(f"{error}: {START_AGAIN}") from error
        if identity(SCORE, summary.header) != identity(SCORE, self._header):
            raise CheckpointError(f"{str(self.archive)!r} belongs to another run: {START_AGAIN}")
        wall_s, code_bits = self._seconds.read(1, 3).tolist()
        self._continue(self._header.n_bytes, code_bits, wall_s)
        sizes = {name: getattr(summary, name) for name in ("archive_bytes", "header_bytes", "payload_bytes")}
        return Scored(Ledger(n_bytes=self._header.n_bytes, code_bits=code_bits, **sizes), self._ends(), wall_s)


def verified(symbols: NDArray[np.uint8], archive: Path, learner: Learner, on_progress: OnProgress) -> float:
    """Decodes the archive and compares every byte; returns the wall time in seconds. Raises CorruptArchiveError."""
    comparison, start_s = _Comparison(symbols), time.perf_counter()
    with reading(archive), archive.open("rb") as file:
        for done in coding.decompress(ArchiveReader(file), comparison, learner):
            on_progress(done, len(symbols))
    if (n := comparison.n_bytes) != len(symbols):
        raise CorruptArchiveError(f"verification: the archive decodes to {n} bytes instead of {len(symbols)}")
    return time.perf_counter() - start_s


class _Comparison:
    """A sink that compares the bytes written to it with the original."""

    def __init__(self, symbols: NDArray[np.uint8]) -> None:
        self._symbols, self.n_bytes = symbols, 0

    def write(self, data: bytes) -> int:
        end = self.n_bytes + len(data)
        if data != self._symbols[self.n_bytes : end].tobytes():
            raise CorruptArchiveError(f"verification: bytes {self.n_bytes}-{end} differ from the original")
        self.n_bytes = end
        return len(data)
