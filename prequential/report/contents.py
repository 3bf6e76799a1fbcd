"""What lies under the names that `report` is given: runs, held-out losses, series, forecasts with their scores, other pages."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.comparison.documents import KINDS as DOCUMENTS
from prequential.errors import CorpusError
from prequential.evaluation.runs import RECORD, Run, mode_of_all, read_run, read_runs
from prequential.files import PathLike, common_mode, open_regular, reading
from prequential.records import parse_object, read_lines, read_object, read_records
from prequential.report.markup import MARK

if TYPE_CHECKING:
    from prequential.forecasting.forecast import Forecast

KINDS = (*DOCUMENTS, "forecast", "forecast score", "packed run")
SUFFIXES = (".json", ".jsonl", ".zst")  # of records in a folder

Record = dict[str, Any]


@dataclass
class Contents:
    """What a page shows. mode: permissions of all of it."""

    runs: list[Run] = field(default_factory=list)
    losses: list[Record] = field(default_factory=list)
    series: dict[Path, list[Record]] = field(default_factory=dict)
    forecasts: "list[Forecast]" = field(default_factory=list)
    scores: list[Record] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)
    mode: int = 0o777

    def add(self, path: Path) -> None:
        """A run, a file of records, or all that lies in a folder. Raises CorpusError."""
        if path.is_file():
            self._add_file(path)
        elif path.is_dir() and not (path / RECORD).exists():
            self._add_runs(read_runs(path))
            self._add_folder(path)
        else:
            self._add_runs([read_run(path)])

    def _add_runs(self, runs: Iterable[Run]) -> None:
        """The runs whose names are not here yet, with the held-out losses and pages in their folders."""
        names = {run.name for run in self.runs}
        for run in (run for run in runs if run.name not in names):
            self.runs.append(run)
            self.mode &= mode_of_all([run])
            if run.packed_curves is None:
                self._add_folder(run.path)

    def _add_folder(self, folder: Path) -> None:
        with reading(folder):
            paths = sorted(each for each in folder.iterdir() if each.is_file() and each.name != RECORD)
        for path in paths:
            if path.suffix in SUFFIXES:
                self._add_file(path)
            elif path.suffix == ".html" and is_own_page(path):
                self.pages.append(path)

    def _add_file(self, path: Path) -> None:
        kind = kind_of(path)
        self.mode &= common_mode(path) if kind else 0o777
        if kind == "packed run":
            self._add_runs(read_runs(path))
        elif kind == "forecast":
            from prequential.forecasting.forecast import read_forecast

            self.forecasts.append(read_forecast(path))
        elif kind == "forecast score":
            self.scores += [parse_object(line, repr(str(path))) for line in read_lines(path)]
        elif kind in DOCUMENTS:
            into = self.losses if kind == "heldout" else self.series.setdefault(path, [])
            into += (record for _, record in read_records(path, DOCUMENTS[kind]))


def read_contents(names: Iterable[PathLike]) -> Contents:
    """What a page about these names shows. Raises CorpusError for one of which nothing can be shown, and for damaged records."""
    found, n_before = Contents(), 0
    for name in names:
        found.add(Path(name))
        n_results = len([*found.runs, *found.losses, *found.series, *found.forecasts, *found.scores])
        if n_results == n_before:
            raise CorpusError(f"{str(name)!r} is not a run, and holds none, nor other records of this program")
        n_before = n_results
    if n_before and n_before == len(found.scores):
        raise CorpusError("a score is shown beside its forecast: name that file, too")
    return found


def kind_of(path: Path) -> str | None:
    """The kind of the records in a file; None for any other file."""
    for read in (lambda: parse_object(next(read_lines(path), b""), str(path)), lambda: read_object(path)):
        with suppress(CorpusError):
            value = read()
            return value["kind"] if isinstance(value, dict) and value.get("kind") in KINDS else None
    return None


def is_own_page(path: PathLike) -> bool:
    """Whether `report` wrote this file, so that it may be replaced. A link is not followed."""
    with suppress(OSError), open_regular(path, follow_links=False) as file:
        return MARK.encode() in file.read(1000)
    return False
