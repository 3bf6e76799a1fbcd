"""The published forecasts, as they were frozen and as today's program makes them from the same ladders.

    python benchmarks/forecasts.py

prints the tables of dev/STUDIES-2026.md, "Measured forecasts". Nothing is trained: benchmarks/forecasts has the ladders, proxies,
targets and sealed forecasts, and their digests are checked first. The clean ones are of corpora on which the GPT had not been
tuned. The refitted forecasts of the others are made after the fact.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_table import format_markdown

from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import Run, read_runs
from prequential.forecasting.backtest import naive_losses
from prequential.forecasting.forecast import Target, forecast
from prequential.forecasting.sealed import read_forecast, run_digests, score, sealed
from prequential.sweeps.finished import recorded_corpus
from prequential.sweeps.ladder import Ladder, Rung, Size

FOLDER = Path(__file__).parent / "forecasts"
TUNED = ("dickens", "enwik8", "dickens-contexts", "enwik8-contexts")
CLEAN = ("gogol", "tinygrad")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A sealed forecast with the runs that it was made from, and the target's run."""

    name: str
    record: dict[str, Any]
    ladder: Ladder
    proxy: Run | None
    target: Run

    @property
    def label(self) -> str:
        if self.name in CLEAN:
            return f"{self.name}, {self.record['compute']['ratio']:.1f} times"
        return f"{self.name}, {'proxy' if self.proxy else 'no proxy'}"


def published(names: Sequence[str] = TUNED) -> Iterator[Published]:
    """Every sealed forecast of these folders. Raises ValueError if a run is not the one that was sealed."""
    for name in names:
        runs = {run.name: run for run in read_runs(FOLDER / name / "ladder.jsonl")}
        lines = [json.loads(line) for line in (FOLDER / name / "scores.jsonl").read_text().splitlines()]
        for path in sorted((FOLDER / name).glob("forecast*.json"), key=lambda path: path.stem):
            record = read_forecast(path)
            (line,) = (each for each in lines if each["forecast_blake2b"] == record["blake2b"])
            for digests in (*record["fitted"], line["run"], *([record["proxy"]] if record["proxy"] else [])):
                if run_digests(runs[digests["name"]]) != digests:
                    raise ValueError(f"{name}: {digests['name']} is not the run that was sealed")
            yield Published(
                name=name,
                record=record,
                ladder=Ladder(tuple(Rung(runs[each["name"]]) for each in record["fitted"]), recorded_corpus(record)),
                proxy=runs[record["proxy"]["name"]] if record["proxy"] else None,
                target=runs[line["run"]["name"]],
            )


def with_naive(each: Published) -> dict[str, Any]:
    """The frozen record with today's naive forecasts, which know the proxy; sealed again to be scored."""
    record, n_bytes = sealed(each.record), each.record["target"]["n_bytes"]
    proxy = each.proxy.curves[MODEL] if each.proxy else None
    naive = naive_losses(each.ladder, record["compute"]["target_flops"], n_bytes, proxy)
    record["forecasts"]["total_bits"]["naive"] |= {name: loss * n_bytes for name, loss in naive.items()}
    return sealed(record)


def refitted(each: Published) -> dict[str, Any]:
    """The forecast that today's program makes. The target's step sizes are those of the frozen record, as no law has them."""
    target, gpt = each.record["target"], each.record["target"]["config"]["gpt"]
    size = Size(gpt["width"], gpt["n_layers"])
    wanted = Target(size=size, n_bytes=target["n_bytes"], seed=target["config"]["seed"])
    made = forecast(each.ladder, wanted, proxy=each.proxy, after_the_fact=True)
    return sealed({**made, "target": target})


def score_row(label: str, record: dict[str, Any], run: Run) -> tuple[str, ...]:
    """A row of the table of scores."""
    one = score(record, run)
    unit = one["actual"] / 100
    return (
        label,
        "total",
        f"{one['percent']:+.2f} %",
        f"{'hit' if one['hit'] else 'missed'}, {(one['low'] - one['actual']) / unit:+.1f} to "
        f"{(one['high'] - one['actual']) / unit:+.1f} %",
        f"{one['interval_score_percent']:.1f} %",
        f"{one['skill']:.2f}",
    )


def law_row(label: str, record: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table of laws and backtests."""
    made = record["forecasts"]["total_bits"]
    calibration, fit, identity = made["calibration"], made["fit"], record["identity"]
    low, high = calibration["compute_ratios"]
    return (
        label,
        "total",
        record["form"],
        f"{fit['a']:.2f}, {fit['b']:.2f}",
        "; ".join(value.split(",")[0] for value in fit["binding"]) or "-",
        f"{100 * calibration['rmse'][record['form']]:.2f} %",
        f"{calibration['n_hit']} of {calibration['n_cells']}, {low:.1f} to {high:.1f} times",
        f"{calibration['n_effective']:.1f} of {calibration['n_origins']}",
        f"{made['deviations']['factor']:.2f}",
        f"{calibration['interval_score']:.1f} %",
        f"{identity['disagreement_percent']:+.1f} %",
    )


def main() -> None:
    titles = ("", "", "error", "90 % interval", "interval score", "skill")
    laws = (
        "", "", "form", "a, b", "at a bound", "backtest rms", "backtest hits", "worth", "factor", "interval score", "identity"
    )  # fmt: skip
    frozen, again, fitted = [], [], []
    for each in published():
        frozen.append(score_row(each.label, with_naive(each), each.target))
        record = refitted(each)
        again.append(score_row(each.label, record, each.target))
        fitted.append(law_row(each.label, record))
    clean = [score_row(each.label, each.record, each.target) for each in published(CLEAN)]
    clean_laws = [law_row(each.label, each.record) for each in published(CLEAN)]
    print(f"Clean\n\n{format_markdown(titles, clean)}\n\n{format_markdown(laws, clean_laws)}\n")
    for name, heads, rows in (("As frozen", titles, frozen), ("Refitted", titles, again), ("Laws", laws, fitted)):
        print(f"{name}\n\n{format_markdown(heads, rows)}\n")


if __name__ == "__main__":
    main()
