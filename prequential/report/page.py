"""HTML pages about runs. A page is one file without scripts, whose policy forbids the browser to load anything."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prequential_codecs.archive_header import GIVEN, OTHER, name_of_given

from prequential.errors import CorpusError
from prequential.evaluation.runs import ARCHIVE, Run
from prequential.evaluation.summary import is_reported, learner_label
from prequential.model.presets import name_of
from prequential.report import ranking, run_panels, sections
from prequential.report.markup import Html, element, folded, heading, html_document, join
from prequential.report.ranking import Groups
from prequential.report.run_panels import Look
from prequential.report.sections import corpus_name

CONFIG_FILE = "config.json"  # in the commands that repeat a run
INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)

Record = Mapping[str, Any]


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs: first the conclusion. Raises CorpusError for incomplete records or curves."""
    labels = []
    for run in runs:
        with _naming(run):
            labels.append(learner_label(run.record["config"]))
    rankings = ranking.rankings(runs) if len(runs) > 1 else []
    look = run_panels.page_look([name for groups in rankings for name in groups], runs)
    found, level = [], "h2" if len(runs) == 1 else "h3"
    for number, (name, run) in enumerate(zip(run_panels.run_names(labels, runs), runs, strict=True), 1):
        with _naming(run):
            found.append((sections.conclusion(run, name), _article(run, name, look, f"run-{number}", level)))
    corpora = " and ".join(dict.fromkeys(map(corpus_name, runs)))
    if len(runs) == 1:
        ((sentence, article),) = found
        return html_document(f"{corpora}: prequential report", join(heading("h1", sentence), article))
    parts = [*_comparison(rankings, look), element("h2", "Each run")]
    for number in (number for groups in rankings for group in groups.values() for number, _ in group):
        sentence, article = found[number - 1]
        parts.append(element("details", element("summary", sentence), article))
    return html_document(f"{corpora}: {len(runs)} runs, prequential report", join(*parts))


def _comparison(rankings: Sequence[Groups], look: Look) -> Iterator[Html]:
    """The ranking on each corpus, and the runs that have no other one to be compared with."""
    if len(rankings) > 1:
        yield element("h1", f"{len(rankings)} corpora: bits/byte of different ones say nothing about the models")
    alone = []
    for groups in rankings:
        (name, ((_, run), *others)), *more = groups.items()
        if not others and not more:
            alone.append(f"{name} on {corpus_name(run)}")
            continue
        found = ranking.compared(groups)
        yield heading("h1" if len(rankings) == 1 else "h2", ranking.conclusion(groups, found))
        yield ranking.ranking_table(groups, found)
        yield from ranking.pictures(groups, look)
    if alone:
        yield element("p", f"Not compared, because no other run on this page has the same bytes: {', '.join(alone)}.")


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    """Turns errors about what a record lacks into a CorpusError that names the run."""
    try:
        yield
    except INCOMPLETE as error:
        name = str(run.path)
        raise CorpusError(f"{name!r} is not a complete run: {type(error).__name__}: {error}") from error


def _article(run: Run, name: str, look: Look, prefix: str, level: str) -> Html:
    """Everything about one run but its conclusion. prefix: its id, with which those of its sections begin. level: h2 or h3."""
    record, look = run.record, run_panels.run_look(look, name)
    beside = [sections.reported(record)] if is_reported(record) else sections.sizes(record, name)
    shown, links = [], []
    for title, (kind, content) in _content(run, look).items():
        if content:
            place = f"{prefix}-{kind}"
            links.append(element("a", title, href=f"#{place}"))
            shown.append(element("section", element(level, title, id=place), *content, aria_labelledby=place))
    return element(
        "article",
        element("p", sections.origin(run), class_="origin"),
        *([element("nav", *links, aria_label=f"Sections of {name}")] if len(links) > 1 else []),
        *sections.findings(record),
        element("div", sections.cards(record), element("div", *beside), class_="lead"),
        *shown,
        id=prefix,
    )


def _content(run: Run, look: Look) -> dict[str, tuple[str, list[Html]]]:
    """The sections of a run by their titles: a name for links, and what is shown. An empty one is left out."""
    record = run.record
    found = {"Learning curves": ("curves", sections.curves(run, look))}
    if is_reported(record):
        return found
    proof = [folded("Total cost, with the decoder", sections.ledger(record)), repetition(run)]
    return {
        **found,
        "What the text costs": ("passages", sections.passages(record)),
        "Where the bits went": ("tables", [*sections.breakdowns(record["tables"], look)]),
        "Total cost, and how to repeat the run": ("proof", proof),
    }


# ---- how to repeat a run


def repetition(run: Run) -> Html:
    """What was read and chosen, the commands that repeat the run and test its archive, and a configuration that they need."""
    record, is_other = run.record, OTHER in run.record["config"]
    line = command(record)
    test = f"\nprequential test {shlex.quote(f'{run.path.resolve().name}/{ARCHIVE}')}"
    own = "The archive decodes on any machine, and the same command makes the same archive, byte for byte:"
    other = f"Proof: {record.get('coding', 'not said')}. The command, where the learner's module can be imported:"
    parts = [
        element("p", _extent(record)),
        element("p", f"{_given(record['config'])}{_selection(record)}"),
        element("p", other if is_other else own),
        element("pre", element("code", line + ("" if is_other else test))),
        element("p", _origin(record)),
    ]
    if CONFIG_FILE in shlex.split(line):
        text = json.dumps(record["config"], indent=2, ensure_ascii=False)
        parts += [element("p", f"{CONFIG_FILE}:"), element("pre", element("code", text))]
    return folded("How to repeat the run", *parts)


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
    where = f"; commit {commit.removesuffix('-dirty')}{changed}" if commit else ""
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    settings = [
        f"{name} {environment[name]}" for name in ("threads", "backend", "kernels", "device") if name in environment
    ]
    return f"Made with {versions}{where}. Machine: {', '.join([environment['machine']['cpu'], *settings])}."


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
    return [name] if name else [f"--config {CONFIG_FILE}"]
