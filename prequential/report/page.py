"""HTML pages about runs. A page is one file without scripts, whose policy forbids the browser to load anything."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prequential_codecs.archive_header import GIVEN, OTHER, name_of_given

from prequential.comparison.compare import Comparison, compare_runs
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import ARCHIVE, Run
from prequential.evaluation.summary import (
    is_coded,
    is_reported,
    learner_label,
    model_summary,
    verified_word,
    what_is_measured,
)
from prequential.model.presets import name_of
from prequential.records.forms import IMPORTED
from prequential.report import run_panels, sections
from prequential.report.markup import Html, element, first_byte, folded, html_document, html_table, join, value_table
from prequential.report.panels import Table
from prequential.report.run_panels import Look
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure

INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)

Record = Mapping[str, Any]
Named = Sequence[tuple[str, Run]]  # runs with their names on the page, which are distinct on one corpus


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs, which are compared first. Raises CorpusError for incomplete records or curves."""
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
    parts = sections.headline(run, name, heading_id)
    for title, (kind, shown) in _content(run, name, look).items():
        if shown:
            section_id = f"{heading_id}-{kind}"
            heading = element("h3", title, id=section_id)
            parts.append(element("section", heading, *shown, aria_labelledby=section_id))
    return element("article", *parts, aria_labelledby=heading_id)


def _content(run: Run, name: str, look: Look) -> dict[str, tuple[str, list[Html]]]:
    """The sections of a run by their titles: a name for links, and what is shown. An empty one is left out."""
    record = run.record
    curves = ("curves", sections.curves(run, look))
    findings = ("findings", [sections.findings(record)])
    machine = ("environment", [folded("Machine and versions", value_table("Environment", record["environment"]))])
    if is_reported(record):
        shown = {"Learning curves": curves, "What was reported": ("reported", [sections.reported(record)])}
        return shown if record["coding"] == IMPORTED else {**shown, "Findings": findings, "Environment": machine}
    return {
        "Learning curves": curves,
        "Comparison with other compressors": ("sizes", sections.sizes(record, name)),
        "What the text costs": ("passages", sections.passages(record)),
        "Breakdown of the code length": ("tables", [*sections.breakdowns(record["tables"], look)]),
        "Total cost: the ledger": ("ledger", [sections.ledger(record)]),
        "Findings during the run": findings,
        "How to repeat the run": ("repetition", [repetition(run)]),
        "Configuration": ("configuration", [sections.configuration(record)]),
        "Environment": machine,
    }


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
            compared = compare_runs([run for _, run in runs], labels)
        except (ConfigError, CorpusError) as error:
            tables.append(element("p", f"No differences: {error}."))
        else:
            styles = {label: look.styles[name] for label, (name, _) in reversed([*zip(labels, runs, strict=True)])}
            panels.append(run_panels.saved_by_groups(compared, Look(styles=styles)))
            tables.append(html_table(difference_table(compared)))
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
        "verified": [verified_word(record) for record in records],
        "run folder": [run.path.resolve().name for _, run in runs],
    }
    return html_table(Table("Runs", columns, caption))


def difference_table(compared: Comparison) -> Table:
    """What each group saves against the first one, with both intervals, and what these are for."""
    found, reference = compared.differences, compared.groups[0].label
    both = [difference.intervals for difference in found]
    columns: dict[str, Sequence[object]] = {
        "learner": [difference.other.label for difference in found],
        "bits saved": [-difference.bits for difference in found],
        "bits/byte saved": [-difference.bits_per_byte for difference in found],
        "saved": [f"{-difference.percent:+.2f}%" for difference in found],
        # the intervals are of the difference, which is minus the bits saved
        "confidence interval": [each and f"{-each.mean_high_bits:,.0f} to {-each.mean_low_bits:,.0f}" for each in both],
        "prediction interval": [each and f"{-each.text_high_bits:,.0f} to {-each.text_low_bits:,.0f}" for each in both],
        "ahead from byte": [first_byte(difference.crossing_byte) for difference in found],
    }
    caption = (
        "Differences of ideal code length: positive means that the learner needs fewer bits than "
        f"{reference}. With one corpus and one seed each, a difference is exact. To name the best of {compared.n_runs} runs "
        f"costs {compared.choice_bits:.2f} more bits."
    )
    caption += f" Their figures are {compared.proof}; {compared.rows}." if compared.rows else ""
    populations = {
        f"At {each.confidence:.0%}, the confidence interval holds {each.mean_of}; the prediction interval, {each.text_of}."
        for each in both
        if each
    }
    return Table(f"Bits saved against {reference}", columns, " ".join([caption, *sorted(populations)]))


# ---- how to repeat a run


def repetition(run: Run) -> Html:
    """What was read and chosen, and the commands that repeat the run and test its archive."""
    record, is_other = run.record, OTHER in run.record["config"]
    test = f"\nprequential test {shlex.quote(f'{run.path.resolve().name}/{ARCHIVE}')}"
    own = "The archive decodes on any machine, and the same command makes the same archive, byte for byte:"
    other = f"Proof: {record.get('coding', 'not said')}. The command, where the learner's module can be imported:"
    return join(
        element("p", _extent(record)),
        element("p", f"{_given(record['config'])}{_selection(record)}"),
        element("p", other if is_other else own),
        element("pre", element("code", command(record) + ("" if is_other else test))),
        element("p", _origin(record)),
    )


def _extent(record: Record) -> str:
    corpus = record["corpus"]
    source = f"the {corpus['kind']} {corpus.get('name')}" if "kind" in corpus else "data given in memory"
    content = f"{corpus['n_bytes']:,} bytes of {source}, BLAKE2b {corpus['blake2b']}"
    if "limit_bytes" not in record:
        return f"{content}. The record does not say whether the input continued after them."
    if record["limit_bytes"] is None or record["limit_bytes"] > corpus["n_bytes"]:
        return f"The full input: {content}."
    return f"At most the first {record['limit_bytes']:,} bytes: {content}."


def _given(config: Record) -> str:
    if OTHER in config:
        return "The learner's source, what it knew before and its tokenizer are not counted. "
    return (
        f"Before, the learner had read {name_of_given(config[GIVEN])}, which is not counted. "
        if GIVEN in config
        else ""
    )


def _selection(record: Record) -> str:
    n_configs, n_seeds = record["n_configs"], record["n_seeds"]
    if n_configs * n_seeds == 1:
        return "The user declared that one configuration and one seed were tried: nothing was selected."
    return (
        f"The user declared it as the best of {n_configs:,} configurations and {n_seeds:,} seeds. To name the selected one "
        f"costs {math.log2(n_configs) + math.log2(n_seeds):.1f} bits, which the total cost includes."
    )


def _origin(record: Record) -> str:
    environment = record["environment"]
    commit = environment.get("git_commit") or ""
    changed = ", with files that differ from it" if commit.endswith("-dirty") else ""
    where = f", commit {commit.removesuffix('-dirty')}{changed}" if commit else ""
    return f"Made with prequential {environment['versions']['prequential']}{where}."


def command(record: Record) -> str:
    """The shell command that repeats the run, with a configuration that is not a preset in the file config.json.

    Data sets, shards, standard input and git windows appear as CORPUS: the record lacks options that they were opened with.
    """
    corpus = record["corpus"]
    name = str(corpus.get("name") or "FILE")
    source = {"file": name, "tree": name, "sample": f"sample:{name}", None: name}.get(corpus.get("kind"), "CORPUS")
    tried = {"--configs-tried": record["n_configs"], "--seeds-tried": record["n_seeds"]}
    declared = [f"{option} {n}" for option, n in tried.items() if n != 1]
    options = [*_model_options(record["config"]), f"--limit {corpus['n_bytes']}", *declared]
    return " ".join(["prequential evaluate", *options, "--verify --", shlex.quote(source)])


def _model_options(config: Record) -> list[str]:
    if other := config.get(OTHER):
        values = [shlex.quote(f"{name}={json.dumps(value)}") for name, value in other["arguments"].items()]
        return ["--learner", shlex.quote(other["name"]), *(f"--learner-arg {value}" for value in values)]
    if GIVEN in config:
        own = {name: value for name, value in config.items() if name != GIVEN}
        return [*_model_options(own), "--given GIVEN"]
    name = name_of(config)
    return [name] if name else ["--config config.json"]
