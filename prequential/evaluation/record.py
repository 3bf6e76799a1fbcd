"""The record of an evaluation, as JSON values. It suffices to repeat the run: corpus digest, configuration, versions, machine.

SCHEMA changes when a name changes its meaning or is removed. New names may be added at any time.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import OTHER

from prequential.records.fields import (
    COUNT,
    EXPONENT,
    FLAG,
    FROM_1,
    NUMBER,
    POSITIVE,
    SIZE,
    TEXT,
    TIME,
    TIME_S,
    WALL_S,
    Form,
)
from prequential.watch.health import Finding

if TYPE_CHECKING:
    from prequential.evaluation.evaluation import Evaluation
    from prequential.online.runtime import Runtime

SCHEMA = 1
# What readers of records rely on (`check_fields`). Older records lack some names; a reader that needs one of them says so.
CONFIG_FORM: Form = {
    "learner?": {"name": TEXT, "arguments": {}, "n_symbols": SIZE, "run_symbols": SIZE},
    "seed?": COUNT,
    "gpt?": ({"width?": SIZE, "n_layers?": SIZE, "n_heads?": SIZE, "window?": SIZE, "vector_step?": POSITIVE}, None),
    "mixer?": ({"contexts?": [TEXT], "table_bits?": COUNT}, None),
    "replicas?": ({"n_replicas?": SIZE, "sync_every?": SIZE}, None),
}
FIT_FORM: Form = {
    "factor": POSITIVE,
    "exponent": EXPONENT,
    **dict.fromkeys(("exponent_se?", "alpha?", "alpha_se?", "ks?", "z?", "p?", "bend?", "bend_p?"), NUMBER),
    **dict.fromkeys(("close_share?", "worst_x?", "worst_ratio?"), NUMBER),
    **dict.fromkeys(("xmin?", "n_tail?", "n_draws?"), COUNT),
    "verdict?": TEXT,
}
TABLE_FORM: Form = {
    "rows": [{"n_bytes?": COUNT, "bits?": {"*": NUMBER}, "mean_k?": FROM_1}],
    "fits?": {"*": (FIT_FORM, None)},
}
FORM: Form = {
    "corpus": {"n_bytes": SIZE, "blake2b": TEXT, "name?": (TEXT, None), "kind?": TEXT},
    "config?": CONFIG_FORM,
    "environment?": {
        "machine?": {"cpu?": TEXT},
        "threads?": COUNT,
        "backend?": TEXT,
        "kernels?": TEXT,
        "versions?": {"*": (TEXT, None)},
        "git_commit?": (TEXT, None),
    },
    "coding?": TEXT,
    "time?": TIME,
    "limit_bytes?": (COUNT, None),
    **dict.fromkeys(("archive_bytes?", "n_configs?", "n_seeds?"), SIZE),
    **dict.fromkeys(("archive_bits?", "header_bytes?", "payload_bytes?", "container_bytes?", "decoder_bytes?"), COUNT),
    **dict.fromkeys(("n_blocks?", "n_raw_blocks?", "peak_memory_bytes?", "benchmark_bytes?"), COUNT),
    **dict.fromkeys(("bits_per_byte?", "code_bits?", "code_bits_per_byte?", "total_bits?", "bytes_per_s?"), POSITIVE),
    **dict.fromkeys(("code_nats_per_byte?", "coder_overhead_ppm?"), NUMBER),
    "wall_s?": WALL_S,
    "verified?": FLAG,
    "verify_wall_s?": (WALL_S, None),
    "verify_bytes_per_s?": (POSITIVE, None),
    "ledger?": [{"entry": TEXT, "bits": NUMBER}],
    "parts?": {"*": NUMBER},
    "crossings?": {"*": (COUNT, None)},
    "tables?": {"*": TABLE_FORM},
    "passages?": [{"name": TEXT, "position": COUNT, "text": TEXT, "bits": [NUMBER]}],
    "baselines?": [
        {"name": TEXT, "label": TEXT, "compressed_bytes": SIZE, "wall_s": TIME_S, "bits_per_byte?": POSITIVE}
    ],
    "notes?": [TEXT],
    "findings?": [{"kind": TEXT, "position": COUNT, "block": COUNT, "message": TEXT, "cause": TEXT}],
}


# What proves the code length:
DECODES_ANYWHERE = "archive"
CODED_HERE = "archive, for this machine and these versions"
NOT_CODED = "code length, no archive"


def coding_of(evaluation: "Evaluation") -> str:
    """What proves the code length: an archive that decodes anywhere, one that decodes here, or none."""
    if not evaluation.is_coded:
        return NOT_CODED
    return CODED_HERE if OTHER in evaluation.header.config else DECODES_ANYWHERE


def evaluation_record(
    evaluation: "Evaluation",
    runtime: "Runtime",
    findings: Iterable[Finding] = (),
    estimate: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The evaluation without its curves, the environment, and the findings about its health, as JSON values.

    docs/MEASURES.md describes the fields. estimate: the cost as it was estimated, next to the actual cost; None: not estimated.
    """
    from prequential.evaluation import baselines
    from prequential.online.coding import config_of
    from prequential.records.record import environment

    header, ledger = evaluation.header, evaluation.ledger
    return {
        "schema": SCHEMA,
        "kind": "evaluation",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "coding": coding_of(evaluation),
        "corpus": {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()},
        "limit_bytes": evaluation.limit_bytes,
        "config": header.config,
        "archive_bits": ledger.archive_bits,
        "bits_per_byte": ledger.bits_per_byte,
        "code_bits": ledger.code_bits,
        "code_bits_per_byte": ledger.code_bits_per_byte,
        "code_nats_per_byte": ledger.code_nats_per_byte,
        "coder_overhead_ppm": ledger.coder_overhead_ppm,
        "archive_bytes": ledger.archive_bytes,
        "header_bytes": ledger.header_bytes,
        "payload_bytes": ledger.payload_bytes,
        "container_bytes": ledger.container_bytes,
        "n_blocks": ledger.n_blocks,
        "n_raw_blocks": ledger.n_raw_blocks,
        "ledger": [{"entry": entry, "bits": bits} for entry, bits in ledger.entries()],
        "decoder_bytes": ledger.decoder_bytes,
        "n_configs": ledger.n_configs,
        "n_seeds": ledger.n_seeds,
        "total_bits": ledger.total_bits,
        "benchmark_bytes": ledger.benchmark_bytes,
        "parts": {part: evaluation.trace.total_bits(part) for part in evaluation.trace.parts},
        "crossings": evaluation.crossings(),
        "tables": evaluation.tables,
        "passages": evaluation.passages,
        "wall_s": evaluation.wall_s,
        "bytes_per_s": ledger.n_bytes / evaluation.wall_s,
        "verified": evaluation.verify_wall_s is not None,
        "verify_wall_s": evaluation.verify_wall_s,
        "verify_bytes_per_s": ledger.n_bytes / evaluation.verify_wall_s if evaluation.verify_wall_s else None,
        "peak_memory_bytes": evaluation.peak_memory_bytes,
        "baselines": [baselines.to_record(result) for result in evaluation.baselines],
        "notes": list(evaluation.notes),
        "findings": [asdict(finding) for finding in findings],
        "estimate": estimate,
        "environment": environment(runtime, None if OTHER in header.config else config_of(header, knows_given=True)),
    }
