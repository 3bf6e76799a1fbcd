"""Forecasts of the total bits of a larger run, frozen before the run is made (docs/STUDIES.md).

Laws of size and length (scaling.py) are fitted to a ladder (sweeps/ladder.py), with each link to each proxy (backtest.py). The
backtest of the ladder says which of them count, and how wide the interval is (intervals.py). The forecast is one sealed JSON
object (sealed.py).
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, check_number
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, mode_of_all, read_run, read_runs
from prequential.evaluation.summary import OTHER_ORDER
from prequential.files import common_mode, output_file
from prequential.forecasting.backtest import (
    CONFIDENCE,
    Calibration,
    Link,
    forecast_losses,
    links,
    loss_bits_per_byte,
    mean_and_spread,
    naive_losses,
    rolling_origins,
    seed_deviation,
    size_effect,
)
from prequential.forecasting.members import (
    MAX_PARAMETERS,
    ReportedRung,
    is_reported_ladder,
    operations,
    read_ladder,
    rung_of,
    what_is_known,
)
from prequential.forecasting.registered import (
    SCHEMA,
    format_score,
    read_sealed,
    run_digests,
    score,
    score_sentence,
    sealed,
)
from prequential.forecasting.scaling import FORMS
from prequential.online.costs import total_flops
from prequential.online.source import mode_of
from prequential.printable import format_table, printable
from prequential.sweeps.ladder import AnySize, Ladder, Parameters, Size, diverged_runs, n_weights, scaled
from prequential.sweeps.plans import corpus_key
from prequential.version import VERSION

if TYPE_CHECKING:
    import pandas

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
        return Learner(config.to_dict(), n_weights(config.gpt), total_flops(config, self.n_bytes))


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


# ---- the call


@dataclass(frozen=True, kw_only=True, repr=False)
class ForecastScore:
    """How far a forecast was from the run that it forecast. str() is the report of the command. record: docs/STUDIES.md.

    Examples:
        >>> import prequential
        >>> prequential.ForecastScore(record={"percent": 1.0, "hit": True, "skill": 0.5})
        <The forecast was 1.0 % too high, within its interval; every naive forecast was farther off.>
    """

    record: dict[str, Any]

    def to_frame(self) -> "pandas.DataFrame":
        """One row: point, low, high and actual in bits, percent (forecast over actual, minus 1), hit, skill and more."""
        import pandas

        values = {name: value for name, value in self.record.items() if not isinstance(value, dict)}
        return pandas.DataFrame([values])

    def __str__(self) -> str:
        return format_score(self.record)

    def __repr__(self) -> str:
        return f"<{score_sentence(self.record)}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast:
    """The total bits of a run that is not made yet, with a 90 % interval. str() is the report of the command.

    record: JSON values with the digest of all others, so that a later change is noticed (docs/STUDIES.md). mode: permissions that
    all files have of which it was made; a file of the forecast gets no others.

    Examples:
        >>> import prequential
        >>> found = prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json")
        >>> found.low_bits < found.bits < found.high_bits, found.to_frame().forecast[0]
        (True, 'forecast')
    """

    record: dict[str, Any]
    mode: int = 0o777

    @property
    def bits(self) -> float:
        """The forecast of the ideal code length of the complete target, in bits."""
        return float(self.record["forecasts"]["total_bits"]["point"])

    @property
    def low_bits(self) -> float:
        """The lower end of the interval."""
        return float(self.record["forecasts"]["total_bits"]["low"])

    @property
    def high_bits(self) -> float:
        """The upper end of the interval."""
        return float(self.record["forecasts"]["total_bits"]["high"])

    def to_frame(self) -> "pandas.DataFrame":
        """A row for the forecast, for each link to a proxy that counts, and for each naive forecast: bits and bits_per_byte.

        low_bits, high_bits: of the first row.
        """
        import pandas

        made, n_bytes = self.record["forecasts"]["total_bits"], self.record["target"]["n_bytes"]
        naive = {f"naive: {name.replace('_', ' ')}": bits for name, bits in made["naive"].items()}
        found = {"forecast": self.bits, **by_link(made.get("assumptions", ())), **naive}
        frame = pandas.DataFrame({"forecast": list(found), "bits": list(found.values())})
        ends = {"low_bits": self.low_bits, "high_bits": self.high_bits}
        frame = frame.assign(bits_per_byte=frame["bits"] / n_bytes)
        return frame.join(pandas.DataFrame([ends]))

    def save(self, path: PathLike) -> None:
        """Writes the forecast to a file, for `read_forecast`. Raises OutputError, also for a file that exists."""
        with output_file(path, mode=self.mode) as sink:
            sink.write(json.dumps(self.record, indent=1, sort_keys=True).encode() + b"\n")

    def score(self, run: Run | PathLike) -> ForecastScore:
        """How far it is from the target's run. Nothing is written.

        Raises CorpusError if the run is not the target's, or if it began before the forecast was frozen, unless that was made
        after the fact.
        """
        return ForecastScore(record=score(self.record, run if isinstance(run, Run) else read_run(run)))

    def __str__(self) -> str:
        return format_forecast(self.record)

    def __repr__(self) -> str:
        return f"<{conclusion(self.record)}>"


def read_forecast(path: PathLike) -> Forecast:
    """The forecast in a file. Raises CorpusError if the file holds none, or was changed after it was frozen.

    Examples:
        >>> import prequential
        >>> prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json").record["target"]["n_bytes"]
        460000
    """
    check_arguments(path=path)
    return Forecast(record=read_sealed(path), mode=common_mode(path))


def forecast(
    runs: PathLike,
    *,
    target_bytes: int,
    target_width: int | None = None,
    target_layers: int | None = None,
    target_parameters: int | None = None,
    target_seed: int = 0,
    corpus: PathLike | None = None,
    proxies: Sequence[Run | PathLike] = (),
    after_the_fact: bool = False,
) -> Forecast:
    """A forecast of the code length of a larger run, from a ladder of smaller ones. Nothing is written: see `Forecast.save`.

    runs: the folder of a ladder, or a file of packed runs. target_bytes: the length of the corpus that the target reads. Its
    model: target_width and target_layers (default: those of the largest size) of a GPT and target_seed; or target_parameters, for
    a ladder of training loops. corpus: of the target, whose digest is frozen. proxies: cheap runs over the target's bytes.
    after_the_fact: the target may have been run; the record says so.

    Raises ConfigError for a target that the ladder cannot forecast, or that has been run; CorpusError for runs that are no
    ladder, and for a corpus or a proxy of other bytes.

    Examples:
        >>> import prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"
        >>> prequential.forecast(ladder, target_bytes=1_000_000)
        Traceback (most recent call last):
        prequential.errors.ConfigError: name the target's size: target_width= of a GPT, or target_parameters= of a training loop
    """
    check_arguments(runs=runs, after_the_fact=after_the_fact)
    check_number("target_bytes", target_bytes, 1, 1 << 50)
    check_number("target_seed", target_seed, 0, (1 << 63) - 1)
    if (target_width is None) == (target_parameters is None):
        raise ConfigError("name the target's size: target_width= of a GPT, or target_parameters= of a training loop")
    ladder, left_out = read_ladder(runs)
    target = _target(ladder, target_bytes, target_width, target_layers, target_parameters, target_seed)
    if not after_the_fact and (found := target_runs(runs, target, ladder)):
        raise ConfigError(
            f"the target has been run already: {str(found[0].path)!r}; to forecast it nevertheless, give after_the_fact=True, "
            "which the record says"
        )
    opened = [proxy if isinstance(proxy, Run) else read_run(proxy) for proxy in proxies]
    if len({proxy.name for proxy in opened}) < len(opened):
        raise ConfigError("two proxies have one name, so one would be lost: rename one of the folders")
    digest = None if corpus is None else target_digest(os.fspath(corpus), ladder, target)
    for proxy in opened if digest else ():
        if (proxy.record["corpus"]["n_bytes"], proxy.record["corpus"]["blake2b"]) != (target.n_bytes, digest):
            raise CorpusError(
                f"the proxy {str(proxy.path)!r} did not read the target's {target.n_bytes} bytes of {str(corpus)!r}"
            )
    record = forecast_record(
        ladder, target, proxies=opened, target_blake2b=digest, after_the_fact=after_the_fact, left_out=left_out
    )
    mode = mode_of(corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *opened])
    return Forecast(record=record, mode=mode)


def _target(
    ladder: Ladder, n_bytes: int, width: int | None, n_layers: int | None, parameters: int | None, seed: int
) -> Target:
    if parameters is not None:
        check_number("target_parameters", parameters, 1, 1 << 60)
        return Target(size=Parameters(parameters), n_bytes=n_bytes)
    assert width is not None
    depth = getattr(ladder.sizes[-1], "n_layers", 1) if n_layers is None else n_layers
    for name, value in (("target_width", width), ("target_layers", depth)):
        check_number(name, value, 1, 1 << 20)
    return Target(size=Size(width, int(depth)), n_bytes=n_bytes, seed=seed)
