"""The first part of an evaluation: coding a corpus into an archive, and recording the cost of each byte.

An interrupted evaluation leaves in its folder what it needs to resume:

    archive.pq.partial, archive.pq.checkpoint     while it codes, as of `compress`; afterwards archive.pq
    costs, seconds                                the cost of each byte; the time at which each segment ended
    encoded.json                                  ledger and wall time of a finished archive
"""

import json
import time
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive_header import Header
from prequential.errors import CheckpointError
from prequential.files import checkpoint_path, open_regular_file, output_file, partial_path, write_text
from prequential.measure.evaluation.ledger import Ledger
from prequential.measure.evaluation.trace import GPT, MIXER, MODEL, Trace, map_array
from prequential.model.config import Config
from prequential.online import coding
from prequential.online.checkpoint import Checkpoints, identity
from prequential.online.coding import OnProgress, Progress
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks, segments
from prequential.online.source import HashedSymbols

ARCHIVE = "archive.pq"
COSTS, SECONDS, ENCODED = "costs", "seconds", "encoded.json"  # deleted when the evaluation is complete

WRONG_COSTS = "the recorded costs do not belong to this archive: start again without --resume"


class Draft:
    """An archive that an evaluation makes, and the trace of its costs.

    ends (n,) int64: the positions at which segments end. trace: costs under the learner and, if it has both, under GPT and mixer.
    `encode` does not fill in the mixer's costs.
    """

    def __init__(self, folder: Path, header: Header, *, resume: bool) -> None:
        """resume: continue from the files of an earlier evaluation. Raises CheckpointError if they do not fit the header."""
        self._config = Config.from_dict(header.config)
        schedule, has_both = self._config.schedule, self._config.gpt is not None and self._config.mixer is not None
        ends = [s.stop for block in blocks(header.n_bytes, schedule) for s in segments(block, schedule)]
        self.archive, self.ends = folder / ARCHIVE, np.array(ends, np.int64)
        self.trace = Trace((MODEL, GPT, MIXER) if has_both else (MODEL,), header.n_bytes, folder / COSTS)
        self._folder, self._header, self._resume = folder, header, resume

    def encode(
        self, symbols: NDArray[np.uint8], runtime: Runtime, on_progress: OnProgress, *, keep: bool
    ) -> tuple[Ledger, float]:
        """Writes the archive; returns its ledger and the wall time of coding in seconds.

        The time includes that of interrupted runs, but not the time spent on checkpoints. keep: save checkpoints.
        """
        if self._resume and self.archive.exists():
            return self._finished()
        seconds = self._open_seconds()
        checkpoints = self._checkpoints(seconds)
        with output_file(self.archive, resume=self._resume) as sink:
            start_s = time.perf_counter()
            learner, saves = runtime.learner(self._config), checkpoints if keep or self._resume else None
            hashed = HashedSymbols(symbols)
            reports = coding.compress(hashed, self._header, sink, learner, saves)
            first = next(reports)
            start_s -= self._resume_costs(first, seconds)
            for done in chain((first,), reports):
                self._append_costs(done)
                if len(done.segment):
                    seconds[np.searchsorted(self.ends, done.n_bytes)] = (
                        time.perf_counter() - start_s - checkpoints.spent_s
                    )
                on_progress(done, len(symbols))
            hashed.check(self._header.blake2b, str(self._header.corpus.get("name", "")))
            wall_s, ledger = time.perf_counter() - start_s - checkpoints.spent_s, Ledger.from_progress(done)
            self._save_result(ledger, wall_s)
        return ledger, wall_s

    def _open_seconds(self) -> np.memmap[Any, Any]:
        """The wall time of coding at the end of each segment, in a memory-mapped file."""
        with open_regular_file(self._folder / SECONDS) as file:
            return map_array(file, np.dtype(np.float64), self.ends.shape)

    def _checkpoints(self, seconds: np.memmap[Any, Any]) -> Checkpoints:
        def sync() -> None:
            self.trace.sync()
            seconds.flush()

        archive = self.archive
        return Checkpoints(checkpoint_path(archive), partial_path(archive), resume=self._resume, sync=sync)

    def _append_costs(self, done: Progress) -> None:
        """Adds the costs of the segment that `done` reports."""
        if len(done.segment):
            self.trace.append(MODEL, done.segment_bits)
            if GPT in self.trace.parts and done.segment_gpt_bits is not None:
                self.trace.append(GPT, done.segment_gpt_bits)

    def _resume_costs(self, first: Progress, seconds: NDArray[np.float64]) -> float:
        """Continues the trace of earlier runs; returns the seconds that their coding took.

        first: the first report of this run. Raises CheckpointError if the trace does not belong to the checkpoint.
        """
        n_coded_before = first.n_bytes - len(first.segment)
        if not n_coded_before:
            return 0.0
        costs = self.trace.sums(MODEL, np.array([n_coded_before]))[0]
        if costs + float(first.segment_bits.sum()) != first.code_bits:
            raise CheckpointError(WRONG_COSTS)
        for part in {MODEL, GPT} & set(self.trace.parts):
            self.trace.resume(part, n_coded_before)
        return float(seconds[np.searchsorted(self.ends, n_coded_before)])

    def _save_result(self, ledger: Ledger, wall_s: float) -> None:
        self.trace.sync()
        about = {"ledger": asdict(ledger), "wall_s": wall_s, "run": identity("compress", self._header)}
        write_text(self._folder / ENCODED, json.dumps(about))

    def _finished(self) -> tuple[Ledger, float]:
        """What an earlier run saved about its finished archive. Raises CheckpointError if that is damaged or of another run."""
        path = self._folder / ENCODED
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            ledger, wall_s = Ledger(**about["ledger"]), float(about["wall_s"])
            same_run = about["run"] == identity("compress", self._header)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{str(path)!r} does not describe {self.archive.name}: start again without --resume"
            ) from error
        if not same_run or ledger.archive_bytes != self.archive.stat().st_size:
            raise CheckpointError(f"{str(self.archive)!r} belongs to another run: start again without --resume")
        if self.trace.total_bits(MODEL) != ledger.code_bits:
            raise CheckpointError(WRONG_COSTS)
        return ledger, wall_s
