"""New folders that are either complete or absent, and durable writes of files and folders."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prequential.errors import OutputError
from prequential.files.sink import PathLike, writing


def check_new_folder(folder: PathLike) -> None:
    """Raises OutputError if `folder` exists and is not an empty folder, or cannot be created. Cheap: call it before long work."""
    path = Path(folder)
    if path.name in ("", ".."):
        raise OutputError(f"{os.fspath(folder)!r} cannot be the name of a new folder; give another name")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot write {os.fspath(folder)!r}: the folder {str(path.parent)!r} does not exist or is not writable"
        )
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise OutputError(f"{os.fspath(folder)!r} exists; choose another folder, or empty it")


@contextmanager
def new_folder(folder: PathLike) -> Iterator[Path]:
    """A temporary folder to fill. It becomes `folder` if the body succeeds and is deleted if not. Raises OutputError."""
    path = Path(folder)
    with writing(folder):
        check_new_folder(folder)
        draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        draft.mkdir()
        try:
            yield draft
            for file in draft.iterdir():  # safetensors makes its files readable for their owner only
                file.chmod(draft.stat().st_mode & 0o666)
            sync_folder(draft)
            check_new_folder(folder)  # again: another run may have made it first
            draft.rename(path)  # also replaces an empty folder
            sync_folder(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # after success it has another name


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8 and synchronises it. Raises OSError."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: PathLike) -> None:
    """Waits until the file's contents are stored on the disk. Raises OSError."""
    with Path(path).open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until new and renamed files of the folder are stored, if the file system supports this."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
