"""The page of some results as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from prequential.arguments import check_arguments
from prequential.errors import wrong_argument
from prequential.evaluation.runs import Result
from prequential.files import PathLike, output_file
from prequential.report.contents import Contents, is_own_page, read_contents
from prequential.report.page import html_report


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
