"""Sealed forecasts: a JSON object that ends with the digest of all its other values, so that a later change is noticed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from prequential_corpora.corpus import unicode_name

from prequential.errors import CorpusError
from prequential.evaluation.runs import PathLike, Run
from prequential.records.schema import Count, Number, Positive, Size, Time, check_record, read_object
from prequential.sweeps.plans import config_key

SCHEMA = 1


class _Deviations(Struct):
    seeds: Number | None


class _Quantity(Struct):
    point: Number
    low: Number
    high: Number
    last_rung_bits_per_byte: Number
    floor_bits_per_byte: Number
    naive: dict[str, Number]
    deviations: _Deviations


class _Forecasts(Struct):
    total_bits: _Quantity
    final_bits_per_byte: _Quantity


class _GPT(Struct):
    width: Size
    n_layers: Size
    n_heads: Size
    vector_step: Positive


class _Config(Struct):
    seed: Count
    gpt: _GPT


class _Corpus(Struct):
    n_bytes: Size
    blake2b: str


class _Target(Struct):
    n_bytes: Size
    blake2b: str | None
    config: _Config


class _Compute(Struct):
    ratio: Positive


class ForecastRecord(Struct, kw_only=True):
    """What `score` relies on. The seal shows later changes, but anyone can seal a record."""

    schema: Literal[1] = 1
    kind: Literal["forecast"] = "forecast"
    blake2b: str
    created_at: Time
    after_the_fact: bool
    compute: _Compute
    corpus: _Corpus
    target: _Target
    forecasts: _Forecasts


def canonical(record: Mapping[str, Any]) -> bytes:
    """The record as JSON with sorted names and no spaces: equal bytes for equal values."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `blake2b`, the digest of all its other values."""
    values = json.loads(canonical({k: v for k, v in record.items() if k != "blake2b"}))
    return {**values, "blake2b": _digest(canonical(values))}


def read_forecast(path: PathLike) -> dict[str, Any]:
    """A sealed forecast. Raises CorpusError if the file is not a forecast, or was changed after it was frozen."""
    record = read_object(path)
    if not isinstance(record, dict) or record.get("kind") != "forecast" or record.get("schema") != SCHEMA:
        raise CorpusError(f"{str(path)!r} is not a forecast of schema {SCHEMA}")
    if sealed(record) != record:
        raise CorpusError(f"{str(path)!r} was changed after it was frozen: its digest does not match")
    return check_record(record, ForecastRecord, repr(str(path)))


def run_digests(run: Run) -> dict[str, Any]:
    """What identifies a run: corpus, configuration, and the BLAKE2b-256 of its record and of its curves."""
    record = run.record
    return {
        "name": unicode_name(run.name),
        "n_bytes": record["corpus"]["n_bytes"],
        "corpus_blake2b": record["corpus"]["blake2b"],
        "config_blake2b": _digest(config_key(record["config"]).encode()),
        "seed": record["config"]["seed"],
        "time": record["time"],
        "code_bits": record["code_bits"],
        "record_blake2b": _digest(run.record_line()),
        "curve_blake2b": _digest(run.curve_table()),
    }
