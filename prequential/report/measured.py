"""The parts of a page about what is no run: held-out losses, series of a repository, forecasts and their scores."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from prequential.comparison.documents import compare_documents, document_losses, sentence, trained_on
from prequential.errors import CorpusError
from prequential.evaluation.summary import Record, learner_label
from prequential.forecasting.forecast import Forecast, ForecastScore, conclusion, forecast_warnings
from prequential.forecasting.registered import SCHEMA, SCORE_SCHEMA
from prequential.heldout_loss.text import bounds, verdict
from prequential.records import LOSSES
from prequential.report.contents import Contents
from prequential.report.markup import Html, element, folded, html_table
from prequential.report.run_panels import monorepo
from prequential.report.svg import html_figure

MAX_ROWS = 50  # of a table of documents
GROUPS = {"languages": "language", "kinds": "kind", "commits": "commit", "each": "document"}


class Section(NamedTuple):
    """A part of a page. title: in its list of parts. heading: what to conclude."""

    title: str
    heading: str
    content: Sequence[Html]


def sections(found: Contents) -> Iterator[Section]:
    """All that was found and is no run. Raises CorpusError for records that are damaged."""
    try:
        yield from _heldout(found.losses)
        for path, records in found.series.items():
            yield _series(path.name, records)
        scores = {score["forecast_blake2b"]: score for score in found.scores if score["schema"] == SCORE_SCHEMA}
        for forecast in found.forecasts:  # with its last score
            yield _forecast(forecast, scores.get(forecast.record["blake2b"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:  # what its form does not check
        raise CorpusError(f"a record is damaged: {error}") from error


# ---- held-out losses and series


def _loss(record: Record) -> Record:
    """The loss while learning goes on, or that of a model that learns nothing."""
    return dict(record["dynamic"] or record["frozen"])


def _row(record: Record, title: str, name: str) -> dict[str, object]:
    """The losses of a record, in a row that is called `name` under this title."""
    loss = _loss(record)
    documents = loss["documents"]
    return {
        title: name,
        **{each: (record.get(each) or {}).get("bits_per_byte") for each in LOSSES},
        "95 % interval": loss.get("interval") and bounds(loss).replace(" ", "\u00a0"),
        "commits": record["test"].get("n_commits"),
        "documents": documents["n_documents"],
        "bytes": documents["n_bytes"],
    }


def _heldout(records: Sequence[Record]) -> Iterator[Section]:
    """A section for each test corpus: its learners, the best one first. Of equal measurements the last one counts."""
    tests: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        measured = repr([record["train"].get("name"), *map(record.get, ("config", "learner_digest", "policy"))])
        tests.setdefault((record["test"]["blake2b"], record["test"]["n_bytes"]), {})[measured] = record
    for same in tests.values():
        ranked = sorted(same.values(), key=lambda record: float(_loss(record)["bits_per_byte"]))
        names, test = list(map(_name, ranked)), ranked[0]["test"].get("name") or "a corpus"
        heading = f"{names[0]} needs {_loss(ranked[0])['bits_per_byte']:.4f} bits/byte on {test}"
        heading += f", the least of {len(ranked)}" if len(ranked) > 1 else ""
        rows = [_row(record, "learner", name) for record, name in zip(ranked, names, strict=True)]
        table = html_table("Held-out losses", rows, "Bits per byte. Dynamic: learning goes on. Frozen: it does not.", 0)
        said = [f"{names[0]}: {verdict(ranked[0])}."] + [_compared(ranked[0], each) for each in ranked[1:]]
        content = [table, *(element("p", text) for text in said), *_groups(ranked[0])]
        yield Section(f"Held-out loss on {test}", heading, content)


def _name(record: Record) -> str:
    """The learner and what it read; of a model that learned elsewhere, its own name."""
    train, learner = record["train"], learner_label(record["config"])
    if "source" not in train:  # a training loop: who it was, and after which step
        return str(train["name"])
    return learner if train["source"] in ("static model", "scores") else f"{learner} after {trained_on(train)}"


def _compared(best: Record, other: Record) -> str:
    """What to conclude about another record of the same test corpus."""
    names = _name(best), _name(other)
    try:
        compared = compare_documents([document_losses(best, names[0]), document_losses(other, names[1])])
    except CorpusError as error:
        return f"{names[1]} is not compared: {error}."
    last = [sentence(each, *names) for each in compared.differences if each.loss != "untrained"][-1:]
    return f"{'; '.join([*last, *compared.notes])}."


def _groups(record: Record) -> Iterator[Html]:
    """What languages, commits and documents cost, the costliest first."""
    for key, title in GROUPS.items():
        costliest = sorted(_loss(record).get(key) or (), key=lambda group: -group["bits"])[:MAX_ROWS]
        names = {"name": title, "bits_per_byte": "bits/byte", "n_bytes": "bytes", "bits": "bits"}
        rows = [{shown: group[name] for name, shown in names.items()} for group in costliest]
        if len(rows) > 1:
            yield folded(f"By {title}: most bits in {costliest[0]['name']}", html_table(title, rows))


def _series(name: str, records: Sequence[Record]) -> Section:
    """The points of a monorepo series, the newest first."""
    picture, newest = html_figure(monorepo(records)), records[-1]
    rates = [f"{newest[loss]['bits_per_byte']:.4f} bits/byte" for loss in ("dynamic", "untrained")]
    heading = f"New text up to {newest['test']['until_date'][:10]} needs {rates[0]}, without training {rates[1]}"
    rows = [_row(record, "up to", record["test"]["until_date"][:10]) for record in reversed(records)]
    table = html_table("Series", rows, "The interval is that of the dynamic loss.", 0)
    said = element("p", f"{learner_label(newest['config'])}: {verdict(newest)}.")
    return Section(f"Series {name.removesuffix('.jsonl')}", heading, [picture, table, said])


# ---- forecasts


def _forecast(forecast: Forecast, score: Record | None) -> Section:
    """What was expected, how each way of forecasting gets there, and what came."""
    record, n_bytes = forecast.record, int(forecast.record["target"]["n_bytes"])
    bits = {row["forecast"]: float(row["bits"]) for row in forecast.to_frame().to_dict("records")}
    bits |= {"lower end, 90 %": forecast.low_bits, "upper end, 90 %": forecast.high_bits}
    bits |= {"actual": score["actual"]} if score else {}
    rows = [{"": name, "bits/byte": each / n_bytes, "bits": round(each)} for name, each in bits.items()]
    scored = ForecastScore(record=dict(score)) if score else None
    said = [str(scored).partition("\n")[0]] if scored else []
    said += [f"Warning: {each}." for each in forecast_warnings(record)] if record["schema"] == SCHEMA else []
    about, corpus = str(forecast).partition("\n")[0], record["corpus"]
    about += f". Ladder over {corpus['n_bytes']:,} bytes of {corpus['name']}, registered {record['created_at']} as "
    content = [
        element("p", f"{about}{record['blake2b'][:16]}. {conclusion(record) if score else ''}", class_="origin"),
        html_table("Forecast", rows, "", 0),
        *(element("p", text) for text in said),
    ]
    return Section(f"Forecast for {corpus['name']}", repr(scored)[1:-1] if scored else conclusion(record), content)
