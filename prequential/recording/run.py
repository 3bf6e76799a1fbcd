"""The run folder of a training run: an ordinary record, which says that the figures are reported, not proved."""

import json
import math
import secrets
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential import files
from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL, Curve, curve_table
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import DRAFT, UNFINISHED, PathLike, Run, RunFolder, new_run_folder, record_line
from prequential.online.runtime import Runtime
from prequential.records import TrainingRecord, UnfinishedRecord, environment, record_of


def check_texts(*values: Any) -> None:
    """Raises ConfigError for a name or arguments that the record cannot hold."""
    try:
        json.dumps(values, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"names and arguments of a learner must be JSON values: {error}") from error


@dataclass
class PartialRun:
    """The draft of a run folder, in which a run keeps what it has so far. It is made when the first line is written.

    before: the name of the draft in a state that was loaded, which is taken: if its run still goes on, that makes another one.
    """

    folder: PathLike
    name: str = field(default_factory=lambda: DRAFT + secrets.token_hex(4))
    before: str = ""

    def draft(self) -> Path:
        """Its path. Raises OutputError."""
        path = Path(self.folder, self.name)
        with files.writing(path):
            if self.before:
                with suppress(FileNotFoundError, ValueError):  # ValueError: it is not a name within the folder
                    path.with_name(self.before).rename(path)
                self.before = ""
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def append(self, **values: Any) -> None:
        """Appends a line: small, and not synchronised. Raises OutputError."""
        line = json.dumps(record_of(UnfinishedRecord, time=_now(), **values))
        path = self.draft() / UNFINISHED
        with files.writing(path), path.open("ab", 0) as file:
            file.write(line.encode() + b"\n")


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """What somebody else's program says about its training, under the names of the record. The curve ends with the run.

    findings: kind, cause and message of each. mode: the permissions that its files have at most.
    """

    coding: str
    corpus: dict[str, Any]
    learner: dict[str, Any]
    reported: dict[str, Any]
    n_tokens: int
    curve: Curve
    findings: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    mode: int = 0o777
    wall_s: float = 0.0
    device: str = "not known"

    def record(self) -> dict[str, Any]:
        """The record of an evaluation without archive, tables and baselines. Raises ConfigError."""
        check_texts(self.learner, self.corpus)
        n_bytes, code_bits = self.corpus["n_bytes"], float(self.curve.bits[-1])
        ledger, wall_s = Ledger.of_code_length(n_bytes, code_bits), max(self.wall_s, 1e-9)
        return record_of(
            TrainingRecord,
            self,
            ledger,
            time=_now(),
            config={OTHER: self.learner},
            bits_per_byte=ledger.code_bits_per_byte,
            ledger=ledger.entries(),
            decoder_bytes=0,
            n_configs=1,
            n_seeds=1,
            total_bits=ledger.archive_bits,
            benchmark_bytes=ledger.archive_bytes,
            parts={MODEL: code_bits},
            crossings={},
            tables={},
            passages=[],
            wall_s=wall_s,
            bytes_per_s=n_bytes / wall_s,
            verified=False,
            **dict.fromkeys(("limit_bytes", "verify_wall_s", "verify_bytes_per_s")),
            peak_memory_bytes=0,
            baselines=[],
            notes=list(self.notes),
            findings=[{"kind": k, "position": 0, "block": 0, "message": m, "cause": c} for k, c, m in self.findings],
            environment={**environment(Runtime(), None), "device": self.device},
            bits_per_token=code_bits / self.n_tokens,
            nats_per_token=code_bits / self.n_tokens * math.log(2.0),
            tokens_per_byte=self.n_tokens / n_bytes,
        )

    def save(
        self,
        folder: PathLike,
        others: Mapping[str, Any] | None = None,
        *,
        partial: PartialRun | None = None,
        is_writer: bool = True,
    ) -> Run:
        """The run, in a new run folder if this process writes. others: further records, by file. Raises OutputError.

        partial: the draft that becomes the folder; it stays if it cannot.
        """
        record, curves = self.record(), {MODEL: self.curve}
        if not is_writer:
            return Run(Path(folder) / "elsewhere", record, curve_table(curves))
        with nullcontext(RunFolder(partial.draft())) if partial else new_run_folder(folder) as draft:
            for name, other in (others or {}).items():
                with files.writing(folder):
                    files.write_text(draft.draft / name, record_line(other))
            return Run(draft.finish(Path(folder), record, curves, mode=self.mode), record)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
