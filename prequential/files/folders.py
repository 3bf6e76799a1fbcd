"""New folders that are either complete or absent, durable writes, and permissions no wider than those of the sources."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from prequential.errors import OutputError
from prequential.files.streams import PathLike, possible_name, sync, writing


def check_name(path: PathLike) -> None:
    """Raises OutputError if no file can have this name, for instance because it is too long."""
    with writing(path), suppress(FileNotFoundError), possible_name(path):
        os.stat(path)  # noqa: PTH116  # the questions of pathlib answer False or raise, as the version of Python decides


def check_can_write(folder: PathLike) -> None:
    """Raises OutputError if nothing can be made in `folder`, or it cannot be made itself. Cheap: call it before long work."""
    path = Path(folder).absolute()
    nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        wrong = f"{str(nearest)!r} is not a folder that you can write"
        raise OutputError(f"cannot write into {os.fspath(folder)!r}: {wrong}")


def check_new_folder(folder: PathLike) -> None:
    """Raises OutputError if `folder` exists and is not an empty folder, or cannot be created. Cheap: call it before long work."""
    check_name(folder)
    path, name = Path(folder), repr(os.fspath(folder))
    if path.name in ("", ".."):
        raise OutputError(f"{name} cannot be the name of a new folder; give another name")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {name}: the folder {str(path.parent)!r} does not exist or is not writable")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise OutputError(f"{name} exists; choose another folder, or empty it")


@contextmanager
def new_folder(folder: PathLike, *, mode: int = 0o777, draft: Path | None = None) -> Iterator[Path]:
    """A private folder to fill, which becomes `folder`, with the permissions `mode` at most, if the body succeeds.

    draft: its path until then, on the same file system; whatever has this name is deleted. None: a new name beside `folder`.
    """
    path = Path(folder)
    with writing(folder):
        check_new_folder(folder)
        draft = draft or path.with_name(f".{path.name[:60]}-{secrets.token_hex(4)}")  # at most 255 bytes in UTF-8
        delete_incomplete(draft)
        draft.mkdir(mode=0o700)
        try:
            yield draft
            share_folder(draft, mode)
            check_new_folder(folder)  # again: another run may have made it first
            draft.rename(path)  # also replaces an empty folder
            sync_folder(path.parent)
        finally:
            delete_incomplete(draft)  # after success it has another name


def delete_incomplete(folder: Path) -> None:
    """Deletes a folder that this run, or a killed one, has not completed, or whatever else has its name."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)  # a pipe, too, which rmtree would open and wait for


def permissions(mode: int = 0o777) -> int:
    """The permissions of a new folder that may have `mode` at most: those that the user's umask leaves."""
    umask = os.umask(0o077)  # it can only be read by setting it; 077 keeps other threads' files private
    os.umask(umask)
    return mode & ~umask | 0o600


def common_mode(*paths: PathLike) -> int:
    """The permissions to read and write that all these files and folders have. A path that is missing counts as private."""
    mode = 0o666
    for path in paths:
        try:
            mode &= os.stat(path).st_mode  # noqa: PTH116
        except (OSError, ValueError):
            mode = 0
    return mode | 0o600


def share_folder(folder: Path, mode: int = 0o777) -> None:
    """Gives a private folder and all in it the permissions that the user's umask and `mode` allow, and synchronises folders.

    Who may read a file that its owner may execute, or a folder, may execute or enter it.
    """
    readable = permissions(mode) & 0o666
    executable = readable | 0o100 | (readable & 0o444) >> 2
    for name, _, files in os.walk(folder):
        for path in (Path(name, file) for file in files):
            if not path.is_symlink():
                set_mode(path, executable if path.stat().st_mode & 0o100 else readable)
        set_mode(Path(name), executable)
        sync_folder(Path(name))


def set_mode(path: Path, mode: int) -> None:
    """Changes the permissions of a file or folder, if its file system can. An error is ignored: the data matter more."""
    with suppress(OSError):
        path.chmod(mode)


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file that only its owner may read, and synchronises it. Replaces another file or link. Raises OSError."""
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:  # "x" does not follow links
        file.write(data)
        file.flush()
        sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until new and renamed files of the folder are stored, if the file system supports this. Raises OSError."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not listed
        return
    try:
        sync(number)
    finally:
        os.close(number)
