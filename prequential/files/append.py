"""Files of records: lines are only appended, each of them complete or absent."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prequential.errors import OutputError
from prequential.files.folders import READ_BY_OTHERS, is_foreign, permissions, write_bytes
from prequential.files.streams import PathLike, flags_of, sync, writing
from prequential.files.work_folder import has_locked

LOCK_WAIT_S = 10.0  # another run holds the lock for the time of one write


def prepare_records(path: PathLike, mode: int = 0o777) -> None:
    """Makes the folder of a file of records, before the work. Raises OutputError if it cannot be appended to."""
    with writing(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    check_appendable(path, mode)


def check_appendable(path: PathLike, mode: int = 0o777) -> None:
    """Raises OutputError if lines cannot be appended to the file at `path`, which is made if it is missing. Cheap."""
    with _appending(path, mode):
        pass


def append_line(path: PathLike, line: bytes, mode: int = 0o777) -> None:
    """Appends one line to the file at `path`, made if it is missing, and synchronises it. Raises OutputError.

    mode: the permissions of the line's sources. A new file has at most these; one that more users may read, or that another user
    owns, is refused. A line that cannot be appended is kept in a new file beside, which the error names. The file then has its
    earlier length. If its last line has no end, the new line begins after a newline.
    """
    try:
        _append(path, line, mode)
    except OutputError as error:
        raise OutputError(f"{error}; {_kept_beside(Path(path), line)}") from error


def _append(path: PathLike, line: bytes, mode: int) -> None:
    with _appending(path, mode) as number, os.fdopen(number, "ab", 0, closefd=False) as file:
        if not has_locked(number, LOCK_WAIT_S):
            raise OutputError(f"{os.fspath(path)!r} is locked by another program")
        n_before = os.fstat(number).st_size
        try:
            is_open = n_before and os.pread(number, 1, n_before - 1) != b"\n"
            data = b"\n" * is_open + line
            while data:  # without a buffer, whose rest would be written after the truncation
                data = data[file.write(data) :]
            sync(number)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(number, n_before)
            raise


def _kept_beside(path: Path, line: bytes) -> str:
    """Saves a line that cannot be appended in a new file, which only its owner may read; says where it is."""
    beside = path.with_name(f"{path.name[:60]}.new-{secrets.token_hex(4)}")  # at most 255 bytes in UTF-8
    try:
        write_bytes(beside, line)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        return "the record is not saved"
    return f"the record is in {str(beside)!r}"


@contextmanager
def _appending(path: PathLike, mode: int) -> Iterator[int]:
    """The descriptor of the file, for appending. Links and everything else that is not a regular file are refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | flags_of("O_NOFOLLOW", "O_NONBLOCK")
    with writing(path):
        if Path(path).is_symlink():
            raise OutputError(f"{os.fspath(path)!r} is a link; name the file that it leads to")
        number = os.open(path, flags, permissions(mode) & 0o666)
        try:
            _check_status(path, os.fstat(number), mode)
            yield number
        finally:
            os.close(number)


def _check_status(path: PathLike, status: os.stat_result, mode: int) -> None:
    """Raises OutputError unless this user owns the file, and no more users may read it than the line's sources."""
    name = repr(os.fspath(path))
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise OutputError(f"{name} is not a regular file with one name; choose another file")
    if is_foreign(status):
        raise OutputError(f"{name} belongs to another user; choose another file")
    if status.st_mode & ~mode & READ_BY_OTHERS:
        narrow = status.st_mode & (mode | ~READ_BY_OTHERS) & 0o777
        raise OutputError(
            f"{name} can be read by users who cannot read the source: chmod {narrow:o} it, or choose another file"
        )
