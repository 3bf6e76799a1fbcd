"""Runs as one HTML page: figures, frequently asked questions, curves, and every table of the records.

The page is one file. It has no script, and a policy in its head forbids the browser to load anything. report/markup.py escapes
every text that comes from records and folders.
"""

from collections.abc import Iterator, Sequence

from prequential.errors import CorpusError
from prequential.measure.evaluation.runs import Run
from prequential.report.comparison import comparison, contents
from prequential.report.markup import Html, element, join
from prequential.report.questions import questions
from prequential.report.sections import (
    breakdowns,
    configuration,
    corpus_name,
    curves,
    findings,
    headline,
    ledger,
    sizes,
)
from prequential.report.style import PAGE_STYLE
from prequential.report.tables import value_table

INCOMPLETE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)


def html_report(runs: Sequence[Run]) -> str:
    """The page about one or more runs. Several runs are compared first.

    Raises CorpusError for a run whose record or curves are incomplete.
    """
    articles = [_checked_article(run, number) for number, run in enumerate(runs, 1)]
    subject = corpus_name(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"
    title = f"{subject}: prequential report"
    head = [element("h1", title)]
    if len(runs) > 1:
        head += [contents(runs), *comparison(runs)]
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


def _checked_article(run: Run, number: int) -> Html:
    try:
        heading_id = f"run-{number}"
        return element("article", *headline(run, heading_id), *_sections(run, heading_id), aria_labelledby=heading_id)
    except INCOMPLETE as error:
        name = str(run.path)
        raise CorpusError(f"{name!r} is not a complete run: {type(error).__name__}: {error}") from error


def _sections(run: Run, prefix: str) -> Iterator[Html]:
    """The sections of a run, each with its heading."""
    record = run.record
    sections = [
        ("questions", "Frequently asked questions", [questions(run)]),
        ("curves", "Learning curves", [curves(run)]),
        ("sizes", "Comparison with other compressors", [sizes(record)]),
        ("ledger", "Total cost: the ledger", [ledger(record)]),
        ("tables", "Breakdown of the code length", list(breakdowns(record["tables"]))),
        ("findings", "Findings during the run", [findings(record)]),
        ("configuration", "Configuration", [configuration(record)]),
        ("environment", "Environment", [value_table("Environment", record["environment"])]),
    ]
    for name, title, content in sections:
        if content:
            heading_id = f"{prefix}-{name}"
            yield element("section", element("h3", title, id=heading_id), *content, aria_labelledby=heading_id)
