"""Reading: errors as those of a corpus, files that a stranger may have made, and the folder for temporary files."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from prequential.errors import CorpusError, OutputError
from prequential.files.sink import PathLike, possible_name

NOT_REGULAR = "not a regular file"


@contextmanager
def reading(what: PathLike) -> Iterator[None]:
    """Turns an OSError of the body into CorpusError: `cannot read 'WHAT': REASON`, in one line for every file name."""
    try:
        yield
    except OSError as error:
        raise CorpusError(f"cannot read {str(what)!r}: {error.strerror or error}") from error


def open_regular(path: PathLike, *, follow_links: bool = True) -> BufferedReader:
    """The regular file at `path`, open for reading. Raises OSError at once for all else, and for a link unless follow_links."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    with possible_name(path):
        number = os.open(path, flags)
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_REGULAR, os.fspath(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: PathLike, max_bytes: int, *, follow_links: bool = True) -> bytes:
    """The contents of the regular file at `path`. Raises OSError as `open_regular`, also for more than max_bytes bytes."""
    with open_regular(path, follow_links=follow_links) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"longer than {max_bytes:,} bytes", str(Path(path)))
    return data


def temporary_folder() -> str:
    """The folder for temporary files. Raises OutputError if TMPDIR names an unusable one: Python would take another."""
    name = next((name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)  # the order of tempfile
    if name is None:
        try:
            return tempfile.gettempdir()
        except FileNotFoundError as error:
            raise OutputError("temporary files need a folder: set TMPDIR to one that you can write") from error
    folder = Path(os.environ[name]).absolute()
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"{name} is {os.environ[name]!r}, which is not a folder that you can write: set it to another one"
        )
    return str(folder)
