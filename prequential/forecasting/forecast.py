"""Forecasts of the total bits of a larger run, frozen before the run is made (docs/STUDIES.md).

A law of size and length (scaling.py) is fitted to a ladder (sweeps/ladder.py). The backtest of the ladder (backtest.py) decides
the form of the law and the width of the interval (intervals.py). The forecast is one sealed JSON object (sealed.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import OTHER_ORDER
from prequential.forecasting.backtest import (
    FittedLaw,
    block_starts,
    fit_block_law,
    fit_law,
    loss_bits_per_byte,
    naive_losses,
    rolling_origins,
)
from prequential.forecasting.intervals import CONFIDENCE, Calibration, calibrate, combined_deviation, seed_deviation
from prequential.forecasting.members import ReportedRung, is_reported_ladder, operations, rung_of, what_is_known
from prequential.forecasting.scaling import FORMS, Fit
from prequential.forecasting.sealed import SCHEMA, run_digests, sealed
from prequential.online.costs import total_flops
from prequential.printable import format_table, printable
from prequential.sweeps.finished import corpus_key
from prequential.sweeps.ladder import PREFIX_RATIO, AnySize, Ladder, Parameters, diverged_runs, n_weights, scaled
from prequential.version import VERSION

N_RESAMPLES = 400
TOLERANCE_PERCENT = 3.0  # a forecast says so if the two ways to the total disagree by more


class Learner(NamedTuple):
    """The learner of a target: its configuration as JSON values, its weights, and the operations of the run."""

    config: dict[str, Any]
    n_weights: int
    flops: float


@dataclass(frozen=True, kw_only=True)
class Target:
    """The run to forecast: the ladder's learner at a size and a seed, over the first n_bytes of the corpus."""

    size: AnySize
    n_bytes: int
    seed: int = 0

    def learner(self, ladder: Ladder) -> Learner:
        """The learner of the run. Raises ConfigError for an impossible size, and for one of another kind than the ladder's."""
        largest = ladder.rungs[-1]
        if isinstance(largest, ReportedRung) != isinstance(self.size, Parameters):
            kind = (
                "training loops: give --target-parameters"
                if is_reported_ladder(ladder)
                else "GPTs: give --target-width"
            )
            raise ConfigError(f"the ladder is of {kind}")
        if isinstance(self.size, Parameters):
            arguments = {"n_parameters": self.size.n, "family": largest.family}
            flops = largest.operations(self.n_bytes) * self.size.n / largest.n_weights
            return Learner({OTHER: {"name": "training loop", "arguments": arguments}}, self.size.n, flops)
        config = replace(scaled(ladder.base, self.size), seed=self.seed)
        assert config.gpt
        return Learner(config.to_dict(), n_weights(config.gpt), total_flops(config, self.n_bytes).total)


def target_runs(path: PathLike, target: Target, ladder: Ladder) -> list[Run]:
    """The runs at `path` (`read_runs`) that contain the target's: its learner and size, any seed, and at least its bytes."""
    wanted = ladder.rungs[0].family, target.size
    return [
        run
        for run in read_runs(path)
        if run.record["corpus"]["n_bytes"] >= target.n_bytes
        and (rung := rung_of(run))
        and (rung.family, rung.size) == wanted
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
    after_the_fact: bool = False,
    left_out: Mapping[str, str] | None = None,
    n_resamples: int = N_RESAMPLES,
) -> dict[str, Any]:
    """The sealed record of a forecast (docs/STUDIES.md).

    proxy: a run over the target's bytes, or more. target_blake2b: of the target's bytes, if they are known. left_out: as
    `read_ladder` gives it, for the record. Raises ConfigError for a ladder that is too small or looks diverged, and for a target
    within it, CorpusError for a proxy that is too short.
    """
    for name, reason in diverged_runs(ladder).items():
        raise ConfigError(f"the run {name} looks diverged: {reason}; move it away, or change the configuration")
    learner = target.learner(ladder)
    compute, n = _compute(ladder, learner.flops, proxy), learner.n_weights
    curve = _proxy_curve(ladder, proxy, target) if proxy else None
    prefixes, seeds = ladder.prefixes(), seed_deviation(ladder)
    calibration = calibrate(rolling_origins(ladder, curve), seeds)
    form, place = calibration.form, (float(n), target.n_bytes)
    samples = {each: n_resamples if each == form else 0 for each in FORMS}
    laws = {f: fit_law(ladder.rungs, prefixes, [place], f, proxy=curve, n_resamples=k) for f, k in samples.items()}
    block_law = fit_block_law(ladder.rungs, prefixes, form, curve)
    naive = naive_losses(ladder, compute["target_flops"], target.n_bytes, curve)
    reaches = calibration.compute_ratios is not None and calibration.compute_ratios[1] >= compute["ratio"]
    return sealed(
        {
            "schema": SCHEMA,
            "kind": "forecast",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "program_version": VERSION,
            "after_the_fact": after_the_fact,
            **what_is_known(ladder, left_out or {}),
            "corpus": {**ladder.rungs[0].run.record["corpus"]},
            "fitted": [run_digests(rung.run) for rung in ladder.rungs],
            "fitted_prefixes": prefixes.tolist(),
            "target": {
                "config": learner.config,
                "n_bytes": target.n_bytes,
                "blake2b": target_blake2b,
                "n_weights": n,
            },
            "compute": compute,
            "proxy": run_digests(proxy) if proxy else None,
            "confidence": CONFIDENCE,
            "form": form,
            "forecasts": {
                "total_bits": {
                    **_interval(laws, calibration, seeds, target.n_bytes),
                    "calibration": {**asdict(calibration), "reaches_target": reaches},
                    "naive": {name: loss * target.n_bytes for name, loss in naive.items()},
                }
            },
            "identity": total_both_ways(laws[form].fit, block_law, prefixes.tolist(), n, target.n_bytes, curve),
        }
    )


def _interval(laws: Mapping[str, FittedLaw], calibration: Calibration, seeds: float, n_bytes: int) -> dict[str, Any]:
    """The fit, point and interval in bits, and the parts of its deviation, as JSON values."""
    losses = {form: float(law.loss_bits_per_byte[0]) for form, law in laws.items()}
    logs = {form: math.log(loss) for form, loss in losses.items()}
    point, bootstrap = losses[calibration.form], float(laws[calibration.form].deviation[0])
    deviation = combined_deviation(calibration.form, logs, calibration.rmse, bootstrap, seeds)
    reach = math.exp(calibration.factor * deviation)
    return {
        "point": point * n_bytes,
        "low": point / reach * n_bytes,
        "high": point * reach * n_bytes,
        "deviations": {"bootstrap": bootstrap, "seeds": seeds, "all": deviation, "factor": calibration.factor},
        "fit": laws[calibration.form].fit.to_record(),
        "by_form": {form: loss * n_bytes for form, loss in losses.items()},
    }


def _compute(ladder: Ladder, flops: float, proxy: Run | None) -> dict[str, Any]:
    """Operations of the target and of the largest fitted run or proxy, and their ratio. Raises ConfigError if it is below 1."""
    fitted = max(rung.operations(ladder.corpus.n_bytes) for rung in ladder.rungs)
    proxy_flops = operations(proxy, proxy.record["corpus"]["n_bytes"]) if proxy else None
    largest = max(fitted, proxy_flops or 0.0)
    if flops <= largest:
        raise ConfigError(
            f"the target takes {flops / largest:.2f} times the operations of the largest run, so this would not be a forecast: "
            "choose a larger target"
        )
    return {"target_flops": flops, "largest_flops": largest, "proxy_flops": proxy_flops, "ratio": flops / largest}


def _proxy_curve(ladder: Ladder, proxy: Run, target: Target) -> Curve:
    curve = proxy.curves[MODEL]
    if is_reported_ladder(ladder) and (not (rung := rung_of(proxy)) or rung.family != ladder.rungs[0].family):
        raise CorpusError(
            f"the proxy {str(proxy.path)!r} is not reported like the runs of the ladder, with their tokenizer"
        )
    if curve.n_bytes[-1] < target.n_bytes:
        raise CorpusError(
            f"the proxy {str(proxy.path)!r} ends at byte {curve.n_bytes[-1]}, before the target's {target.n_bytes}"
        )
    return curve


# ---- the two laws against each other


def total_both_ways(
    means: Fit, losses: Fit, prefixes: Sequence[int], n_weights: float, n_bytes: int, proxy: Curve | None = None
) -> dict[str, Any]:
    """The total bits of n_weights over n_bytes by the law of the mean loss, and by that of the loss, as JSON values.

    The mean loss over D bytes is the integral of the loss at each byte, divided by D. The two laws are two fits to the same runs:
    if they disagree, at least one is wrong for the target. With a proxy, both are of ratios to it. The law of the loss does not
    count before the first block unless it has a finite integral.
    """
    first, end = int(block_starts(np.asarray(prefixes))[0]), int(prefixes[-1])
    integral = None if proxy else losses.mean_to(n_weights, first)
    start = _bits_by_means(means, first, n_weights, proxy) if integral is None else integral * first
    stretches = ((first, end), (end, n_bytes))
    implied = start + math.fsum(_bits_by_losses(losses, a, b, n_weights, proxy) for a, b in stretches)
    total = _bits_by_means(means, n_bytes, n_weights, proxy)
    percent = 100 * (implied - total) / total
    return {
        "form": losses.form,
        "total_bits": total,
        "total_bits_from_losses": implied,
        "disagreement_percent": percent,
        "holds": abs(percent) <= TOLERANCE_PERCENT,
    }


def _bits_by_means(law: Fit, end: int, n_weights: float, proxy: Curve | None) -> float:
    """The bits of the first `end` bytes."""
    unit = float(loss_bits_per_byte(proxy, np.array([end]))[0]) if proxy else 1.0
    return law.at(n_weights, end) * unit * end


def _bits_by_losses(law: Fit, start: int, end: int, n_weights: float, proxy: Curve | None) -> float:
    """Bits from byte `start` to byte `end`, in blocks like those that the law was fitted to, or shorter ones."""
    n_blocks = max(1, math.ceil(math.log(end / start) / -math.log(PREFIX_RATIO)))
    edges = np.unique(np.round(np.geomspace(start, end, n_blocks + 1))).astype(np.int64)
    sizes, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    bits = np.diff(proxy.at(edges)) if proxy else sizes
    return math.fsum(law.at(n_weights, middle) * each for middle, each in zip(middles, bits.tolist(), strict=True))


# ---- as text


def format_forecast(record: dict[str, Any]) -> str:
    """The target, the forecast with its interval, the naive forecasts, the backtest, and what weakens the forecast."""
    target, made = record["target"], record["forecasts"]["total_bits"]
    values = (made["point"], made["low"], made["high"], *made["naive"].values())
    gpt, proxy = target["config"].get("gpt"), record["proxy"]
    size = (
        f"{gpt['width']}x{gpt['n_layers']}, {target['n_weights']:,} weights"
        if gpt
        else f"{target['n_weights']:,} parameters"
    )
    titles = ("", "forecast", "90 % from", "to", *(name.replace("_", " ") for name in made["naive"]))
    return "\n".join(
        [
            f"target: {size}, {target['n_bytes']:,} bytes, "
            f"{record['compute']['ratio']:.1f} times the operations of the largest run fitted",
            *([f"{record['proof']}; rows: {record['rows']}"] if record["proof"] else []),
            f"form: {record['form']}; proxy: {printable(proxy['name']) if proxy else 'none'}",
            format_table(titles, [("total bits", *(f"{value:,.0f}" for value in values))]),
            _backtest(record["form"], made["calibration"]),
            f"check: the sum of the law of the loss differs by {record['identity']['disagreement_percent']:+.2f} %",
            *(f"warning: {line}" for line in forecast_warnings(record)),
            f"frozen: {record['blake2b']}",
        ]
    )


def _backtest(form: str, calibration: dict[str, Any]) -> str:
    if not calibration["n_cells"]:
        return "backtest: none, no run of the ladder takes twice the operations of the fitted ones"
    return (
        f"backtest: rms {100 * calibration['rmse'][form]:.2f} %, {calibration['n_hit']} of {calibration['n_cells']} intervals "
        f"hit, from {calibration['n_origins']} origins, worth {calibration['n_effective']:.1f} independent errors"
    )


def forecast_warnings(record: dict[str, Any]) -> list[str]:
    """What weakens a forecast."""
    lines, made, ratio = [], record["forecasts"]["total_bits"], record["compute"]["ratio"]
    calibration = made["calibration"]
    if made["fit"]["binding"]:
        lines.append(f"the fit lies at a bound: {'; '.join(made['fit']['binding'])}")
    if not calibration["is_calibrated"]:
        lines.append(f"the interval is not calibrated: {calibration['n_cells']} hidden runs are too few")
    elif not calibration["reaches_target"]:
        low, high = calibration["compute_ratios"]
        lines.append(
            f"the interval is calibrated at {low:.1f} to {high:.1f} times the operations, and the target is at {ratio:.1f}: no "
            "backtest reaches as far"
        )
    if not record["identity"]["holds"]:
        lines.append("the two ways to the total bits disagree: at least one of the two laws is wrong for the target")
    if record["proof"]:
        lines.append(
            "a prefix stands for a shorter run: true only if the learning rate did not depend on the length of the run"
        )
        if record["rows"] == OTHER_ORDER:
            lines.append("the loops saw their rows in different orders: prefixes of two sizes hold different rows")
    return [*lines, *(f"{name} is left out: {reason}" for name, reason in record["left_out"].items())]
