"""The run folder of a training run: an ordinary record, which says that the figures are reported, not proved."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential import files
from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import DRAFT, UNFINISHED, DraftFolder, PathLike, Run, new_run_folder, record_line
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
    """The draft of a run folder, in which a run keeps what it has so far. It is made when the first line is written."""

    folder: PathLike
    name: str = field(default_factory=lambda: DRAFT + secrets.token_hex(4))

    def draft(self) -> Path:
        """Its path. Raises OutputError."""
        path = Path(self.folder, self.name)
        with files.writing(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def append(self, **values: Any) -> None:
        """Appends a line: small, and not synchronised. Raises OutputError."""
        line = json.dumps(record_of(UnfinishedRecord, time=_now(), **values))
        path = self.draft() / UNFINISHED
        with files.writing(path), path.open("ab", 0) as file:
            file.write(line.encode() + b"\n")


def training_record(
    curve: Curve, *, findings: Sequence[Any] = (), device: str = "not known", **values: Any
) -> dict[str, Any]:
    """What somebody else's program says about its training: the record of an evaluation without archive, tables and baselines.

    curve: it ends with the run. findings: kind, cause and message of each. values: fields of `TrainingRecord`, and learner.
    """
    n_bytes, n_tokens, code_bits = values["corpus"]["n_bytes"], values["n_tokens"], float(curve.bits[-1])
    ledger, wall_s = Ledger.of_code_length(n_bytes, code_bits), max(values.pop("wall_s", 0.0), 1e-9)
    return record_of(
        TrainingRecord,
        ledger,
        time=_now(),
        config={OTHER: values.pop("learner")},
        bits_per_byte=ledger.code_bits_per_byte,
        ledger=ledger.entries(),
        total_bits=ledger.archive_bits,
        benchmark_bytes=ledger.archive_bytes,
        parts={MODEL: code_bits},
        wall_s=wall_s,
        bytes_per_s=n_bytes / wall_s,
        findings=[{"kind": k, "position": 0, "block": 0, "message": m, "cause": c} for k, c, m in findings],
        environment={**environment(Runtime(), None), "device": device},
        bits_per_token=code_bits / n_tokens,
        nats_per_token=code_bits / n_tokens * math.log(2.0),
        tokens_per_byte=n_tokens / n_bytes,
        **values,
    )


def save_run(
    folder: PathLike,
    record: dict[str, Any],
    curve: Curve,
    others: Mapping[str, Any] | None = None,
    *,
    partial: PartialRun | None = None,
    mode: int = 0o777,
) -> Run:
    """The run in a new run folder. others: further records, by file. mode: at most these permissions. Raises OutputError.

    partial: the draft that becomes the folder; it stays if it cannot.
    """
    with nullcontext(DraftFolder(path=partial.draft())) if partial else new_run_folder(folder) as draft:
        for name, other in (others or {}).items():
            with files.writing(folder):
                files.write_text(draft.path / name, record_line(other))
        return Run(draft.finish(Path(folder), record, {MODEL: curve}, mode=mode), record)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
