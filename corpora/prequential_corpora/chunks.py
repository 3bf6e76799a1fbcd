"""Bytes in chunks of limited size: reading them from a stream, and writing them to a temporary file (spool)."""

import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import IO

from prequential.errors import CorpusError, OutputError
from prequential.files import open_regular, reading, temporary_folder

CHUNK_N_BYTES = 1 << 20
# Follows each document if a stream contains several. The lengths define where a document ends, so binary documents are safe.
DOCUMENT_END = b"\0"
ANNOUNCED_N_BYTES = 1 << 30


def read_chunks(stream: IO[bytes], what: str | PathLike[str]) -> Iterator[bytes]:
    """The rest of `stream` in chunks of at most 1 MiB, none of them empty. Raises CorpusError; its message names `what`."""
    while True:
        with reading(what):
            chunk = stream.read(CHUNK_N_BYTES)
        if not chunk:
            return
        yield chunk


def changed(path: str | PathLike[str], before: int, now: int) -> CorpusError:
    """The error for a file that had `before` bytes and has `now` bytes, or at least so many."""
    return CorpusError(
        f"{str(path)!r} changed while it was open: it had {before} bytes and now has {now}; "
        "if another program still writes it, copy it first"
    )


def read_file(path: Path, n_bytes: int, *, follow_links: bool = True) -> Iterator[bytes]:
    """The file in chunks of at most 1 MiB. Raises CorpusError if it cannot be read, and at its end if it has not n_bytes."""
    n_found = 0
    with reading(path), open_regular(path, follow_links=follow_links) as stream:
        for chunk in read_chunks(stream, path):
            n_found += len(chunk)
            if n_found > n_bytes:  # it may grow for ever
                break
            yield chunk
    if n_found != n_bytes:
        raise changed(path, n_bytes, n_found)


def spool(chunks: Iterable[bytes], n_bytes: int | None = None) -> IO[bytes]:
    """A temporary file with the bytes of `chunks`, complete and flushed. It is deleted when it is closed.

    n_bytes: the sum of all chunks if it is known. Then a disk with less free space is refused before the first write, and a
    large file is announced in the log. Raises OutputError if it cannot be written.
    """
    folder = temporary_folder()
    try:
        if n_bytes is not None and (free := shutil.disk_usage(folder).free) < n_bytes:
            raise OutputError(
                f"cannot spool to {folder!r}: this needs {n_bytes:,} bytes of disk, and {free:,} are free; "
                "choose another folder for temporary files (TMPDIR)"
            )
        if n_bytes is not None and n_bytes >= ANNOUNCED_N_BYTES:
            logging.getLogger(__name__).warning(
                "the corpus is written to a temporary file: %s bytes of disk in %s", f"{n_bytes:,}", folder
            )
        file = tempfile.NamedTemporaryFile(dir=folder, prefix="prequential-", suffix=".spool")  # noqa: SIM115
        try:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
        except BaseException:
            with suppress(OSError):  # on a full disk the rest cannot be flushed
                file.close()
            raise
    except OSError as error:
        raise unwritable(error) from error
    return file


def unwritable(error: OSError) -> OutputError:
    """The error for a temporary file that cannot be made, with the system's reason."""
    return OutputError(
        f"cannot spool to {temporary_folder()!r}: {error.strerror or error}; choose another folder for temporary files (TMPDIR)"
    )
