"""The first part of an evaluation: it codes a corpus into an archive, and keeps what each byte costs.

In a folder that stays, an evaluation that is interrupted leaves what it needs to go on:

    archive.pq.partial, archive.pq.checkpoint     as of `compress`, while it codes; archive.pq once that is done
    costs, seconds                                of each byte; when each segment was done
    encoded.json                                  ledger and time of a finished archive
"""

import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive_header import Header
from prequential.errors import CheckpointError
from prequential.files import checkpoint_path, output_file, own_file, partial_path, write_text
from prequential.measure.evaluation.ledger import Ledger
from prequential.measure.evaluation.trace import GPT, MIXER, MODEL, Trace, mapped
from prequential.model.config import Config
from prequential.online import coding
from prequential.online.checkpoint import Checkpoints, identity
from prequential.online.coding import OnProgress, Progress
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks, segments

ARCHIVE = "archive.pq"
COSTS, SECONDS, ENCODED = "costs", "seconds", "encoded.json"  # what goes when an evaluation is whole

WRONG_COSTS = "the costs of what was coded before are not those of the run: begin anew"


class Draft:
    """An archive in the making, with the trace of its costs.

    ends (n,) int64: where segments end. trace: of the learner and, if it has both, its parts; `encode` leaves the mixer's open.
    """

    def __init__(self, folder: Path, header: Header, *, resume: bool) -> None:
        """resume: goes on with what an earlier one left in the folder. Raises CheckpointError where that is of another corpus."""
        config = Config.from_dict(header.config)
        ends = [s.stop for b in blocks(header.n_bytes, config.schedule) for s in segments(b, config.schedule)]
        self.archive, self.ends = folder / ARCHIVE, np.array(ends, np.int64)
        parts = (MODEL, GPT, MIXER) if config.gpt and config.mixer else (MODEL,)
        self.trace = Trace(parts, header.n_bytes, folder / COSTS)
        self._folder, self._header, self._resume = folder, header, resume

    def encode(
        self, source: NDArray[np.uint8], runtime: Runtime, on_progress: OnProgress, *, keep: bool
    ) -> tuple[Ledger, float]:
        """The ledger of the archive, and the seconds that it took: those of earlier runs too, those of checkpoints not.

        keep: saves checkpoints, to go on with.
        """
        if self._resume and self.archive.exists():
            return self._told()
        trace = self.trace
        with own_file(self._folder / SECONDS) as file:
            seconds = mapped(file, np.dtype(np.float64), self.ends.shape)

        def sync() -> None:
            trace.sync()
            seconds.flush()

        checkpoints = Checkpoints(
            checkpoint_path(self.archive), partial_path(self.archive), resume=self._resume, sync=sync
        )
        saved = checkpoints if keep or self._resume else None
        start_s: float | None = None

        def spent_s() -> float:
            assert start_s is not None  # of an empty corpus there is no evaluation
            return time.perf_counter() - start_s - checkpoints.spent_s

        with output_file(self.archive, resume=self._resume) as sink:
            began_s = time.perf_counter()
            for done in coding.compress(source, self._header, sink, runtime, saved):
                if start_s is None:
                    start_s = began_s - self._went_on(done, seconds)
                if len(done.segment):
                    trace.append(MODEL, done.segment_bits)
                    if GPT in trace.parts and done.segment_gpt_bits is not None:
                        trace.append(GPT, done.segment_gpt_bits)
                    seconds[np.searchsorted(self.ends, done.n_bytes)] = spent_s()
                on_progress(done, len(source))
            wall_s, ledger = spent_s(), Ledger.from_progress(done)
            trace.sync()
            about = {"ledger": asdict(ledger), "wall_s": wall_s, "run": identity("compress", self._header)}
            write_text(self._folder / ENCODED, json.dumps(about))
        return ledger, wall_s

    def _went_on(self, done: Progress, seconds: NDArray[np.float64]) -> float:
        """Seconds of what earlier runs coded, to which the trace goes on; `done` is the first report of this one."""
        n_before = done.n_bytes - len(done.segment)
        if not n_before:
            return 0.0
        costs = self.trace.sums(MODEL, np.array([n_before]))[0]
        if costs + float(done.segment_bits.sum()) != done.code_bits:
            raise CheckpointError(WRONG_COSTS)
        for part in {MODEL, GPT} & set(self.trace.parts):
            self.trace.go_on(part, n_before)
        return float(seconds[np.searchsorted(self.ends, n_before)])

    def _told(self) -> tuple[Ledger, float]:
        """What an earlier run noted of the archive that it had finished. Raises CheckpointError."""
        told = self._folder / ENCODED
        try:
            about = json.loads(told.read_text(encoding="utf-8"))
            found = Ledger(**about["ledger"]), float(about["wall_s"])
            same = about["run"] == identity("compress", self._header)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{str(told)!r} does not tell of {self.archive.name}: begin anew") from error
        if not same or found[0].archive_bytes != self.archive.stat().st_size:
            raise CheckpointError("what was written before is of another run")
        if self.trace.total_bits(MODEL) != found[0].code_bits:
            raise CheckpointError(WRONG_COSTS)
        return found
