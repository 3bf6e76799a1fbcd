"""Sealed forecasts: a JSON object that ends with the digest of all its other values, so that a later change is noticed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from prequential_corpora.corpus import unicode_name

from prequential.errors import CorpusError
from prequential.evaluation.runs import PathLike, Run
from prequential.forecasting.backtest import QUANTITIES
from prequential.records.fields import COUNT, FLAG, NUMBER, POSITIVE, SIZE, TEXT, TIME, Form, check_fields, read_object
from prequential.sweeps.finished import config_key

SCHEMA = 1
_QUANTITY: Form = {
    **dict.fromkeys(("point", "low", "high", "last_rung_bits_per_byte", "floor_bits_per_byte"), NUMBER),
    "naive": {"last_rung": NUMBER, "line": NUMBER, "*": NUMBER},
    "deviations": {"seeds": (NUMBER, None)},
}
# What `score` relies on (`check_fields`). The seal shows later changes, but anyone can seal a record.
FORM: Form = {
    "blake2b": TEXT,
    "created_at": TIME,
    "after_the_fact": FLAG,
    "compute": {"ratio": POSITIVE},
    "corpus": {"n_bytes": SIZE, "blake2b": TEXT},
    "target": {
        "n_bytes": SIZE,
        "blake2b": (TEXT, None),
        "config": {
            "seed": COUNT,
            "gpt": {"width": SIZE, "n_layers": SIZE, "n_heads": SIZE, "vector_step": POSITIVE},
        },
    },
    "forecasts": dict.fromkeys(QUANTITIES, _QUANTITY),
}


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
    check_fields(record, FORM, repr(str(path)))
    return record


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
