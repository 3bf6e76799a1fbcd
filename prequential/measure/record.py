"""Records: one JSON object for each measurement, appended to a file of lines that is never overwritten.

SCHEMA changes when a name changes its meaning or goes; new names may come at any time. A record is enough to repeat the
run: corpus digest, full configuration, versions, machine.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from prequential.exact import matmul
from prequential.files import writing
from prequential.measure.cost.estimate import Estimate, against
from prequential.measure.evaluation import baselines
from prequential.measure.evaluation.curves import crossing_byte
from prequential.measure.evaluation.evaluation import Evaluation
from prequential.measure.machine import git_commit, machine, versions
from prequential.measure.watch.detectors import Finding
from prequential.model.config import Config
from prequential.online.runtime import KERNELS, Runtime

SCHEMA = 1


def evaluation_record(
    evaluation: Evaluation,
    runtime: Runtime,
    program_version: str,
    findings: Iterable[Finding] = (),
    estimate: Estimate | None = None,
) -> dict[str, Any]:
    """Everything of `evaluation` except its curves, where it was made, and what its health found, as JSON values.

    Bits and bytes as in Ledger; parts: ideal bits of the model and of its parts alone; crossings: the byte from which on the
    model's ideal code length lies below each baseline's size, 0 for everywhere, null for never; tables: breakdown; speeds in
    bytes of the original per second of wall time; findings as in Finding; estimate: what was expected beside what came, null
    where no estimate was asked for.
    """
    header, ledger = evaluation.header, evaluation.ledger
    return {
        "schema": SCHEMA,
        "kind": "evaluation",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
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
        "crossings": {
            baseline.name: crossing_byte(evaluation.curve, evaluation.curves[baseline.name])
            for baseline in evaluation.baselines
        },
        "tables": evaluation.tables,
        "wall_s": evaluation.wall_s,
        "bytes_per_s": ledger.n_bytes / evaluation.wall_s,
        "verified": evaluation.verify_wall_s is not None,
        "verify_wall_s": evaluation.verify_wall_s,
        "verify_bytes_per_s": ledger.n_bytes / evaluation.verify_wall_s if evaluation.verify_wall_s else None,
        "peak_memory_bytes": evaluation.peak_memory_bytes,
        "baselines": [baselines.to_record(result) for result in evaluation.baselines],
        "notes": list(evaluation.notes),
        "findings": [asdict(finding) for finding in findings],
        "estimate": against(estimate, evaluation) if estimate else None,
        "environment": environment(runtime, program_version, Config.from_dict(evaluation.header.config)),
    }


def environment(runtime: Runtime, program_version: str, config: Config) -> dict[str, Any]:
    """Machine, versions, and how a run of this learner computes. Raises InexactMachineError where it cannot."""
    accelerator = runtime.accelerator(config)
    return {
        "machine": machine(),
        "threads": runtime.n_threads,
        "backend": matmul.choose("cpu", runtime.backend).name,
        "kernels": runtime.kernels or KERNELS[0],
        "device": f"cuda: {torch.cuda.get_device_name(accelerator.device)}" if accelerator else "cpu",
        "versions": {"prequential": program_version, **versions()},
        "git_commit": git_commit(),
    }


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises OutputError where records cannot be appended to `path`; makes the file if there is none."""
    with writing(path), Path(path).open("ab"):
        pass


def append_record(path: str | os.PathLike[str], record: dict[str, Any]) -> None:
    """Adds one line to the file at `path`, which is made if there is none. Raises OutputError."""
    line = json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    with writing(path), Path(path).open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
