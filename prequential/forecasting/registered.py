"""Registered forecasts: records with the digest of all their other values, which shows a later change; and their scores."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import unicode_name

from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import is_reported, proof, seed_of
from prequential.forecasting.law import interval_score, mean_losses
from prequential.forecasting.members import ReportedRung, rung_of
from prequential.records import digest_of, now, read_object, record_line
from prequential.sweeps.ladder import family
from prequential.sweeps.plans import check_archive, config_key

SCHEMA, SCORE_SCHEMA = 3, 3
SCHEMAS = (1, 2, SCHEMA)  # earlier ones had other laws; point, interval and naive line are scored in the same way
LINES = ("line_with_proxy", "line")  # naive forecasts (law.py): the first one that there is counts


def with_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with `blake2b`, the digest of all its other values: of their JSON with sorted names and without spaces."""
    values = {name: value for name, value in record.items() if name != "blake2b"}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**json.loads(text), "blake2b": digest_of(text.encode())}


def read_registered(path: PathLike) -> dict[str, Any]:
    """A registered forecast. Raises CorpusError if the file is not one, or was changed after it was registered."""
    record = read_object(path)
    if not isinstance(record, dict) or record.get("kind") != "forecast" or record.get("schema") not in SCHEMAS:
        raise CorpusError(f"{str(path)!r} is not a forecast of schema 1, 2 or 3")
    if with_digest(record) != record:
        raise CorpusError(f"{str(path)!r} was changed after it was registered: its digest does not match")
    return record


def run_digests(run: Run) -> dict[str, Any]:
    """What identifies a run: corpus, configuration, and the BLAKE2b-256 of its record and of its curves."""
    record = run.record
    return {
        "name": unicode_name(run.name),
        "n_bytes": record["corpus"]["n_bytes"],
        "corpus_blake2b": record["corpus"]["blake2b"],
        "config_blake2b": digest_of(config_key(record["config"]).encode()),
        "seed": seed_of(record["config"]),
        "time": record["time"],
        "code_bits": record["code_bits"],
        "record_blake2b": digest_of(record_line(record)),
        "curve_blake2b": digest_of(run.curve_table()),
    }


# ---- scores


def score(forecast: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """How far a registered forecast is from the target's run, as JSON values.

    percent: forecast over actual, minus 1. hit: whether the interval contains the actual value. naive_percent: percent of the
    line. skill: 1 - |error| / |error of the line|, below 0 if the line was nearer. Raises CorpusError if the run is not the
    target's, or if it began before the forecast was registered, unless the forecast was made after the fact.
    """
    name, target = str(run.path), forecast["target"]
    if not _is_target(run, target):
        raise CorpusError(f"{name!r} is not the run that was forecast: its configuration, length or text differs")
    began = datetime.fromisoformat(run.record["time"]) - timedelta(seconds=run.record["wall_s"])
    created = datetime.fromisoformat(forecast["created_at"])  # both times are in whole seconds
    if not forecast["after_the_fact"] and began < created - timedelta(seconds=1):
        raise CorpusError(f"{name!r} began before the forecast was registered: the forecast cannot be scored with it")
    made, n_bytes = forecast["forecasts"]["total_bits"], target["n_bytes"]
    actual = float(mean_losses(run.curves[MODEL], np.array([float(n_bytes)]))[0]) * n_bytes
    error = made["point"] - actual
    naive_error = next(made["naive"][name] for name in LINES if name in made["naive"]) - actual
    return {
        "schema": SCORE_SCHEMA,
        "kind": "forecast score",
        "time": now(),
        "forecast_blake2b": forecast["blake2b"],
        "after_the_fact": forecast["after_the_fact"],
        "proof": proof(run.record) if is_reported(run.record) else None,
        "compute_ratio": forecast["compute"]["ratio"],
        "run": run_digests(run),
        **{name: made[name] for name in ("point", "low", "high")},
        "actual": actual,
        "percent": 100 * error / actual,
        "hit": made["low"] <= actual <= made["high"],
        "interval_score_percent": 100 * interval_score(made["low"], made["high"], actual) / actual,
        "naive_percent": 100 * naive_error / actual,
        "skill": 1 - abs(error / naive_error) if naive_error else None,
    }


def contains_target(run: Run, target: Mapping[str, Any]) -> bool:
    """Whether a run has the target's learner and size, any seed, and at least its bytes. Step sizes may differ by rounding."""
    rung, config = rung_of(run), target["config"]
    if rung is None or run.record["corpus"]["n_bytes"] < target["n_bytes"]:
        return False
    if isinstance(rung, ReportedRung) or OTHER in config:
        size = {"n_parameters": rung.n_weights, "family": rung.family}
        return OTHER in config and size == config[OTHER]["arguments"]
    own, sizes = run.record["config"]["gpt"], ("width", "n_layers", "n_heads")
    return rung.family == family(config) and all(own[name] == config["gpt"][name] for name in sizes)


def _is_target(run: Run, target: Mapping[str, Any]) -> bool:
    """Whether it is the target's run. A training loop may go on after the target's bytes, and has any seed."""
    if not contains_target(run, target) or target["blake2b"] not in (None, run.record["corpus"]["blake2b"]):
        return False
    exact = run.record["corpus"]["n_bytes"], seed_of(run.record["config"])
    return OTHER in target["config"] or exact == (target["n_bytes"], target["config"]["seed"])


def find_target_run(path: PathLike, forecast: Mapping[str, Any]) -> Run:
    """The newest run of the target at `path`. Raises CorpusError if there is none, or if it has lost its archive."""
    runs = [run for run in read_runs(path) if _is_target(run, forecast["target"])]
    if not runs:
        raise CorpusError(f"{str(path)!r} has no run of the target: give the corpus too, and the run is made")
    check_archive(runs[-1])
    return runs[-1]


def scores_path(runs: PathLike) -> Path:
    """scores.jsonl in the folder of runs, or beside a file of packed runs."""
    return (Path(runs).parent if Path(runs).is_file() else Path(runs)) / "scores.jsonl"
