"""HTML pages about runs. A page is one file without scripts, whose policy forbids the browser to load anything."""

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prequential_codecs.archive_header import GIVEN, OTHER, name_of_given

from prequential.comparison.compare import Comparison, Difference, compare
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, mean_curve
from prequential.evaluation.runs import ARCHIVE, Run
from prequential.evaluation.summary import (
    is_coded,
    is_reported,
    learner_label,
    seed_of,
    verified_word,
    what_is_measured,
)
from prequential.model.presets import name_of
from prequential.report import run_panels, sections
from prequential.report.markup import Html, element, folded, heading, html_document, html_table, join
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure

CONFIG_FILE = "config.json"  # in the commands that repeat a run
INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)

Groups = Mapping[str, Sequence[tuple[int, Run]]]  # runs that differ only in the seed, with their numbers on the page
Colours = Mapping[str, int]
Record = Mapping[str, Any]


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs: first the conclusion. Raises CorpusError for incomplete records or curves."""
    labels = []
    for run in runs:
        with _naming(run):
            labels.append(learner_label(run.record["config"]))
    rankings = _rankings(runs) if len(runs) > 1 else []
    names = run_panels.run_names(labels, runs)
    every_line = [*(name for groups in rankings for name in groups), *(name for run in runs for name in run.curves)]
    colours = run_panels.line_colours(every_line)
    shown, level = [], "h2" if len(runs) == 1 else "h3"
    for number, (name, run) in enumerate(zip(names, runs, strict=True), 1):
        with _naming(run):
            shown.append((sections.conclusion(run, name), _article(run, name, colours, f"run-{number}", level)))
    corpora = " and ".join(dict.fromkeys(map(corpus_name, runs)))
    if len(runs) == 1:
        ((sentence, article),) = shown
        return html_document(f"{corpora}: prequential report", join(heading("h1", sentence), article))
    parts = [*_comparisons(rankings, colours), element("h2", "Each run")]
    for number in (number for groups in rankings for group in groups.values() for number, _ in group):
        sentence, article = shown[number - 1]
        parts.append(folded(sentence, article))
    return html_document(f"{corpora}: {len(runs)} runs, prequential report", join(*parts))


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    """Turns errors about what a record lacks into a CorpusError that names the run."""
    try:
        yield
    except INCOMPLETE as error:
        name = str(run.path)
        raise CorpusError(f"{name!r} is not a complete run: {type(error).__name__}: {error}") from error


# ---- several runs


def _rankings(runs: Sequence[Run]) -> list[Groups]:
    """The groups of each corpus by their names, the best first. Runs are numbered from 1."""
    corpora: dict[str, list[tuple[int, Run]]] = {}
    for number, run in enumerate(runs, 1):
        corpora.setdefault(run.record["corpus"]["blake2b"], []).append((number, run))
    rankings: list[Groups] = []
    for same in corpora.values():
        groups: dict[str, list[tuple[int, Run]]] = {}
        for name, numbered in zip(run_panels.group_names([run for _, run in same]), same, strict=True):
            groups.setdefault(name, []).append(numbered)
        rankings.append(dict(sorted(groups.items(), key=lambda group: _mean("bits_per_byte", group[1]))))
    return rankings


def _mean(field: str, group: Sequence[tuple[int, Run]]) -> float:
    return sum(run.record[field] for _, run in group) / len(group)


def _comparisons(rankings: Sequence[Groups], colours: Colours) -> Iterator[Html]:
    """The ranking on each corpus, and the runs that have no other one to be compared with."""
    if len(rankings) > 1:
        yield element("h1", f"{len(rankings)} corpora: bits/byte of different ones say nothing about the models")
    alone = []
    for groups in rankings:
        (name, ((_, run), *others)), *more = groups.items()
        if not others and not more:
            alone.append(f"{name} on {corpus_name(run)}")
            continue
        differences = _compared(groups)
        yield heading("h1" if len(rankings) == 1 else "h2", conclusion(groups, differences))
        yield ranking_table(groups, differences)
        curves = {name: mean_curve([run.curves[MODEL] for _, run in group]) for name, group in groups.items()}
        for panel in (run_panels.learning(curves, colours=colours), run_panels.saved(curves, colours=colours)):
            if panel.series:
                yield html_figure(panel)
    if alone:
        yield element("p", f"Not compared, because no other run on this page has the same bytes: {', '.join(alone)}.")


def _compared(groups: Groups) -> Comparison | str:
    """The differences from the best group, or why there are none."""
    if len(groups) == 1:
        return "These runs differ only in the seed."
    every = [(name, run) for name, group in groups.items() for _, run in group]
    try:
        return compare([run for _, run in every], groups=[name for name, _ in every])
    except (ConfigError, CorpusError) as error:
        return f"No differences: {error}."


def conclusion(groups: Groups, compared: Comparison | str) -> str:
    """Which learner needs the least, and by how much."""
    best, group = next(iter(groups.items()))
    run, several = group[0][1], f", the least of {len(groups)} learners" * (len(groups) > 2)
    rate = f"{_mean('bits_per_byte', group):.2f} bits/byte on {corpus_name(run)}"
    rate += several if len(groups) > 1 else f" in {len(group)} runs"
    sentence = f"{run_panels.full_name(best, run.record['config'])} needs {rate}"
    if isinstance(compared, str):
        return sentence
    second, proof = compared.differences[0], f" ({compared.proof})" if compared.proof else ""
    if second.is_none:
        return f"{sentence}; {second.other.label} needs as much, everywhere{proof}"
    half, more = _half(second), _more(second, _digits([second])).lstrip("+")
    doubt = ", so either may be the better" if half and abs(second.percent) <= half else ""
    return f"{sentence}; {second.other.label} needs {more} more{doubt}{proof}"


def ranking_table(groups: Groups, compared: Comparison | str) -> Html:
    """The groups, what each needs more than the best, and what to expect on another text."""
    records = [[run.record for _, run in group] for group in groups.values()]
    size = what_is_measured([is_coded(record) for group in records for record in group], "bytes")
    columns: dict[str, Sequence[object]] = {
        "learner": [element("a", name, href=f"#run-{group[0][0]}") for name, group in groups.items()],
        "bits/byte": [_mean("bits_per_byte", group) for group in groups.values()],
    }
    caption = compared if isinstance(compared, str) else "The text is too short for intervals."
    if not isinstance(compared, str):
        digits = _digits(compared.differences)
        columns["more than the best"] = [None, *(_more(each, digits) for each in compared.differences)]
        columns["on another such text"] = [None, *(_on_another_text(each, digits) for each in compared.differences)]
        levels = [each.intervals.confidence for each in compared.differences if each.intervals]
        if levels:
            caption = f"Intervals of {levels[0]:.0%}: ± is for the mean over such texts."
        caption += f" Data: {compared.rows}." if compared.rows else ""
    columns[size] = [round(_mean("archive_bytes", group)) for group in groups.values()]
    columns["verified"] = [_words(map(verified_word, group)) for group in records]
    if max(map(len, records)) > 1:
        columns["seeds"] = [_words(str(seed_of(record["config"])) for record in group) for group in records]
    return html_table("Ranking", columns, caption, [0], n_narrow=3)


def _half(difference: Difference) -> float | None:
    """Half of the confidence interval, in percent of the best."""
    intervals = difference.intervals
    return None if intervals is None else difference.in_percent(intervals.mean_high_bits - difference.bits)


def _digits(differences: Sequence[Difference]) -> int:
    """Decimals that show two digits of the smallest interval: one or two, of differences below 1 % up to four."""
    least = min(filter(None, map(_half, differences)), default=0.1)
    most = 2 if min(abs(each.percent) for each in differences) >= 1 else 4
    return min(most, max(1, 1 - math.floor(math.log10(least))))


def _more(difference: Difference, digits: int) -> str:
    half = _half(difference)
    return f"{_signed(difference.percent, digits)}{'' if half is None else f' ± {half:.{digits}f}'} %"


def _on_another_text(difference: Difference, digits: int) -> str | None:
    if (intervals := difference.intervals) is None:
        return None
    low, high = map(difference.in_percent, (intervals.text_low_bits, intervals.text_high_bits))
    return f"{_signed(low, digits)} to {_signed(high, digits)} %"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no -0.0


def _words(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


# ---- each run


def _article(run: Run, name: str, colours: Colours, prefix: str, level: str) -> Html:
    """Everything about one run but its conclusion. prefix: its id, with which those of its sections begin. level: h2 or h3."""
    record, labels = run.record, {**run_panels.PARTS, MODEL: name}
    beside = [sections.reported(record)] if is_reported(record) else sections.sizes(record, name)
    parts = [("curves", "Learning curves", sections.curves(run, labels, colours))]
    if not is_reported(record):
        proof = [folded("Total cost, with the decoder", sections.ledger(record)), _repetition(run)]
        parts += [
            ("passages", "What the text costs", sections.passages(record.get("passages", []))),
            ("tables", "Where the bits went", [*sections.breakdowns(record["tables"], labels)]),
            ("proof", "Total cost, and how to repeat the run", proof),
        ]
    shown, links = [], []
    for kind, title, content in parts:
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


def _repetition(run: Run) -> Html:
    """What was read and chosen, the commands that repeat the run and test its archive, and a configuration that they need."""
    record, is_other, line = run.record, OTHER in run.record["config"], command(run.record)
    test = f"\nprequential test {shlex.quote(f'{run.path.resolve().name}/{ARCHIVE}')}"
    own = "The archive decodes on any machine, and the same command makes the same archive, byte for byte:"
    other = f"Proof: {record.get('coding', 'not said')}. The command, where the learner's module can be imported:"
    parts = [
        element("p", _extent(record)),
        element("p", _selection(record)),
        element("p", other if is_other else own),
        element("pre", element("code", line + ("" if is_other else test))),
        element("p", _machine(record["environment"])),
    ]
    if CONFIG_FILE in shlex.split(line):
        text = json.dumps(record["config"], indent=2, ensure_ascii=False)
        parts += [element("p", f"{CONFIG_FILE}:"), element("pre", element("code", text))]
    return folded("How to repeat the run", *parts)


def _extent(record: Record) -> str:
    corpus, limit = record["corpus"], record.get("limit_bytes")
    source = f"the {corpus['kind']} {corpus.get('name')}" if "kind" in corpus else "data given in memory"
    is_full = limit is None or limit > corpus["n_bytes"]
    start = "The full input" if is_full else f"At most the first {limit:,} bytes"
    return f"{start}: {corpus['n_bytes']:,} bytes of {source}, BLAKE2b {corpus['blake2b']}."


def _selection(record: Record) -> str:
    """What the learner knew before, and among how many configurations and seeds it was chosen."""
    config, n_configs, n_seeds = record["config"], record["n_configs"], record["n_seeds"]
    given = "The learner's source, what it knew before and its tokenizer are not counted. " if OTHER in config else ""
    if GIVEN in config:
        given = f"Before, the learner had read {name_of_given(config[GIVEN])}, which is not counted. "
    if n_configs * n_seeds == 1:
        return f"{given}The user declared that one configuration and one seed were tried: nothing was selected."
    return (
        f"{given}The user declared it as the best of {n_configs:,} configurations and {n_seeds:,} seeds. To name the selected "
        f"one costs {math.log2(n_configs) + math.log2(n_seeds):.1f} bits, which the total cost includes."
    )


def _machine(environment: Record) -> str:
    commit = environment.get("git_commit") or ""
    changed = ", with files that differ from it" if commit.endswith("-dirty") else ""
    where = f"; commit {commit.removesuffix('-dirty')}{changed}" if commit else ""
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    names = [name for name in ("threads", "backend", "kernels", "device") if name in environment]
    machine = ", ".join([environment["machine"]["cpu"], *(f"{name} {environment[name]}" for name in names)])
    return f"Made with {versions}{where}. Machine: {machine}."


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
