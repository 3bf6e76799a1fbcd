"""Output files that are either complete or absent: they grow in the working folder of their name (work_folder.py)."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from prequential.errors import CheckpointError, CorruptArchiveError, OutputError, PrequentialError
from prequential.files.folders import (
    READ_BY_OTHERS,
    check_name,
    is_foreign,
    permissions,
    set_mode,
    sync_folder,
    warn_of_readers,
    write_bytes,
)
from prequential.files.streams import PathLike, Sink, flags_of, sync, writing
from prequential.files.work_folder import (
    CHECKPOINT,
    PARTIAL,
    closing,
    delete_checkpoint,
    has_locked,
    hold_work_folder,
    open_own_file,
    real_path,
)

RESUMABLE = "resume=True continues from the last checkpoint"  # the note of an error
Publish = Callable[[Path, Path], None]  # turns the complete partial file into the target


def check_output(target: PathLike, *, overwrite: bool) -> None:
    """Raises OutputError if `target` cannot be a file's name, is a folder, or is a file and not `overwrite`. Cheap."""
    check_name(target)
    path = Path(target)
    if path.is_dir():
        raise OutputError(f"{str(target)!r} is a folder; give the name of a file")
    if not overwrite and (path.is_symlink() or path.is_file()) and not is_device(target):
        raise _exists(target)


def is_device(target: PathLike) -> bool:
    """Whether `target` is a device or a pipe, or leads to one such as /dev/stdout: these are written directly."""
    path = Path(target)
    return path.exists() and not path.is_file() and not path.is_dir()


def _exists(target: PathLike) -> OutputError:
    return OutputError(f"{str(target)!r} exists; choose another name, or overwrite=True replaces it")


@contextmanager
def output_file(
    target: PathLike,
    *,
    overwrite: bool = False,
    resume: bool = False,
    like: PathLike | None = None,
    mode: int = 0o777,
    check: Callable[[], None] | None = None,
    publish: Publish | None = None,
) -> Iterator[Sink]:
    """A sink whose bytes become `target` if the body succeeds.

    Until then only its owner may read them. After an error they stay next to a checkpoint, and so do synchronised bytes without
    one, unless the error is one of this program about the data. After a CorruptArchiveError they become TARGET.from-0.
    resume: continues the file that an interrupted run left with a checkpoint; the caller then calls `Sink.resume`. like: a file
    with the target's permissions and time. mode: permissions that it has at most. check: raises OutputError if the target must
    not be written. publish: makes the target of the complete file. Raises OutputError, also for a target that exists, that
    another run is writing, or whose interrupted run could be resumed (unless `overwrite`).
    """
    check = check or partial(check_output, target, overwrite=overwrite)
    check()
    with writing(target):
        status = None if like is None else Path(like).stat()  # now: at the end the file may be gone
        path = real_path(target)
    if is_device(target):
        with _device(target, path, overwrite=overwrite) as sink:
            yield sink
        return
    with hold_work_folder(target) as folder:
        check()  # again, now that no other run writes it
        draft = _Draft(target, path, folder, status, mode, overwrite)
        with closing(draft.open(resume=resume)) as file:
            sink, left = Sink(file, target), "a valid beginning"
            try:
                yield sink
                sink.sync()
                left = "the complete output"
                check()  # again: hours may have passed
                if publish:
                    left = ""  # what does not become a folder is not sound
                draft.publish(publish or partial(_name, target, overwrite=overwrite))
            except BaseException as error:
                with suppress(OSError):  # the first error is the cause
                    draft.keep_or_delete(error, sink, left)
                raise


@contextmanager
def _device(target: PathLike, path: Path, *, overwrite: bool) -> Iterator[Sink]:
    with writing(target):
        file = os.fdopen(_opened_pipe(target) if not path.exists() else _opened_device(target, path), "wb")
    with closing(file):
        if file.isatty() and not overwrite:
            raise OutputError(f"{os.fspath(target)!r} is a terminal; name a file, or overwrite=True writes to it")
        sink = Sink(file, target)
        yield sink
        sink.flush()


def _opened_pipe(target: PathLike) -> int:
    """A copy of the open descriptor of a pipe without a name (/dev/stdout): no user can exchange it. Raises OSError."""
    import fcntl  # a system with such names has it

    status = os.stat(target)  # noqa: PTH116
    for number in map(int, os.listdir("/dev/fd")):  # noqa: PTH208
        with suppress(OSError):  # the descriptor of the list is closed
            is_written = fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)
            if is_written and os.path.samestat(os.fstat(number), status):
                return os.dup(number)
    raise OSError(errno.EBADF, "it is not open for writing", os.fspath(target))


def _opened_device(target: PathLike, path: Path) -> int:
    """The descriptor of a device or a named pipe. Raises OSError, OutputError."""
    # neither makes a file nor empties one that has taken the place of the device
    flags = os.O_WRONLY | flags_of("O_NOFOLLOW", "O_NOCTTY")
    _check_device(target, path.lstat())  # before it waits for the reader of a pipe
    number = os.open(path, flags)
    try:
        _check_device(target, os.fstat(number))
    except OutputError:
        os.close(number)
        raise
    return number


def _check_device(target: PathLike, status: os.stat_result) -> None:
    """Raises OutputError for a named pipe of another user, who would read what is written, and for a file."""
    if stat.S_ISREG(status.st_mode) or (stat.S_ISFIFO(status.st_mode) and is_foreign(status) and status.st_uid):
        raise OutputError(f"{os.fspath(target)!r} is a pipe of another user, or has just changed; choose another name")


def _name(target: PathLike, temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Gives the file its final name, which replaces another file only if `overwrite`."""
    if overwrite:
        temporary.replace(path)
        return
    try:
        path.hardlink_to(temporary)
    except FileExistsError as error:  # made since the last check
        raise _exists(target) from error
    except OSError:  # a file system without links
        check_output(target, overwrite=False)
        temporary.rename(path)


@dataclass
class _Draft:
    """The files of a run in its working folder. like: the status of that file. Other fields: arguments of `output_file`."""

    target: PathLike
    path: Path
    folder: Path
    like: os.stat_result | None
    mode: int
    overwrite: bool

    def __post_init__(self) -> None:
        self.temporary, self.checkpoint = self.folder / PARTIAL, self.folder / CHECKPOINT

    def open(self, *, resume: bool) -> BinaryIO:
        """The partial file, open for writing: that of an interrupted run if `resume` and a checkpoint exists, or a new one."""
        has_partial, has_checkpoint = self.temporary.exists(), self.checkpoint.exists()
        if has_partial and not resume and not self.overwrite:
            if has_checkpoint:
                raise OutputError(
                    f"an interrupted run left {str(self.folder)!r}; resume=True continues it, overwrite=True starts again"
                )
            if self.temporary.stat().st_size:
                raise OutputError(
                    f"an interrupted run left {str(self.temporary)!r}, a valid beginning, but nothing to resume from; "
                    "overwrite=True starts again"
                )
        interrupted = has_partial and has_checkpoint
        with writing(self.target):
            if interrupted and resume:
                return open_own_file(self.temporary)
            delete_checkpoint(self.checkpoint)
            self.temporary.unlink(missing_ok=True)  # a new file, because the old name may be a link to anything
            return open_own_file(self.temporary)

    def publish(self, publish: Publish) -> None:
        with writing(self.target):
            allowed = permissions(self.mode) & 0o666 if self.like is None else self.like.st_mode & self.mode & 0o777
            set_mode(self.temporary, allowed)
            if self.like is not None:
                with suppress(OSError):  # a file system that keeps no such time
                    os.utime(self.temporary, ns=(self.like.st_atime_ns, self.like.st_mtime_ns))
            publish(self.temporary, self.path)
            if not self.path.is_dir():  # `new_folder` warns of a folder's readers
                warn_of_readers(self.path, allowed)
            try:
                sync_folder(self.path.parent)
            finally:
                with suppress(OSError):  # the target is complete
                    self.temporary.unlink(missing_ok=True)
                    delete_checkpoint(self.checkpoint)

    def keep_or_delete(self, error: BaseException, sink: Sink, left: str) -> None:
        """After an error: keeps the partial file if it is still useful, and says so. left: its worth without a checkpoint."""
        if isinstance(error, CheckpointError):
            return
        if self.checkpoint.exists():
            error.add_note(RESUMABLE)
            return
        is_sound = isinstance(error, OutputError) or not isinstance(error, PrequentialError)
        if sink.n_synced and is_sound and left and self.temporary.exists():
            error.add_note(f"nothing was saved to resume from; {str(self.temporary)!r} holds {left}")
            return
        if isinstance(error, CorruptArchiveError) and sink.n_bytes:
            error.add_note(self._saved_beginning())
        elif not isinstance(error, Exception):
            error.add_note("nothing was saved")
        self.temporary.unlink(missing_ok=True)

    def _saved_beginning(self) -> str:
        name = f"{os.fspath(self.target)}.from-0"
        try:
            _name(name, self.temporary, real_path(name), overwrite=self.overwrite)
        except (OSError, OutputError) as error:
            return f"they are not saved, because {error}"
        return f"they are in {name!r}"


# ---- appends


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
