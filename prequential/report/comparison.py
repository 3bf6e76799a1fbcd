"""The first part of an HTML page about several runs: pictures and tables of runs over the same bytes, and all runs."""

from collections.abc import Iterator, Sequence

from prequential.comparison.compare import Comparison, bounded_e_value, compare
from prequential.comparison.prediction import LongMemory
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import is_coded, model_summary, what_is_measured
from prequential.report import run_panels
from prequential.report.markup import Html, element
from prequential.report.names import Look, group_names
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure
from prequential.report.tables import first_byte, html_table

Named = Sequence[tuple[str, Run]]  # runs with their names on the page, which are distinct on one corpus


def contents(runs: Named) -> Html:
    """Links to the runs: run i, from 1, has the id run-i."""
    links = (
        element("li", element("a", f"{name} on {corpus_name(run)}", href=f"#run-{i}"))
        for i, (name, run) in enumerate(runs, 1)
    )
    return element("nav", element("ul", *links), aria_label="Runs")


def comparison(runs: Named, look: Look) -> Iterator[Html]:
    """The runs of each corpus compared, the names of the runs that have no other one to be compared with, and all runs."""
    corpora: dict[str, list[tuple[str, Run]]] = {}
    for name, run in runs:
        corpora.setdefault(run.record["corpus"]["blake2b"], []).append((name, run))
    together = [same for same in corpora.values() if len(same) > 1]
    for number, same in enumerate(together, 1):
        subject = corpus_name(same[0][1])
        yield element("h2", f"Comparison on {subject}", id=f"comparison-{number}")
        yield from _compared(same, look)
    alone = [f"{name} on {corpus_name(run)}" for same in corpora.values() if len(same) == 1 for name, run in same]
    if alone:
        yield element("p", f"Not compared, because no other run on this page has the same bytes: {', '.join(alone)}.")
    yield _run_table(runs, is_one_corpus=len(corpora) == 1)


def _compared(runs: Named, look: Look) -> Iterator[Html]:
    """Learning curves and bits saved, then their tables, of runs over the same bytes."""
    labels = group_names([run for _, run in runs])
    curves = {name: run.curves[MODEL] for name, run in runs}
    panels, tables = [run_panels.learning(curves, look)], []
    if len(set(labels)) == 1:
        tables.append(
            element("p", "These runs differ only in the seed: there is no other learner to compare them with.")
        )
    else:
        try:
            compared = compare([run for _, run in runs], groups=labels)
        except (ConfigError, CorpusError) as error:
            tables.append(element("p", f"No differences: {error}."))
        else:
            styles = {label: look.styles[name] for label, (name, _) in reversed([*zip(labels, runs, strict=True)])}
            panels.append(run_panels.saved_by_groups(compared, Look(styles=styles)))
            tables += [_difference_table(compared), _group_table(compared)]
    yield element("div", *map(html_figure, panels), class_="plots")
    yield from tables


def _run_table(runs: Named, *, is_one_corpus: bool) -> Html:
    rows = [
        (
            name,
            corpus_name(run),
            model_summary(run.record["config"]),
            run.record["archive_bytes"],
            run.record["bits_per_byte"],
            run.record["verified"],
            run.path.resolve().name,
        )
        for name, run in runs
    ]
    size = what_is_measured([is_coded(run.record) for _, run in runs], "bytes")
    columns = ("learner", "corpus", "model", size, "bits/byte", "verified", "run folder")
    different = "The runs code different bytes: bits/byte of different corpora say nothing about the models."
    return html_table("Runs", columns, rows, "" if is_one_corpus else different)


def _group_table(compared: Comparison) -> Html:
    size = what_is_measured([group.is_coded for group in compared.groups], "bits")
    columns = ("learner", "runs", "seeds", "ideal bits, mean", f"{size}, mean")
    rows = [
        (group.label, len(group.runs), ", ".join(map(str, group.seeds)), group.mean_bits, group.mean_archive_bits)
        for group in compared.groups
    ]
    caption = f"To name the best of {compared.n_runs} runs costs {compared.choice_bits:.2f} more bits."
    return html_table("Groups: runs that differ only in the seed", columns, rows, caption)


def _difference_table(compared: Comparison) -> Html:
    columns = (
        "learner",
        "bits saved",
        "bits/byte saved",
        "saved",
        "confidence interval",
        "prediction interval",
        "e-value",
        "ahead from byte",
    )
    rows = [
        (
            found.other.label,
            -found.bits,
            -found.bits_per_byte,
            f"{-found.percent:+.2f}%",
            *_bounds(found.long_memory),
            bounded_e_value(found.log2_e),
            first_byte(found.crossing_byte),
        )
        for found in compared.differences
    ]
    populations = sorted(
        {
            f"At {found.confidence:.0%}, the confidence interval holds {found.mean_of}; the prediction interval, {found.text_of}."
            for found in (difference.long_memory for difference in compared.differences)
            if found
        }
    )
    caption = (
        "Differences of ideal code length: positive means that the learner needs fewer bits than "
        f"{compared.groups[0].label}. With one corpus and one seed each, a difference is exact. The e-value is evidence "
        f"against the hypothesis that the data follow {compared.groups[0].label}."
    )
    return html_table(
        f"Bits saved against {compared.groups[0].label}",
        columns,
        rows,
        " ".join([caption, *populations]),
    )


def _bounds(found: LongMemory | None) -> tuple[str | None, str | None]:
    """The confidence and the prediction interval of the bits saved, which are minus the difference."""
    if found is None:
        return None, None
    return (
        f"{-found.mean_high_bits:,.0f} to {-found.mean_low_bits:,.0f}",
        f"{-found.text_high_bits:,.0f} to {-found.text_low_bits:,.0f}",
    )
