"""Files of records: lines are only appended, each of them complete or absent."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prequential.errors import OutputError
from prequential.files.sink import PathLike, writing
from prequential.files.work_folder import lock


def check_appendable(path: PathLike) -> None:
    """Raises OutputError if lines cannot be appended to the file at `path`. Creates the file if it is missing."""
    with _appending(path):
        pass


def append_line(path: PathLike, line: bytes) -> None:
    """Appends one line to the file at `path`, made if it is missing, and synchronises it. Raises OutputError.

    After an error the file has its earlier length: a full disk leaves no part of a line. If the last line has no end, because
    something else damaged the file, the new line begins after a newline.
    """
    with _appending(path) as number, os.fdopen(number, "ab", 0, closefd=False) as file:
        lock(file, path, waits=True)
        n_before = os.fstat(number).st_size
        try:
            is_open = n_before and os.pread(number, 1, n_before - 1) != b"\n"
            data = b"\n" * is_open + line
            while data:  # without a buffer, whose rest would be written after the truncation
                data = data[file.write(data) :]
            os.fsync(number)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(number, n_before)
            raise


@contextmanager
def _appending(path: PathLike) -> Iterator[int]:
    """The descriptor of the file, for appending. Links and everything else that is not a regular file are refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with writing(path):
        if Path(path).is_symlink():
            raise OutputError(f"{os.fspath(path)!r} is a link; name the file that it leads to")
        number = os.open(path, flags, 0o666)
        try:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise OutputError(f"{os.fspath(path)!r} is not a regular file with one name; choose another file")
            yield number
        finally:
            os.close(number)
