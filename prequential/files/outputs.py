"""Output files that are either complete or absent: they grow in the working folder of their name (work_folder.py)."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from prequential.errors import CheckpointError, OutputError
from prequential.files.folders import check_name, permissions, set_mode, sync_folder, write_bytes
from prequential.files.streams import PathLike, Sink, stream_output, writing
from prequential.files.work_folder import (
    CHECKPOINT,
    PARTIAL,
    delete_checkpoint,
    has_locked,
    hold_work_folder,
    open_own_file,
)

LOCK_WAIT_S = 10.0  # another run holds the lock of a file of records for the time of one write
RESUMABLE = "resume=True continues from the last checkpoint"  # the note of an error


def check_output(target: PathLike, *, overwrite: bool | None) -> None:
    """Raises OutputError if `target` cannot be a file's name, is a folder, or is a file and not `overwrite` (None: never)."""
    check_name(target)
    path = Path(target)
    if path.is_dir():
        raise OutputError(f"{str(target)!r} is a folder; give the name of a file")
    if not overwrite and (path.is_symlink() or path.is_file()) and not is_device(target):
        choice = "choose another name" + ", or overwrite=True replaces it" * (overwrite is not None)
        raise OutputError(f"{str(target)!r} exists; {choice}")


def is_device(target: PathLike) -> bool:
    """Whether `target` is a device or a pipe, or leads to one such as /dev/stdout: these are written directly."""
    path = Path(target)
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def output_file(
    target: PathLike,
    *,
    overwrite: bool = False,
    resume: bool = False,
    like: PathLike | None = None,
    mode: int = 0o777,
    check: Callable[[], None] | None = None,
    publish: Callable[[Path, Path], object] = Path.replace,
) -> Iterator[Sink]:
    """A sink whose bytes become `target` if the body succeeds.

    Until then only its owner may read them. After an error they stay next to a checkpoint, and are deleted without one.
    resume: continues the file that an interrupted run left with a checkpoint; the caller then calls `Sink.resume`. like: a file
    with the target's permissions and time. mode: permissions that it has at most. check: raises OutputError if the target must
    not be written. publish: makes the target, the second path, of the complete file. Raises OutputError, also for a target that
    exists, that another run is writing, or whose interrupted run could be resumed (unless `overwrite`).
    """
    check = check or partial(check_output, target, overwrite=overwrite)
    check()
    with writing(target):
        status = None if like is None else Path(like).stat()  # now: at the end the file may be gone
    path = Path(os.path.realpath(target))
    if is_device(target):
        with _device(target, overwrite=overwrite) as sink:
            yield sink
        return
    with hold_work_folder(target) as folder:
        check()  # again, now that no other run writes it
        with _partial_file(target, folder, resume=resume, overwrite=overwrite) as file:
            try:
                yield (sink := Sink(file, target))
                sink.sync()
                check()  # again: hours may have passed
                with writing(target):
                    _finish(folder / PARTIAL, status, mode)
                    publish(folder / PARTIAL, path)
                    try:
                        sync_folder(path.parent)
                    finally:
                        with suppress(OSError):  # the target is complete
                            (folder / PARTIAL).unlink(missing_ok=True)
                            delete_checkpoint(folder / CHECKPOINT)
            except BaseException as error:
                if (folder / CHECKPOINT).exists():
                    if not isinstance(error, CheckpointError):
                        error.add_note(RESUMABLE)
                else:
                    with suppress(OSError):  # the first error is the cause
                        (folder / PARTIAL).unlink(missing_ok=True)
                raise


@contextmanager
def _device(target: PathLike, *, overwrite: bool) -> Iterator[Sink]:
    with writing(target):  # neither makes a file nor empties one that has taken the place of the device
        number = os.open(target, os.O_WRONLY | os.O_NOCTTY)
    with os.fdopen(number, "wb", 0) as file, stream_output(file, overwrite=overwrite, name=os.fspath(target)) as sink:
        yield sink


def _partial_file(target: PathLike, folder: Path, *, resume: bool, overwrite: bool) -> BinaryIO:
    """The partial file, open for writing: that of an interrupted run if `resume` and a checkpoint exists, or a new one."""
    path, checkpoint = folder / PARTIAL, folder / CHECKPOINT
    is_resumable = path.exists() and checkpoint.exists()
    if is_resumable and not resume and not overwrite:
        raise OutputError(f"a run left {str(path)!r}; resume=True continues it, overwrite=True starts again")
    with writing(target):
        if not (is_resumable and resume):
            delete_checkpoint(checkpoint)
            path.unlink(missing_ok=True)  # a new file, because the old name may be a link to anything
        return open_own_file(path)


def _finish(path: Path, like: os.stat_result | None, mode: int) -> None:
    """Gives the complete file its permissions and time."""
    set_mode(path, permissions(mode) & 0o666 if like is None else like.st_mode & mode & 0o777)
    if like is not None:
        with suppress(OSError):  # a file system that keeps no such time
            os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))


# ---- files of records, to which lines are appended


def prepare_records(path: PathLike, mode: int = 0o777) -> None:
    """Makes a file of records and its folder, before the work. Raises OutputError if lines cannot be appended to it."""
    with writing(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    _open_records(path, mode).close()


def append_line(path: PathLike, line: bytes, mode: int = 0o777) -> None:
    """Appends one line to the file at `path`, made if it is missing, and synchronises it. Raises OutputError.

    mode: the permissions of the line's sources. A new file has at most these; one that more users may read is refused. A line
    that cannot be appended is kept in a new file beside, which the error names. The file then has its earlier length. If its
    last line has no end, the new line begins after a newline.
    """
    try:
        with writing(path), _open_records(path, mode) as file:
            if not has_locked(file.fileno(), LOCK_WAIT_S):
                raise OutputError(f"{os.fspath(path)!r} is locked by another program")
            n_before = file.seek(0, os.SEEK_END)
            is_open = n_before and os.pread(file.fileno(), 1, n_before - 1) != b"\n"
            try:
                sink = Sink(file, path)
                sink.write(b"\n" * is_open + line)
                sink.sync()
            except BaseException:
                with suppress(OSError):
                    file.truncate(n_before)
                raise
    except OutputError as error:
        beside = Path(path).with_name(f"{Path(path).name[:60]}.new-{secrets.token_hex(4)}")  # at most 255 bytes
        kept = f"the record is in {str(beside)!r}"
        try:
            write_bytes(beside, line)
        except OSError:
            kept = "the record is not saved"
            with suppress(OSError):
                beside.unlink()
        raise OutputError(f"{error}; {kept}") from error


def _open_records(path: PathLike, mode: int) -> BinaryIO:
    """The file, open for appending without a buffer. Raises OutputError for what is no file, and for too wide a mode."""
    flags, name = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, repr(os.fspath(path))
    with writing(path):
        file = os.fdopen(os.open(os.path.realpath(path), flags, permissions(mode) & 0o666), "r+b", 0)
    mode_now = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode_now) and not mode_now & ~mode & 0o044:
        return file
    file.close()
    if not stat.S_ISREG(mode_now):
        raise OutputError(f"{name} is not a file; choose another name")
    remedy = f"chmod {mode_now & (mode | ~0o044) & 0o777:o} it, or choose another file"
    raise OutputError(f"{name} can be read by users who cannot read the source: {remedy}")
