"""The record of an evaluation, as records/forms.py describes it."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential.evaluation import baselines
from prequential.evaluation.evaluation import Evaluation
from prequential.online.coding import config_of
from prequential.online.runtime import Runtime
from prequential.records.forms import CODED_HERE, DECODES_ANYWHERE, NOT_CODED, EvaluationRecord
from prequential.records.schema import environment, record_of
from prequential.watch.health import Finding


def coding_of(evaluation: Evaluation) -> str:
    """What proves the code length: an archive that decodes anywhere, one that decodes here, or none."""
    if not evaluation.is_coded:
        return NOT_CODED
    return CODED_HERE if OTHER in evaluation.header.config else DECODES_ANYWHERE


def evaluation_record(
    evaluation: Evaluation, runtime: Runtime, findings: Iterable[Finding] = (), estimate: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The evaluation without its curves, the environment, and the findings about its health, as JSON values.

    estimate: the cost as it was estimated, next to the actual cost; None: not estimated.
    """
    header, ledger, verify_wall_s = evaluation.header, evaluation.ledger, evaluation.verify_wall_s
    return record_of(
        EvaluationRecord,
        ledger,
        evaluation,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        coding=coding_of(evaluation),
        corpus={**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()},
        config=header.config,
        ledger=[{"entry": entry, "bits": bits} for entry, bits in ledger.entries()],
        parts={part: evaluation.trace.total_bits(part) for part in evaluation.trace.parts},
        crossings=evaluation.crossings(),
        bytes_per_s=ledger.n_bytes / evaluation.wall_s,
        verified=verify_wall_s is not None,
        verify_bytes_per_s=ledger.n_bytes / verify_wall_s if verify_wall_s else None,
        baselines=[baselines.to_record(result) for result in evaluation.baselines],
        notes=list(evaluation.notes),
        findings=[asdict(finding) for finding in findings],
        estimate=estimate,
        environment=environment(runtime, None if OTHER in header.config else config_of(header, knows_given=True)),
    )
