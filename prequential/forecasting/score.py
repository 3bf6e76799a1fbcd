"""Scores: how far a frozen forecast was from the run that it forecast. They are appended to scores.jsonl in the runs folder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.forecasting.backtest import QUANTITIES, Quantity, loss_bits_per_byte
from prequential.forecasting.intervals import interval_score
from prequential.forecasting.sealed import SCHEMA, run_digests
from prequential.records.record import append_record
from prequential.sweeps.finished import CorpusKey, check_own_run, recorded_corpus
from prequential.sweeps.ladder import family

SCORES = "scores.jsonl"


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one quantity.

    percent: forecast over actual, minus 1. hit: whether the interval contains the actual value. seed_deviations: the error in
    deviations over seeds, None if they are unknown. interval_score: in the unit of the quantity, and in percent of the actual
    value. naive_percent, skill: by naive forecast; skill is 1 - |error| / |naive error|, below 0 if the naive forecast was
    nearer. of_remaining_gain: the error as a share of the distance between the last rung's loss and the law's floor.
    """

    quantity: str
    point: float
    low: float
    high: float
    actual: float
    percent: float
    hit: bool
    interval_score: float
    interval_score_percent: float
    seed_deviations: float | None
    naive_percent: Mapping[str, float]
    skill: Mapping[str, float | None]
    of_remaining_gain: float | None


def score(forecast: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """The record of the scores of a forecast (`read_forecast`) by the target's run.

    Raises CorpusError if the run is not the target's, or if it began before the forecast was frozen, unless the forecast was
    made after the fact.
    """
    _check_run(forecast, run)
    scores = [_score(forecast, run.curves[MODEL], quantity) for quantity in QUANTITIES]
    return {
        "schema": SCHEMA,
        "kind": "forecast score",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "forecast_blake2b": forecast["blake2b"],
        "after_the_fact": forecast["after_the_fact"],
        "compute_ratio": forecast["compute"]["ratio"],
        "run": run_digests(run),
        "scores": [asdict(each) for each in scores],
    }


def scores_path(runs: PathLike) -> Path:
    """scores.jsonl in the folder of runs, or beside a file of packed runs."""
    return (Path(runs).parent if Path(runs).is_file() else Path(runs)) / SCORES


def append_score(runs: PathLike, record: dict[str, Any], mode: int = 0o777) -> Path:
    """Adds the record to scores.jsonl among the runs (`scores_path`), and returns its path. Raises OutputError.

    mode: the permissions of the forecast and of the run (`append_line`).
    """
    path = scores_path(runs)
    append_record(path, record, mode)
    return path


def check_prefix(forecast: Mapping[str, Any], prefix: CorpusKey) -> None:
    """Raises CorpusError if the corpus does not begin with the ladder's bytes."""
    if recorded_corpus(forecast) != prefix:
        raise CorpusError("this corpus does not begin with the bytes that the ladder read: their digests differ")


def find_target_run(path: PathLike, forecast: Mapping[str, Any], *, trust_runs: bool = False) -> Run:
    """The newest run at `path` (`read_runs`) with the target's configuration and length.

    Raises CorpusError if there is none, and, unless trust_runs, if it is not to be trusted (`check_own_run`).
    """
    runs = [run for run in read_runs(path) if _is_target(run, forecast["target"])]
    if not runs:
        raise CorpusError(f"{str(path)!r} has no run of the target: give the corpus too, and `score` makes the run")
    if not trust_runs:
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
        raise CorpusError(f"{name!r} began before the forecast was frozen: the forecast cannot be scored with this run")


def _is_target(run: Run, target: Mapping[str, Any]) -> bool:
    """Whether learner, size, seed and length are the target's. Step sizes may differ by the rounding of their rule."""
    config, other = run.record["config"], target["config"]
    return (
        run.record["corpus"]["n_bytes"] == target["n_bytes"]
        and config.get("gpt") is not None
        and family(config) == family(other)
        and config["seed"] == other["seed"]
        and all(config["gpt"][name] == other["gpt"][name] for name in ("width", "n_layers", "n_heads"))
    )


def _score(forecast: Mapping[str, Any], curve: Curve, quantity: Quantity) -> Score:
    made, n_bytes = forecast["forecasts"][quantity], forecast["target"]["n_bytes"]
    unit = n_bytes if quantity == "total_bits" else 1
    actual = float(loss_bits_per_byte(curve, np.array([n_bytes]), quantity)[0]) * unit
    error = made["point"] - actual
    naive_errors = {name: value - actual for name, value in made["naive"].items()}
    seeds = made["deviations"]["seeds"]
    winkler = interval_score(made["low"], made["high"], actual)
    gain = (made["last_rung_bits_per_byte"] - made["floor_bits_per_byte"]) * unit
    return Score(
        quantity=quantity,
        point=made["point"],
        low=made["low"],
        high=made["high"],
        actual=actual,
        percent=100 * error / actual,
        hit=made["low"] <= actual <= made["high"],
        interval_score=winkler,
        interval_score_percent=100 * winkler / actual,
        seed_deviations=error / (seeds * actual) if seeds else None,
        naive_percent={name: 100 * naive / actual for name, naive in naive_errors.items()},
        skill={name: 1 - abs(error / naive) if naive else None for name, naive in naive_errors.items()},
        of_remaining_gain=error / gain if gain > 0 else None,
    )
