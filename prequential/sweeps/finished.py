"""Which runs in a folder are finished, and which can be trusted.

A user who may write in a folder of runs can put a run with invented figures there. So a run must belong to this user. Its
archive, which proves the figures, must be there and have the header and the sizes of its record. It is not decoded.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prequential_codecs.archive import summarise

from prequential.errors import CorpusError, PrequentialError
from prequential.evaluation.runs import ARCHIVE, CURVE, RECORD, PathLike, Run, runs_so_far
from prequential.files import is_foreign, reading
from prequential.online.source import CorpusLike, open_source
from prequential.records.forms import WITHOUT_ARCHIVE
from prequential.version import VERSION

REMEDY = "move it away, or choose another folder"


class CorpusKey(NamedTuple):
    """What bytes are recognised by; BLAKE2b-256 in hexadecimal digits."""

    n_bytes: int
    blake2b: str


def corpus_key(source: CorpusLike, limit_bytes: int | None = None) -> CorpusKey:
    """The key of the corpus, or of its beginning. Raises CorpusError for an empty corpus, and for standard input."""
    if isinstance(source, str) and source == "-":
        raise CorpusError("each run of a plan reads the corpus again: save standard input to a file first")
    with open_source(source, limit_bytes, in_order=True) as opened:
        if not opened.n_bytes:
            raise CorpusError("the corpus is empty: there is nothing to run")
        return CorpusKey(opened.n_bytes, opened.blake2b.hex())


def recorded_corpus(record: Mapping[str, Any]) -> CorpusKey:
    """The key of the bytes that a record names, of a run or of a forecast."""
    return CorpusKey(record["corpus"]["n_bytes"], record["corpus"]["blake2b"])


def config_key(config: Mapping[str, Any]) -> str:
    """A string that is equal for equal configurations, from `Config.to_dict` or read from JSON."""
    return json.dumps(config, sort_keys=True)


def finished_runs(
    folder: PathLike,
    corpus: CorpusKey,
    keys: Iterable[str],
    *,
    on_bad: Callable[[CorpusError], object] = lambda error: None,
) -> dict[str, Run]:
    """The newest run in `folder` of each configuration, by `config_key`, over these bytes and by this version of the program.

    on_bad: called with the error of each run that cannot be read, which is left out. Raises CorpusError for a found run that is
    not this user's or has lost its archive (`check_own_run`).
    """
    wanted = set(keys)
    found = {
        key: run
        for run in runs_so_far(folder, on_bad)
        if recorded_corpus(run.record) == corpus
        and run.record.get("environment", {}).get("versions", {}).get("prequential") == VERSION
        and (key := config_key(run.record["config"])) in wanted
    }
    for run in found.values():
        check_own_run(run)
    return found


# ---- trust


def check_own_run(run: Run) -> None:
    """Raises CorpusError, which names the run, unless this user made it and its archive is the one that its record describes.

    For a packed run, and for a code length without an archive, only the owner is checked.
    """
    is_packed = run.packed_curves is not None
    paths = [run.path.parent] if is_packed else [run.path, *(run.path / name for name in (RECORD, CURVE, ARCHIVE))]
    if any(_belongs_to_another(path) for path in paths):
        raise CorpusError(f"the run {str(run.path)!r} belongs to another user, who chose its figures: {REMEDY}")
    if is_packed or run.record.get("coding") in WITHOUT_ARCHIVE:
        return
    try:
        with reading(run.archive):
            is_described = _described_archive(run) == _found_archive(run)
    except PrequentialError as error:
        reason = f"lacks its archive, the proof of its figures: {error}"
        raise CorpusError(f"the run {str(run.path)!r} {reason}: {REMEDY}") from error
    if not is_described:
        raise CorpusError(f"the run {str(run.path)!r} has another archive than its record describes: {REMEDY}")


def _belongs_to_another(path: Path) -> bool:
    return os.path.lexists(path) and is_foreign(path.lstat())


def _described_archive(run: Run) -> tuple[object, ...]:
    """What the record says about the archive: the entries of its header, and its sizes."""
    record, names = run.record, ("archive_bytes", "header_bytes", "payload_bytes", "n_blocks")
    return dict(record["corpus"]), dict(record["config"]), *(record.get(name) for name in names)


def _found_archive(run: Run) -> tuple[object, ...]:
    """The same of the archive itself. Raises CorruptArchiveError, OSError."""
    found = summarise(run.archive)
    header = found.header
    corpus = {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()}
    return corpus, header.config, found.archive_bytes, found.header_bytes, found.payload_bytes, len(found.blocks)
