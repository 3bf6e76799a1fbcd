"""Forecasts of the total bits of a larger run, frozen before the run is made (docs/STUDIES.md).

Laws of size and length (scaling.py) are fitted to a ladder (sweeps/ladder.py), with each link to each proxy (backtest.py). The
backtest of the ladder says which of them count, and how wide the interval is (intervals.py). The forecast is one sealed JSON
object (sealed.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.evaluation.summary import OTHER_ORDER
from prequential.forecasting.backtest import (
    Link,
    forecast_losses,
    links,
    loss_bits_per_byte,
    naive_losses,
    rolling_origins,
)
from prequential.forecasting.intervals import CONFIDENCE, Calibration, mean_and_spread, seed_deviation, size_effect
from prequential.forecasting.members import (
    MAX_PARAMETERS,
    ReportedRung,
    is_reported_ladder,
    operations,
    rung_of,
    what_is_known,
)
from prequential.forecasting.scaling import FORMS
from prequential.forecasting.sealed import SCHEMA, run_digests, sealed
from prequential.online.costs import total_flops
from prequential.printable import format_table, printable
from prequential.sweeps.ladder import AnySize, Ladder, Parameters, diverged_runs, n_weights, scaled
from prequential.sweeps.plans import corpus_key
from prequential.version import VERSION

TOO_WIDE = 0.1  # an interval that reaches further to either side is nothing to decide by
CLEAR_EFFECT = 2.0  # deviations of a seed


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
            if self.size.n > MAX_PARAMETERS:
                raise ConfigError(f"a target of {self.size.n} parameters: at most {MAX_PARAMETERS} are allowed")
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


def forecast_record(
    ladder: Ladder,
    target: Target,
    *,
    proxies: Sequence[Run] = (),
    target_blake2b: str | None = None,
    after_the_fact: bool = False,
    left_out: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The sealed record of a forecast (docs/STUDIES.md).

    proxies: runs over the target's bytes, or more. target_blake2b: of the target's bytes, if they are known. left_out: as
    `read_ladder` gives it, for the record. Raises ConfigError for a ladder that is too small or looks diverged, and for a target
    within it, CorpusError for a proxy that is too short.
    """
    for name, reason in diverged_runs(ladder).items():
        raise ConfigError(f"the run {name} looks diverged: {reason}; move it away, or change the configuration")
    learner = target.learner(ladder)
    compute = _compute(ladder, learner, target, proxies)
    curves = {proxy.name: _proxy_curve(ladder, proxy, target) for proxy in proxies}
    made = _made(ladder, (float(learner.n_weights), target.n_bytes), links(curves), compute["ratio"])
    naive = naive_losses(ladder, compute["target_flops"], target.n_bytes, list(curves.values()))  # of two sizes or more
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
            "fitted_prefixes": ladder.prefixes().tolist(),
            "largest_bits_per_byte": float(loss_bits_per_byte(ladder.rungs[-1].curve, ladder.prefixes()[-1:])[0]),
            "size_effect": size_effect(ladder),
            "target": {
                "config": learner.config,
                "n_bytes": target.n_bytes,
                "blake2b": target_blake2b,
                "n_weights": learner.n_weights,
            },
            "compute": compute,
            "proxies": [run_digests(proxy) for proxy in proxies],
            "confidence": CONFIDENCE,
            "forecasts": {
                "total_bits": {**made, "naive": {name: loss * target.n_bytes for name, loss in naive.items()}}
            },
        }
    )


def _made(ladder: Ladder, place: tuple[float, int], assumed: Sequence[Link], compute_ratio: float) -> dict[str, Any]:
    """Point and interval in bits, the forecasts that they are made of, and the backtest, as JSON values."""
    cells, seeds = rolling_origins(ladder, assumed), seed_deviation(ladder)
    calibration = Calibration(cells, len(assumed), len(FORMS))
    logs = np.log(forecast_losses(ladder.rungs, ladder.prefixes(), [place], assumed)[:, :, 0])
    mean, spread = mean_and_spread(logs, calibration.weights)
    deviations = calibration.deviations(spread, seeds, compute_ratio)
    bits, reach = math.exp(mean) * place[1], math.exp(deviations["reach"])
    return {
        "point": bits,
        "low": bits / reach,
        "high": bits * reach,
        "deviations": deviations,
        "assumptions": [
            {
                "link": link.kind,
                "proxy": link.proxy_name or None,
                "form": form,
                "bits": math.exp(logs[i, j]) * place[1],
                "weight": float(calibration.weights[i, j]),
            }
            for i, link in enumerate(assumed)
            for j, form in enumerate(FORMS)
        ],
        "backtest": {
            "rms": calibration.rms,
            "n_cells": len(cells),
            "n_hit": calibration.n_hit(seeds),
            "n_effective": calibration.n_effective,
            "compute_ratios": calibration.compute_ratios,
            "is_calibrated": calibration.is_calibrated,
        },
    }


def _compute(ladder: Ladder, learner: Learner, target: Target, proxies: Sequence[Run]) -> dict[str, Any]:
    """Operations of the target and of the largest fitted run or proxy, and the multiples of the largest fitted run.

    Raises ConfigError if the target is no larger.
    """
    largest = max(ladder.rungs, key=lambda rung: rung.operations(ladder.corpus.n_bytes))
    fitted = largest.operations(ladder.corpus.n_bytes)
    of_proxies = [operations(proxy, proxy.record["corpus"]["n_bytes"]) for proxy in proxies]
    most = max(fitted, *(flops or 0.0 for flops in of_proxies), 0.0)
    if learner.flops <= most:
        raise ConfigError(
            f"the target takes {learner.flops / most:.2f} times the operations of the largest run, so this would not be a "
            "forecast: choose a larger target"
        )
    return {
        "target_flops": learner.flops,
        "largest_flops": fitted,
        "proxy_flops": of_proxies,
        "ratio": learner.flops / fitted,
        "weights_ratio": learner.n_weights / largest.n_weights,
        "data_ratio": target.n_bytes / ladder.corpus.n_bytes,
    }


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


# ---- as text


def format_forecast(record: dict[str, Any]) -> str:
    """The target, the forecast by each assumption that counts, the naive forecasts, the backtest, and what follows."""
    if record["schema"] == 1:
        return conclusion(record)
    target, made, compute = record["target"], record["forecasts"]["total_bits"], record["compute"]
    gpt = target["config"].get("gpt")
    size = f"{gpt['width']}x{gpt['n_layers']}" if gpt else f"{target['n_weights']:,} parameters"
    rows = [(name, f"{bits:,.0f}") for name, bits in by_link(made["assumptions"]).items()]
    rows += [(f"naive: {name.replace('_', ' ')}", f"{bits:,.0f}") for name, bits in made["naive"].items()]
    return "\n".join(
        [
            f"target: {size} over {target['n_bytes']:,} bytes: {compute['weights_ratio']:.1f} times the weights, "
            f"{compute['data_ratio']:.1f} times the data, {compute['ratio']:.1f} times the operations of the largest run fitted",
            *([f"{record['proof']}; rows: {record['rows']}"] if record["proof"] else []),
            format_table(("forecast by", "total bits"), rows),
            _backtest(made["backtest"]),
            *(f"warning: {line}" for line in forecast_warnings(record)),
            f"frozen: {record['blake2b']}",
            conclusion(record),
        ]
    )


def by_link(assumptions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean forecast of each link that counts, in bits, by its name."""
    logs: dict[str, list[float]] = {}
    for each in assumptions:
        if each["weight"]:
            name = f"{each['link']} to {printable(each['proxy'])}" if each["proxy"] else "no proxy"
            logs.setdefault(name, []).append(math.log(each["bits"]))
    return {name: math.exp(math.fsum(found) / len(found)) for name, found in logs.items()}


def _backtest(found: Mapping[str, Any]) -> str:
    if not found["n_cells"]:
        return "backtest: none, no run of the ladder takes twice the operations of the fitted ones"
    low, high = found["compute_ratios"]
    return (
        f"backtest: rms {100 * found['rms']:.2f} % at {low:.1f} to {high:.1f} times the operations, {found['n_hit']} of "
        f"{found['n_cells']} intervals hit"
    )


def conclusion(record: Mapping[str, Any]) -> str:
    """One sentence to act on."""
    made, compute, n_bytes = record["forecasts"]["total_bits"], record["compute"], record["target"]["n_bytes"]
    between = f"{made['low']:,.0f} to {made['high']:,.0f} bits, 90 %"
    if record["schema"] == 1:  # it knows no more
        return f"Expect {made['point']:,.0f} bits ({between}), {made['point'] / n_bytes:.3f} bits/byte."
    effect, reach = record["size_effect"], made["deviations"]["reach"]
    if reach > TOO_WIDE:
        return f"Decide nothing by this forecast ({between}): a ladder over more of the text, or another proxy, narrows it."
    rate = made["point"] / n_bytes
    expect = f"Expect {made['point']:,.0f} bits ({between}), {rate:.3f} bits/byte after {record['largest_bits_per_byte']:.3f}"
    if effect is not None and effect < CLEAR_EFFECT:
        return (
            f"{expect}, from {compute['data_ratio']:.1f} times the data alone: the sizes of the ladder differ by {effect:.1f} "
            "deviations of a seed, so it does not show that a larger model helps."
        )
    seeds = (
        ""
        if effect is None
        else f"; from its smallest to its largest size, the ladder gains {effect:.0f} deviations of a seed"
    )
    return (
        f"{expect} of the ladder's largest run, from {compute['weights_ratio']:.1f} times the weights and "
        f"{compute['data_ratio']:.1f} times the data{seeds}."
    )


def forecast_warnings(record: dict[str, Any]) -> list[str]:
    """What weakens a forecast."""
    backtest = record["forecasts"]["total_bits"]["backtest"]
    lines = []
    if not backtest["is_calibrated"]:
        lines.append(f"the interval is not calibrated: {backtest['n_cells']} hidden runs are too few")
    if record["size_effect"] is None:
        lines.append("no size has two seeds: whether the sizes differ by more than seeds is not known")
    if record["proof"]:
        lines.append(
            "a prefix stands for a shorter run: true only if the learning rate did not depend on the length of the run"
        )
        if record["rows"] == OTHER_ORDER:
            lines.append("the loops saw their rows in different orders: prefixes of two sizes hold different rows")
    return [*lines, *(f"{name} is left out: {reason}" for name, reason in record["left_out"].items())]
