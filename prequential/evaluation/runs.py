"""Run folders: the files of an evaluation, from which later commands show it, compare it, draw it and decode its archive.

docs/MEASURES.md lists the files, and the format of runs that are packed into one file. A folder gets its name when it is
complete. Until then it is a draft, .run-..., which stays if its run can be resumed.
"""

import base64
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from itertools import chain, count
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import OTHER

from prequential import files, records
from prequential.arguments import check_arguments
from prequential.errors import CheckpointError, CorpusError, wrong_argument
from prequential.evaluation.curves import (
    MAX_CURVE_FILE_BYTES,
    MODEL,
    Curve,
    Curves,
    Split,
    cost_columns,
    curve_frame,
    curve_table,
    data_frame,
    frame_html,
    parse_curves,
    table_of,
)
from prequential.evaluation.summary import COLUMNS, comparison_rows, is_reported, learner_label, run_line, seed_of
from prequential.files import PathLike
from prequential.online.source import CorpusLike, check_outside
from prequential.printable import printable

if TYPE_CHECKING:
    import pandas

ARCHIVE = "archive.pq"
COSTS, SECONDS = "costs", "seconds"  # deleted when the evaluation is complete
RECORD, CURVE = "record.jsonl", "curve.parquet"
UNFINISHED = "unfinished.jsonl"  # in the draft of a training run: what it has so far
DRAFT = ".run-"
RUN_NAME = re.compile(r"(?!-)[\w.-]+", re.ASCII)  # of a folder: - is standard input
Hint = Callable[[Path], str]
OnBad = Callable[[CorpusError], object]


class Result:
    """What a run answers, whether it was just made (`Evaluation`) or is read again (`Run`): figures, curves and tables."""

    record: dict[str, Any]
    curves: Curves
    mode: int

    @property
    def n_bytes(self) -> int:
        """Length of the corpus, or of the part of it that was coded."""
        return int(self.record["corpus"]["n_bytes"])

    @property
    def seconds(self) -> float:
        """Wall time of coding."""
        return float(self.record["wall_s"])

    @property
    def curve(self) -> Curve:
        """The ideal code length so far at the end of each segment."""
        return self.curves[MODEL]

    def to_frame(self) -> "pandas.DataFrame":
        """All curves: the columns series, n_bytes, bits and bits_per_byte."""
        return curve_frame(self.curves)

    def split(self) -> Split:
        """The code length as the rate of the last tenth and the bits above it (`Split`)."""
        return self.curve.split()

    def table(self, name: str) -> "pandas.DataFrame":
        """The table of where the bits went of this name. Raises ConfigError if there is none."""
        return data_frame(cost_columns(table_of(self.record.get("tables", {}), name))).set_index("")

    def as_run(self, name: str) -> "Run":
        """Itself, or a run of this name that is in no folder."""
        return self if isinstance(self, Run) else Run(Path(name), self.record, curve_table(self.curves))

    def _repr_html_(self) -> str:
        rows = [] if is_reported(self.record) else comparison_rows(self.record)
        return frame_html(repr(self), data_frame(rows, columns=COLUMNS))


def _figure(name: str, text: str) -> Any:
    return property(lambda run: run.record[name], doc=text)


@dataclass(frozen=True, repr=False)
class Run(Result):
    """A finished evaluation. record: the fields of an `Evaluation` that are written. path: its run folder.

    Of a packed run, path is FILE/NAME, and packed_curves the contents of curve.parquet.

    Examples:
        >>> import prequential
        >>> run = prequential.read_runs("benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst")[0]
        >>> run.n_bytes, int(run.curve.n_bytes[-1]), round(run.bits_per_byte, 3)
        (150000, 150000, 2.53)
    """

    path: Path
    record: dict[str, Any]
    packed_curves: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.name

    bits_per_byte = _figure("bits_per_byte", "Description length per byte of the corpus.")
    code_bits_per_byte = _figure("code_bits_per_byte", "Ideal code length per byte of the corpus.")
    archive_bytes = _figure("archive_bytes", "Size of the archive; without one, the code length in whole bytes.")
    config = _figure("config", "The learner, as JSON values.")

    @property
    def mode(self) -> int:  # type: ignore[override]
        """The permissions of its files, or of the file that it is packed in. What is made of it gets no others."""
        if self.packed_curves is not None:
            return files.common_mode(self.path.parent)
        return files.common_mode(self.path, self.path / RECORD, self.path / CURVE)

    @property
    def archive(self) -> Path:
        """The archive that proves the figures."""
        return self.path / ARCHIVE

    @cached_property
    def curves(self) -> Curves:  # type: ignore[override]
        """Cumulative bits against bytes of "model", its parts and each baseline. Raises CorpusError."""
        parsed = parse_curves(self.curve_table(), self.path / CURVE)
        if MODEL not in parsed or parsed[MODEL].n_bytes[-1] != self.n_bytes:
            raise CorpusError(f"{str(self.path)!r} has no curve of the model up to byte {self.n_bytes}: evaluate again")
        return parsed

    def curve_table(self) -> bytes:
        """The contents of curve.parquet. Raises CorpusError."""
        if self.packed_curves is not None:
            return self.packed_curves
        with files.reading(self.path / CURVE):
            return files.read_regular(self.path / CURVE, MAX_CURVE_FILE_BYTES)

    def __repr__(self) -> str:
        try:
            return printable(f"<Run {self.name} of {run_line(self.record)}>")
        except (KeyError, TypeError, ValueError, AttributeError, CorpusError):  # a record that somebody made
            return f"<Run {self.name}>"


# ---- reading


def read_run(path: PathLike) -> Run:
    """The run in the folder `path`, or the packed run FILE/NAME, or FILE/ with the beginning of its name. Raises CorpusError.

    Examples:
        >>> import prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"  # a file of packed runs
        >>> prequential.read_run(f"{ladder}/enwik8-first-4154399-20261122-054329-78bf204d").record["corpus"]["n_bytes"]
        150000
    """
    check_arguments(path=path)
    folder = Path(path)
    if folder.parent.is_file():
        runs = [run for run in read_runs(folder.parent) if run.name.startswith(folder.name)]
        if runs := [run for run in runs if run.name == folder.name or len(runs) == 1]:
            return runs[0]
        raise CorpusError(f"{str(folder.parent)!r} has no run {folder.name!r}: `prequential runs list` lists its runs")
    if not os.path.lexists(path):
        raise CorpusError(f"the run {os.fspath(path)!r} does not exist: `prequential runs list` lists those in runs/")
    record = os.path.join(path, RECORD)  # noqa: PTH118 - of ".", it names the folder
    return Run(folder, _checked(records.read_object(record), repr(record)))


def _checked(value: Any, where: str) -> dict[str, Any]:
    is_training = isinstance(value, dict) and value.get("coding") in records.REPORTED_CODINGS
    return records.check_record(value, records.TrainingRecord if is_training else records.EvaluationRecord, where)


def read_runs(path: PathLike, on_bad: OnBad | None = None) -> list[Run]:
    """All runs in the folder `path`, or in a file that `pack_runs` wrote, oldest first.

    on_bad: called with the error of each run that cannot be read, which is left out. None: such an error is raised. Raises
    CorpusError if `path` does not exist.

    Examples:
        >>> import prequential
        >>> len(prequential.read_runs("benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"))
        11
    """
    check_arguments(path=path, on_bad=on_bad)
    if not os.path.lexists(path):
        raise CorpusError(f"{os.fspath(path)!r} does not exist: name a folder of runs, or a file of packed runs")
    runs = []
    with files.reading(path):
        for read in _readers(Path(path)):
            try:
                runs.append(read())
            except CorpusError as error:
                if on_bad is None:
                    raise
                on_bad(error)
    return sorted(runs, key=lambda run: (str(run.record.get("time")), run.name))


def _readers(root: Path) -> Iterator[Callable[[], Run]]:
    """A function for each run at `root` that reads it. Raises CorpusError, OSError if the runs cannot be found."""
    if root.is_file():
        return (partial(_unpacked, line, root) for line in records.read_lines(root))
    folders = (each for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    return (partial(read_run, one) for one in folders if os.path.lexists(one / RECORD) or not os.access(one, os.X_OK))


def _unpacked(line: bytes, path: Path) -> Run:
    where = f"a line of {str(path)!r}"
    values = records.check_record(records.parse_object(line, where), records.PackedRun, where)
    name = path / values["name"]
    return Run(name, _checked(values["record"], repr(str(name))), base64.b64decode(values["curves"]))


def runs_so_far(path: PathLike, on_bad: OnBad | None = None) -> list[Run]:
    """As `read_runs`; none if `path` does not exist yet."""
    return read_runs(path, on_bad) if os.path.lexists(path) else []


def find_run(name: str, folder: PathLike = "runs") -> str:
    """The path of the run in `folder` that `latest`, its name, or the beginning of it, means. Any other name stays as it is.

    Raises CorpusError if several runs begin so.
    """
    if not RUN_NAME.fullmatch(name):
        return name
    if name == "latest":
        paths = [run.path for run in runs_so_far(folder, on_bad=lambda error: None)][-1:]
    else:
        paths = [path for path in Path(folder).glob(f"{name}*") if (path / RECORD).exists()]
        paths = [path for path in paths if path.name == name] or paths
    if len(paths) > 1:
        many = f"{len(paths)} runs in {os.fspath(folder)!r} begin so"
        raise CorpusError(f"{name!r}: {many}; `prequential runs list` lists them")
    return str(paths[0]) if paths else name


def interrupted_runs(root: PathLike) -> list[Path]:
    """Drafts in `root` that `evaluate --resume` can continue. Their runs were interrupted or are still running."""
    with files.reading(root):
        return [path for path in sorted(Path(root).glob(f"{DRAFT}*")) if _can_be_resumed(path)]


def unfinished_trainings(root: PathLike) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Drafts in `root` of training runs that were interrupted or are still running, and the last complete line of each."""
    with files.reading(root):
        paths = sorted(Path(root).glob(f"{DRAFT}*/{UNFINISHED}"))
    for path in paths:
        with suppress(CorpusError):
            if lines := [line for line in records.read_lines(path) if line.endswith(b"\n")]:
                value = records.parse_object(lines[-1], str(path))
                yield path.parent, records.check_record(value, records.UnfinishedRecord, str(path))


def runs_frame(runs: PathLike | Iterable[Run] = "runs", on_bad: OnBad | None = None) -> "pandas.DataFrame":
    """A table with one row for each run, the oldest first. Fields and units are those of the records.

    runs: as of `read_runs`, or runs that are read. on_bad: as of `read_runs`. Columns: run, the path that `read_run` takes; time
    (datetime64, UTC); corpus; n_bytes; learner; seed; each figure and text of the record; NAME_bits_per_byte of each baseline.
    What a run does not have is missing (NaN). Raises CorpusError.

    Examples:
        >>> import prequential
        >>> frame = prequential.runs_frame("benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst")
        >>> len(frame), frame.n_bytes.unique().tolist(), round(float(frame.code_bits_per_byte.min()), 3)
        (11, [150000, 460000], 1.779)
    """
    import pandas

    rows = [_row(run) for run in (read_runs(runs, on_bad) if isinstance(runs, str | os.PathLike) else runs)]
    frame = pandas.DataFrame(rows, columns=None if rows else ["run", "time", "corpus", "n_bytes", "learner", "seed"])
    return frame.assign(time=pandas.to_datetime(frame["time"], utc=True))


def _row(run: Run) -> dict[str, Any]:
    if not isinstance(run, Run):
        raise wrong_argument("runs", run, "a folder of runs, or runs of read_runs")
    record, corpus, config = run.record, run.record["corpus"], run.record["config"]
    return {
        **{"run": str(run.path), "time": None, "corpus": corpus.get("name"), "n_bytes": corpus["n_bytes"]},
        **{"learner": learner_label(config), "seed": seed_of(config)},
        **{name: value for name, value in record.items() if not isinstance(value, dict | list)},
        **{f"{each['name']}_bits_per_byte": each["bits_per_byte"] for each in record.get("baselines", ())},
    }


# ---- writing


def mode_of_all(runs: Iterable[Run]) -> int:
    """The permissions that all the runs have."""
    return reduce(and_, (run.mode for run in runs), 0o777)


def pack_runs(folder: PathLike, path: PathLike, *, overwrite: bool = False) -> list[Run]:
    """Writes the records and curves of all runs in `folder` into one file, without their archives. Returns these runs.

    Raises CorpusError if there are no runs or they cannot be read, OutputError if the file cannot be written or exists.
    """
    runs = read_runs(folder)
    if not runs:
        raise CorpusError(f"{os.fspath(folder)!r} has no runs to pack")
    with files.output_file(path, overwrite=overwrite, mode=mode_of_all(runs)) as sink:
        for run in runs:
            line = records.record_line(records.record_of(records.PackedRun, run, curves=run.curve_table()))
            if len(line) > records.MAX_RECORD_BYTES or sink.n_bytes + len(line) > records.MAX_RECORDS_BYTES:
                raise CorpusError(f"{os.fspath(folder)!r} is too large to be packed: pack a part of its runs")
            sink.write(line)
    return runs


@dataclass(frozen=True, kw_only=True)
class DraftFolder:
    """The folder that an evaluation works in, for its archive and for what it needs to resume.

    path: a folder that exists. keep: an interrupted evaluation leaves there what it needs. resume: continue with that.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> with tempfile.TemporaryDirectory() as name:
        ...     draft = prequential.DraftFolder(path=pathlib.Path(name))
        ...     result = prequential.evaluate(b"text" * 100, config=prequential.preset(1), baselines=(), draft=draft)
        ...     (draft.path / "archive.pq").stat().st_size == result.archive_bytes
        True
    """

    path: Path
    keep: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not Path(self.path).is_dir():
            raise wrong_argument("path", self.path, "a folder that exists")

    def finish(self, root: Path, record: dict[str, Any], curves: Curves, *, mode: int = 0o777) -> Path:
        """Makes it a run folder in `root`; returns the new path. mode: its permissions. Raises OutputError."""
        draft, table = self.path, curve_table(curves)
        with files.writing(root):
            files.write_bytes(draft / CURVE, table)
            files.write_bytes(draft / RECORD, records.record_line(record))
            files.share_folder(draft, mode)
            path = _rename_to_free_name(draft, root / run_name(record))
            with suppress(OSError):  # the run is complete
                for name in (COSTS, SECONDS, UNFINISHED):  # not earlier: until here the draft can be resumed
                    (path / name).unlink(missing_ok=True)
                if files.checkpoint_path(path / ARCHIVE).exists():  # of a run without an archive
                    with files.hold_work_folder(path / ARCHIVE):
                        files.delete_checkpoint(files.checkpoint_path(path / ARCHIVE))
            files.sync_folder(root)
        return path


@contextmanager
def new_run_folder(root: PathLike, *corpora: CorpusLike | None, hint: Hint | None = None) -> Iterator[DraftFolder]:
    """A new draft in the folder `root`, deleted if the body does not finish it. Raises OutputError, and as `check_outside`.

    hint: it stays if its run can be resumed, and this is what the error then says about it; None: it never stays.
    """
    check_outside(root, *corpora)
    with files.writing(root):
        Path(root).mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=root))
    try:
        with _held(draft, hint) as folder:
            yield folder
    finally:
        with suppress(OSError):
            draft.rmdir()  # empty if it could not be locked


@contextmanager
def interrupted_run_folder(draft: PathLike, *, hint: Hint = str) -> Iterator[DraftFolder]:
    """The draft of an interrupted run. It stays if the body fails. hint: what an error then says about it.

    Raises CheckpointError if `draft` is not such a folder, OutputError if its run still works.
    """
    if not (Path(draft).name.startswith(DRAFT) and _can_be_resumed(Path(draft))):
        raise CheckpointError(f"{os.fspath(draft)!r} is not a folder that an interrupted evaluation left")
    with files.writing(draft):
        files.check_own_folder(Path(draft))
    with _held(Path(draft), hint, resume=True) as folder:
        yield folder


@contextmanager
def _held(draft: Path, hint: Hint | None, *, resume: bool = False) -> Iterator[DraftFolder]:
    """The draft, locked, and deleted after the body, unless that fails, the run can be resumed, and there is a hint to say so."""
    with files.hold_work_folder(draft):
        try:
            yield DraftFolder(path=draft, keep=hint is not None, resume=resume)
        except BaseException as error:
            notes = getattr(error, "__notes__", ())
            if not (hint and _can_be_resumed(draft)):
                shutil.rmtree(draft, ignore_errors=True)
                error.__notes__ = [note for note in notes if draft.name not in note]
            elif not isinstance(error, CheckpointError):  # its message says what is wrong with the draft
                error.__notes__ = [*(note for note in notes if note != files.RESUMABLE), hint(draft)]
            raise
        shutil.rmtree(draft, ignore_errors=True)  # nothing is there if the run was finished: it has another name


def _can_be_resumed(draft: Path) -> bool:
    return any(map(os.path.isfile, (draft / ARCHIVE, files.checkpoint_path(draft / ARCHIVE))))


def run_name(record: dict[str, Any]) -> str:
    """Corpus (of a training run: learner), time (UTC), digits of the corpus's digest: 41 letters, as a list has 80 columns."""
    name = record["config"][OTHER]["name"] if is_reported(record) else record["corpus"].get("name")
    corpus = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name or "bytes").name).strip("-.")[:16]
    time = re.sub(r"[^0-9T]", "", record["time"][:19]).replace("T", "-")
    return f"{corpus or 'corpus'}-{time}-{record['corpus']['blake2b'][:8]}"


def _rename_to_free_name(folder: Path, name: Path) -> Path:
    """Renames the folder to the first of NAME, NAME-2, NAME-3, ... that does not exist; returns the new path."""
    names = chain([name], (name.with_name(f"{name.name}-{number}") for number in count(2)))
    target = next(each for each in names if not os.path.lexists(each))
    try:
        return folder.rename(target)
    except OSError:
        if not os.path.lexists(target):
            raise
        return _rename_to_free_name(folder, name)  # another process has just made something of this name
