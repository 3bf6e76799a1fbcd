"""Reading files that a stranger may have made: regular files only, at most as long as expected, never waiting for a writer."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from prequential.files.sink import PathLike, possible_name

NOT_REGULAR = "not a regular file"


def open_regular(path: PathLike, *, follow_links: bool = True) -> BufferedReader:
    """The regular file at `path`, open for reading.

    A named pipe or a device is refused without waiting for it, as is a link unless follow_links. Raises OSError, whose strerror
    says what the path is.
    """
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
