"""Whether a run that is found in a folder may be used as if this program had just made it: `check_own_run`.

A user who may write in a folder of runs can put a run with invented figures there. So the run must belong to this user. Its
archive, which proves the figures, must be there and have the header and the sizes of its record. It is not decoded.
"""

import os
from pathlib import Path

from prequential_codecs.archive_summary import summarise

from prequential.errors import CorpusError, PrequentialError
from prequential.evaluation.record import NOT_CODED
from prequential.evaluation.runs import ARCHIVE, CURVE, RECORD, Run
from prequential.files import is_foreign, reading

REMEDY = "move it away, choose another folder, or trust_runs=True uses it as it is"


def check_own_run(run: Run) -> None:
    """Raises CorpusError, which names the run, unless this user made it and its archive is the one that its record describes.

    For a packed run, and for a code length without an archive, only the owner is checked.
    """
    is_packed = run.packed_curves is not None
    paths = [run.path.parent] if is_packed else [run.path, *(run.path / name for name in (RECORD, CURVE, ARCHIVE))]
    if any(_belongs_to_another(path) for path in paths):
        raise CorpusError(f"the run {str(run.path)!r} belongs to another user, who chose its figures: {REMEDY}")
    if is_packed or run.record.get("coding") == NOT_CODED:
        return
    try:
        with reading(run.archive):
            is_described = _described_archive(run) == _found_archive(run)
    except PrequentialError as error:
        raise CorpusError(
            f"the run {str(run.path)!r} lacks its archive, the proof of its figures: {error}: {REMEDY}"
        ) from error
    if not is_described:
        raise CorpusError(f"the run {str(run.path)!r} has another archive than its record describes: {REMEDY}")


def _belongs_to_another(path: Path) -> bool:
    return os.path.lexists(path) and is_foreign(path.lstat())


def _described_archive(run: Run) -> tuple[object, ...]:
    """What the record says about the archive: the entries of its header, and its sizes."""
    record, names = run.record, ("archive_bytes", "header_bytes", "payload_bytes", "n_blocks")
    return dict(record["corpus"]), dict(record["config"]), *(record.get(name) for name in names)


def _found_archive(run: Run) -> tuple[object, ...]:
    """The same of the archive, from its header and its index. Raises CorruptArchiveError, OSError."""
    found = summarise(run.archive)
    header = found.header
    corpus = {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()}
    return corpus, header.config, found.archive_bytes, found.header_bytes, found.payload_bytes, len(found.blocks)
