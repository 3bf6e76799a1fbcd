"""HTML pages about runs and other results. A page is one file, whose policy forbids the browser to load anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from prequential.arguments import check_arguments
from prequential.comparison.compare import Comparison, compare
from prequential.comparison.differences import SEEDS_DOUBT
from prequential.comparison.differences import sentence as difference_sentence
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation import summary
from prequential.evaluation.curves import MODEL, mean_curve
from prequential.evaluation.runs import Result, Run
from prequential.files import PathLike, output_file
from prequential.records import IMPORTED
from prequential.report import measured, run_panels, sections
from prequential.report.contents import Contents, is_own_page, read_contents
from prequential.report.markup import Html, element, folded, html_document, html_table, join
from prequential.report.measured import Section
from prequential.report.sections import corpus_name

COSTS = (("seconds", "wall_s", 1, 2), ("kB/s", "bytes_per_s", 1e3, 1), ("MiB", "peak_memory_bytes", 2**20, 0))
Groups = Mapping[str, Sequence[tuple[int, Run]]]  # runs that differ only in the seed, with their numbers on the page


def html_report(runs: Sequence[Run], others: Contents | None = None, links: Mapping[str, str] = {}) -> str:
    """The page about runs, and about all that `others` holds beside runs: first the conclusion.

    links: addresses of other pages, by their titles. Raises CorpusError for incomplete records or curves.
    """
    parts = [*(_of_runs(runs) if runs else ()), *(measured.sections(others) if others else ())]
    first, *rest = parts
    body = [element("h1", first.heading)]
    if rest or links:
        entries = [element("a", part.title, href=f"#part-{i}") for i, part in enumerate(rest, 2)]
        entries += [element("a", title, href=address) for title, address in links.items()]
        body.append(element("nav", *entries, aria_label="On this page"))
    body += first.content
    for i, part in enumerate(rest, 2):
        body.append(element("section", element("h2", part.heading), *part.content, id=f"part-{i}"))
    return html_document(f"{first.title}: prequential report", join(*body))


def _of_runs(runs: Sequence[Run]) -> Iterator[Section]:
    """One run; or the ranking on each corpus, and then each run."""
    names = summary.without_common_arguments(summary.learner_label(run.record["config"]) for run in runs)
    said = [sections.conclusion(run, name) for run, name in zip(runs, names, strict=True)]
    if len(runs) == 1:
        yield Section(corpus_name(runs[0]), said[0], [_article(runs[0], names[0], 1, "h2")])
        return
    rankings = _rankings(runs)
    yield from _comparisons(rankings)
    ranked = (each for groups in rankings for group in groups.values() for each in group)
    articles = (folded(said[i - 1], _article(run, names[i - 1], i, "h3")) for i, run in ranked)
    yield Section("Each run", "Each run", [*articles])


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


def _comparisons(rankings: Sequence[Groups]) -> Iterator[Section]:
    """The ranking on each corpus that several runs have."""
    if len(rankings) > 1:
        heading = f"{len(rankings)} corpora: bits/byte of different ones say nothing about the models"
        yield Section("Several corpora", heading, [])
    for groups in (groups for groups in rankings if sum(map(len, groups.values())) > 1):
        differences, run = _compared(groups), next(iter(groups.values()))[0][1]
        curves = {name: mean_curve([run.curves[MODEL] for _, run in group]) for name, group in groups.items()}
        title = f"Runs on {corpus_name(run)}, {run.record['corpus']['n_bytes']:,} bytes"
        costs = {name: (_cost("wall_s", group), _mean("bits_per_byte", group)) for name, group in groups.items()}
        for each in max((run.record["baselines"] for group in groups.values() for _, run in group), key=len):
            costs[each["name"]] = each["wall_s"], each["bits_per_byte"]
        of_training = [run_panels.equal_loss(curves)] if summary.is_reported(run.record) else []
        figures = sections.curve_figures(curves, {}, *of_training, run_panels.against_time(curves, costs))
        yield Section(title, conclusion(groups, differences), [ranking_table(groups, differences), figures])


def _cost(field: str, group: Sequence[tuple[int, Run]]) -> float | None:
    """The mean of a figure of coding; None if a run has none, as those that were imported from a log."""
    has_all = all(run.record.get(field) and run.record.get("coding") != IMPORTED for _, run in group)
    return _mean(field, group) if has_all else None


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
    second, proof = compared.differences[0], f" ({compared.proof.partition(' in ')[0]})" if compared.proof else ""
    if second.is_none:
        return f"{sentence}; {second.other.label} needs as much, everywhere{proof}"
    doubt = second.needs_seeds or (second.seeds is not None and not second.seeds.decides)
    return f"{sentence}; {second.other.label} needs {second.percent:.2f} % more{f': {SEEDS_DOUBT}' * doubt}{proof}"


def ranking_table(groups: Groups, compared: Comparison | str) -> Html:
    """The groups, what each needs more than the best, and below what to expect with other seeds and on other texts."""
    records = [[run.record for _, run in group] for group in groups.values()]
    size = "archive bytes" if all(summary.is_coded(record) for group in records for record in group) else "bytes"
    columns: dict[str, Sequence[object]] = {
        "learner": [element("a", name, href=f"#run-{group[0][0]}") for name, group in groups.items()],
        "bits/byte": [_mean("bits_per_byte", group) for group in groups.values()],
    }
    caption = compared if isinstance(compared, str) else ""
    if not isinstance(compared, str):
        columns["more than the best"] = [None, *(f"{each.percent:+.2f} %" for each in compared.differences)]
        known = [f"Data: {compared.rows}.", f"Proof: {compared.proof}."] if compared.rows else []
        said = [*map(difference_sentence, compared.differences), *known]
        caption = join(*(element("div", line) for line in said))
    for title, field, unit, digits in COSTS:
        costs = [_cost(field, group) for group in groups.values()]
        columns[title] = [cost and f"{cost / unit:,.{digits}f}" for cost in costs]
    columns[size] = [round(_mean("archive_bytes", group)) for group in groups.values()]
    columns["verified"] = [", ".join(sorted({*map(summary.verified_word, group)})) for group in records]
    if max(map(len, records)) > 1:
        columns["seeds"] = [", ".join(str(summary.seed_of(record["config"])) for record in group) for group in records]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return html_table("Ranking", rows, caption, 0)


# ---- each run


def _article(run: Run, name: str, number: int, level: str) -> Html:
    """Everything about one run but its conclusion. number: on the page. level: h2 or h3."""
    record, labels = run.record, {**run_panels.PARTS, MODEL: name}
    beside = [] if summary.is_reported(record) else [element("div", *sections.sizes(record, name))]
    parts = {
        "Learning curves": sections.curves(run, labels),
        "What the text costs": sections.passages(record.get("passages", [])),
        "Where the bits went": [*sections.breakdowns(record.get("tables", {}))],
    }
    if not summary.is_reported(record):
        parts["Total cost"] = [sections.ledger(record)]
    return element(
        "article",
        element("p", sections.origin(run), class_="origin"),
        *sections.findings(record),
        element("div", sections.figures(record), *beside, class_="lead"),
        *(element("section", element(level, title), *content) for title, content in parts.items() if content),
        id=f"run-{number}",
    )


# ---- as a file


def write_report(
    results: Result | PathLike | Sequence[Result | PathLike], path: PathLike, *, overwrite: bool = False
) -> Path:
    """Writes results as an HTML page, which loads nothing from elsewhere; returns its path.

    results: one or several of: runs of `read_runs`, results of `evaluate`, names of run folders, of folders of results, and of
    files of records (`heldout`, `monorepo`, `forecast`). path: of the page. A page that this function or the command `report`
    wrote is replaced; another file only with `overwrite`.

    Raises ConfigError for another value, CorpusError for results that cannot be read, OutputError.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     prequential.write_report(ladder, pathlib.Path(folder) / "page.html").name
        'page.html'
    """
    check_arguments(path=path, overwrite=overwrite)
    given = [results] if isinstance(results, str | os.PathLike | Result) else results
    if not isinstance(given, list | tuple) or not given:
        raise wrong_argument("results", results, "a folder of runs, or a list of runs")
    found = read_contents([each for each in given if isinstance(each, str | os.PathLike)])
    for i, each in enumerate(given):
        if isinstance(each, Result):
            found.runs.append(each.as_run(f"result {i + 1}"))
            found.mode &= each.mode
        elif not isinstance(each, str | os.PathLike):
            kinds = "runs of read_runs, results of evaluate, or names of folders and files"
            raise wrong_argument("results", each, kinds)
    with output_file(path, overwrite=overwrite or is_own_page(path), mode=found.mode) as sink:
        sink.write(page_of(found, Path(path)))
    return Path(path)


def page_of(found: Contents, output: Path | None) -> bytes:
    """The page, with links to the other pages as they are reached from `output`; None: it goes to standard output."""
    folder = output.parent if output else Path()
    others = [path for path in found.pages if output is None or path.resolve() != output.resolve()]
    links = {path.name: quote(os.path.relpath(path, folder), errors="surrogateescape") for path in others}
    return html_report(found.runs, found, links).encode("utf-8", "replace")  # JSON can hold half a surrogate pair
