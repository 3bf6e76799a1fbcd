"""The first part of an evaluation: coding a corpus into an archive, and recording the cost of each byte.

To resume, its folder holds the working folder of archive.pq; `costs` of bytes; `seconds` that it has taken; and
encoded.json: the wall time of a finished archive, its digest and those of its costs.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_corpora.corpus import read_chunks

from prequential.errors import CheckpointError, ConfigError, CorpusError, CorruptArchiveError, wrong_argument
from prequential.evaluation.curves import GPT, MIXER, MODEL
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import ARCHIVE, COSTS, ENCODED, SECONDS
from prequential.evaluation.trace import ArrayFile, Trace
from prequential.files import checkpoint_path, open_regular, output_file, partial_path, reading, write_text, writing
from prequential.files.work_folder import hold_work_folder
from prequential.learners.adapted import NOT_RESUMED
from prequential.learners.spec import Earlier, LearnerSpec, byte_costs, reported
from prequential.model.config import blocks, segments
from prequential.model.learner import OnlineLearner
from prequential.online import coding
from prequential.online.checkpoint import SCORE, TOTALS, Checkpoints, Saved, check_identity, identity, mismatch
from prequential.online.coding import OnProgress, Progress
from prequential.online.loop import Learner
from prequential.online.source import HashedSymbols
from prequential.records import MAX_TIME_S, WallSeconds, check_record, read_object

MAX_EXACT_BITS = 2.0**31  # up to here code lengths are exact sums of float64
WRONG_COSTS = "the recorded costs do not belong to this archive: start again without resume=True"


@dataclass(frozen=True, kw_only=True)
class DraftFolder:
    """The folder that an evaluation works in, for its archive and for what it needs to resume.

    path: a folder that exists. keep: an interrupted evaluation leaves there what it needs. resume: continue with that.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> with tempfile.TemporaryDirectory() as name:
        ...     draft = prequential.DraftFolder(path=pathlib.Path(name))
        ...     result = prequential.evaluate(b"text" * 100, config=prequential.preset(1), baselines=(), draft=draft)
        ...     (draft.path / "archive.pq").stat().st_size == result.ledger.archive_bytes
        True
    """

    path: Path
    keep: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise wrong_argument("path", self.path, "a folder's path")


class Encoded(Struct):
    """What encoded.json holds. archive, costs: digests; costs: of each part."""

    wall_s: WallSeconds
    run: dict[str, Any]
    archive: str
    costs: dict[str, str]


def check_costs(costs: float, code_bits: float) -> None:
    """Raises CheckpointError unless the recorded costs are those of the run, in bits."""
    if not math.isclose(costs, code_bits, rel_tol=1e-9 if costs > MAX_EXACT_BITS else 0.0):
        raise CheckpointError(WRONG_COSTS)


def seconds_before(seconds: ArrayFile) -> float:
    """The recorded time of interrupted runs. Raises CheckpointError if it is none."""
    wall_s = float(seconds.read(0, 1)[0])
    if not 0 <= wall_s <= MAX_TIME_S:
        raise CheckpointError("the recorded times are damaged: start again without resume=True")
    return wall_s


class Draft:
    """An archive that an evaluation makes, and the trace of its costs.

    ends (n,) int64: where segments end. trace: costs under the learner and, if it has both, under GPT and mixer; `encode` does
    not fill in the mixer's. mixing: how many threads mixed in `encode`, as in records; None: none did.
    """

    archive: Path
    ends: NDArray[np.int64]

    def __init__(self, folder: Path, header: Header, spec: LearnerSpec, *, resume: bool) -> None:
        """resume: continue from the files of an earlier evaluation. Raises CheckpointError if they do not fit the header."""
        config, schedule = spec.config, spec.schedule
        has_both = config is not None and config.gpt is not None and config.mixer is not None and spec.scores_parts
        ends = [s.stop for block in blocks(header.n_bytes, schedule) for s in segments(block, schedule)]
        self.archive, self.ends = folder / ARCHIVE, np.array(ends, np.int64)
        self.mixing: dict[str, Any] | None = None
        self._spec, self._folder, self._header, self._resume = spec, folder, header, resume
        if resume and not spec.resumes:
            raise ConfigError(NOT_RESUMED)
        if resume:
            self._check_run()
        self.trace: Trace = Trace((MODEL, GPT, MIXER) if has_both else (MODEL,), header.n_bytes, folder / COSTS)

    def _check_run(self) -> None:
        """Raises CheckpointError if the folder is of another run, as far as its descriptions show."""
        expected = identity("compress", self._header)
        if checkpoint_path(self.archive).exists():
            check_identity(checkpoint_path(self.archive), expected)
        elif self.archive.exists() and (reason := mismatch(self._result()["run"], expected)):
            raise CheckpointError(f"{str(self.archive)!r} belongs to another run: {reason}")

    def encode(self, symbols: NDArray[np.uint8], on_progress: OnProgress, *, keep: bool) -> tuple[Ledger, float]:
        """Writes the archive; returns its ledger and the wall time of coding in seconds. keep: save checkpoints.

        The time includes that of interrupted runs, but not the time spent on checkpoints.
        """
        if self._resume and self.archive.exists():
            return self._finished()
        seconds = ArrayFile(np.float64, 1, self._folder / SECONDS)

        def sync() -> None:
            self.trace.sync()
            seconds.write(0, np.array([wall_s()]))
            seconds.sync()

        def wall_s() -> float:
            return time.perf_counter() - start_s - checkpoints.spent_s

        draft = partial_path(self.archive)
        checkpoints = Checkpoints(checkpoint_path(self.archive), draft, resume=self._resume, sync=sync)
        with output_file(self.archive, resume=self._resume) as sink:
            start_s = time.perf_counter()
            saves = checkpoints if (keep or self._resume) and self._spec.resumes else None
            hashed = HashedSymbols(symbols)
            learner = self._spec.make()
            reports = coding.compress(hashed, self._header, sink, learner, saves)
            first = next(reports)
            start_s -= self._resume_costs(first, seconds)
            for done in chain((first,), reports):
                if len(done.segment):
                    self.trace.append(MODEL, done.segment_bits)
                    if GPT in self.trace.parts and done.segment_gpt_bits is not None:
                        self.trace.append(GPT, done.segment_gpt_bits)
                on_progress(done, len(symbols))
            hashed.check(self._header.blake2b, str(self._header.corpus.get("name", "")))
            took_s = wall_s()
            if isinstance(learner, OnlineLearner) and learner.mixer:
                self.mixing = learner.mixer.threads.to_record()
            self._save_result(took_s, sink.blake2b)
        return Ledger.from_progress(done), took_s

    def _resume_costs(self, first: Progress, seconds: ArrayFile) -> float:
        """Continues the trace before this run's first report; returns the seconds of earlier runs. Raises CheckpointError."""
        n_coded_before = first.n_bytes - len(first.segment)
        if not n_coded_before:
            return 0.0
        costs = self.trace.sums(MODEL, np.array([n_coded_before]))[0] + float(first.segment_bits.sum())
        check_costs(costs, first.code_bits)
        for part in {MODEL, GPT} & set(self.trace.parts):
            self.trace.resume(part, n_coded_before)
        return seconds_before(seconds)

    def _save_result(self, wall_s: float, archive_blake2b: bytes) -> None:
        run, costs = identity("compress", self._header), self._costs_digests()
        about = Encoded(wall_s=wall_s, run=run, archive=archive_blake2b.hex(), costs=costs)
        with writing(self._folder / ENCODED):
            self.trace.sync()
            write_text(self._folder / ENCODED, json.dumps(asdict(about)))

    def _costs_digests(self) -> dict[str, str]:
        return {part: self.trace.digest(part) for part in self.trace.parts if part != MIXER}

    def _finished(self) -> tuple[Ledger, float]:
        """As `encode`, of an archive that an earlier run finished. Raises CheckpointError if it or its costs are not of it."""
        about = self._result()
        digest = hashlib.blake2b(digest_size=32)
        with reading(self.archive), open_regular(self.archive) as file:
            for chunk in read_chunks(file, self.archive):
                digest.update(chunk)
        if about["archive"] != digest.hexdigest():
            message = f"{str(self.archive)!r} is damaged, or of another run: start again without resume=True"
            raise CheckpointError(message)
        if about["costs"] != self._costs_digests():
            raise CheckpointError(WRONG_COSTS)
        return Ledger.of_archive(self.archive, code_bits=self.trace.total_bits(MODEL)), about["wall_s"]

    def _result(self) -> dict[str, Any]:
        """What `_save_result` wrote. Raises CheckpointError if it is damaged."""
        path = self._folder / ENCODED
        try:
            return check_record(read_object(path), Encoded, repr(str(path)))
        except CorpusError as error:
            raise CheckpointError(f"{error}: start again without resume=True") from error


def verified(source: NDArray[np.uint8], archive: Path, learner: Learner, on_progress: OnProgress) -> float:
    """Decodes the archive and compares every byte; returns the wall time in seconds. Raises CorruptArchiveError."""
    comparison = _Comparison(source)
    start_s = time.perf_counter()
    with reading(archive), archive.open("rb") as file:
        for done in coding.decompress(ArchiveReader(file), comparison, learner):
            on_progress(done, len(source))
    if comparison.n_bytes != len(source):
        found = f"{comparison.n_bytes} bytes instead of {len(source)}"
        raise CorruptArchiveError(f"verification: the archive decodes to {found}")
    return time.perf_counter() - start_s


class _Comparison:
    """A sink that compares the bytes written to it with the original."""

    def __init__(self, source: NDArray[np.uint8]) -> None:
        self._source = source
        self.n_bytes = 0

    def write(self, data: bytes) -> int:
        expected = self._source[self.n_bytes : self.n_bytes + len(data)].tobytes()
        if data != expected:
            where = f"{self.n_bytes}-{self.n_bytes + len(data)}"
            raise CorruptArchiveError(f"verification: bytes {where} differ from the original")
        self.n_bytes += len(data)
        return len(data)


# ---- without an archive


class Followed(NamedTuple):
    """The costs of all bytes, the ends (n,) of runs in bytes, and the wall time without checkpoints."""

    trace: Trace
    ends: NDArray[np.int64]
    wall_s: float


def score_corpus(
    symbols: NDArray[np.uint8],
    header: Header,
    spec: LearnerSpec,
    folder: DraftFolder | None,
    on_progress: OnProgress,
) -> Followed:
    """Runs the learner over the corpus. Raises what it raises, and CheckpointError if the folder is of another run."""
    if folder is not None and folder.resume and not spec.resumes:
        raise ConfigError(NOT_RESUMED)
    if folder is None or not spec.resumes or not (folder.keep or folder.resume):
        return _followed(_Run(Trace((MODEL,), len(symbols)), spec.make()), symbols, spec, on_progress)
    archive = Path(folder.path) / ARCHIVE
    with _saved_run(archive, header, spec, resume=folder.resume) as this:
        return _followed(this, symbols, spec, on_progress)


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
            self.checkpoints.save_if_due(SCORE, self.header, self.learner, saved)


@contextmanager
def _saved_run(archive: Path, header: Header, spec: LearnerSpec, *, resume: bool) -> Iterator[_Run]:
    """A run that is saved beside `archive`, which never exists, and continues from there. Its checkpoint stays at the end."""
    path = checkpoint_path(archive)
    if resume and path.exists():
        check_identity(path, identity(SCORE, header))
    with hold_work_folder(archive):
        trace = Trace((MODEL,), header.n_bytes, archive.with_name(COSTS))
        this, seconds = _Run(trace, spec.make()), ArrayFile(np.float64, 1, archive.with_name(SECONDS))

        def sync() -> None:
            trace.sync()
            seconds.write(0, np.array([this.wall_s()]))
            seconds.sync()

        this.header, this.checkpoints = header, Checkpoints(path, resume=resume, sync=sync)
        if saved := this.checkpoints.load(SCORE, header, this.learner):
            this.n_paid, this.n_ids = saved.totals["n_bytes"], this.learner.n_symbols
            check_costs(trace.sums(MODEL, np.array([this.n_paid]))[0], saved.totals["code_bits"])
            this.before_s = seconds_before(seconds)
        with this.checkpoints.holding_signals():
            yield this


def _followed(this: _Run, symbols: NDArray[np.uint8], spec: LearnerSpec, on_progress: OnProgress) -> Followed:
    sizes, n_bytes = [], 0
    earlier = Earlier(this.n_ids, this.n_paid, lambda where: this.trace.bits(MODEL, where)) if this.n_ids else None
    costs = byte_costs(symbols, spec, this.learner, earlier)
    for bits in reported(costs, symbols, on_progress, after=this.n_paid):
        this.trace.append(MODEL, bits)
        sizes.append(len(bits))
        n_bytes += len(bits)
        if n_bytes > this.n_paid:
            this.save_if_due(n_bytes)
    return Followed(this.trace, np.cumsum(sizes), this.wall_s())
