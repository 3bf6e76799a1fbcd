"""The run folder of a training run: an ordinary record, which says that the figures are reported, not proved."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from prequential_codecs.archive_header import OTHER

from prequential import files
from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL, Curve, Curves
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import DRAFT, UNFINISHED, DraftFolder, PathLike, Run, new_run_folder
from prequential.online.runtime import Runtime
from prequential.recording.account import Account
from prequential.recording.totals import Totals
from prequential.records import REPORTED, TrainingRecord, UnfinishedRecord, environment, now, record_line, record_of


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
        line = json.dumps(record_of(UnfinishedRecord, time=now(), **values))
        path = self.draft() / UNFINISHED
        with files.writing(path), path.open("ab", 0) as file:
            file.write(line.encode() + b"\n")


@dataclass
class Observed:
    """What is known of the loop beside the sums; it goes into the record. dropout to device: of the first rows that were scored.

    numbered: rows were told apart by their numbers. not_audited: why the last check for a look ahead could not be made.
    """

    n_steps: int = 0
    numbered: bool = False
    n_audits: int = 0
    not_audited: str = ""
    dropout: float = 0.0
    is_training: bool = False
    logits: str = ""
    device: str = ""
    wall_s: float = 0.0

    def see(self, values: Any, model: Any) -> None:
        """Notes the form of the first rows that are scored, and the mode of the model."""
        if self.logits:
            return
        self.logits = str(values.dtype).removeprefix("torch.")
        self.device = torch.cuda.get_device_name(values.device) if values.is_cuda else values.device.type
        if model is not None:
            self.is_training = model.training
            rates = [m.p for m in model.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training]
            self.dropout = max(rates, default=0.0)


def reported_record(
    account: Account, rescored: Totals | None, faults: Sequence[str], data: str | None, **about: Any
) -> dict[str, Any]:
    """The record of a Recorder. about: learner, `Observed`, and of `Reported`. Raises ConfigError if nothing was scored."""
    totals, units, text = account.totals, account.units, account.text
    _, n_tokens, n_bytes, _ = totals.new
    if not n_bytes:
        raise ConfigError("; ".join(["rec.finish(): nothing was scored", *faults[:1]]))
    tokenizer = {"name": units.name, "n_symbols": units.n_symbols, "digest": units.digest}
    more = {"tokenizer": tokenizer, **about}
    wall_s, device, learner = map(more.pop, ("wall_s", "device", "learner"))
    if text:
        own = {"digest": text.digest, "n_documents": text.n_documents, "n_bytes": text.n_bytes}
        more["text"] = {**own, "n_scored_bytes": n_bytes, "n_samples": totals.n_samples, "n_unknown": totals.n_unknown}
    if rescored:
        more["rescored"] = rescored.record()["new"]
        if (rescored.rows_digest(), rescored.keys) == (totals.rows_digest(), totals.keys):
            more["excess_bits"] = totals.code_bits - rescored.code_bits
    return training_record(
        totals.curves()[MODEL],
        coding=REPORTED,
        corpus={"name": data or "training data", "kind": "rows", "n_bytes": n_bytes, "blake2b": totals.rows_digest()},
        learner={**learner, "n_symbols": units.n_symbols},
        reported={**totals.record(), **more},
        tables=totals.group_table(),
        n_tokens=n_tokens,
        findings=[
            *(("law", "program", fault) for fault in faults),
            *(("seen", "data", message) for message in totals.not_of_the_data()),
        ],
        wall_s=wall_s,
        device=device,
    )


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
        time=now(),
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
    curves: Curves,
    others: Mapping[str, Any] | None = None,
    *,
    partial: PartialRun | None = None,
    mode: int = 0o777,
) -> Run:
    """The run in a new folder, or in its draft `partial`. others: records, by file. mode: at most this. Raises OutputError."""
    with nullcontext(DraftFolder(path=partial.draft())) if partial else new_run_folder(folder) as draft:
        for name, other in (others or {}).items():
            with files.writing(folder):
                files.write_bytes(draft.path / name, record_line(other))
        return Run(draft.finish(Path(folder), record, curves, mode=mode), record)
