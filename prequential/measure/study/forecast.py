"""Forecasts of a larger run, frozen before the run is made.

A law of size and length (measure/study/scaling.py) is fitted to a ladder (measure/study/ladder.py). It forecasts the cost of a
target, a larger learner over more bytes: of all its bytes (`total_bits`) and of its last window (`final_bits_per_byte`). The
backtest of the ladder (measure/study/backtest.py) decides the form of the law and the width of the interval. The forecast is one
JSON object, which ends with its own digest, so that a later change is noticed.

The law knows nothing about the text after the ladder's bytes. A proxy does: it is a cheap run over the target's bytes. With a
proxy, the law is fitted to the ratio of the losses, and the forecast is that ratio times the proxy's loss.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import MODEL, Curve
from prequential.measure.evaluation.runs import PathLike, Run, read_runs
from prequential.measure.fields import COUNT, FLAG, NUMBER, POSITIVE, SIZE, TEXT, TIME, Form, check_fields, read_object
from prequential.measure.study.backtest import (
    CONFIDENCE,
    QUANTITIES,
    Calibration,
    Cell,
    FittedLaw,
    Quantity,
    calibrate,
    choose_form,
    combined_deviation,
    fit_law,
    loss_bits_per_byte,
    rolling_origins,
    seed_deviation,
)
from prequential.measure.study.ladder import Ladder, Rung, Size, diverged_runs, family, n_weights, scaled
from prequential.measure.study.plans import config_key, subject_of
from prequential.measure.study.references import final_window_bytes
from prequential.measure.study.scaling import FORMS, line_in_logs
from prequential.model.config import Config
from prequential.online.flops import total_flops
from prequential.version import VERSION

SCHEMA = 1
N_RESAMPLES = 400
FORMS_WITH_IDENTITY = ("additive", "crossed")
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


@dataclass(frozen=True, kw_only=True)
class Target:
    """The run to forecast: the ladder's learner at a size and a seed, over the first n_bytes of the corpus."""

    size: Size
    n_bytes: int
    seed: int = 0

    def config(self, ladder: Ladder) -> Config:
        """The configuration of the run. Raises ConfigError for an impossible size."""
        return replace(scaled(ladder.base, self.size), seed=self.seed)


def target_runs(path: PathLike, target: Target, base: Config) -> list[Run]:
    """The runs at `path` (`read_runs`) that contain the target's: its learner and size, any seed, and at least its bytes."""
    learner = family(base.to_dict())
    return [
        run
        for run in read_runs(path)
        if run.record["config"].get("gpt")
        and run.record["corpus"]["n_bytes"] >= target.n_bytes
        and family(run.record["config"]) == learner
        and Rung(run).size == target.size
    ]


def target_digest(source: str, ladder: Ladder, target: Target) -> str:
    """BLAKE2b-256 of the target's bytes of the corpus, in hexadecimal digits.

    Raises CorpusError if the corpus does not begin with the ladder's bytes or is shorter than the target.
    """
    if subject_of(source, ladder.subject.n_bytes) != ladder.subject:
        raise CorpusError(f"{source!r} does not begin with the bytes that the ladder read")
    subject = subject_of(source, target.n_bytes)
    if subject.n_bytes < target.n_bytes:
        raise CorpusError(f"{source!r} has {subject.n_bytes} bytes, fewer than the target's {target.n_bytes}")
    return subject.blake2b


# ---- the forecast


def forecast(
    ladder: Ladder,
    target: Target,
    *,
    proxy: Run | None = None,
    target_blake2b: str | None = None,
    form: str | None = None,
    with_diverged: bool = False,
    after_the_fact: bool = False,
    n_resamples: int = N_RESAMPLES,
) -> dict[str, Any]:
    """The sealed record of a forecast (docs/STUDIES.md describes it).

    proxy: a run over the target's bytes, or more. target_blake2b: of the target's bytes, if they are known. form: None for the
    one with the least backtest error. Raises ConfigError for a ladder that is too small, for runs that look diverged (unless
    with_diverged), and for a target within the fitted runs. Raises CorpusError for a proxy that is too short.
    """
    diverged = diverged_runs(ladder)
    if diverged and not with_diverged:
        name, reason = next(iter(diverged.items()))
        raise ConfigError(
            f"{len(diverged)} runs of the ladder look diverged; {name}: {reason}; change the configuration, or give "
            "--with-diverged to use them"
        )
    config = target.config(ladder)
    compute = _compute(ladder, config, target, proxy)
    if compute["ratio"] <= 1:
        raise ConfigError(
            f"the target takes {compute['ratio']:.2f} times the operations of the largest run, so this would not be a forecast: "
            "choose a larger target"
        )
    proxy_curve = _proxy_curve(proxy, target) if proxy else None
    cells = rolling_origins(ladder, proxy_curve)
    chosen = form or choose_form(cells)
    forecaster = _Forecaster(ladder, target, config, chosen, cells, proxy_curve, n_resamples)
    return sealed(
        {
            "schema": SCHEMA,
            "kind": "forecast",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "program_version": VERSION,
            "after_the_fact": after_the_fact,
            **_ladder_record(ladder),
            "diverged": diverged,
            "target": _target_record(config, target, target_blake2b),
            "compute": compute,
            "proxy": run_digests(proxy) if proxy else None,
            "confidence": CONFIDENCE,
            "form": chosen,
            "form_chosen_by": "option" if form else "least backtest error in total bits",
            "forecasts": {quantity: forecaster.forecast(quantity) for quantity in QUANTITIES},
            "identity": forecaster.identity(),
        }
    )


def _compute(ladder: Ladder, config: Config, target: Target, proxy: Run | None) -> dict[str, float]:
    """Operations of the target and of the largest fitted run or proxy, and their ratio."""
    largest = max(total_flops(rung.config, ladder.subject.n_bytes).total for rung in ladder.rungs)
    if proxy:
        proxy_config = Config.from_record(proxy.record["config"])
        largest = max(largest, total_flops(proxy_config, proxy.record["corpus"]["n_bytes"]).total)
    flops = total_flops(config, target.n_bytes).total
    return {"target_flops": flops, "largest_flops": largest, "ratio": flops / largest}


def _proxy_curve(proxy: Run, target: Target) -> Curve:
    curve = proxy.curves[MODEL]
    if curve.n_bytes[-1] < target.n_bytes:
        raise CorpusError(
            f"the proxy {str(proxy.path)!r} ends at byte {curve.n_bytes[-1]}, before the target's {target.n_bytes}"
        )
    return curve


def _ladder_record(ladder: Ladder) -> dict[str, Any]:
    return {
        "corpus": {**ladder.rungs[0].run.record["corpus"]},
        "fitted": [run_digests(rung.run) for rung in ladder.rungs],
        "fitted_prefixes": ladder.prefixes().tolist(),
    }


def _target_record(config: Config, target: Target, blake2b: str | None) -> dict[str, Any]:
    assert config.gpt
    return {
        "config": config.to_dict(),
        "n_bytes": target.n_bytes,
        "blake2b": blake2b,
        "n_weights": n_weights(config.gpt),
        "window_bytes": final_window_bytes(target.n_bytes),
    }


@dataclass(frozen=True)
class _Forecaster:
    """What the forecasts of all quantities share."""

    ladder: Ladder
    target: Target
    config: Config
    form: str
    cells: Sequence[Cell]
    proxy: Curve | None
    n_resamples: int

    def forecast(self, quantity: Quantity) -> dict[str, Any]:
        """Point, interval, their parts, and the naive forecasts, as JSON values: total_bits in bits, others in bits/byte."""
        unit = self.target.n_bytes if quantity == "total_bits" else 1
        seeds = seed_deviation(self.ladder, quantity)
        calibration = calibrate(self.cells, quantity, self.form, seeds)
        laws = {form: self._law(quantity, form, self.proxy, self.n_resamples) for form in FORMS}
        losses = {form: float(law.loss_bits_per_byte[0]) for form, law in laws.items()}
        logs = {form: math.log(loss) for form, loss in losses.items()}
        point, bootstrap = losses[self.form], float(laws[self.form].deviation[0])
        deviation = combined_deviation(self.form, logs, calibration.rmse, bootstrap, seeds)
        reach = math.exp(calibration.factor * deviation)
        return {
            "point": point * unit,
            "low": point / reach * unit,
            "high": point * reach * unit,
            "bits_per_byte": point,
            "deviations": {
                "bootstrap": bootstrap,
                "seeds": seeds,
                "all": deviation,
                "factor": calibration.factor,
            },
            "calibration": _calibration_record(calibration),
            "by_form": {form: loss * unit for form, loss in losses.items()},
            "fit": laws[self.form].record,
            "naive": {name: loss * unit for name, loss in self._naive(quantity).items()},
            "last_rung_bits_per_byte": last_rung_loss(self.ladder, quantity),
            # with a proxy the law is of ratios, and its floor is not a loss
            "floor_bits_per_byte": self._law(quantity, self.form, None, 2).record["floor"],
        }

    def identity(self) -> dict[str, Any]:
        """Total bits from the law of means, and from the law of final windows by the identity; both without a proxy."""
        form = self.form if self.form in FORMS_WITH_IDENTITY else "additive"
        direct, window = (self._law(quantity, form, None, 2) for quantity in QUANTITIES)
        assert window.implied_mean is not None
        mean, implied = float(direct.loss_bits_per_byte[0]), float(window.implied_mean[0])
        return {
            "form": form,
            "total_bits": mean * self.target.n_bytes,
            "total_bits_from_final_window": implied * self.target.n_bytes,
            "disagreement_percent": 100 * (implied / mean - 1),
        }

    def _law(self, quantity: Quantity, form: str, proxy: Curve | None, n_resamples: int) -> FittedLaw:
        """The law of all rungs, and its forecast of the target."""
        assert self.config.gpt
        places = [(float(n_weights(self.config.gpt)), self.target.n_bytes)]
        prefixes = self.ladder.prefixes()
        return fit_law(self.ladder.rungs, prefixes, places, quantity, form, proxy=proxy, n_resamples=n_resamples)

    def _naive(self, quantity: Quantity) -> dict[str, float]:
        return naive_losses(self.ladder, total_flops(self.config, self.target.n_bytes).total, quantity)


def _calibration_record(calibration: Calibration) -> dict[str, Any]:
    return {
        "is_calibrated": calibration.is_calibrated,
        "n_cells": calibration.n_cells,
        "n_origins": calibration.n_origins,
        "n_hit": calibration.n_hit,
        "rmse": dict(calibration.rmse),
    }


def last_rung_loss(ladder: Ladder, quantity: Quantity) -> float:
    """Loss of the largest size at the end of the ladder, in bits per byte, for the first seed."""
    return _end_loss(ladder, ladder.sizes[-1], quantity)


def _end_loss(ladder: Ladder, size: Size, quantity: Quantity) -> float:
    curve = ladder.first_rung(size).curve
    return float(loss_bits_per_byte(curve, np.array([ladder.subject.n_bytes]), quantity)[0])


def naive_losses(ladder: Ladder, target_flops: float, quantity: Quantity) -> dict[str, float]:
    """Forecasts without a fit, in bits per byte.

    last_rung: the loss of the largest rung. line: the straight line through the last two rungs, over the logarithms of
    operations and loss, at target_flops.
    """
    n_bytes = ladder.subject.n_bytes
    points = [
        (total_flops(ladder.first_rung(size).config, n_bytes).total, _end_loss(ladder, size, quantity))
        for size in ladder.sizes[-2:]
    ]
    return {"last_rung": points[-1][1], "line": line_in_logs(points, target_flops)}


# ---- the seal


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
        "name": run.name,
        "n_bytes": record["corpus"]["n_bytes"],
        "corpus_blake2b": record["corpus"]["blake2b"],
        "config_blake2b": _digest(config_key(record["config"]).encode()),
        "seed": record["config"]["seed"],
        "time": record["time"],
        "code_bits": record["code_bits"],
        "record_blake2b": _digest(run.record_line()),
        "curve_blake2b": _digest(run.curve_table()),
    }
