"""Registered forecasts: a file with the digest of all its values, so that a later change is noticed; and how far it was off."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import unicode_name

from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import is_reported, proof, seed_of
from prequential.forecasting.law import interval_score, mean_losses
from prequential.forecasting.members import ReportedRung, rung_of
from prequential.printable import format_table
from prequential.records import Count, Number, Positive, Size, Time, append_record, check_record, read_object
from prequential.sweeps.ladder import family
from prequential.sweeps.plans import CorpusKey, check_own_run, config_key, recorded_corpus

SCHEMA, SCORE_SCHEMA = 3, 3
SCHEMAS = (1, 2, SCHEMA)  # earlier ones had other laws; their point, interval and naive line are scored in the same way
LINES = ("line_with_proxy", "line")  # the naive forecasts that a forecast must beat: the first one that there is


class _Made(Struct):
    point: Number
    low: Number
    high: Number
    naive: dict[str, Number]


class _Forecasts(Struct):
    total_bits: _Made


class _GPT(Struct):
    width: Size
    n_layers: Size
    n_heads: Size
    vector_step: Positive


class _Loop(Struct):
    arguments: dict[str, Any]


class _Config(Struct):
    """Of a GPT of this program, or of a training loop."""

    seed: Count = 0
    gpt: _GPT | None = None
    learner: _Loop | None = None


class _Corpus(Struct):
    n_bytes: Size
    blake2b: str | None


class _Target(_Corpus):
    config: _Config


class _Compute(Struct):
    ratio: Positive


class ForecastRecord(Struct, kw_only=True):
    """What `score` relies on. The digest shows later changes, but anyone can make a record with a digest."""

    schema: Literal[3] = 3
    kind: Literal["forecast"] = "forecast"
    blake2b: str
    created_at: Time
    after_the_fact: bool
    compute: _Compute
    corpus: _Corpus
    target: _Target
    forecasts: _Forecasts


def canonical(record: Mapping[str, Any]) -> bytes:
    """JSON with sorted names and no spaces: equal bytes for equal values."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def registered(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `blake2b`, the digest of all its other values."""
    values = json.loads(canonical({k: v for k, v in record.items() if k != "blake2b"}))
    return {**values, "blake2b": _digest(canonical(values))}


def read_registered(path: PathLike) -> dict[str, Any]:
    """The forecast in a file. Raises CorpusError if the file is not a forecast, or was changed after it was registered."""
    record = read_object(path)
    if not isinstance(record, dict) or record.get("kind") != "forecast" or record.get("schema") not in SCHEMAS:
        raise CorpusError(f"{str(path)!r} is not a forecast of schema {', '.join(map(str, SCHEMAS))}")
    if registered(record) != record:
        raise CorpusError(f"{str(path)!r} was changed after it was registered: its digest does not match")
    # a score reads what all schemas have
    checked = check_record({**record, "schema": SCHEMA}, ForecastRecord, repr(str(path)))
    has_line = any(name in checked["forecasts"]["total_bits"]["naive"] for name in LINES)
    if len(checked["target"]["config"].keys() & {"gpt", OTHER}) != 1 or not has_line:
        raise CorpusError(f"{str(path)!r} does not say what its target is, or what a line forecasts")
    return record


def run_digests(run: Run) -> dict[str, Any]:
    """What identifies a run: corpus, configuration, and the BLAKE2b-256 of its record and of its curves."""
    record = run.record
    return {
        "name": unicode_name(run.name),
        "n_bytes": record["corpus"]["n_bytes"],
        "corpus_blake2b": record["corpus"]["blake2b"],
        "config_blake2b": _digest(config_key(record["config"]).encode()),
        "seed": seed_of(record["config"]),
        "time": record["time"],
        "code_bits": record["code_bits"],
        "record_blake2b": _digest(run.record_line()),
        "curve_blake2b": _digest(run.curve_table()),
    }


# ---- scores


def score(forecast: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """How far a forecast (`read_registered`) is from the target's run, as JSON values.

    percent: forecast over actual, minus 1. hit: whether the interval contains the actual value. naive_percent: percent of the
    line (law.py). skill: 1 - |error| / |error of the line|, below 0 if the line was nearer. Raises CorpusError if the run is not
    the target's, or if it began before the forecast was registered, unless the forecast was made after the fact.
    """
    _check_run(forecast, run)
    made, n_bytes = forecast["forecasts"]["total_bits"], forecast["target"]["n_bytes"]
    actual = float(mean_losses(run.curves[MODEL], np.array([float(n_bytes)]))[0]) * n_bytes
    naive = next(made["naive"][name] for name in LINES if name in made["naive"])
    return {
        "schema": SCORE_SCHEMA,
        "kind": "forecast score",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "forecast_blake2b": forecast["blake2b"],
        "after_the_fact": forecast["after_the_fact"],
        "proof": proof(run.record) if is_reported(run.record) else None,
        "compute_ratio": forecast["compute"]["ratio"],
        "run": run_digests(run),
        "point": made["point"],
        "low": made["low"],
        "high": made["high"],
        "actual": actual,
        "percent": 100 * (made["point"] / actual - 1),
        "hit": made["low"] <= actual <= made["high"],
        "interval_score_percent": 100 * interval_score(made["low"], made["high"], actual) / actual,
        "naive_percent": 100 * (naive / actual - 1),
        "skill": 1 - abs(made["point"] - actual) / abs(naive - actual) if naive != actual else None,
    }


def scores_path(runs: PathLike) -> Path:
    """scores.jsonl in the folder of runs, or beside a file of packed runs."""
    return (Path(runs).parent if Path(runs).is_file() else Path(runs)) / "scores.jsonl"


def append_score(runs: PathLike, record: dict[str, Any], mode: int = 0o777) -> Path:
    """Adds the record to `scores_path`, which it returns. mode: permissions of forecast and run. Raises OutputError."""
    path = scores_path(runs)
    append_record(path, record, mode)
    return path


def check_prefix(forecast: Mapping[str, Any], prefix: CorpusKey) -> None:
    """Raises CorpusError if the corpus does not begin with the ladder's bytes."""
    if recorded_corpus(forecast) != prefix:
        raise CorpusError("this corpus does not begin with the bytes that the ladder read: their digests differ")


def find_target_run(path: PathLike, forecast: Mapping[str, Any]) -> Run:
    """The newest run at `path` with the target's configuration and length.

    Raises CorpusError if there is none, and if it is not to be trusted (`check_own_run`).
    """
    runs = [run for run in read_runs(path) if _is_target(run, forecast["target"])]
    if not runs:
        raise CorpusError(f"{str(path)!r} has no run of the target: give the corpus too, and the run is made")
    check_own_run(runs[-1])
    return runs[-1]


def _check_run(forecast: Mapping[str, Any], run: Run) -> None:
    target, corpus, name = forecast["target"], run.record["corpus"], str(run.path)
    if not _is_target(run, target):
        raise CorpusError(f"{name!r} is not the run that was forecast: its configuration or its length differs")
    if target["blake2b"] not in (None, corpus["blake2b"]):
        raise CorpusError(f"{name!r} read other bytes than those of the forecast")
    began = datetime.fromisoformat(run.record["time"]) - timedelta(seconds=run.record["wall_s"])
    created = datetime.fromisoformat(forecast["created_at"])  # both times are in whole seconds
    if not forecast["after_the_fact"] and began < created - timedelta(seconds=1):
        raise CorpusError(f"{name!r} began before the forecast was registered, so it cannot score that forecast")


def _is_target(run: Run, target: Mapping[str, Any]) -> bool:
    """Whether learner, size, seed and length are the target's. Step sizes may differ by the rounding of their rule.

    A training loop may go on after the target's bytes, and has any seed.
    """
    rung, config, n_bytes = rung_of(run), target["config"], run.record["corpus"]["n_bytes"]
    if isinstance(rung, ReportedRung):
        learner = {"n_parameters": rung.n_weights, "family": rung.family}
        return n_bytes >= target["n_bytes"] and OTHER in config and learner == config[OTHER]["arguments"]
    return (
        rung is not None
        and OTHER not in config
        and n_bytes == target["n_bytes"]
        and rung.family == family(config)
        and rung.seed == config["seed"]
        and all(run.record["config"]["gpt"][name] == config["gpt"][name] for name in ("width", "n_layers", "n_heads"))
    )


def format_score(record: Mapping[str, Any]) -> str:
    """Error, interval and skill of a forecast."""
    row = (
        "total bits",
        *(f"{record[name]:,.0f}" for name in ("point", "low", "high", "actual")),
        f"{record['percent']:+.2f} %",
        "hit" if record["hit"] else "missed",
        f"{record['interval_score_percent']:.2f} %",
        f"{record['naive_percent']:+.2f} %",
    )
    titles = ("", "forecast", "90 % from", "to", "actual", "error", "interval", "interval score", "error of a line")
    notes = ["after the fact: this does not count as a forecast"] if record["after_the_fact"] else []
    notes += [record["proof"]] if record["proof"] else []
    return "\n".join([format_table(titles, [row]), *notes, score_sentence(record)])


def score_sentence(record: Mapping[str, Any]) -> str:
    """How far the forecast was off, for a reader who asks whether to trust the next one."""
    direction, place = "high" if record["percent"] > 0 else "low", "within" if record["hit"] else "outside"
    line = f"a line through the last two sizes was {abs(record['naive_percent']):.1f} % off"
    return f"The forecast was {abs(record['percent']):.1f} % too {direction}, {place} its interval; {line}."
