"""Rates that `make gpu-check` measured on a machine with a GPU (benchmarks/gpu.jsonl), for the estimate of another run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError
from prequential.files import read_regular
from prequential.files.strict_json import parse_json
from prequential.model.config import Config

MAX_RECORD_BYTES = 1 << 26


@dataclass(frozen=True, kw_only=True)
class MeasuredRate:
    """Bytes a second of compression and decompression with the GPT on that device, over n_bytes of a corpus."""

    device: str
    corpus: str
    n_bytes: int
    compress_bytes_per_s: float
    decompress_bytes_per_s: float
    git_commit: str | None


def read_measured_rates(path: str | Path, config: Config) -> list[MeasuredRate]:
    """The rates of this configuration in the file: the newest of each device. The seed does not matter.

    A run whose archives differed does not count. Raises ConfigError if the file cannot be read, has another form, or has no run
    of this configuration.
    """
    try:
        lines = read_regular(path, MAX_RECORD_BYTES).splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    wanted: Any = json.loads(json.dumps(replace(config, seed=0).to_dict()))  # as a record has it
    found: dict[str, MeasuredRate] = {}
    for number, line in enumerate(lines, 1):
        try:
            found |= {rate.device: rate for rate in _rates(parse_json(line), wanted)}
        except (ValueError, TypeError, LookupError, AttributeError, ZeroDivisionError) as error:
            raise ConfigError(f"{str(path)!r}, line {number}: not a record of make gpu-check ({error!r})") from error
    if not found:
        raise ConfigError(f"{str(path)!r} has no run of this configuration; `make gpu-check` measures one")
    return list(found.values())


def _rates(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[MeasuredRate]:
    """One for each run of the record that has the wanted configuration."""
    return [
        MeasuredRate(
            device=str(record["device"]["name"]),
            corpus=str(run["corpus"]),
            n_bytes=int(run["n_bytes"]),
            compress_bytes_per_s=_rate(run["compress_gpu_kb_per_s"]),
            decompress_bytes_per_s=_rate(run["decompress_gpu_kb_per_s"]),
            git_commit=record["environment"]["git_commit"],
        )
        for run in record["runs"]
        if run["identical"] and run["config"] == wanted
    ]


def _rate(kb_per_s: Any) -> float:
    if not 0 < float(kb_per_s) < 1e9:
        raise ValueError(f"a rate of {kb_per_s} kB/s")
    return float(kb_per_s) * 1e3
