"""The working folder of an output: its partial file, its checkpoint, and the file `owner`, our mark, which a run locks.

For an output NAME it is .NAME.prequential, next to it. If that is too long for a name, a digest of NAME stands in place of NAME.
docs/RELIABILITY.md lists its files. Only these are ever deleted, and only in a folder that has our mark.
"""

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prequential.errors import OutputError
from prequential.files.folders import delete_incomplete, sync_folder
from prequential.files.streams import PathLike, writing

MAX_NAME_BYTES = 255  # of most file systems
POLL_S = 0.05  # between two tries to lock a file
OWNER, PARTIAL, CHECKPOINT = "owner", "partial", "run.checkpoint"
NEW_CHECKPOINT, NEW_FOLDER = "new.checkpoint", "new.folder"


def work_folder(target: PathLike) -> Path:
    """The working folder of the output `target`. If `target` is a link, the folder stands beside the file that the link names."""
    path = Path(os.path.realpath(target))
    name = path.name
    if len(os.fsencode(f".{name}.prequential")) > MAX_NAME_BYTES:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return path.with_name(f".{name}.prequential")


def partial_path(target: PathLike) -> Path:
    return work_folder(target) / PARTIAL


def checkpoint_path(target: PathLike) -> Path:
    return work_folder(target) / CHECKPOINT


def delete_checkpoint(checkpoint: Path) -> None:
    checkpoint.unlink(missing_ok=True)
    delete_incomplete(checkpoint.with_name(NEW_CHECKPOINT))


@contextmanager
def hold_work_folder(target: PathLike) -> Iterator[Path]:
    """The working folder of `target`, locked while the body runs, then deleted if empty. Raises OutputError if it is not ours."""
    with writing(target):
        folder = work_folder(target)
        try:
            owner = _locked_owner(folder, target)
        except OSError:
            with suppress(OSError):
                folder.rmdir()  # made just now; fails if it is not empty
            raise
    try:
        with owner:
            try:
                yield folder
            finally:
                with suppress(OSError):
                    if os.listdir(folder) == [OWNER]:  # noqa: PTH208
                        (folder / OWNER).unlink()
    finally:
        with suppress(OSError):
            folder.rmdir()  # if it is empty; NFS keeps a file until it is closed


def _locked_owner(folder: Path, target: PathLike) -> BinaryIO:
    """The file `owner` in the folder, locked. Both are made if they are missing; a folder with other files must have it."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)
        with suppress(FileNotFoundError), ExitStack() as stack:  # another run may just have deleted the folder
            check_own_folder(folder)
            others = set(os.listdir(folder)) - {OWNER}  # noqa: PTH208
            if others and not os.path.lexists(folder / OWNER):
                raise _not_ours(folder)
            owner = stack.enter_context(open_own_file(folder / OWNER, create=not others))
            if not has_locked(owner.fileno()):
                raise OutputError(f"another run is writing {os.fspath(target)!r}; wait, or choose another name")
            if os.fstat(owner.fileno()).st_size:  # our mark is empty
                raise _not_ours(folder)
            if os.path.samestat(os.fstat(owner.fileno()), (folder / OWNER).lstat()):  # not one that was just deleted
                stack.pop_all()
                return owner


def _not_ours(path: Path) -> OutputError:
    wrong = "it is a link or of another kind; move it away"
    return OutputError(f"{str(path)!r} is not a file or folder that a run of yours left: {wrong}")


def check_own_folder(folder: Path) -> None:
    """Raises OutputError unless this is a folder and not a link. Raises OSError if it is missing."""
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise _not_ours(folder)


def open_own_file(path: Path, *, create: bool = True) -> BinaryIO:
    """The file of an earlier run, without a buffer, made if missing and `create`. Raises OutputError for a link or no file."""
    if path.is_symlink():
        raise _not_ours(path)
    flags = os.O_RDWR | os.O_CREAT * create | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.fdopen(os.open(path, flags, 0o600), "r+b", 0)
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        file.close()
        raise _not_ours(path)
    return file


def has_locked(number: int, wait_s: float = 0.0) -> bool:
    """Locks the file of a descriptor until it is closed. False if another program, of any user, has held the lock for wait_s."""
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
