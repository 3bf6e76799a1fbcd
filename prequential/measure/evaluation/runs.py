"""Run folders: what an evaluation leaves behind, enough to show it again, compare it, draw it and decode it.

    RUNS/enwik6-20261121-224500-05c7fd87/
        record.jsonl      one line: corpus, configuration, ledger, tables, baselines, findings, environment (docs/EVALUATION.md)
        curve.parquet     series, n_bytes, bits: cumulative bits of the model, its parts and the baselines
        archive.pq        the proof: decodes to the corpus
        environment.json  the record's environment once more, to be read without the rest

A folder appears under its name when it is whole. Until then it is .run-..., which stays if its run can be gone on with.
"""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prequential.corpora.chunks import reading
from prequential.errors import CheckpointError, CorpusError
from prequential.files import checkpoint_path, sync_folder, write_text, writing
from prequential.measure.evaluation.curves import Curves, read_curves, write_curves
from prequential.measure.evaluation.draft import ARCHIVE, COSTS, ENCODED, SECONDS
from prequential.measure.record import SCHEMA

RECORD, CURVE, ENVIRONMENT = "record.jsonl", "curve.parquet", "environment.json"
DRAFT = ".run-"

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Run:
    """A run folder. record: as measure/record.py makes it."""

    path: Path
    record: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def archive(self) -> Path:
        """The archive that proves the figures."""
        return self.path / ARCHIVE

    @cached_property
    def curves(self) -> Curves:
        """Cumulative bits against bytes: "model", its parts, each baseline. Raises CorpusError."""
        return read_curves(self.path / CURVE)


def read_run(path: PathLike) -> Run:
    """The run in the folder `path`. Raises CorpusError for what is no run, or one of a later schema."""
    folder = Path(path)
    with reading(path):
        text = (folder / RECORD).read_text(encoding="utf-8")
    try:
        record = json.loads(text)
    except ValueError as error:
        raise CorpusError(f"{str(folder / RECORD)!r} is no record: {error}") from error
    if not isinstance(record, dict) or record.get("kind") != "evaluation":
        raise CorpusError(f"{str(folder / RECORD)!r} is no record of an evaluation")
    if record.get("schema") != SCHEMA:
        raise CorpusError(f"{str(folder / RECORD)!r} has schema {record.get('schema')!r}; this version reads {SCHEMA}")
    return Run(folder, record)


def read_runs(root: PathLike) -> list[Run]:
    """Every run in the folder `root`, oldest first; none if there is no such folder. Raises CorpusError."""
    folder = Path(root)
    if not folder.exists():
        return []
    with reading(root):
        found = [path for path in folder.iterdir() if not path.name.startswith(".") and (path / RECORD).is_file()]
    return sorted((read_run(path) for path in found), key=lambda run: (str(run.record.get("time")), run.name))


def interrupted_runs(root: PathLike) -> list[Path]:
    """Drafts in the folder `root` that `evaluate --resume` may go on with: interrupted, or still at work."""
    with reading(root):
        found = sorted(Path(root).glob(f"{DRAFT}*")) if Path(root).exists() else []
    return [path for path in found if _can_go_on(path)]


class RunFolder:
    """A run folder in the making: an evaluation fills `draft`, and `finish` gives it its name."""

    def __init__(self, draft: Path) -> None:
        self.draft = draft
        self.path: Path | None = None  # once it is whole

    def finish(self, root: Path, record: dict[str, Any], curves: Curves) -> Path:
        """Writes the rest; returns the folder's path, named after corpus, time and digest. Raises OutputError."""
        draft = self.draft
        write_curves(draft / CURVE, curves)
        with writing(root):
            write_text(draft / ENVIRONMENT, json.dumps(record["environment"], indent=2) + "\n")
            write_text(draft / RECORD, json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
            sync_folder(draft)
            draft.chmod(0o755)
            self.path = _take_name(draft, root / run_name(record))
            for name in (COSTS, SECONDS, ENCODED):  # only now: until here the draft could be gone on with
                (self.path / name).unlink(missing_ok=True)
            sync_folder(root)
        return self.path


@contextmanager
def new_run_folder(root: PathLike, *, keep: bool = False) -> Iterator[RunFolder]:
    """A folder that appears in `root` when it is finished. Raises OutputError.

    keep: if it is not, and its run can be gone on with, the draft stays; else it goes.
    """
    with writing(root):
        Path(root).mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=root))
    with _kept(draft, lambda: keep and _can_go_on(draft)):
        yield RunFolder(draft)


@contextmanager
def interrupted_run_folder(draft: PathLike) -> Iterator[RunFolder]:
    """The draft that an interrupted run left, to be finished. Raises CheckpointError for what is none."""
    folder = Path(draft)
    if not (folder.name.startswith(DRAFT) and _can_go_on(folder)):
        raise CheckpointError(f"{os.fspath(draft)!r} is no folder that an interrupted evaluation left")
    with _kept(folder, lambda: True):
        yield RunFolder(folder)


@contextmanager
def _kept(draft: Path, is_kept: Callable[[], bool]) -> Iterator[None]:
    """The draft stays where the body fails, if it is kept then."""
    try:
        yield
    except BaseException as error:
        if not is_kept():
            shutil.rmtree(draft, ignore_errors=True)
        elif not isinstance(error, CheckpointError):  # which says itself what is wrong with the draft
            error.add_note(f"evaluate --resume {draft} goes on")
        raise
    shutil.rmtree(draft, ignore_errors=True)  # it has another name by now, if it was finished


def _can_go_on(draft: Path) -> bool:
    try:
        return (draft / ARCHIVE).is_file() or checkpoint_path(draft / ARCHIVE).is_file()
    except OSError:  # somebody else's
        return False


def run_name(record: dict[str, Any]) -> str:
    """Corpus, time (UTC), and the first digits of the corpus's digest: no other run's but by chance."""
    corpus = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(record["corpus"].get("name") or "bytes").name).strip("-.")[:40]
    time = re.sub(r"[^0-9T]", "", record["time"][:19]).replace("T", "-")
    return f"{corpus or 'corpus'}-{time}-{record['corpus']['blake2b'][:8]}"


def _take_name(folder: Path, name: Path) -> Path:
    """Renames the folder to the first of NAME, NAME-2, NAME-3 ... that there is not."""
    number, target = 1, name
    while True:
        if not target.exists():
            try:
                return folder.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process has just taken the name
                    raise
        number += 1
        target = name.with_name(f"{name.name}-{number}")
