"""Runs as one HTML page: their comparison, figures, curves, passages of the text, and every table of the records.

The page is one file. It has no script, and a policy in its head forbids the browser to load anything. report/markup.py escapes
every text that comes from records and folders.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prequential.errors import CorpusError
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import learner_label
from prequential.report.breakdowns import breakdowns
from prequential.report.comparison import comparison, contents
from prequential.report.markup import Html, element, join
from prequential.report.names import Look, page_look, run_look, run_names
from prequential.report.passages import passages
from prequential.report.questions import questions
from prequential.report.sections import configuration, corpus_name, curves, findings, headline, ledger, sizes
from prequential.report.style import PAGE_STYLE
from prequential.report.tables import folded, value_table

INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs. Several runs are compared first.

    Raises CorpusError for a run whose record or curves are incomplete.
    """
    labels, articles = [], []
    for run in runs:
        with _naming(run):
            labels.append(learner_label(run.record["config"]))
    names = run_names(labels, runs)
    look = page_look(names, runs)
    for number, (name, run) in enumerate(zip(names, runs, strict=True), 1):
        with _naming(run):
            articles.append(_article(run, name, look, f"run-{number}"))
    subject = corpus_name(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"
    title = f"{subject}: prequential report"
    head = [element("h1", title)]
    if len(runs) > 1:
        named = list(zip(names, runs, strict=True))
        head += [contents(named), *comparison(named, look)]
    return html_document(title, join(*head, *articles))


def html_document(title: str, body: Html) -> str:
    """A complete HTML document that loads nothing."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    # The encoding and this policy come before any text of a record.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{element("title", title)}
<style>{PAGE_STYLE}</style>
</head>
<body>
{element("main", body)}
</body>
</html>
"""


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    """Turns errors about what a record lacks into a CorpusError that names the run."""
    try:
        yield
    except INCOMPLETE as error:
        name = str(run.path)
        raise CorpusError(f"{name!r} is not a complete run: {type(error).__name__}: {error}") from error


def _article(run: Run, name: str, look: Look, heading_id: str) -> Html:
    sections = _sections(run, name, run_look(look, name), heading_id)
    return element("article", *headline(run, name, heading_id), *sections, aria_labelledby=heading_id)


def _sections(run: Run, name: str, look: Look, prefix: str) -> Iterator[Html]:
    """The sections of a run, each with its heading."""
    record = run.record
    sections = [
        ("curves", "Learning curves", [curves(run, look)]),
        ("sizes", "Comparison with other compressors", [sizes(record, name)]),
        ("passages", "What the text costs", passages(record)),
        ("tables", "Breakdown of the code length", list(breakdowns(record["tables"], look))),
        ("ledger", "Total cost: the ledger", [ledger(record)]),
        ("findings", "Findings during the run", [findings(record)]),
        (
            "questions",
            "Frequently asked questions",
            [folded("Questions and answers, and how to repeat the run", questions(run))],
        ),
        ("configuration", "Configuration", [configuration(record)]),
        (
            "environment",
            "Environment",
            [folded("Machine and versions", value_table("Environment", record["environment"]))],
        ),
    ]
    for kind, title, content in sections:
        if content:
            section_id = f"{prefix}-{kind}"
            yield element("section", element("h3", title, id=section_id), *content, aria_labelledby=section_id)
