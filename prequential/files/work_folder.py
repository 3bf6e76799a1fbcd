"""The working folder of an output: what a run needs until its output is complete, and a lock against a second run.

For an output NAME it is .NAME.prequential, next to it. If that is too long for a name, a digest of NAME stands in place of NAME.
docs/RELIABILITY.md lists its files. Only these are ever deleted, and only in a folder that has our mark and is this user's.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prequential.errors import OutputError
from prequential.files.folders import is_foreign, sync_folder
from prequential.files.streams import PathLike, flags_of, writing

MAX_NAME_BYTES = 255  # of most file systems
POLL_S = 0.05  # between two tries to lock a file
MARK = b"prequential working folder 1\n"
OWNER, PARTIAL, CHECKPOINT = "owner", "partial", "run.checkpoint"
NEW_CHECKPOINT, NEW_FOLDER = "new.checkpoint", "new.folder"


def real_path(target: PathLike) -> Path:
    """The file that the output `target` is, or that it leads to if it is a link. Raises OutputError for another user's link.

    A link that appears after it was looked for is not followed: in a folder such as /tmp another user may put one there.
    """
    path = Path(target)
    try:
        status = path.lstat()
    except (OSError, ValueError):
        status = None
    if status is None or not stat.S_ISLNK(status.st_mode):
        return Path(os.path.realpath(path.parent)) / path.name
    if is_foreign(status) and status.st_uid:  # root is trusted: /dev/stdout is a link of root
        raise OutputError(f"{os.fspath(target)!r} is a link of another user; choose another name")
    return Path(os.path.realpath(path))


def work_folder(target: PathLike) -> Path:
    """The working folder of the output `target`. If `target` is a link, the folder stands beside the file that the link names."""
    path = real_path(target)
    folder = path.with_name(f".{path.name}.prequential")
    if len(os.fsencode(folder.name)) <= MAX_NAME_BYTES:
        return folder
    return path.with_name(f".{hashlib.blake2b(os.fsencode(path.name), digest_size=16).hexdigest()}.prequential")


def partial_path(target: PathLike) -> Path:
    return work_folder(target) / PARTIAL


def checkpoint_path(target: PathLike) -> Path:
    return work_folder(target) / CHECKPOINT


def delete_new_checkpoint(checkpoint: Path) -> None:
    delete_incomplete(checkpoint.with_name(NEW_CHECKPOINT))


def delete_incomplete(folder: Path) -> None:
    """Deletes a folder that this run, or a killed one, has not completed, or whatever else has its name."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)  # a pipe, too, which rmtree would open and wait for


def delete_checkpoint(checkpoint: Path) -> None:
    checkpoint.unlink(missing_ok=True)
    delete_new_checkpoint(checkpoint)


@contextmanager
def hold_work_folder(target: PathLike) -> Iterator[Path]:
    """The working folder of `target`, locked while the body runs, then deleted if empty. Raises OutputError if it is not ours."""
    with writing(target):
        folder = work_folder(target)
        try:
            owner = _locked_owner(folder, target)
        except OSError:
            with suppress(OSError):
                folder.rmdir()  # made just now, or left by a killed run; fails if it is not empty
            raise
    with closing(owner):
        try:
            yield folder
        finally:
            _delete_unused(folder)


def _delete_unused(folder: Path) -> None:
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} == {OWNER}:
            (folder / OWNER).unlink()
            folder.rmdir()


def _locked_owner(folder: Path, target: PathLike) -> BinaryIO:
    """The file `owner` in the folder, locked. Both are made if they are missing."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)
        with suppress(FileNotFoundError):  # another run has just deleted the folder
            check_own_folder(folder)
            is_alone = {path.name for path in folder.iterdir()} <= {OWNER}
            if not is_alone and not os.path.lexists(folder / OWNER):
                raise _not_ours(folder)
            owner = open_own_file(folder / OWNER, create=is_alone)
            lock(owner, target)
            try:
                # otherwise the run that held the lock has just deleted it
                if os.path.samestat(os.fstat(owner.fileno()), (folder / OWNER).lstat()):
                    _check_mark(owner, folder, may_complete=is_alone)
                    return owner
            except BaseException:
                with suppress(OSError):
                    owner.close()
                raise
            owner.close()


def _check_mark(owner: BinaryIO, folder: Path, *, may_complete: bool) -> None:
    """Raises OutputError unless the file holds our mark. A run that was killed may have left a part of it: completes it."""
    found = owner.read(len(MARK) + 1)
    if found != MARK and not (may_complete and MARK.startswith(found)):
        raise _not_ours(folder)
    try:
        owner.write(MARK[len(found) :])
        owner.flush()
    except OSError:
        _delete_unused(folder)
        raise


def check_own_folder(folder: Path) -> None:
    """Raises OutputError unless this is a folder, not a link, and belongs to this user. Raises OSError if it is missing."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or is_foreign(status):
        raise _not_ours(folder)


def _not_ours(path: Path) -> OutputError:
    return OutputError(
        f"{str(path)!r} is not a file or folder that a run of yours left: it is a link, of another kind or of another owner; "
        "move it away"
    )


def open_own_file(path: Path, *, create: bool = True) -> BinaryIO:
    """The file of an earlier run, made if missing and `create`. Raises OutputError unless it is a plain file of this user."""
    flags = os.O_RDWR | os.O_CREAT * create | flags_of("O_NOFOLLOW", "O_NONBLOCK")
    if path.is_symlink():
        raise _not_ours(path)
    number = os.open(path, flags, 0o600)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or is_foreign(status):
        os.close(number)
        raise _not_ours(path)
    return os.fdopen(number, "r+b")


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
    if not has_locked(file.fileno()):
        file.close()
        raise OutputError(f"another run is writing {os.fspath(target)!r}; wait until it ends, or choose another name")


def has_locked(number: int, wait_s: float = 0.0) -> bool:
    """Locks the file of a descriptor until it is closed. False if another program, of any user, has held the lock for wait_s."""
    try:
        import fcntl
    except ImportError:  # not on every system
        return True
    end_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end_s:
                return False
            time.sleep(POLL_S)
        except OSError:  # a file system without locks
            return True
