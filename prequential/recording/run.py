"""The run folder of a training run: an ordinary record, which says that the figures are reported, not proved."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential.evaluation.curves import MODEL, Curve, curve_table
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import PathLike, Run, new_run_folder
from prequential.online.runtime import Runtime
from prequential.records.forms import TrainingRecord
from prequential.records.schema import append_record, environment, record_of
from prequential.watch.health import Finding


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """What somebody else's program says about its training, under the names of the record. The curve ends with the run.

    mode: the permissions that its files have at most.
    """

    coding: str
    corpus: dict[str, Any]
    learner: dict[str, Any]
    reported: dict[str, Any]
    n_tokens: int
    curve: Curve
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    mode: int = 0o777
    wall_s: float = 0.0
    device: str = "not known"

    def record(self) -> dict[str, Any]:
        """The record of an evaluation without archive, tables and baselines."""
        n_bytes, code_bits = self.corpus["n_bytes"], float(self.curve.bits[-1])
        ledger, wall_s = Ledger.of_code_length(n_bytes, code_bits), max(self.wall_s, 1e-9)
        return record_of(
            TrainingRecord,
            self,
            ledger,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            limit_bytes=None,
            config={OTHER: self.learner},
            bits_per_byte=ledger.code_bits_per_byte,
            ledger=[{"entry": entry, "bits": bits} for entry, bits in ledger.entries()],
            parts={MODEL: code_bits},
            crossings={},
            tables={},
            passages=[],
            wall_s=wall_s,
            bytes_per_s=n_bytes / wall_s,
            verified=False,
            verify_wall_s=None,
            verify_bytes_per_s=None,
            peak_memory_bytes=0,
            baselines=[],
            notes=list(self.notes),
            findings=[asdict(finding) for finding in self.findings],
            environment={**environment(Runtime(), None), "device": self.device},
            bits_per_token=code_bits / self.n_tokens,
            nats_per_token=code_bits / self.n_tokens * math.log(2.0),
            tokens_per_byte=self.n_tokens / n_bytes,
        )

    def save(
        self, folder: PathLike, others: Mapping[str, dict[str, Any]] | None = None, *, is_writer: bool = True
    ) -> Run:
        """The run, in a new run folder if this process writes. others: further records, by file. Raises OutputError."""
        record, curves = self.record(), {MODEL: self.curve}
        if not is_writer:
            return Run(Path(folder) / "elsewhere", record, curve_table(curves))
        with new_run_folder(folder) as draft:
            for name, other in (others or {}).items():
                append_record(draft.draft / name, other)
            return Run(draft.finish(Path(folder), record, curves, mode=self.mode), record)
