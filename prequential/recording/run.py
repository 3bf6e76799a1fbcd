"""The run folder of a training run: an ordinary record, which says that the figures are reported, not proved."""

import hashlib
import math
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import OTHER
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import ConfigError
from prequential.evaluation.curves import MODEL, Curve, curve_table
from prequential.evaluation.ledger import Ledger
from prequential.evaluation.runs import PathLike, Run, new_run_folder
from prequential.online.runtime import Runtime
from prequential.recording.totals import COUNTS
from prequential.records.forms import REPORTED, EvaluationRecord
from prequential.records.record import environment
from prequential.records.schema import record_of
from prequential.watch.health import Finding

if TYPE_CHECKING:
    from prequential.recording.recorder import Recorder


def write_run(recorder: "Recorder", n_ranks: int, *, is_writer: bool) -> Run:
    """The run of a recorder that has read everything. Raises ConfigError if nothing counts, OutputError."""
    totals = recorder.totals
    _, n_tokens, n_bytes, _ = totals.counted
    if not n_bytes:
        raise ConfigError("rec.finish(): nothing was scored")
    rows = totals.rows.to_bytes(8, "little") + totals.new[0].to_bytes(8, "little")
    reported = {
        "source": "training loop",
        "n_steps": recorder.n_steps,
        "n_ranks": n_ranks,
        "n_rows": totals.new[0] + totals.repeated[0],
        "counts_repeats": totals.counts_repeats,
        "new": _sums(totals.new),
        "repeated": _sums(totals.repeated),
        "all_rows_kept": not recorder.seen.is_full,
        "order": totals.order.hex(),
        "tokenizer": {
            "name": recorder.units.name,
            "n_symbols": recorder.units.n_symbols,
            "digest": recorder.units.digest,
        },
        "n_audits": recorder.n_audits,
        "logits": recorder.scored.dtype,
        "is_training": recorder.scored.is_training,
        "dropout": recorder.scored.dropout,
        "n_parameters": recorder.n_parameters(),
    }
    corpus = {
        "name": recorder.data or "training data",
        "kind": "rows",
        "n_bytes": n_bytes,
        "blake2b": hashlib.blake2b(rows, digest_size=32).hexdigest(),
    }
    findings = [Finding(kind="law", position=0, block=0, message=fault, cause="program") for fault in recorder.faults]
    learner = {"name": recorder.name, "arguments": recorder.arguments, "n_symbols": recorder.units.n_symbols}
    record = reported_record(
        corpus,
        learner,
        n_tokens,
        totals.code_bits,
        recorder.wall_s,
        reported,
        REPORTED,
        findings,
        recorder.scored.device,
    )
    return save(recorder.folder, record, totals.curve(), is_writer=is_writer)


def _sums(sums: list[int]) -> dict[str, Any]:
    values = dict(zip(COUNTS, sums, strict=True))
    return {
        "n_rows": values["n_rows"],
        "n_tokens": values["n_tokens"],
        "n_bytes": values["n_bytes"],
        "code_bits": values["units"] * UNIT_BITS,
    }


def reported_record(
    corpus: dict[str, Any],
    learner: dict[str, Any],
    n_tokens: int,
    code_bits: float,
    wall_s: float,
    reported: dict[str, Any],
    coding: str,
    findings: list[Finding],
    device: str,
) -> dict[str, Any]:
    """An evaluation's record of figures that somebody else's program gave."""
    n_bytes = corpus["n_bytes"]
    ledger = Ledger.of_code_length(n_bytes, code_bits)
    wall_s = max(wall_s, 1e-9)
    return record_of(
        EvaluationRecord,
        ledger,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        coding=coding,
        corpus=corpus,
        limit_bytes=None,
        bits_per_byte=ledger.code_bits_per_byte,
        config={OTHER: learner},
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
        notes=[],
        findings=[asdict(finding) for finding in findings],
        estimate=None,
        environment={**environment(Runtime(), None), "device": device},
        n_tokens=n_tokens,
        bits_per_token=code_bits / n_tokens,
        nats_per_token=code_bits / n_tokens * math.log(2.0),
        tokens_per_byte=n_tokens / n_bytes,
        reported=reported,
    )


def save(folder: PathLike, record: dict[str, Any], curve: Curve, *, is_writer: bool = True) -> Run:
    """The run, in a new run folder if this process writes. Raises OutputError."""
    if not is_writer:
        return Run(Path(folder) / "elsewhere", record, curve_table({MODEL: curve}))
    with new_run_folder(folder) as draft:
        return Run(draft.finish(Path(folder), record, {MODEL: curve}), record)
