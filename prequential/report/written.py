"""The page of some runs as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prequential.arguments import check_arguments
from prequential.errors import wrong_argument
from prequential.evaluation.runs import Result, Run, find_runs, mode_of_all
from prequential.files import PathLike, open_regular, output_file
from prequential.report.markup import MARK
from prequential.report.page import html_report


def write_report(
    runs: Result | PathLike | Sequence[Result | PathLike], path: PathLike, *, overwrite: bool = False
) -> Path:
    """Writes runs as an HTML page, which loads nothing from elsewhere; returns its path.

    runs: one or several of: runs of `read_runs`, results of `evaluate`, run folders, folders of runs, files of packed runs. path:
    of the page. A page that this function or `report` wrote is replaced; another file only with `overwrite`.

    Raises ConfigError for another value, CorpusError for runs that cannot be read, OutputError.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     prequential.write_report(ladder, pathlib.Path(folder) / "page.html").name
        'page.html'
    """
    check_arguments(path=path, overwrite=overwrite)
    given = [runs] if isinstance(runs, str | os.PathLike | Result) else runs
    if not isinstance(given, list | tuple) or not given:
        raise wrong_argument("runs", runs, "a folder of runs, or a list of runs")
    shown, mode = list[Run](), 0o777
    for i, each in enumerate(given):
        if isinstance(each, Result):
            shown, mode = [*shown, each.as_run(f"result {i + 1}")], mode & each.mode
        elif isinstance(each, str | os.PathLike):
            named = find_runs(each)
            shown, mode = [*shown, *named], mode & mode_of_all(named)
        else:
            raise wrong_argument("runs", each, "runs of read_runs, results of evaluate, or names of run folders")
    page = html_report(shown).encode("utf-8", "replace")  # JSON of unknown origin can hold half a surrogate pair
    with output_file(path, overwrite=overwrite or is_own_page(path), mode=mode) as sink:
        sink.write(page)
    return Path(path)


def is_own_page(path: PathLike) -> bool:
    """Whether the file is a page of this program, which may be replaced. A link is not followed."""
    with suppress(OSError), open_regular(path, follow_links=False) as file:
        return MARK.encode() in file.read(1000)
    return False
