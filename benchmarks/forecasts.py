"""The published forecasts, as they were registered and as today's program makes them from the same ladders.

    python benchmarks/forecasts.py

prints the table of docs/STUDIES.md, "Measured forecasts". Nothing is trained: benchmarks/forecasts has the ladders, proxies,
targets and registered forecasts; corpus, configuration, time and code length of each run are checked first. The clean ones are of
corpora on which the GPT had not been tuned. Today's forecasts are made after the fact.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import format_markdown

from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import Run, read_runs
from prequential.forecasting.backtest import naive_losses
from prequential.forecasting.forecast import Target, forecast_record
from prequential.forecasting.registered import read_registered, run_digests, score, with_digest
from prequential.sweeps.ladder import Ladder, Rung, Size
from prequential.sweeps.plans import recorded_corpus

FOLDER = Path(__file__).parent / "forecasts"
TUNED = ("dickens", "enwik8", "dickens-contexts", "enwik8-contexts")
CLEAN = tuple(sorted(path.parent.name for path in FOLDER.glob("*/scores.jsonl") if path.parent.name not in TUNED))


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
        if self.name in CLEAN:
            return f"{self.name}, {self.record['compute']['ratio']:.1f} times"
        return f"{self.name}, {'proxy' if self.proxies else 'no proxy'}"


def published(names: Sequence[str] = TUNED) -> Iterator[Published]:
    """Every registered forecast of these folders. Raises ValueError if a run is not the one that it names."""
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


def with_naive(each: Published) -> dict[str, Any]:
    """The registered record with today's naive forecasts, which know the proxy."""
    record, n_bytes = with_digest(each.record), each.record["target"]["n_bytes"]
    curves = [proxy.curves[MODEL] for proxy in each.proxies]
    naive = naive_losses(each.ladder, record["compute"]["target_flops"], n_bytes, curves)
    record["forecasts"]["total_bits"]["naive"] |= {name: loss * n_bytes for name, loss in naive.items()}
    return with_digest(record)


def refitted(each: Published) -> dict[str, Any]:
    """The forecast that today's program makes. The target's step sizes are those of the registered record, as no law has them."""
    target, gpt = each.record["target"], each.record["target"]["config"]["gpt"]
    size = Size(gpt["width"], gpt["n_layers"])
    wanted = Target(size=size, n_bytes=target["n_bytes"], seed=target["config"]["seed"])
    made = forecast_record(each.ladder, wanted, proxies=each.proxies, after_the_fact=True)
    return with_digest({**made, "target": target})


def score_cells(record: dict[str, Any], run: Run) -> tuple[str, str]:
    """Error and interval of a forecast, relative to the result."""
    one = score(record, run)
    low, high = (100 * (one[name] / one["actual"] - 1) for name in ("low", "high"))
    return f"{one['percent']:+.2f} %", f"{'hit' if one['hit'] else 'missed'}, {low:+.1f} to {high:+.1f} %"


def row(each: Published) -> tuple[str, ...]:
    """A row of the table: the forecast as it was registered, the one that is made today, and the best naive forecast."""
    record = with_naive(each)
    actual = score(record, each.target)["actual"]
    naive = record["forecasts"]["total_bits"]["naive"]
    best = min(naive, key=lambda name: abs(naive[name] - actual))
    nearest = f"{100 * (naive[best] / actual - 1):+.1f} %, {best.replace('_', ' ')}"
    return each.label, *score_cells(each.record, each.target), *score_cells(refitted(each), each.target), nearest


TITLES = ("", "registered", "90 % interval", "today, after the fact", "90 % interval", "nearest naive forecast")


def main() -> None:
    print(format_markdown(TITLES, [row(each) for each in published((*CLEAN, *TUNED))]))


if __name__ == "__main__":
    main()
