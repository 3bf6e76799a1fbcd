"""HTML pages: runs with their comparison, figures, curves, passages and tables; and a series of monorepo losses.

A page is one file. It has no script, and a policy in its head forbids the browser to load anything. markup.py escapes every text
that comes from records and folders.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prequential.comparison.compare import Comparison, compare
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import is_coded, learner_label, model_summary, what_is_measured
from prequential.monorepo_loss.monorepo import LOSSES
from prequential.report import run_panels, sections
from prequential.report.markup import Html, element, first_byte, folded, html_document, html_table, join, value_table
from prequential.report.panels import Table
from prequential.report.repetition import repetition
from prequential.report.run_panels import Look
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure, svg_file

INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)

Named = Sequence[tuple[str, Run]]  # runs with their names on the page, which are distinct on one corpus


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs. Several runs are compared first.

    Raises CorpusError for a run whose record or curves are incomplete.
    """
    labels, articles = [], []
    for run in runs:
        with _naming(run):
            labels.append(learner_label(run.record["config"]))
    named = list(zip(run_panels.run_names(labels, runs), runs, strict=True))
    look = run_panels.page_look([name for name, _ in named], runs)
    for number, (name, run) in enumerate(named, 1):
        with _naming(run):
            articles.append(_article(run, name, run_panels.run_look(look, name), f"run-{number}"))
    subject = corpus_name(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"
    title = f"{subject}: prequential report"
    head = [_contents(named), *_comparison(named, look)] if len(runs) > 1 else []
    return html_document(title, join(element("h1", title), *head, *articles))


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    """Turns errors about what a record lacks into a CorpusError that names the run."""
    try:
        yield
    except INCOMPLETE as error:
        name = str(run.path)
        raise CorpusError(f"{name!r} is not a complete run: {type(error).__name__}: {error}") from error


def _article(run: Run, name: str, look: Look, heading_id: str) -> Html:
    record = run.record
    machine = folded("Machine and versions", value_table("Environment", record["environment"]))
    content = {
        "Learning curves": ("curves", sections.curves(run, look)),
        "Comparison with other compressors": ("sizes", sections.sizes(record, name)),
        "What the text costs": ("passages", sections.passages(record)),
        "Breakdown of the code length": ("tables", [*sections.breakdowns(record["tables"], look)]),
        "Total cost: the ledger": ("ledger", [sections.ledger(record)]),
        "Findings during the run": ("findings", [sections.findings(record)]),
        "How to repeat the run": ("repetition", [repetition(run)]),
        "Configuration": ("configuration", [sections.configuration(record)]),
        "Environment": ("environment", [machine]),
    }
    parts = sections.headline(run, name, heading_id)
    for title, (kind, shown) in content.items():
        if shown:
            section_id = f"{heading_id}-{kind}"
            heading = element("h3", title, id=section_id)
            parts.append(element("section", heading, *shown, aria_labelledby=section_id))
    return element("article", *parts, aria_labelledby=heading_id)


# ---- several runs


def _contents(runs: Named) -> Html:
    """Links to the runs: run i, from 1, has the id run-i."""
    names = enumerate((f"{name} on {corpus_name(run)}" for name, run in runs), 1)
    links = (element("li", element("a", name, href=f"#run-{i}")) for i, name in names)
    return element("nav", element("ul", *links), aria_label="Runs")


def _comparison(runs: Named, look: Look) -> Iterator[Html]:
    """The runs of each corpus compared, the names of the runs that have no other one to be compared with, and all runs."""
    corpora: dict[str, list[tuple[str, Run]]] = {}
    for name, run in runs:
        corpora.setdefault(run.record["corpus"]["blake2b"], []).append((name, run))
    together = [same for same in corpora.values() if len(same) > 1]
    for number, same in enumerate(together, 1):
        yield element("h2", f"Comparison on {corpus_name(same[0][1])}", id=f"comparison-{number}")
        yield from _compared(same, look)
    alone = [f"{name} on {corpus_name(run)}" for same in corpora.values() if len(same) == 1 for name, run in same]
    if alone:
        yield element("p", f"Not compared, because no other run on this page has the same bytes: {', '.join(alone)}.")
    different = "The runs code different bytes: bits/byte of different corpora say nothing about the models."
    yield _run_table(runs, "" if len(corpora) == 1 else different)


def _compared(runs: Named, look: Look) -> Iterator[Html]:
    """Learning curves and bits saved, then their tables, of runs over the same bytes."""
    labels = run_panels.group_names([run for _, run in runs])
    curves = {name: run.curves[MODEL] for name, run in runs}
    panels, tables = [run_panels.learning(curves, look)], []
    if len(set(labels)) == 1:
        text = "These runs differ only in the seed: there is no other learner to compare them with."
        tables.append(element("p", text))
    else:
        try:
            compared = compare([run for _, run in runs], groups=labels)
        except (ConfigError, CorpusError) as error:
            tables.append(element("p", f"No differences: {error}."))
        else:
            styles = {label: look.styles[name] for label, (name, _) in reversed([*zip(labels, runs, strict=True)])}
            panels.append(run_panels.saved_by_groups(compared, Look(styles=styles)))
            tables += [html_table(difference_table(compared)), html_table(_group_table(compared))]
    yield element("div", *map(html_figure, panels), class_="plots")
    yield from tables


def _run_table(runs: Named, caption: str) -> Html:
    records = [run.record for _, run in runs]
    columns: dict[str, Sequence[object]] = {
        "learner": [name for name, _ in runs],
        "corpus": [corpus_name(run) for _, run in runs],
        "model": [model_summary(record["config"]) for record in records],
        what_is_measured([*map(is_coded, records)], "bytes"): [record["archive_bytes"] for record in records],
        "bits/byte": [record["bits_per_byte"] for record in records],
        "verified": [record["verified"] for record in records],
        "run folder": [run.path.resolve().name for _, run in runs],
    }
    return html_table(Table("Runs", columns, caption))


def _group_table(compared: Comparison) -> Table:
    groups = compared.groups
    size = what_is_measured([group.is_coded for group in groups], "bits")
    columns: dict[str, Sequence[object]] = {
        "learner": [group.label for group in groups],
        "runs": [len(group.runs) for group in groups],
        "seeds": [", ".join(map(str, group.seeds)) for group in groups],
        "ideal bits, mean": [group.mean_bits for group in groups],
        f"{size}, mean": [group.mean_archive_bits for group in groups],
    }
    caption = f"To name the best of {compared.n_runs} runs costs {compared.choice_bits:.2f} more bits."
    return Table("Groups: runs that differ only in the seed", columns, caption)


def difference_table(compared: Comparison) -> Table:
    """What each group saves against the first one, with both intervals, and what these are for."""
    found, reference = compared.differences, compared.groups[0].label
    long = [difference.long_memory for difference in found]
    columns: dict[str, Sequence[object]] = {
        "learner": [difference.other.label for difference in found],
        "bits saved": [-difference.bits for difference in found],
        "bits/byte saved": [-difference.bits_per_byte for difference in found],
        "saved": [f"{-difference.percent:+.2f}%" for difference in found],
        # the intervals are of the difference, which is minus the bits saved
        "confidence interval": [each and f"{-each.mean_high_bits:,.0f} to {-each.mean_low_bits:,.0f}" for each in long],
        "prediction interval": [each and f"{-each.text_high_bits:,.0f} to {-each.text_low_bits:,.0f}" for each in long],
        "ahead from byte": [first_byte(difference.crossing_byte) for difference in found],
    }
    caption = (
        "Differences of ideal code length: positive means that the learner needs fewer bits than "
        f"{reference}. With one corpus and one seed each, a difference is exact."
    )
    populations = {
        f"At {each.confidence:.0%}, the confidence interval holds {each.mean_of}; the prediction interval, {each.text_of}."
        for each in long
        if each
    }
    return Table(f"Bits saved against {reference}", columns, " ".join([caption, *sorted(populations)]))


# ---- a series of monorepo losses

MEANING = (
    "Each point is one window of commits: its new files in full, and the added lines of edited files. Frozen: coded by a "
    "learner that had read the tree before the window and no longer learns. Dynamic: the same learner continues to learn. "
    "Untrained: the same learner without the tree. Neither the model nor the program is counted. Each point is drawn at the "
    "date of the window's last commit; lines connect them only for better reading. In the plots of kinds and languages, dashed "
    "lines are dynamic. A dot is a single point."
)

Record = Mapping[str, Any]


def series_heading(records: Sequence[Record]) -> str:
    """The title of the picture of a series: the repository and the number of points."""
    return f"{records[-1]['test']['name']}: monorepo loss, {len(records)} point{'s' if len(records) > 1 else ''}"


def series_svg(records: Sequence[Record]) -> str:
    """The plots as one SVG document that loads nothing. Raises CorpusError if the series is empty."""
    panels = run_panels.monorepo(records)
    return svg_file(series_heading(records), panels)


def series_page(records: Sequence[Record]) -> str:
    """The plots and a table of the points as one HTML page that loads nothing. Raises CorpusError if the series is empty."""
    figures = [html_figure(panel) for panel in run_panels.monorepo(records)]
    title, setting = series_heading(records), records[-1]["setting"]
    model = "one model, trained once" if setting["fixed"] else "a separate model for each point"
    text = f"{model_summary(setting['config'])}; {model}; frozen with {setting['context']} context."
    plots = element("div", *figures, class_="plots")
    body = join(
        element("h1", title), element("p", text), element("p", MEANING), plots, html_table(_points_table(records))
    )
    return html_document(title, body)


def _points_table(records: Sequence[Record]) -> Table:
    tests, frozen = [record["test"] for record in records], [record["frozen"] for record in records]
    kinds = {kind: [_rate(run_panels.named(loss["kinds"], kind)) for loss in frozen] for kind in ("new", "added")}
    columns: dict[str, Sequence[object]] = {
        "until": [test["until_date"] for test in tests],
        "commit": [test["until"][:12] for test in tests],
        "commits": [test["n_commits"] for test in tests],
        "documents": [loss["documents"]["n_documents"] for loss in frozen],
        "bytes": [loss["documents"]["n_bytes"] for loss in frozen],
        **{name: [_rate(record[name]["documents"]) for record in records] for name in LOSSES},
        **{f"{kind}, frozen": rates for kind, rates in kinds.items()},
        "clean, frozen": [_rate(loss["clean"]) for loss in frozen],
        "novel, frozen": [_rate(loss["novel"]) for loss in frozen],
        "bytes seen in training": [f"{record['overlap']['train']['byte_share']:.1%}" for record in records],
    }
    return Table("Points", columns, "Losses are bits/byte of the bytes in documents.")


def _rate(group: Record | None) -> float | None:
    return group["bits"] / group["n_bytes"] if group and group["n_bytes"] else None
