"""Forecasts of a larger run, frozen before the run is made.

A law of size and length (scaling.py) is fitted to a ladder (sweeps/ladder.py). It forecasts the cost of a target, a larger
learner over more bytes: of all its bytes (`total_bits`) and of its last window (`final_bits_per_byte`). The backtest of the
ladder (backtest.py) decides the form of the law and the width of the interval (intervals.py). The forecast is one sealed JSON
object (sealed.py).

The law knows nothing about the text after the ladder's bytes. A proxy does: it is a cheap run over the target's bytes. With a
proxy, the law is fitted to the ratio of the losses, and the forecast is that ratio times the proxy's loss. The naive forecasts
are given in both ways (naive.py).
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from prequential.decomposition.decompose import final_window_bytes
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.forecasting.backtest import (
    QUANTITIES,
    Cell,
    FittedLaw,
    Quantity,
    fit_law,
    rolling_origins,
)
from prequential.forecasting.identity import identity
from prequential.forecasting.intervals import (
    CONFIDENCE,
    Calibration,
    calibrate,
    choose_form,
    combined_deviation,
    seed_deviation,
)
from prequential.forecasting.naive import last_rung_loss, naive_losses
from prequential.forecasting.scaling import FORMS
from prequential.forecasting.sealed import SCHEMA, run_digests, sealed
from prequential.model.config import Config
from prequential.online.flops import total_flops
from prequential.sweeps.finished import corpus_key
from prequential.sweeps.ladder import Ladder, Rung, Size, diverged_runs, family, n_weights, scaled
from prequential.version import VERSION

N_RESAMPLES = 400


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
    if corpus_key(source, ladder.corpus.n_bytes) != ladder.corpus:
        raise CorpusError(f"{source!r} does not begin with the bytes that the ladder read")
    corpus = corpus_key(source, target.n_bytes)
    if corpus.n_bytes < target.n_bytes:
        raise CorpusError(f"{source!r} has {corpus.n_bytes} bytes, fewer than the target's {target.n_bytes}")
    return corpus.blake2b


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
            "with_diverged=True to use them"
        )
    config = target.config(ladder)
    compute = _compute(ladder, config, target, proxy)
    ratio = compute["ratio"] or 0.0
    if ratio <= 1:
        raise ConfigError(
            f"the target takes {ratio:.2f} times the operations of the largest run, so this would not be a forecast: "
            "choose a larger target"
        )
    proxy_curve = _proxy_curve(proxy, target) if proxy else None
    cells = rolling_origins(ladder, proxy_curve)
    forecaster = _Forecaster(ladder, target, config, form, cells, proxy_curve, n_resamples)
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
            "form": forecaster.form,
            "form_chosen_by": "option" if form else "least backtest error in total bits",
            "forecasts": {quantity: forecaster.forecast(quantity, ratio) for quantity in QUANTITIES},
            "identity": forecaster.identity(),
        }
    )


def _compute(ladder: Ladder, config: Config, target: Target, proxy: Run | None) -> dict[str, float | None]:
    """Operations of the target and of the largest fitted run or proxy, and their ratio.

    A proxy of an earlier version's configuration has no known operations, and does not count.
    """
    fitted = max(total_flops(rung.config, ladder.corpus.n_bytes).total for rung in ladder.rungs)
    proxy_flops = _proxy_flops(proxy) if proxy else None
    largest = max(fitted, proxy_flops or 0.0)
    flops = total_flops(config, target.n_bytes).total
    return {"target_flops": flops, "largest_flops": largest, "proxy_flops": proxy_flops, "ratio": flops / largest}


def _proxy_flops(proxy: Run) -> float | None:
    with suppress(ConfigError):
        return total_flops(Config.from_record(proxy.record["config"]), proxy.record["corpus"]["n_bytes"]).total
    return None


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
    """What the forecasts of all quantities share. given_form: None for the one with the least backtest error."""

    ladder: Ladder
    target: Target
    config: Config
    given_form: str | None
    cells: Sequence[Cell]
    proxy: Curve | None
    n_resamples: int

    @property
    def form(self) -> str:
        return self.given_form or choose_form(self.cells)

    def forecast(self, quantity: Quantity, compute_ratio: float) -> dict[str, Any]:
        """Point, interval, their parts, and the naive forecasts, as JSON values: total_bits in bits, others in bits/byte."""
        unit = self.target.n_bytes if quantity == "total_bits" else 1
        seeds = seed_deviation(self.ladder, quantity)
        calibration = calibrate(self.cells, quantity, self.given_form, seeds)
        laws = {
            form: self._law(quantity, form, self.proxy, self.n_resamples if form == self.form else 0) for form in FORMS
        }
        losses = {form: float(law.loss_bits_per_byte[0]) for form, law in laws.items()}
        logs = {form: math.log(loss) for form, loss in losses.items()}
        point, bootstrap = losses[self.form], float(laws[self.form].deviation[0])
        deviation = combined_deviation(self.form, logs, calibration.rmse, bootstrap, seeds)
        reach = math.exp(calibration.factor * deviation)
        fit = laws[self.form].fit
        # with a proxy the law is of ratios, and its floor is not a loss
        floor = self._law(quantity, self.form, None, 0).fit.floor if self.proxy else fit.floor
        return {
            "point": point * unit,
            "low": point / reach * unit,
            "high": point * reach * unit,
            "bits_per_byte": point,
            "deviations": {"bootstrap": bootstrap, "seeds": seeds, "all": deviation, "factor": calibration.factor},
            "calibration": _calibration_record(calibration, compute_ratio),
            "by_form": {form: loss * unit for form, loss in losses.items()},
            "fit": fit.to_record() | {"floor": fit.floor},
            "naive": {name: loss * unit for name, loss in self._naive(quantity).items()},
            "last_rung_bits_per_byte": last_rung_loss(self.ladder, quantity),
            "floor_bits_per_byte": floor,
        }

    def identity(self) -> dict[str, Any]:
        """Total bits from the law of means, and from the law of the loss, with the forecast's form and proxy."""
        assert self.config.gpt
        means, losses = (self._law(quantity, self.form, self.proxy, 0).fit for quantity in QUANTITIES)
        prefixes = self.ladder.prefixes().tolist()
        return identity(means, losses, prefixes, n_weights(self.config.gpt), self.target.n_bytes, self.proxy)

    def _law(self, quantity: Quantity, form: str, proxy: Curve | None, n_resamples: int) -> FittedLaw:
        """The law of all rungs, and its forecast of the target."""
        assert self.config.gpt
        places = [(float(n_weights(self.config.gpt)), self.target.n_bytes)]
        prefixes = self.ladder.prefixes()
        return fit_law(self.ladder.rungs, prefixes, places, quantity, form, proxy=proxy, n_resamples=n_resamples)

    def _naive(self, quantity: Quantity) -> dict[str, float]:
        n_bytes = self.target.n_bytes
        return naive_losses(self.ladder, total_flops(self.config, n_bytes).total, n_bytes, quantity, self.proxy)


def _calibration_record(calibration: Calibration, compute_ratio: float) -> dict[str, Any]:
    ratios = calibration.compute_ratios
    return {
        "is_calibrated": calibration.is_calibrated,
        "n_cells": calibration.n_cells,
        "n_origins": calibration.n_origins,
        "n_effective": calibration.n_effective,
        "n_hit": calibration.n_hit,
        "rmse": dict(calibration.rmse),
        "compute_ratios": list(ratios) if ratios else None,
        "reaches_target": ratios is not None and ratios[1] >= compute_ratio,
        "interval_score": calibration.interval_score,
        "nominal_score": calibration.nominal_score,
    }
