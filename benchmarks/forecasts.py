"""The published forecasts, as they were registered and as today's program makes them from the same ladders.

    python benchmarks/forecasts.py

prints the tables of docs/STUDIES.md, "Measured forecasts". Nothing is trained: benchmarks/forecasts has the ladders, proxies,
targets and registered forecasts; corpus, configuration, time and code length of each run are checked first. The clean ones are
of corpora on which the GPT had not been tuned. Today's forecasts are made after the fact.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from results import format_markdown

from prequential.evaluation.runs import Run, read_runs
from prequential.forecasting.forecast import Target, forecast_record
from prequential.forecasting.registered import read_registered, run_digests, score, with_digest
from prequential.sweeps.ladder import Ladder, Rung, Size
from prequential.sweeps.plans import recorded_corpus

FOLDER = Path(__file__).parent / "forecasts"
TUNED = ("dickens", "enwik8", "dickens-contexts", "enwik8-contexts")
CLEAN = ("gogol", "languages", "python-lib", "tinygrad", "world192", "zipcodes")
NEW = ("uv", "french", "shakespeare", "xml")  # registered by today's law, which was found with the others in view


@dataclass(frozen=True, kw_only=True)
class Published:
    """A registered forecast with the runs that it was made from, and the target's run."""

    name: str
    record: dict[str, Any]
    ladder: Ladder
    proxies: list[Run]
    target: Run

    @property
    def label(self) -> str:
        if self.name not in TUNED:
            return f"{self.name}, {self.record['compute']['ratio']:.1f} times"
        return f"{self.name}, {'proxy' if self.proxies else 'no proxy'}"


def published(names: Sequence[str] = (*CLEAN, *TUNED)) -> Iterator[Published]:
    """Every registered forecast of these folders. Raises ValueError if a run is not the one that was registered."""
    for name in names:
        runs = {run.name: run for run in read_runs(FOLDER / name / "ladder.jsonl.zst")}
        lines = [json.loads(line) for line in (FOLDER / name / "scores.jsonl").read_text().splitlines()]
        for path in sorted((FOLDER / name).glob("forecast*.json"), key=lambda path: path.stem):
            record = read_registered(path)
            (line,) = (each for each in lines if each["forecast_blake2b"] == record["blake2b"])
            proxies = record["proxies"] if "proxies" in record else [record["proxy"]] if record["proxy"] else []
            for digests in (*record["fitted"], line["run"], *proxies):
                if kept(run_digests(runs[digests["name"]])) != kept(digests):
                    raise ValueError(f"{name}: {digests['name']} is not the run that was registered")
            yield Published(
                name=name,
                record=record,
                ladder=Ladder(tuple(Rung(runs[each["name"]]) for each in record["fitted"]), recorded_corpus(record)),
                proxies=[runs[proxy["name"]] for proxy in proxies],
                target=runs[line["run"]["name"]],
            )


def kept(digests: dict[str, Any]) -> dict[str, Any]:
    """What still identifies a run: the digests of its complete record and curve are not those of what is kept here."""
    return {name: value for name, value in digests.items() if name not in ("record_blake2b", "curve_blake2b")}


def after_the_fact(each: Published) -> dict[str, Any]:
    """The score of the forecast that today's program makes. The target's step sizes are those of the registered record."""
    target, gpt = each.record["target"], each.record["target"]["config"]["gpt"]
    size = Size(gpt["width"], gpt["n_layers"])
    wanted = Target(size=size, n_bytes=target["n_bytes"], seed=target["config"]["seed"])
    made = forecast_record(each.ladder, wanted, proxies=each.proxies, after_the_fact=True)
    return score(with_digest({**made, "target": target}), each.target)


def reach(one: dict[str, Any]) -> float:
    """How far the interval reaches from the point towards the result, as a logarithm."""
    return math.log(one["high"] / one["point"]) if one["percent"] < 0 else math.log(one["point"] / one["low"])


def summary(scores: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What the scores say together. A calibrated 90 % interval has an rms of error over reach of 0.61."""
    errors = np.log([1 + one["percent"] / 100 for one in scores])
    lines = np.log([1 + one["naive_percent"] / 100 for one in scores])
    return {
        "n": len(scores),
        "hits": sum(one["hit"] for one in scores),
        "rms_percent": 100 * float(np.sqrt(np.mean(errors**2))),
        "rms_error_over_reach": float(np.sqrt(np.mean((errors / [reach(one) for one in scores]) ** 2))),
        "interval_score": float(np.mean([one["interval_score_percent"] for one in scores])) / 100,
        "rms_percent_of_line": 100 * float(np.sqrt(np.mean(lines**2))),
        "line_nearer": sum(one["skill"] < 0 for one in scores),
    }


def cells(one: dict[str, Any]) -> tuple[str, str]:
    """Error and interval of a forecast, relative to the result."""
    low, high = (100 * (one[name] / one["actual"] - 1) for name in ("low", "high"))
    return f"{one['percent']:+.1f} %", f"{'hit' if one['hit'] else 'missed'}, {low:+.1f} to {high:+.1f} %"


TITLES = ("", "registered", "90 % interval", "today, after the fact", "90 % interval", "line")


def row(each: Published, then: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    """A line under TITLES. then, now: its scores as registered and as made today."""
    return (each.label, *cells(then), *cells(now), f"{now['naive_percent']:+.1f} %")


def main() -> None:
    for names in (NEW, (*CLEAN, *TUNED)):
        rows, then, now = [], [], []
        for each in published(names):
            then.append(score(each.record, each.target))
            now.append(after_the_fact(each))
            rows.append(row(each, then[-1], now[-1]))
        print(format_markdown(TITLES, rows), end="\n\n")
        for name, scores in (("registered", then), ("today, after the fact", now)):
            print(name, {key: round(value, 3) for key, value in summary(scores).items()}, end="\n\n")


if __name__ == "__main__":
    main()
