"""The members of a ladder: runs of `sweep --ladder`, or of somebody else's training loop at several sizes.

Of a training loop, nothing is proved. That all members scored the same rows in the same order is checked by digests. That a
shorter run is the beginning of a longer one, with a learning rate that does not depend on the length, cannot be checked.
"""

import json
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential.errors import CorpusError
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import DIFFERENT_ROWS, is_reported
from prequential.sweeps.ladder import Ladder, Parameters, Rung, ladder_of
from prequential.sweeps.plans import CorpusKey, check_archive, recorded_corpus

MAX_PARAMETERS = 1 << 60
OPERATIONS_PER_TOKEN = 6  # for each parameter: two forward, four backward (Kaplan et al. 2020)


class ReportedRung(Rung):
    """A run that a training loop or its log reported, at the size that it says."""

    @property
    def size(self) -> Parameters:
        return Parameters(self.n_weights)

    @property
    def n_weights(self) -> int:
        arguments = self.run.record["config"][OTHER]["arguments"]
        n = arguments.get("n_parameters") or self.run.record["reported"].get("n_parameters")
        return n if type(n) is int and 0 < n <= MAX_PARAMETERS else 0

    @property
    def family(self) -> str:
        """Coding and tokenizer. That the loops agree in all but size, nobody can check."""
        tokenizer = self.run.record["reported"].get("tokenizer") or {}
        return json.dumps([self.run.record["coding"], tokenizer.get("digest")])

    def operations(self, n_bytes: int) -> float:
        return OPERATIONS_PER_TOKEN * self.n_weights * n_bytes * float(self.run.record["tokens_per_byte"])

    @property
    def fault(self) -> str:
        """Why it cannot be a member; empty if it can."""
        if findings := self.run.record.get("findings"):
            return f"of its loop: {findings[0]['message']}"
        if not self.n_weights:
            return "its size is not known: give model= to the Recorder, or arguments={'n_parameters': N} (import: --parameters)"
        return ""


def rung_of(run: Run) -> Rung | None:
    """The run as a member of a ladder; None for a learner whose size has no law here."""
    if is_reported(run.record):
        return ReportedRung(run) if OTHER in run.record["config"] else None
    return Rung(run) if run.record["config"].get("gpt") else None


def is_reported_ladder(ladder: Ladder) -> bool:
    """Whether its figures are reported, not proved."""
    return isinstance(ladder.rungs[0], ReportedRung)


def read_ladder(path: PathLike) -> Ladder:
    """The ladder with the most sizes among the runs at `path`. Of several runs of a size and a seed, the newest counts.

    Raises CorpusError if there is no ladder, if several have the most sizes, for a run that has lost its archive, and for a run
    of a training loop that can be no member.
    """
    ladders: dict[tuple[CorpusKey, str], dict[Any, Rung]] = {}
    for rung in filter(None, map(rung_of, read_runs(path))):
        ladders.setdefault((recorded_corpus(rung.run.record), rung.family), {})[rung.size, rung.seed] = rung
    if not ladders:
        makers = "`prequential sweep --ladder` or training loops at several sizes make them"
        raise CorpusError(f"{str(path)!r} has no runs of a ladder: {makers}")
    n_sizes = {key: len({size for size, _ in members}) for key, members in ladders.items()}
    largest = [key for key, n in n_sizes.items() if n == max(n_sizes.values())]
    for rung in (rung for key in largest for rung in ladders[key].values()):
        if isinstance(rung, ReportedRung) and rung.fault:
            raise CorpusError(f"the run {str(rung.run.path)!r} cannot be in a ladder: {rung.fault}; or move it away")
    ladder = ladder_of(ladders[largest[0]].values())
    if len(largest) > 1:
        differ = DIFFERENT_ROWS.get(ladder.rungs[0].run.record.get("coding", ""), "which differ in bytes or settings")
        several = f"{len(largest)} ladders of {n_sizes[largest[0]]} sizes each, {differ}"
        raise CorpusError(f"{str(path)!r} has {several}: keep each ladder in its own folder")
    for rung in ladder.rungs:
        check_archive(rung.run)
    return ladder
