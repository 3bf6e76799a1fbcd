"""The first part of an HTML page about several runs: their list, their figures, and their differences."""

from collections.abc import Iterator, Sequence

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import MODEL
from prequential.measure.evaluation.runs import Run
from prequential.measure.evaluation.summary import model_summary
from prequential.measure.study.compare import Comparison, Interval, bounded_e_value, compare
from prequential.report import run_panels
from prequential.report.markup import Html, element
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure
from prequential.report.tables import first_byte, html_table


def contents(runs: Sequence[Run]) -> Html:
    """Links to the runs: run i, from 1, has the id run-i."""
    names = run_panels.distinct_names(runs)
    links = (
        element("li", element("a", f"{corpus_name(run)}, {name}", href=f"#run-{i}"))
        for i, (run, name) in enumerate(zip(runs, names, strict=True), 1)
    )
    return element("nav", element("ul", *links), aria_label="Runs")


def comparison(runs: Sequence[Run]) -> Iterator[Html]:
    """A table of the runs and their learning curves; their differences if they code the same bytes."""
    yield element("h2", "Comparison", id="comparison")
    yield _run_table(runs)
    models = {name: run.curves[MODEL] for name, run in zip(run_panels.distinct_names(runs), runs, strict=True)}
    panels = [run_panels.learning(models)]
    try:
        compared = compare(runs)
    except (ConfigError, CorpusError) as error:
        yield element("p", f"No differences: {error}.")
    else:
        yield _group_table(compared)
        yield _difference_table(compared)
        panels.append(run_panels.differences(compared))
    yield element("div", *map(html_figure, panels), class_="plots")


def _run_table(runs: Sequence[Run]) -> Html:
    first = runs[0].record
    corpora = [(run.record["corpus"]["blake2b"], run.record["corpus"]["n_bytes"]) for run in runs]
    rows = [
        (
            name,
            corpus_name(run),
            model_summary(run.record["config"]),
            run.record["archive_bytes"],
            run.record["bits_per_byte"],
            f"{run.record['archive_bytes'] / first['archive_bytes'] - 1:+.2%}" if corpus == corpora[0] else None,
            run.record["verified"],
        )
        for name, run, corpus in zip(run_panels.distinct_names(runs), runs, corpora, strict=True)
    ]
    columns = ("run", "corpus", "model", "archive bytes", "bits/byte", "against the first", "verified")
    different = "The runs code different bytes: bits/byte of different corpora say nothing about the models."
    return html_table("Runs", columns, rows, "" if len(set(corpora)) == 1 else different)


def _group_table(compared: Comparison) -> Html:
    columns = ("group", "runs", "seeds", "ideal bits, mean", "archive bits, mean")
    rows = [
        (group.label, ", ".join(group.runs), ", ".join(map(str, group.seeds)), group.mean_bits, group.mean_archive_bits)
        for group in compared.groups
    ]
    caption = f"To name the best of {compared.n_runs} runs costs {compared.choice_bits:.2f} more bits."
    return html_table("Groups: runs that differ only in the seed", columns, rows, caption)


def _difference_table(compared: Comparison) -> Html:
    columns = ("difference", "bits", "bits/byte", "percent", "interval, bits", "e-value", "ahead from byte")
    rows = [
        (
            f"{found.other.label} - {found.reference.label}",
            found.bits,
            found.bits_per_byte,
            f"{found.percent:+.2f}%",
            _interval(found.interval),
            bounded_e_value(found.log2_e),
            first_byte(found.crossing_byte),
        )
        for found in compared.differences
    ]
    populations = sorted({found.interval.population for found in compared.differences if found.interval})
    caption = (
        "Differences of ideal code length: negative means fewer bits. With one corpus and one seed each, a difference is "
        "exact. The e-value is evidence against the hypothesis that the data follow the reference."
    )
    return html_table(
        "Differences", columns, rows, " ".join([caption, *(f"Intervals are of: {p}." for p in populations)])
    )


def _interval(interval: Interval | None) -> str | None:
    if interval is None:
        return None
    return f"{interval.low_bits:,.0f} to {interval.high_bits:,.0f} ({interval.bootstrap.confidence:.0%})"
