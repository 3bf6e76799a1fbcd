"""Forecasts of the total bits of a larger run, registered before the run is made (docs/STUDIES.md).

The law of law.py is fitted to a ladder (sweeps/ladder.py). The forecast is one JSON object with a digest (registered.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import unicode_name

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, check_number
from prequential.evaluation.curves import MODEL, ShownAsTable, data_frame
from prequential.evaluation.runs import PathLike, Run, mode_of_all, read_run, read_runs
from prequential.evaluation.summary import OTHER_ORDER, proof, rows_known
from prequential.files import common_mode, output_file
from prequential.forecasting import law, members, registered
from prequential.online.costs import total_flops
from prequential.online.source import mode_of
from prequential.printable import format_table, printable
from prequential.records import now
from prequential.sweeps.ladder import AnySize, Ladder, Parameters, Size, diverged_runs, n_weights, scaled
from prequential.sweeps.plans import corpus_key, recorded_corpus
from prequential.version import VERSION

if TYPE_CHECKING:
    import pandas


LINKS_APART = 0.25  # the forecast that missed had 0.56, of twenty; 0.34 is the most of those that held


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
            own = replace(scaled(largest.config, self.size), seed=self.seed)
            assert own.gpt
            config, n, flops = own.to_dict(), n_weights(own.gpt), total_flops(own, self.n_bytes)
        return {"config": config, "n_bytes": self.n_bytes, "blake2b": blake2b, "n_weights": n}, flops


def target_digest(source: str, ladder: Ladder, n_bytes: int) -> str:
    """BLAKE2b-256 (hexadecimal) of the target's bytes. Raises CorpusError for a corpus that is shorter, or not the ladder's."""
    if corpus_key(source, ladder.corpus.n_bytes) != ladder.corpus:
        raise CorpusError(f"{source!r} does not begin with the bytes that the ladder read")
    corpus = corpus_key(source, n_bytes)
    if corpus.n_bytes < n_bytes:
        raise CorpusError(f"{source!r} has {corpus.n_bytes} bytes, fewer than the target's {n_bytes}")
    return corpus.blake2b


# ---- the forecast


def losses_of(ladder: Ladder) -> law.Losses:
    """What the law is fitted to."""
    rungs, ends = ladder.rungs, ladder.prefixes().astype(np.float64)
    return law.Losses(
        sizes=[rung.size for rung in rungs],
        n_weights=np.array([float(rung.n_weights) for rung in rungs]),
        n_bytes=ends,
        losses=np.array([law.mean_losses(rung.run.curve, ends) for rung in rungs]),
        operations=np.array([[rung.operations(int(end)) for end in ends] for rung in rungs]),
    )


def forecast_record(
    ladder: Ladder,
    target: Target,
    *,
    proxies: Sequence[Run] = (),
    target_blake2b: str | None = None,
    after_the_fact: bool = False,
) -> dict[str, Any]:
    """The registered record of a forecast (docs/STUDIES.md).

    proxies: runs over the target's bytes, or more. target_blake2b: of the target's bytes, if they are known. Raises ConfigError
    for a ladder that is too small or looks diverged, and for a target within it, CorpusError for a proxy that is too short.
    """
    for name, reason in diverged_runs(ladder).items():
        raise ConfigError(f"the run {name} looks diverged: {reason}; move it away, or change the configuration")
    reported = [rung.run.record for rung in ladder.rungs] if members.is_reported_ladder(ladder) else []
    wanted, flops = target.to_record(ladder, target_blake2b)
    compute = _compute(ladder, wanted, flops)
    losses, n_bytes = losses_of(ladder), target.n_bytes
    curves = [_proxy(ladder, proxy, target) for proxy in proxies]
    made = law.estimate(losses, curves, wanted["n_weights"], n_bytes)
    naive = law.line(losses, curves, flops, n_bytes)
    links = [{"link": kind, "proxy": unicode_name(run.name)} for run in proxies for kind in ("ratio", "difference")]
    by_link = zip(links, made.by_link, strict=False)  # without a proxy, none
    total = {
        **{name: getattr(made, name) * n_bytes for name in ("point", "low", "high", "at_largest_size")},
        "by_link": [{**link, "bits": loss * n_bytes} for link, loss in by_link],
        "backtest": {"rms": made.rms, "n_hidden": made.n_hidden},
        "naive": {"line_with_proxy" if proxies else "line": naive * n_bytes},
    }
    return registered.with_digest(
        {
            "schema": registered.SCHEMA,
            "kind": "forecast",
            "created_at": now(),
            "program_version": VERSION,
            "after_the_fact": after_the_fact,
            "proof": proof(reported[0]) if reported else None,  # None: archives of equal bytes
            "rows": rows_known(reported) if reported else None,
            "corpus": ladder.rungs[0].run.record["corpus"],
            "fitted": [registered.run_digests(rung.run) for rung in ladder.rungs],
            "fitted_prefixes": ladder.prefixes().tolist(),
            "largest_size": str(ladder.sizes[-1]),
            "largest_bits_per_byte": float(losses.losses[-1, -1]),
            "target": wanted,
            "compute": compute,
            "proxies": [registered.run_digests(proxy) for proxy in proxies],
            "confidence": law.CONFIDENCE,
            "forecasts": {"total_bits": total},
        }
    )


def _compute(ladder: Ladder, target: Mapping[str, Any], flops: float) -> dict[str, float]:
    """Operations of the target and of the largest fitted run, and the target's multiples of it. Raises ConfigError if smaller."""
    fitted = max(rung.operations(ladder.corpus.n_bytes) for rung in ladder.rungs)
    if flops <= fitted:
        times = f"{flops / fitted:.2f} times the operations of the largest run"
        raise ConfigError(f"the target takes {times}, so this would not be a forecast: choose a larger target")
    return {
        "target_flops": flops,
        "largest_flops": fitted,
        "ratio": flops / fitted,
        "weights_ratio": target["n_weights"] / ladder.rungs[-1].n_weights,
        "data_ratio": target["n_bytes"] / ladder.corpus.n_bytes,
    }


def _proxy(ladder: Ladder, proxy: Run, target: Target) -> law.Proxy:
    """The losses of a proxy. Raises CorpusError for one of another kind, and for one that is too short."""
    curve, name, rung = proxy.curves[MODEL], str(proxy.path), members.rung_of(proxy)
    if members.is_reported_ladder(ladder) and (rung is None or rung.family != ladder.rungs[0].family):
        raise CorpusError(f"the proxy {name!r} is not reported like the runs of the ladder, with their tokenizer")
    if curve.n_bytes[-1] < target.n_bytes:
        raise CorpusError(f"the proxy {name!r} ends at byte {curve.n_bytes[-1]}, before the target's {target.n_bytes}")
    return partial(law.mean_losses, curve)


# ---- as text


def _parts(made: Mapping[str, Any]) -> dict[str, float]:
    """The forecast in bits by each link, and the naive one, by name; of an earlier schema, the naive ones."""
    links = {f"{each['link']} to {printable(each['proxy'])}": each["bits"] for each in made.get("by_link", ())}
    return links | {f"naive: {name.replace('_', ' ')}": bits for name, bits in made["naive"].items()}


def conclusion(record: Mapping[str, Any]) -> str:
    """One sentence to act on."""
    made, compute, n_bytes = record["forecasts"]["total_bits"], record["compute"], record["target"]["n_bytes"]
    low, rate, high = (f"{made[name] / n_bytes:.3f}" for name in ("low", "point", "high"))
    expect = f"Expect {made['point']:,.0f} bits, {rate} bits/byte ({low} to {high}, 90 %)"
    if record["schema"] < registered.SCHEMA:  # it knows no more
        return f"{expect}."
    return (
        f"{expect} after {record['largest_bits_per_byte']:.3f} of the ladder's largest run, from "
        f"{compute['weights_ratio']:.1f} times the weights and {compute['data_ratio']:.1f} times the data."
    )


def forecast_warnings(record: Mapping[str, Any]) -> Iterator[str]:
    """What weakens a forecast."""
    made, n_bytes = record["forecasts"]["total_bits"], record["target"]["n_bytes"]
    if made["low"] <= record["largest_bits_per_byte"] * n_bytes <= made["high"]:
        yield "this does not tell whether the target will need fewer bits per byte than the ladder's largest run"
    if not made["backtest"]["n_hidden"]:
        yield "the interval is not tested: no run of the ladder takes twice the operations of the fitted ones"
    bits = [[link["bits"] for link in made["by_link"] if link["proxy"] == each["proxy"]] for each in made["by_link"]]
    if (apart := max((max(each) / min(each) - 1 for each in bits), default=0.0)) > LINKS_APART:
        yield f"ratio and difference to the proxy are {apart:.0%} apart: a ladder over more of the text brings them together"
    if not record["proxies"]:
        yield "without a proxy, this holds if the text ahead is like the ladder's"
    if record["proof"]:
        yield "a prefix stands for a shorter run: true only if the learning rate did not depend on the length of the run"
    if record["rows"] == OTHER_ORDER:
        yield "the loops saw their rows in different orders: prefixes of two sizes hold different rows"


# ---- the call


@dataclass(frozen=True, kw_only=True, repr=False)
class ForecastScore(ShownAsTable):
    """How far a forecast was from the run that it forecast. str() is the report of the command. record: docs/STUDIES.md.

    Examples:
        >>> import prequential
        >>> prequential.ForecastScore(record={"percent": 1.0, "hit": True, "naive_percent": 2.0})
        <The forecast was 1.0 % too high, within its interval; a line through the last two sizes was 2.0 % off.>
    """

    record: dict[str, Any]

    def to_frame(self) -> pandas.DataFrame:
        """One row: point, low, high and actual in bits, percent (forecast over actual, minus 1), hit, naive_percent and more."""
        return data_frame([{name: value for name, value in self.record.items() if not isinstance(value, dict)}])

    def __str__(self) -> str:
        record = self.record
        point, low, high, actual = (f"{record[name]:,.0f}" for name in ("point", "low", "high", "actual"))
        rates = f"interval score {record['interval_score_percent']:.2f} %"
        shown = f"forecast {point} bits ({low} to {high}, 90 %), actual {actual}: {record['percent']:+.2f} %; {rates}"
        notes = ["after the fact: this does not count as a forecast"] * record["after_the_fact"]
        return "\n".join([shown, *notes, *filter(None, [record["proof"]]), repr(self)[1:-1]])

    def __repr__(self) -> str:
        percent, line = self.record["percent"], f"{abs(self.record['naive_percent']):.1f} % off"
        error = f"{abs(percent):.1f} % too {'high' if percent > 0 else 'low'}"
        place = "within" if self.record["hit"] else "outside"
        return f"<The forecast was {error}, {place} its interval; a line through the last two sizes was {line}.>"


def _total_bits(name: str, text: str) -> Any:
    return property(lambda forecast: float(forecast.record["forecasts"]["total_bits"][name]), doc=text)


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(ShownAsTable):
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

    bits = _total_bits("point", "The forecast of the ideal code length of the target, in bits.")
    low_bits = _total_bits("low", "The lower end of the interval.")
    high_bits = _total_bits("high", "The upper end of the interval.")

    def to_frame(self) -> pandas.DataFrame:
        """A row for the forecast, for each link to a proxy, and for the naive forecast: bits and bits_per_byte.

        low_bits, high_bits: of the first row.
        """
        parts = {"forecast": self.bits, **_parts(self.record["forecasts"]["total_bits"])}
        n_bytes = self.record["target"]["n_bytes"]
        rows = [{"forecast": name, "bits": bits, "bits_per_byte": bits / n_bytes} for name, bits in parts.items()]
        rows[0] |= {"low_bits": self.low_bits, "high_bits": self.high_bits}
        return data_frame(rows)

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
        """The target, the forecast by each link, the naive one, the backtest, warnings, and what to expect."""
        record = self.record
        if record["schema"] < registered.SCHEMA:
            return conclusion(record)
        target, made, compute = record["target"], record["forecasts"]["total_bits"], record["compute"]
        gpt, tested = target["config"].get("gpt"), made["backtest"]
        size = Size(gpt["width"], gpt["n_layers"]) if gpt else Parameters(target["n_weights"])
        lines = [
            f"target: {size} over {target['n_bytes']:,} bytes: {compute['weights_ratio']:.1f} times the weights, "
            f"{compute['data_ratio']:.1f} times the data, {compute['ratio']:.1f} times the operations of the largest run fitted"
        ]
        if record["proof"]:
            lines.append(f"{record['proof']}; rows: {record['rows']}")
        rows = [(name, f"{bits:,.0f}") for name, bits in _parts(made).items()]
        lines.append(format_table(("forecast by", "total bits"), rows))
        largest = made["at_largest_size"] / target["n_bytes"]
        lines.append(f"if models beyond {printable(record['largest_size'])} no longer help: {largest:.3f} bits/byte")
        if n := tested["n_hidden"]:
            hidden = f"{n} hidden runs of {law.MIN_RATIO:g} times the operations or more"
            lines.append(f"backtest: rms error {100 * tested['rms']:.2f} % of {hidden}")
        lines += [f"warning: {warning}" for warning in forecast_warnings(record)]
        return "\n".join([*lines, f"registered: {record['blake2b']}", conclusion(record)])

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
    ladder = members.read_ladder(runs)
    depth = getattr(ladder.sizes[-1], "n_layers", 1) if target_layers is None else target_layers
    size = Parameters(target_parameters) if target_parameters else Size(target_width or 0, depth)
    for value in size:
        check_number("the target's size", value, 1, members.MAX_PARAMETERS if target_parameters else 1 << 20)
    target = Target(size=size, n_bytes=target_bytes, seed=target_seed)
    wanted, _ = target.to_record(ladder)
    opened = [proxy if isinstance(proxy, Run) else read_run(proxy) for proxy in proxies]
    done = [str(run.path) for run in [*read_runs(runs), *opened] if registered.contains_target(run, wanted)]
    if done and not after_the_fact:
        remedy = "after_the_fact=True forecasts it, and says so"
        raise ConfigError(f"the target has been run already: {done[0]!r}; {remedy}")
    digest = None if corpus is None else target_digest(os.fspath(corpus), ladder, target_bytes)
    for proxy in opened if digest else ():
        if recorded_corpus(proxy.record) != (target_bytes, digest):
            raise CorpusError(f"the proxy {str(proxy.path)!r} did not read the {target_bytes} bytes of the target")
    record = forecast_record(ladder, target, proxies=opened, target_blake2b=digest, after_the_fact=after_the_fact)
    return Forecast(record=record, mode=mode_of(corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *opened]))
