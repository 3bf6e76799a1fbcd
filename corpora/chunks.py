"""Bytes in bounded chunks: reading them from a stream, and spooling them to a temporary file that can be mapped.

Every source that is not already one file (standard input, a folder, a data set) is an iterator of byte chunks, and
`spool` is the one place that writes them. Errors of reading and of writing are told apart: the first are about the
corpus, the second about the disk that holds the spool.
"""

import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from typing import IO

from prequential.errors import CorpusError, OutputError

CHUNK_N_BYTES = 1 << 20
ANNOUNCED_N_BYTES = 1 << 30


@contextmanager
def reading(what: str | PathLike[str]) -> Iterator[None]:
    """Turns an OSError of the body into CorpusError: `cannot read 'WHAT': REASON`, one line for any file name."""
    try:
        yield
    except OSError as error:
        raise CorpusError(f"cannot read {str(what)!r}: {error.strerror or error}") from error


def read_chunks(stream: IO[bytes], what: str | PathLike[str]) -> Iterator[bytes]:
    """The rest of `stream` in chunks of at most 1 MiB, none empty. Raises CorpusError that names `what`."""
    while True:
        with reading(what):
            chunk = stream.read(CHUNK_N_BYTES)
        if not chunk:
            return
        yield chunk


def spool(chunks: Iterable[bytes], spool_dir: str | PathLike[str] | None, n_bytes: int | None = None) -> IO[bytes]:
    """A temporary file in `spool_dir` (the system's folder where None) that holds `chunks` and goes when closed.

    n_bytes: of all chunks, where that is known; then a disk with less room is refused before it begins, and much is announced.
    Memory: one chunk. The file is complete and flushed on return, and removed if `chunks` raises. Raises OutputError
    where it cannot be written; a full disk is the usual cause.
    """
    try:
        if n_bytes is not None:
            _check_room(n_bytes, str(spool_dir or tempfile.gettempdir()))
        file = tempfile.NamedTemporaryFile(dir=spool_dir, prefix="prequential-", suffix=".spool")  # noqa: SIM115
    except OSError as error:
        raise unwritable(spool_dir, error) from error
    try:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
    except OSError as error:
        _discard(file)
        raise unwritable(spool_dir, error) from error
    except BaseException:
        _discard(file)
        raise
    return file


def _check_room(n_bytes: int, folder: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        raise OutputError(
            f"cannot spool to {folder!r}: it takes {n_bytes:,} bytes of disk, of which {free:,} are free; "
            "choose another folder for the spool (TMPDIR)"
        )
    if n_bytes >= ANNOUNCED_N_BYTES:
        logging.getLogger(__name__).warning("the corpus is spooled: %s bytes of disk in %s", f"{n_bytes:,}", folder)


def _discard(file: IO[bytes]) -> None:
    """Closes and removes `file`; what could not be flushed, as on a full disk, is of no interest any more."""
    with suppress(OSError):
        file.close()


def unwritable(spool_dir: str | PathLike[str] | None, error: OSError) -> OutputError:
    """The error to raise where temporary files cannot be made in `spool_dir`, with the system's reason."""
    folder = str(spool_dir or tempfile.gettempdir())
    return OutputError(f"cannot spool to {folder!r}: {error.strerror or error}; choose another folder for the spool")
