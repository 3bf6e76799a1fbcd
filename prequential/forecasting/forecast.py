"""Forecasts of the total bits of a larger run, registered before the run is made (docs/STUDIES.md).

Laws of size and length (scaling.py) are fitted to a ladder (sweeps/ladder.py), with each link to each proxy. The backtest of the
ladder says which of them count, and how wide the interval is (backtest.py).
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, check_number
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run, mode_of_all, read_run, read_runs
from prequential.evaluation.summary import OTHER_ORDER
from prequential.files import common_mode, output_file
from prequential.forecasting import backtest, members, registered
from prequential.forecasting.scaling import FORMS
from prequential.online.costs import total_flops
from prequential.online.source import mode_of
from prequential.printable import format_table, printable
from prequential.sweeps.ladder import AnySize, Ladder, Parameters, Size, diverged_runs, n_weights, scaled
from prequential.sweeps.plans import corpus_key, recorded_corpus
from prequential.version import VERSION

if TYPE_CHECKING:
    import pandas

TOO_WIDE = 0.1  # an interval that reaches further to either side is nothing to decide by
CLEAR_EFFECT = 2.0  # deviations of a seed


@dataclass(frozen=True, kw_only=True)
class Target:
    """The run to forecast: the ladder's learner at a size and a seed, over the first n_bytes of the corpus."""

    size: AnySize
    n_bytes: int
    seed: int = 0

    def to_record(self, ladder: Ladder, blake2b: str | None = None) -> tuple[dict[str, Any], float]:
        """Configuration, length and weights as JSON values; and the operations of the run.

        Raises ConfigError for an impossible size, and for one of another kind than the ladder's.
        """
        largest, is_reported = ladder.rungs[-1], members.is_reported_ladder(ladder)
        if is_reported != isinstance(self.size, Parameters):
            kind = "training loops: give --target-parameters" if is_reported else "GPTs: give --target-width"
            raise ConfigError(f"the ladder is of {kind}")
        if isinstance(self.size, Parameters):
            arguments, n = {"n_parameters": self.size.n, "family": largest.family}, self.size.n
            config: dict[str, Any] = {OTHER: {"name": "training loop", "arguments": arguments}}
            flops = largest.operations(self.n_bytes) * n / largest.n_weights
        else:
            own = replace(scaled(ladder.base, self.size), seed=self.seed)
            assert own.gpt
            config, n, flops = own.to_dict(), n_weights(own.gpt), total_flops(own, self.n_bytes).total
        return {"config": config, "n_bytes": self.n_bytes, "blake2b": blake2b, "n_weights": n}, flops


def target_digest(source: str, ladder: Ladder, n_bytes: int) -> str:
    """BLAKE2b-256 of the target's bytes of the corpus, in hexadecimal digits.

    Raises CorpusError if the corpus does not begin with the ladder's bytes or is shorter than the target.
    """
    if corpus_key(source, ladder.corpus.n_bytes) != ladder.corpus:
        raise CorpusError(f"{source!r} does not begin with the bytes that the ladder read")
    corpus = corpus_key(source, n_bytes)
    if corpus.n_bytes < n_bytes:
        raise CorpusError(f"{source!r} has {corpus.n_bytes} bytes, fewer than the target's {n_bytes}")
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
    """The registered record of a forecast (docs/STUDIES.md).

    proxies: runs over the target's bytes, or more. target_blake2b: of the target's bytes, if they are known. left_out: as
    `read_ladder` gives it, for the record. Raises ConfigError for a ladder that is too small or looks diverged, and for a target
    within it, CorpusError for a proxy that is too short.
    """
    for name, reason in diverged_runs(ladder).items():
        raise ConfigError(f"the run {name} looks diverged: {reason}; move it away, or change the configuration")
    wanted, flops = target.to_record(ladder, target_blake2b)
    compute = _compute(ladder, wanted, flops, proxies)
    curves = [(proxy.name, _proxy_curve(ladder, proxy, target)) for proxy in proxies]
    last_losses = backtest.loss_bits_per_byte(ladder.rungs[-1].curve, ladder.prefixes()[-1:])
    return registered.with_digest(
        {
            "schema": registered.SCHEMA,
            "kind": "forecast",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "program_version": VERSION,
            "after_the_fact": after_the_fact,
            **members.what_is_known(ladder, left_out or {}),
            "corpus": {**ladder.rungs[0].run.record["corpus"]},
            "fitted": [registered.run_digests(rung.run) for rung in ladder.rungs],
            "fitted_prefixes": ladder.prefixes().tolist(),
            "largest_bits_per_byte": float(last_losses[0]),
            "size_effect": backtest.size_effect(ladder),
            "target": wanted,
            "compute": compute,
            "proxies": [registered.run_digests(proxy) for proxy in proxies],
            "confidence": backtest.CONFIDENCE,
            "forecasts": {"total_bits": _made(ladder, wanted, curves, compute)},
        }
    )


def _made(
    ladder: Ladder, target: Mapping[str, Any], proxies: Sequence[tuple[str, Curve]], compute: Mapping[str, Any]
) -> dict[str, Any]:
    """Point and interval in bits, the forecasts that they are made of, the naive ones, and the backtest, as JSON values."""
    assumed, n_bytes = backtest.links(proxies), target["n_bytes"]
    place = float(target["n_weights"]), n_bytes
    logs = np.log(backtest.forecast_losses(ladder.rungs, ladder.prefixes(), [place], assumed)[:, :, 0])
    calibration = backtest.Calibration(backtest.rolling_origins(ladder, assumed), len(assumed), len(FORMS))
    mean, spread = backtest.mean_and_spread(logs, calibration.weights)
    deviations = calibration.deviations(spread, backtest.seed_deviation(ladder), compute["ratio"])
    bits, reach = math.exp(mean) * n_bytes, math.exp(deviations["reach"])
    naive = backtest.naive_losses(ladder, compute["target_flops"], n_bytes, [curve for _, curve in proxies])
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
                "bits": math.exp(logs[i, j]) * n_bytes,
                "weight": float(calibration.weights[i, j]),
            }
            for i, link in enumerate(assumed)
            for j, form in enumerate(FORMS)
        ],
        "backtest": {
            "rms": calibration.rms,
            "n_cells": len(calibration.cells),
            "n_hit": calibration.n_hit(backtest.seed_deviation(ladder)),
            "n_effective": calibration.n_effective,
            "compute_ratios": calibration.compute_ratios,
            "is_calibrated": calibration.is_calibrated,
        },
        "naive": {name: loss * n_bytes for name, loss in naive.items()},
    }


def _compute(ladder: Ladder, target: Mapping[str, Any], flops: float, proxies: Sequence[Run]) -> dict[str, Any]:
    """Operations of the target, of the largest fitted run and of the proxies; and the target's multiples of that run.

    Raises ConfigError if the target takes no more than each of them.
    """
    largest = max(ladder.rungs, key=lambda rung: rung.operations(ladder.corpus.n_bytes))
    fitted = largest.operations(ladder.corpus.n_bytes)
    of_proxies = [members.operations(proxy, proxy.record["corpus"]["n_bytes"]) for proxy in proxies]
    most = max(fitted, *(each or 0.0 for each in of_proxies), 0.0)
    if flops <= most:
        raise ConfigError(
            f"the target takes {flops / most:.2f} times the operations of the largest run, so this would not be a forecast: "
            "choose a larger target"
        )
    return {
        "target_flops": flops,
        "largest_flops": fitted,
        "proxy_flops": of_proxies,
        "ratio": flops / fitted,
        "weights_ratio": target["n_weights"] / largest.n_weights,
        "data_ratio": target["n_bytes"] / ladder.corpus.n_bytes,
    }


def _proxy_curve(ladder: Ladder, proxy: Run, target: Target) -> Curve:
    curve, name = proxy.curves[MODEL], str(proxy.path)
    rung = members.rung_of(proxy)
    if members.is_reported_ladder(ladder) and (rung is None or rung.family != ladder.rungs[0].family):
        raise CorpusError(f"the proxy {name!r} is not reported like the runs of the ladder, with their tokenizer")
    if curve.n_bytes[-1] < target.n_bytes:
        raise CorpusError(f"the proxy {name!r} ends at byte {curve.n_bytes[-1]}, before the target's {target.n_bytes}")
    return curve


# ---- as text


def format_forecast(record: dict[str, Any]) -> str:
    """The target, the forecast by each assumption that counts, the naive forecasts, the backtest, and what follows."""
    if record["schema"] == 1:
        return conclusion(record)
    target, made, compute = record["target"], record["forecasts"]["total_bits"], record["compute"]
    gpt, tested = target["config"].get("gpt"), made["backtest"]
    size = f"{gpt['width']}x{gpt['n_layers']}" if gpt else f"{target['n_weights']:,} parameters"
    low, high = tested["compute_ratios"] or (0.0, 0.0)
    rows = [(name, f"{bits:,.0f}") for name, bits in _parts(made).items()]
    return "\n".join(
        [
            f"target: {size} over {target['n_bytes']:,} bytes: {compute['weights_ratio']:.1f} times the weights, "
            f"{compute['data_ratio']:.1f} times the data, {compute['ratio']:.1f} times the operations of the largest run fitted",
            *([f"{record['proof']}; rows: {record['rows']}"] if record["proof"] else []),
            format_table(("forecast by", "total bits"), rows),
            f"backtest: rms {100 * (tested['rms'] or 0.0):.2f} % at {low:.1f} to {high:.1f} times the operations, "
            f"{tested['n_hit']} of {tested['n_cells']} intervals hit",
            *(f"warning: {line}" for line in _warnings(record)),
            f"registered: {record['blake2b']}",
            conclusion(record),
        ]
    )


def _parts(made: Mapping[str, Any]) -> dict[str, float]:
    """The mean forecast in bits of each link that counts, and the naive forecasts, by name."""
    logs: dict[str, list[float]] = {}
    for each in made.get("assumptions", ()):
        if each["weight"]:
            name = f"{each['link']} to {printable(each['proxy'])}" if each["proxy"] else "no proxy"
            logs.setdefault(name, []).append(math.log(each["bits"]))
    by_link = {name: math.exp(math.fsum(each) / len(each)) for name, each in logs.items()}
    return by_link | {f"naive: {name.replace('_', ' ')}": bits for name, bits in made["naive"].items()}


def conclusion(record: Mapping[str, Any]) -> str:
    """One sentence to act on."""
    made, compute = record["forecasts"]["total_bits"], record["compute"]
    between = f"{made['low']:,.0f} to {made['high']:,.0f} bits, 90 %"
    rate = made["point"] / record["target"]["n_bytes"]
    expect = f"Expect {made['point']:,.0f} bits ({between}), {rate:.3f} bits/byte"
    if record["schema"] == 1:  # it knows no more
        return f"{expect}."
    if made["deviations"]["reach"] > TOO_WIDE:
        return f"Decide nothing by this forecast ({between}): a ladder over more of the text, or another proxy, narrows it."
    return (
        f"{expect} after {record['largest_bits_per_byte']:.3f} of the ladder's largest run, from "
        f"{compute['weights_ratio']:.1f} times the weights and {compute['data_ratio']:.1f} times the data."
    )


def _warnings(record: Mapping[str, Any]) -> Iterator[str]:
    """What weakens a forecast."""
    effect, n_cells = record["size_effect"], record["forecasts"]["total_bits"]["backtest"]["n_cells"]
    if n_cells < backtest.MIN_CELLS:
        yield f"the interval is not calibrated: {n_cells} hidden runs are too few"
    if effect is None:
        yield "no size has two seeds: whether the sizes differ by more than seeds is not known"
    elif effect < CLEAR_EFFECT:
        yield f"the sizes differ by {effect:.1f} deviations of a seed: this does not show that a larger model helps"
    if record["proof"]:
        yield "a prefix stands for a shorter run: true only if the learning rate did not depend on the length of the run"
    if record["rows"] == OTHER_ORDER:
        yield "the loops saw their rows in different orders: prefixes of two sizes hold different rows"
    yield from (f"{name} is left out: {reason}" for name, reason in record["left_out"].items())


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

        return pandas.DataFrame([{name: value for name, value in self.record.items() if not isinstance(value, dict)}])

    def __str__(self) -> str:
        record = self.record
        point, low, high, actual = (f"{record[name]:,.0f}" for name in ("point", "low", "high", "actual"))
        skill = "not known" if record["skill"] is None else f"{record['skill']:+.2f}"
        rates = f"interval score {record['interval_score_percent']:.2f} %, skill {skill}"
        shown = f"forecast {point} bits ({low} to {high}, 90 %), actual {actual}: {record['percent']:+.2f} %; {rates}"
        notes = ["after the fact: this does not count as a forecast"] * record["after_the_fact"]
        return "\n".join([shown, *notes, *filter(None, [record["proof"]]), repr(self)[1:-1]])

    def __repr__(self) -> str:
        percent, is_skilled = self.record["percent"], (self.record["skill"] or 0.0) > 0
        error = f"{abs(percent):.1f} % too {'high' if percent > 0 else 'low'}"
        place = "within" if self.record["hit"] else "outside"
        others = "every naive forecast was farther off" if is_skilled else "a naive forecast was as near"
        return f"<The forecast was {error}, {place} its interval; {others}.>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast:
    """The total bits of a run that is not made yet, with a 90 % interval. str() is the report of the command.

    record: JSON values with the digest of all others, so that a later change is noticed (docs/STUDIES.md). mode: permissions that
    all files have of which it was made; a file of the forecast gets no others.

    Examples:
        >>> import prequential
        >>> forecast = prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json")
        >>> forecast.low_bits < forecast.bits < forecast.high_bits, forecast.to_frame().forecast[0]
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

        bits = pandas.Series({"forecast": self.bits, **_parts(self.record["forecasts"]["total_bits"])}, name="bits")
        frame = bits.rename_axis("forecast").reset_index()
        ends = pandas.DataFrame([{"low_bits": self.low_bits, "high_bits": self.high_bits}])
        return frame.assign(bits_per_byte=frame["bits"] / self.record["target"]["n_bytes"]).join(ends)

    def save(self, path: PathLike) -> None:
        """Writes the forecast to a file, for `read_forecast`. Raises OutputError, also for a file that exists."""
        with output_file(path, mode=self.mode) as sink:
            sink.write(json.dumps(self.record, indent=1, sort_keys=True).encode() + b"\n")

    def score(self, run: Run | PathLike) -> ForecastScore:
        """How far it is from the target's run. Nothing is written.

        Raises CorpusError if the run is not the target's, or if it began before the forecast was registered, unless that was
        made after the fact.
        """
        return ForecastScore(record=registered.score(self.record, run if isinstance(run, Run) else read_run(run)))

    def __str__(self) -> str:
        return format_forecast(self.record)

    def __repr__(self) -> str:
        return f"<{conclusion(self.record)}>"


def read_forecast(path: PathLike) -> Forecast:
    """The forecast in a file. Raises CorpusError if the file holds none, or was changed after it was registered.

    Examples:
        >>> import prequential
        >>> prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json").record["target"]["n_bytes"]
        460000
    """
    check_arguments(path=path)
    return Forecast(record=registered.read_registered(path), mode=common_mode(path))


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
    a ladder of training loops. corpus: of the target, whose digest is recorded. proxies: cheap runs over the target's bytes.
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
    ladder, left_out = members.read_ladder(runs)
    depth = getattr(ladder.sizes[-1], "n_layers", 1) if target_layers is None else target_layers
    size = Parameters(target_parameters) if target_parameters else Size(target_width or 0, depth)
    for value in size:
        check_number("the target's size", value, 1, members.MAX_PARAMETERS if target_parameters else 1 << 20)
    target = Target(size=size, n_bytes=target_bytes, seed=target_seed)
    wanted, _ = target.to_record(ladder)
    if not after_the_fact and (done := [run for run in read_runs(runs) if registered.contains_target(run, wanted)]):
        raise ConfigError(
            f"the target has been run already: {str(done[0].path)!r}; to forecast it nevertheless, give after_the_fact=True, "
            "which the record says"
        )
    opened = [proxy if isinstance(proxy, Run) else read_run(proxy) for proxy in proxies]
    digest = None if corpus is None else target_digest(os.fspath(corpus), ladder, target_bytes)
    for proxy in opened if digest else ():
        if recorded_corpus(proxy.record) != (target_bytes, digest):
            raise CorpusError(
                f"the proxy {str(proxy.path)!r} did not read the target's {target_bytes} bytes of {str(corpus)!r}"
            )
    record = forecast_record(
        ladder, target, proxies=opened, target_blake2b=digest, after_the_fact=after_the_fact, left_out=left_out
    )
    return Forecast(record=record, mode=mode_of(corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *opened]))
