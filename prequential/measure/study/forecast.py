"""Forecasts of a larger run, frozen before it is made, and scored by it.

A ladder (measure/study/ladder.py) is fitted by a law of size and length (measure/study/scaling.py); the law says what a target, a larger
learner over more bytes, will cost: in all (`total_bits`), and in its last window (`final_bits_per_byte`). What the law says
of the ladder's own larger rungs, when it is fitted to the smaller ones (rolling origins), decides which form is taken and how
wide an interval must be. All of it is one JSON object that ends in the digest of itself, so that a changed forecast is known.

The law knows nothing of the text beyond the ladder's bytes. A proxy, a cheap run over the target's bytes, does: then the law is
of the ratio of the losses, and the forecast is that ratio times the proxy's loss.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.chunks import reading
from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import Curve
from prequential.measure.evaluation.runs import CURVE, RECORD, PathLike, Run, read_runs
from prequential.measure.evaluation.trace import MODEL
from prequential.measure.record import append_record
from prequential.measure.study.ladder import Ladder, Rung, Size, anomalies, family, scaled
from prequential.measure.study.references import final_window_bytes
from prequential.measure.study.scaling import (
    FORMS,
    MIN_PREFIXES,
    MIN_SIZES,
    Floats,
    Observations,
    Projection,
    line_in_logs,
)
from prequential.measure.study.sweep import Subject, config_key
from prequential.model.config import Config
from prequential.online.flops import total_flops

SCHEMA = 1
CONFIDENCE = 0.9
MIN_RATIO = 2.0  # of a target's operations to the largest run fitted: nearer ones are no extrapolation
MIN_CELLS = 8  # of a backtest that calibrates an interval; with fewer it is the normal distribution's, and says so
N_RESAMPLES, N_RESAMPLES_BACKTEST = 400, 40
GOOD_FORMS = 2.0  # forms within this factor of the best one's backtest error make the spread of forms

Lengths = NDArray[np.int64] | Floats  # in bytes
Quantity = Literal["total_bits", "final_bits_per_byte"]
QUANTITIES: tuple[Quantity, ...] = ("total_bits", "final_bits_per_byte")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is forecast: a learner of the ladder's kind over the first n_bytes of its corpus."""

    size: Size
    n_bytes: int
    seed: int = 0


def loss(curve: Curve, n_bytes: Lengths, quantity: Quantity) -> Floats:
    """Bits per byte (P,) after n_bytes (P,): the mean over all of them, or over the last window (`final_window_bytes`)."""
    ends = np.asarray(n_bytes, np.int64)
    if quantity == "total_bits":
        return curve.at(ends) / ends
    windows = np.array([final_window_bytes(int(end)) for end in ends])
    return (curve.at(ends) - curve.at(ends - windows)) / windows


def place(n_bytes: Lengths, quantity: Quantity) -> Floats:
    """Where on the law a loss lies: a window's is that of its middle."""
    if quantity == "total_bits":
        return np.asarray(n_bytes, np.float64)
    return np.array([end - final_window_bytes(int(end)) / 2 for end in n_bytes])


# ---- one law, many targets


@dataclass(frozen=True, kw_only=True)
class Law:
    """A form fitted to rungs at prefixes, and what it says of T targets: loss (T,), and the deviation of its logarithm over a
    bootstrap (T,). With a proxy the law is of ratios, and the losses are again in bits per byte."""

    record: dict[str, Any]
    loss: Floats
    deviation: Floats
    implied_mean: Floats | None  # of a law of the final window, by the identity (T,)


def fit_law(
    rungs: Sequence[Rung],
    prefixes: Lengths,
    targets: Sequence[tuple[float, int]],
    quantity: Quantity,
    form: str,
    *,
    proxy: Curve | None = None,
    n_resamples: int = N_RESAMPLES_BACKTEST,
) -> Law:
    """targets: N and bytes of each. Raises ConfigError for too few sizes or prefixes."""
    scale = loss(proxy, prefixes, quantity) if proxy else np.ones(len(prefixes))
    observed = Observations(
        n_weights=np.array([rung.n_weights for rung in rungs], np.float64),
        n_bytes=place(prefixes, quantity),
        loss=np.array([loss(rung.curve, prefixes, quantity) for rung in rungs]) / scale,
    )
    projection = Projection(FORMS[form], observed)
    fit = projection.fit()
    ends = np.array([n_bytes for _, n_bytes in targets], np.float64)
    places = np.stack([np.array([n for n, _ in targets], np.float64), place(ends, quantity)], 1)
    drawn = projection.bootstrap(fit, places, n_resamples)
    implied = [fit.mean_to(n, end) for (n, _), end in zip(targets, ends, strict=True)]
    return Law(
        record=fit.to_record() | {"floor": fit.floor},
        loss=np.array([fit.at(n, d) for n, d in places]) * (loss(proxy, ends, quantity) if proxy else 1.0),
        deviation=np.log(np.maximum(drawn, 1e-9)).std(1),
        implied_mean=None if proxy or None in implied else np.array(implied, np.float64),
    )


# ---- rolling origins


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One forecast of a run that is there, from smaller ones and shorter prefixes.

    error: log(forecast / actual) by form; deviation: of the bootstrap, by form.
    """

    quantity: Quantity
    fitted_size: str
    fitted_bytes: int
    target_size: str
    target_bytes: int
    compute_ratio: float
    error: Mapping[str, float]
    deviation: Mapping[str, float]

    @property
    def origin(self) -> tuple[str, int]:
        """Cells of one origin share the fit, so that their errors go together."""
        return self.fitted_size, self.fitted_bytes


def rolling_origins(ladder: Ladder, proxy: Curve | None = None, forms: Sequence[str] = tuple(FORMS)) -> list[Cell]:
    """Every way to hide larger rungs and longer prefixes, 3 of each being left, and every target of MIN_RATIO or more beyond."""
    sizes, prefixes = ladder.sizes, ladder.prefixes()
    flops = {(size, int(n)): total_flops(scaled_to(ladder, size), int(n)).total for size in sizes for n in prefixes}
    first = {size: next(rung for rung in ladder.rungs if rung.size == size) for size in sizes}
    cells: list[Cell] = []
    for i in range(MIN_SIZES, len(sizes) + 1):
        for j in range(MIN_PREFIXES, len(prefixes) + 1):
            largest = flops[sizes[i - 1], int(prefixes[j - 1])]
            targets = [
                (size, int(n))
                for size in sizes[i - 1 :]
                for n in prefixes[j - 1 :]
                if flops[size, int(n)] >= MIN_RATIO * largest
            ]
            if targets:
                cells += _cells(ladder, i, prefixes[:j], targets, flops, first, proxy, forms)
    return cells


def scaled_to(ladder: Ladder, size: Size) -> Config:
    """The configuration of a rung of the ladder."""
    return next(rung.config for rung in ladder.rungs if rung.size == size)


def _cells(
    ladder: Ladder,
    i: int,
    prefixes: Lengths,
    targets: Sequence[tuple[Size, int]],
    flops: Mapping[tuple[Size, int], float],
    first: Mapping[Size, Rung],
    proxy: Curve | None,
    forms: Sequence[str],
) -> Iterator[Cell]:
    sizes = ladder.sizes[:i]
    rungs = [rung for rung in ladder.rungs if rung.size in sizes]
    places = [(float(first[size].n_weights), n) for size, n in targets]
    for quantity in QUANTITIES:
        laws = {form: fit_law(rungs, prefixes, places, quantity, form, proxy=proxy) for form in forms}
        for k, (size, n) in enumerate(targets):
            actual = float(loss(first[size].curve, np.array([n]), quantity)[0])
            yield Cell(
                quantity=quantity,
                fitted_size=str(sizes[-1]),
                fitted_bytes=int(prefixes[-1]),
                target_size=str(size),
                target_bytes=n,
                compute_ratio=flops[size, n] / flops[sizes[-1], int(prefixes[-1])],
                error={form: math.log(law.loss[k] / actual) for form, law in laws.items()},
                deviation={form: float(law.deviation[k]) for form, law in laws.items()},
            )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the rolling origins say of forecasts by the form chosen for them.

    factor: an interval reaches this many deviations to either side. coverage: how many of n_cells such intervals hit, each with
    the factor of the other origins. rmse: of log(forecast / actual), by form. is_calibrated: False where cells are too few, and
    the factor is the normal distribution's.
    """

    form: str
    rmse: Mapping[str, float]
    factor: float
    n_cells: int
    n_origins: int
    n_hit: int
    is_calibrated: bool
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def coverage(self) -> float | None:
        return self.n_hit / self.n_cells if self.n_cells else None


def root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(sum(value**2 for value in values) / len(values))


def choose_form(cells: Sequence[Cell]) -> str:
    """The form of the least error in total bits; `additive` where there are no cells."""
    errors = [cell.error for cell in cells if cell.quantity == "total_bits"]
    if not errors:
        return "additive"
    return min(errors[0], key=lambda form: root_mean_square([error[form] for error in errors]))


def deviation(form: str, logs: Mapping[str, float], rmse: Mapping[str, float], bootstrap: float, seeds: float) -> float:
    """Of the logarithm of a forecast: bootstrap, spread of the forms that are about as good, and of seeds, as independent.

    logs: log of the forecast by form. rmse: of the forms in the backtest; empty: all count.
    """
    good = [f for f in logs if f != form and (not rmse or rmse[f] <= GOOD_FORMS * rmse[form])]
    spread = root_mean_square([logs[f] - logs[form] for f in good]) if good else 0.0
    return math.sqrt(bootstrap**2 + spread**2 + seeds**2)


def calibrate(cells: Sequence[Cell], quantity: Quantity, form: str, seed_deviation: float) -> Calibration:
    """The factor that CONFIDENCE of the backtest's errors stay below, in deviations (split conformal quantile of the errors).

    The coverage counts each origin's cells with the factor of the others. Cells of neighbouring origins and of one text are
    not independent: coverage is that of this ladder, and says less of others than its count suggests.
    """
    ours = [cell for cell in cells if cell.quantity == quantity]
    rmse = {f: root_mean_square([cell.error[f] for cell in ours]) for f in ours[0].error} if ours else {}
    scores = [
        (cell.origin, abs(cell.error[form]) / deviation(form, cell.error, rmse, cell.deviation[form], seed_deviation))
        for cell in ours
    ]
    origins = dict.fromkeys(origin for origin, _ in scores)
    hits = sum(score <= _factor([s for o, s in scores if o != origin]) for origin, score in scores)
    return Calibration(
        form=form,
        rmse=rmse,
        factor=_factor([score for _, score in scores]),
        n_cells=len(ours),
        n_origins=len(origins),
        n_hit=hits,
        is_calibrated=len(ours) >= MIN_CELLS,
        cells=tuple(ours),
    )


def _factor(scores: Sequence[float]) -> float:
    """The ceil(0.9 (n + 1))-th of n scores, and no less than the normal distribution's 1.64 where they are few."""
    if len(scores) < MIN_CELLS:
        return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return sorted(scores)[min(len(scores), math.ceil(CONFIDENCE * (len(scores) + 1))) - 1]


def seed_deviation(ladder: Ladder, quantity: Quantity) -> float:
    """Of the logarithm of a loss at the ladder's end over seeds, pooled over the sizes that have several; 0: none has."""
    ends = np.array([ladder.about.n_bytes])
    squares, freedom = 0.0, 0
    for size in ladder.sizes:
        logs = [math.log(loss(r.curve, ends, quantity)[0]) for r in ladder.rungs if r.size == size]
        squares += len(logs) * float(np.var(logs))
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


# ---- the forecast


def forecast(
    ladder: Ladder,
    target: Target,
    *,
    program_version: str,
    proxy: Run | None = None,
    target_blake2b: str | None = None,
    form: str | None = None,
    with_diverged: bool = False,
    after_the_fact: bool = False,
    n_resamples: int = N_RESAMPLES,
) -> dict[str, Any]:
    """The sealed record of a forecast (docs/FORECAST.md has its names).

    proxy: a run over the target's bytes, or more. target_blake2b: of the target's bytes, where they are known. form: None for the
    one of the least backtest error. Raises ConfigError for a ladder too small, with runs that look diverged (unless
    with_diverged) or a target within what is fitted; CorpusError for a proxy that is too short.
    """
    diverged = anomalies(ladder)
    if diverged and not with_diverged:
        name, why = next(iter(diverged.items()))
        raise ConfigError(
            f"{len(diverged)} runs of the ladder look diverged; {name}: {why}; mend the recipe, or insist"
        )
    config = replace(scaled(ladder.base, target.size), seed=target.seed)
    flops = _compute(ladder, target, config, proxy)
    if flops["ratio"] <= 1:
        raise ConfigError(f"the target takes {flops['ratio']:.2f} times the operations of the largest run: no forecast")
    curve = _proxy_curve(proxy, target) if proxy else None
    cells = rolling_origins(ladder, curve)
    chosen = form or choose_form(cells)
    made = {q: _forecast_of(ladder, target, config, q, chosen, cells, curve, n_resamples) for q in QUANTITIES}
    return sealed(
        {
            "schema": SCHEMA,
            "kind": "forecast",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "program_version": program_version,
            "after_the_fact": after_the_fact,
            "corpus": {**ladder.rungs[0].run.record["corpus"]},
            "fitted": [run_digests(rung.run) for rung in ladder.rungs],
            "fitted_prefixes": ladder.prefixes().tolist(),
            "diverged": diverged,
            "target": {
                "config": config.to_dict(),
                "n_bytes": target.n_bytes,
                "blake2b": target_blake2b,
                "n_weights": _weights(config),
                "window_bytes": final_window_bytes(target.n_bytes),
            },
            "compute": flops,
            "proxy": run_digests(proxy) if proxy else None,
            "confidence": CONFIDENCE,
            "form": chosen,
            "form_chosen_by": "option" if form else "least backtest error in total bits",
            "forecasts": made,
            "identity": _identity(ladder, target, config, chosen),
        }
    )


def _weights(config: Config) -> int:
    from prequential.measure.study.ladder import n_weights

    assert config.gpt
    return n_weights(config.gpt)


def _compute(ladder: Ladder, target: Target, config: Config, proxy: Run | None) -> dict[str, float]:
    largest = max(total_flops(rung.config, ladder.about.n_bytes).total for rung in ladder.rungs)
    if proxy:
        own = Config.from_record(proxy.record["config"])
        largest = max(largest, total_flops(own, proxy.record["corpus"]["n_bytes"]).total)
    flops = total_flops(config, target.n_bytes).total
    return {"target_flops": flops, "largest_flops": largest, "ratio": flops / largest}


def _proxy_curve(proxy: Run, target: Target) -> Curve:
    curve = proxy.curves[MODEL]
    if curve.n_bytes[-1] < target.n_bytes:
        raise CorpusError(
            f"the proxy {str(proxy.path)!r} ends at byte {curve.n_bytes[-1]}, before the target's {target.n_bytes}"
        )
    return curve


def _forecast_of(
    ladder: Ladder,
    target: Target,
    config: Config,
    quantity: Quantity,
    form: str,
    cells: Sequence[Cell],
    proxy: Curve | None,
    n_resamples: int,
) -> dict[str, Any]:
    """Point, interval, what they are made of, and the naive forecasts, as JSON values; total_bits in bits, else bits/byte."""
    unit = target.n_bytes if quantity == "total_bits" else 1
    places = [(float(_weights(config)), target.n_bytes)]
    seeds = seed_deviation(ladder, quantity)
    calibration = calibrate(cells, quantity, form, seeds)
    laws = {
        f: fit_law(ladder.rungs, ladder.prefixes(), places, quantity, f, proxy=proxy, n_resamples=n_resamples)
        for f in FORMS
    }
    # with a proxy the law is of ratios, and its floor no loss
    floor = fit_law(ladder.rungs, ladder.prefixes(), places, quantity, form, n_resamples=2).record["floor"]
    logs = {f: math.log(law.loss[0]) for f, law in laws.items()}
    point, bootstrap = float(laws[form].loss[0]), float(laws[form].deviation[0])
    sd = deviation(form, logs, calibration.rmse, bootstrap, seeds)
    reach = math.exp(calibration.factor * sd)
    return {
        "point": point * unit,
        "low": point / reach * unit,
        "high": point * reach * unit,
        "bits_per_byte": point,
        "deviations": {"bootstrap": bootstrap, "seeds": seeds, "all": sd, "factor": calibration.factor},
        "calibration": {
            "is_calibrated": calibration.is_calibrated,
            "n_cells": calibration.n_cells,
            "n_origins": calibration.n_origins,
            "n_hit": calibration.n_hit,
            "rmse": dict(calibration.rmse),
        },
        "by_form": {f: float(law.loss[0]) * unit for f, law in laws.items()},
        "fit": laws[form].record,
        "naive": {name: value * unit for name, value in naive(ladder, config, target, quantity).items()},
        "last_rung_bits_per_byte": last_rung(ladder, quantity),
        "floor_bits_per_byte": floor,
    }


def last_rung(ladder: Ladder, quantity: Quantity) -> float:
    """Loss of the largest size at the ladder's end, first seed."""
    rung = next(rung for rung in ladder.rungs if rung.size == ladder.sizes[-1])
    return float(loss(rung.curve, np.array([ladder.about.n_bytes]), quantity)[0])


def naive(ladder: Ladder, config: Config, target: Target, quantity: Quantity) -> dict[str, float]:
    """Bits per byte that whoever fits nothing would forecast: the last rung's, and the line through the last two rungs in
    the logarithms of operations and loss."""
    n_bytes = ladder.about.n_bytes
    points = []
    for size in ladder.sizes[-2:]:
        rung = next(rung for rung in ladder.rungs if rung.size == size)
        value = float(loss(rung.curve, np.array([n_bytes]), quantity)[0])
        points.append((total_flops(rung.config, n_bytes).total, value))
    line = line_in_logs(points, total_flops(config, target.n_bytes).total)
    return {"last_rung": points[-1][1], "line": line}


def _identity(ladder: Ladder, target: Target, config: Config, form: str) -> dict[str, Any]:
    """Total bits by the law of means, and by the law of final windows through the identity; both without a proxy."""
    form = form if form in ("additive", "crossed") else "additive"
    places = [(float(_weights(config)), target.n_bytes)]
    direct, window = (fit_law(ladder.rungs, ladder.prefixes(), places, q, form, n_resamples=2) for q in QUANTITIES)
    assert window.implied_mean is not None
    implied = float(window.implied_mean[0])
    return {
        "form": form,
        "total_bits": float(direct.loss[0]) * target.n_bytes,
        "total_bits_from_final_window": implied * target.n_bytes,
        "disagreement_percent": 100 * (implied / float(direct.loss[0]) - 1),
    }


# ---- what is frozen


def canonical(record: Mapping[str, Any]) -> bytes:
    """JSON with names in order and no spaces: the same bytes for the same values."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `blake2b`, the digest of all else in it."""
    values = json.loads(canonical({k: v for k, v in record.items() if k != "blake2b"}))
    return {**values, "blake2b": _digest(canonical(values))}


def read_forecast(path: PathLike) -> dict[str, Any]:
    """A sealed forecast. Raises CorpusError for what is none, or was changed since."""
    with reading(path):
        text = Path(path).read_text(encoding="utf-8")
    try:
        record = json.loads(text)
    except ValueError as error:
        raise CorpusError(f"{str(path)!r} is no JSON: {error}") from error
    if not isinstance(record, dict) or record.get("kind") != "forecast" or record.get("schema") != SCHEMA:
        raise CorpusError(f"{str(path)!r} is no forecast of schema {SCHEMA}")
    if sealed(record) != record:
        raise CorpusError(f"{str(path)!r} was changed after it was frozen: its digest does not match")
    return record


def run_digests(run: Run) -> dict[str, Any]:
    """What a run was, and the BLAKE2b-256 of its record and of its curves."""
    record = run.record
    return {
        "name": run.name,
        "n_bytes": record["corpus"]["n_bytes"],
        "corpus_blake2b": record["corpus"]["blake2b"],
        "config_blake2b": _digest(config_key(record["config"]).encode()),
        "seed": record["config"]["seed"],
        "time": record["time"],
        "code_bits": record["code_bits"],
        "record_blake2b": _digest((run.path / RECORD).read_bytes()),
        "curve_blake2b": _digest((run.path / CURVE).read_bytes()),
    }


def target_runs(folder: PathLike, target: Target, base: Config) -> list[Run]:
    """Runs in `folder` that contain the target's: its learner and size, under any seed, over as many bytes or more."""
    kind = family(base.to_dict())
    return [
        run
        for run in read_runs(folder)
        if run.record["config"]["gpt"]
        and run.record["corpus"]["n_bytes"] >= target.n_bytes
        and family(run.record["config"]) == kind
        and Rung(run).size == target.size
    ]


# ---- the score


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one quantity. percent: forecast over actual, less 1. seed_deviations: error over the deviation of seeds, None if
    unknown. skill: 1 - |error| / |naive error|, by naive forecast. of_remaining_gain: error over what lay between the last rung
    and the law's floor."""

    quantity: str
    point: float
    low: float
    high: float
    actual: float
    percent: float
    hit: bool
    seed_deviations: float | None
    naive_percent: Mapping[str, float]
    skill: Mapping[str, float | None]
    of_remaining_gain: float | None


def score(record: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """The line that `scores.jsonl` gets: the forecast (`read_forecast`) against the target's run.

    Raises CorpusError where the run is not the target's, or was begun before a forecast that claims to be one.
    """
    _check_run(record, run)
    scores = [_score_of(record, run.curves[MODEL], quantity) for quantity in QUANTITIES]
    return {
        "schema": SCHEMA,
        "kind": "forecast score",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "forecast_blake2b": record["blake2b"],
        "after_the_fact": record["after_the_fact"],
        "compute_ratio": record["compute"]["ratio"],
        "run": run_digests(run),
        "scores": [asdict(one) for one in scores],
    }


def _alike(config: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both are of one learner, size and seed; steps may differ as far as the rule of steps rounds."""
    shape = ("width", "n_layers", "n_heads")
    return (
        config["gpt"] is not None
        and family(config) == family(other)
        and config["seed"] == other["seed"]
        and all(config["gpt"][name] == other["gpt"][name] for name in shape)
    )


def _check_run(record: Mapping[str, Any], run: Run) -> None:
    target, about = record["target"], run.record["corpus"]
    if not _alike(run.record["config"], target["config"]) or about["n_bytes"] != target["n_bytes"]:
        raise CorpusError(f"{str(run.path)!r} is not the run that was forecast: its configuration or length is another")
    if target["blake2b"] not in (None, about["blake2b"]):
        raise CorpusError(f"{str(run.path)!r} read other bytes than those of the forecast")
    began = datetime.fromisoformat(run.record["time"]) - timedelta(seconds=run.record["wall_s"])
    created = datetime.fromisoformat(record["created_at"])  # both are whole seconds
    if not record["after_the_fact"] and began < created - timedelta(seconds=1):
        raise CorpusError(f"{str(run.path)!r} was begun before the forecast was frozen: it cannot be scored by it")


def _score_of(record: Mapping[str, Any], curve: Curve, quantity: Quantity) -> Score:
    made, n_bytes = record["forecasts"][quantity], record["target"]["n_bytes"]
    unit = n_bytes if quantity == "total_bits" else 1
    actual = float(loss(curve, np.array([n_bytes]), quantity)[0]) * unit
    error = made["point"] - actual
    naive_errors = {name: value - actual for name, value in made["naive"].items()}
    seeds = made["deviations"]["seeds"]
    gain = (made["last_rung_bits_per_byte"] - made["floor_bits_per_byte"]) * unit
    return Score(
        quantity=quantity,
        point=made["point"],
        low=made["low"],
        high=made["high"],
        actual=actual,
        percent=100 * error / actual,
        hit=made["low"] <= actual <= made["high"],
        seed_deviations=error / (seeds * actual) if seeds else None,
        naive_percent={name: 100 * e / actual for name, e in naive_errors.items()},
        skill={name: 1 - abs(error / e) if e else None for name, e in naive_errors.items()},
        of_remaining_gain=error / gain if gain > 0 else None,
    )


def append_score(forecast_path: PathLike, line: dict[str, Any]) -> Path:
    """Adds the line to scores.jsonl beside the forecast; nothing is ever taken out. Raises OutputError."""
    path = Path(forecast_path).with_name("scores.jsonl")
    append_record(path, line)
    return path


def check_prefix(record: Mapping[str, Any], prefix: Subject) -> None:
    """Raises CorpusError where the corpus does not begin as that of the ladder did."""
    corpus = record["corpus"]
    if (corpus["n_bytes"], corpus["blake2b"]) != prefix:
        raise CorpusError("this corpus begins otherwise than that of the ladder: their digests differ")
