"""HTML pages about runs. A page is one file without scripts, whose policy forbids the browser to load anything."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prequential.comparison.compare import Comparison, compare
from prequential.comparison.differences import SEEDS_DOUBT
from prequential.comparison.differences import sentence as difference_sentence
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, mean_curve
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import (
    is_coded,
    is_reported,
    learner_label,
    seed_of,
    verified_word,
    what_is_measured,
    without_common_arguments,
)
from prequential.report import run_panels, sections
from prequential.report.markup import Html, element, folded, html_document, html_table, join
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure

Groups = Mapping[str, Sequence[tuple[int, Run]]]  # runs that differ only in the seed, with their numbers on the page


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs: first the conclusion. Raises CorpusError for incomplete records or curves."""
    names = without_common_arguments(learner_label(run.record["config"]) for run in runs)
    corpora = " and ".join(dict.fromkeys(map(corpus_name, runs)))
    if len(runs) == 1:
        sentence = element("h1", sections.conclusion(runs[0], names[0]))
        return html_document(f"{corpora}: prequential report", join(sentence, _article(runs[0], names[0], 1, "h2")))
    rankings = _rankings(runs)
    parts = [*_comparisons(rankings), element("h2", "Each run")]
    for number, run in (each for groups in rankings for group in groups.values() for each in group):
        name = names[number - 1]
        parts.append(folded(sections.conclusion(run, name), _article(run, name, number, "h3")))
    return html_document(f"{corpora}: {len(runs)} runs, prequential report", join(*parts))


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


def _comparisons(rankings: Sequence[Groups]) -> Iterator[Html]:
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
        yield element("h1" if len(rankings) == 1 else "h2", conclusion(groups, differences))
        yield ranking_table(groups, differences)
        curves = {name: mean_curve([run.curves[MODEL] for _, run in group]) for name, group in groups.items()}
        for panel in (run_panels.learning(curves), run_panels.saved(curves)):
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
    doubt = second.needs_seeds or (second.seeds is not None and not second.seeds.decides)
    return f"{sentence}; {second.other.label} needs {second.percent:.2f} % more{f': {SEEDS_DOUBT}' * doubt}{proof}"


def ranking_table(groups: Groups, compared: Comparison | str) -> Html:
    """The groups, what each needs more than the best, and below what to expect with other seeds and on other texts."""
    records = [[run.record for _, run in group] for group in groups.values()]
    size = what_is_measured([is_coded(record) for group in records for record in group], "bytes")
    columns: dict[str, Sequence[object]] = {
        "learner": [element("a", name, href=f"#run-{group[0][0]}") for name, group in groups.items()],
        "bits/byte": [_mean("bits_per_byte", group) for group in groups.values()],
    }
    caption = compared if isinstance(compared, str) else ""
    if not isinstance(compared, str):
        differences = compared.differences
        columns["more than the best"] = [None, *(f"{each.percent:+.2f} %" for each in differences)]
        caption = " ".join(map(difference_sentence, differences)) + f" Data: {compared.rows}." * bool(compared.rows)
    columns[size] = [round(_mean("archive_bytes", group)) for group in groups.values()]
    columns["verified"] = [_words(map(verified_word, group)) for group in records]
    if max(map(len, records)) > 1:
        columns["seeds"] = [_words(str(seed_of(record["config"])) for record in group) for group in records]
    return html_table("Ranking", columns, caption, [0])


def _words(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


# ---- each run


def _article(run: Run, name: str, number: int, level: str) -> Html:
    """Everything about one run but its conclusion. number: on the page. level: h2 or h3."""
    record, labels = run.record, {**run_panels.PARTS, MODEL: name}
    beside = [sections.reported(record)] if is_reported(record) else sections.sizes(record, name)
    parts = {"Learning curves": sections.curves(run, labels)}
    if not is_reported(record):
        parts |= {
            "What the text costs": sections.passages(record.get("passages", [])),
            "Where the bits went": [*sections.breakdowns(record["tables"], labels)],
            "Total cost, and how to repeat the run": [sections.ledger(record), sections.repetition(record)],
        }
    return element(
        "article",
        element("p", sections.origin(run), class_="origin"),
        *sections.findings(record),
        element("div", sections.cards(record), element("div", *beside), class_="lead"),
        *(element("section", element(level, title), *content) for title, content in parts.items() if content),
        id=f"run-{number}",
    )
