"""Locks that keep two runs from writing the same file, and the safe opening of files that an earlier run may have left."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prequential.errors import OutputError
from prequential.files.sink import PathLike, writing


def open_regular_file(path: Path) -> BinaryIO:
    """The file, open for reading and writing, created if it is missing.

    Raises OutputError for a link, which may lead out of the folder, and for anything else that is not a regular file.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600), "r+b")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        file.close()
        raise OutputError(f"{str(path)!r} is a link or not a regular file; remove it")
    return file


@contextmanager
def closing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Closes the file at the end. Ignores errors of the close, because the flush has already reported them."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def lock(file: BinaryIO, target: PathLike) -> None:
    """Locks the file until it is closed. Raises OutputError if another run holds the lock."""
    try:
        import fcntl
    except ImportError:  # not on every system
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(
            f"another run is writing {os.fspath(target)!r}; wait until it ends, or choose another name"
        ) from error
    except OSError:  # a file system without locks
        return


@contextmanager
def hold_lock(path: Path, target: PathLike) -> Iterator[None]:
    """Holds the lock file `path` while the body runs, then deletes it. Raises OutputError if another run holds it."""
    with writing(target):
        file = open_regular_file(path)
    with closing(file):
        lock(file, target)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
