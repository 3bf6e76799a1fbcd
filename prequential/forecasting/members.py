"""The members of a ladder: runs of `sweep --ladder`, or of somebody else's training loop at several sizes.

Of a training loop, nothing is proved. That all members scored the same rows in the same order is checked by digests. That a
shorter run is the beginning of a longer one, with a learning rate that does not depend on the length, cannot be checked.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import DIFFERENT_ROWS, is_reported, proof, rows_known
from prequential.model.config import Config
from prequential.online.costs import total_flops
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
        if self.run.record.get("findings"):
            return "a mistake was seen in its loop, so its figures are worth nothing"
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


def operations(run: Run, n_bytes: int) -> float | None:
    """Those of a run over its first bytes; None if they are not known, as those of an earlier version's configuration."""
    if isinstance(rung := rung_of(run), ReportedRung):
        return rung.operations(n_bytes) or None
    with suppress(ConfigError):
        return total_flops(Config.from_record(run.record["config"]), n_bytes)
    return None


def read_ladder(path: PathLike) -> tuple[Ladder, dict[str, str]]:
    """The ladder with the most sizes among the runs at `path`; and the reported runs that are no members of it, with reasons.

    Of several runs of a size and a seed, the newest counts. Raises CorpusError if there is no ladder, if several have the most
    sizes, and if one of its runs has lost its archive.
    """
    rungs = [rung for run in read_runs(path) if (rung := rung_of(run))]
    ladders: dict[tuple[CorpusKey, str], dict[Any, Rung]] = {}
    for rung in rungs:
        if not rung.fault:
            ladders.setdefault(_key(rung), {})[rung.size, rung.seed] = rung
    if not ladders:
        fault = "".join([f"; {rung.run.name}: {rung.fault}" for rung in rungs][:1])
        makers = "`prequential sweep --ladder` or training loops at several sizes make them"
        raise CorpusError(f"{str(path)!r} has no runs of a ladder: {makers}{fault}")
    n_sizes = {key: len({size for size, _ in members}) for key, members in ladders.items()}
    largest = [key for key, n in n_sizes.items() if n == max(n_sizes.values())]
    ladder = ladder_of(ladders[largest[0]].values())
    if len(largest) > 1:
        coding, otherwise = (
            ladder.rungs[0].run.record.get("coding", ""),
            "which differ in their bytes or their settings",
        )
        several = f"{len(largest)} ladders of {n_sizes[largest[0]]} sizes each, {DIFFERENT_ROWS.get(coding, otherwise)}"
        raise CorpusError(f"{str(path)!r} has {several}: keep each ladder in its own folder")
    for rung in ladder.rungs:
        check_archive(rung.run)
    return ladder, _left_out(ladder, rungs) if is_reported_ladder(ladder) else {}


def _key(rung: Rung) -> tuple[CorpusKey, str]:
    return recorded_corpus(rung.run.record), rung.family


def _left_out(ladder: Ladder, rungs: list[Rung]) -> dict[str, str]:
    """Why a reported run that is no longer than the ladder is not in it, by name. A longer one may be the target or the proxy."""
    key, inside = _key(ladder.rungs[0]), {rung.run.name for rung in ladder.rungs}
    other_rows = DIFFERENT_ROWS[ladder.rungs[0].run.record["coding"]]
    reasons = {True: "a newer run has its size and seed", False: other_rows}
    return {
        rung.run.name: rung.fault or reasons[_key(rung) == key]
        for rung in rungs
        if isinstance(rung, ReportedRung)
        and rung.run.name not in inside
        and rung.run.record["corpus"]["n_bytes"] <= ladder.corpus.n_bytes
    }


def what_is_known(ladder: Ladder, left_out: Mapping[str, str]) -> dict[str, Any]:
    """What proves the figures of the members, what is known about their rows, and which runs are no members, as JSON values.

    None for runs of this program, whose archives prove that they coded equal bytes.
    """
    if not is_reported_ladder(ladder):
        return {"proof": None, "rows": None, "left_out": {}}
    records = [rung.run.record for rung in ladder.rungs]
    return {"proof": proof(records[0]), "rows": rows_known(records), "left_out": dict(left_out)}
