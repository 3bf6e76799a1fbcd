"""Outputs that are whole or absent: written to TARGET.partial beside the target, synchronised, renamed.

Nothing that bears the target's name is ever half-written: not after an error, a full disk, Ctrl-C, SIGTERM, kill -9 or a power
cut. Where a run left a checkpoint (online/checkpoint.py), TARGET.partial stays beside it, and the run can go on; else it goes,
or is replaced by the next run. Devices and pipes are written to directly. A new folder is filled under another name.
"""

import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from prequential.errors import CheckpointError, CorruptArchiveError, OutputError

PathLike = str | os.PathLike[str]


class Sink:
    """Where bytes go: counts and hashes what it takes, and its failures are OutputErrors that name it.

    A reader that went away stays a BrokenPipeError: for a program in a pipeline that is no fault.
    """

    def __init__(self, file: BinaryIO, name: PathLike) -> None:
        self.n_bytes = 0
        self._file, self._name = file, os.fspath(name)
        self._blake2b = hashlib.blake2b(digest_size=32)

    def write(self, data: bytes) -> int:
        """Takes all of `data` and returns its length in bytes. Raises OutputError, BrokenPipeError."""
        with writing(self._name):
            self._file.write(data)
        self._blake2b.update(data)
        self.n_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """Hands on everything taken so far. Raises OutputError, BrokenPipeError."""
        with writing(self._name):
            self._file.flush()

    def sync(self) -> None:
        """What was taken so far is on the disk, if it is a disk. Raises OutputError, BrokenPipeError."""
        self.flush()
        with suppress(OSError, ValueError):  # pipes, memory
            os.fsync(self._file.fileno())

    def resume(self, n_bytes: int) -> None:
        """Goes on after the first n_bytes of what the file holds, as if they had just been taken; drops the rest.

        Raises OutputError if it holds less.
        """
        with writing(self._name):
            self._file.seek(0)
            while self.n_bytes < n_bytes and (data := self._file.read(min(1 << 20, n_bytes - self.n_bytes))):
                self._blake2b.update(data)
                self.n_bytes += len(data)
            self._file.truncate()
        if self.n_bytes < n_bytes:
            raise OutputError(f"{self._name!r} holds {self.n_bytes} bytes, fewer than the {n_bytes} to go on from")

    @property
    def blake2b(self) -> bytes:
        """BLAKE2b digest of the bytes taken so far, 32 bytes."""
        return self._blake2b.digest()


@contextmanager
def writing(name: PathLike) -> Iterator[None]:
    """Turns an OSError of the body into OutputError: `cannot write 'NAME': REASON`; lets BrokenPipeError pass."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {os.fspath(name)!r}: {error.strerror or error}") from error


def stream_output(file: BinaryIO, *, overwrite: bool = False) -> Sink:
    """A sink for an open stream, which the caller closes. Raises OutputError for a terminal, unless `overwrite`."""
    name = "standard output" if file is getattr(sys.stdout, "buffer", None) else str(getattr(file, "name", "output"))
    if not overwrite and file.isatty():
        raise OutputError(f"{name} is a terminal; redirect it, name a file with -o, or insist with -f")
    return Sink(file, name)


def check_output(target: PathLike, *, overwrite: bool) -> None:
    """Raises OutputError where `target` is a folder or a file not to be overwritten. Cheap: call before long work."""
    path = Path(target)
    if path.is_dir():
        raise OutputError(f"{str(target)!r} is a folder")
    if not overwrite and (path.is_symlink() or path.is_file()):
        raise OutputError(f"{str(target)!r} exists; choose another name with -o, or overwrite it with -f")


Publish = Callable[[Path, Path], None]  # from the whole partial file to the target


def partial_path(target: PathLike) -> Path:
    """Where the output `target` grows."""
    path = Path(os.path.realpath(target))  # the file behind a link is replaced, not the link
    return path.with_name(path.name + ".partial")


def checkpoint_path(target: PathLike) -> Path:
    """Where the run that makes `target` is saved."""
    path = Path(os.path.realpath(target))
    return path.with_name(path.name + ".checkpoint")


def _rename(partial: Path, path: Path) -> None:
    partial.replace(path)


@contextmanager
def output_file(
    target: PathLike,
    *,
    overwrite: bool = False,
    resume: bool = False,
    like: PathLike | None = None,
    check: Callable[[], None] | None = None,
    publish: Publish = _rename,
) -> Iterator[Sink]:
    """A sink whose bytes become `target` if the body succeeds; if it does not, TARGET.partial stays if it is of use.

    Of use it is beside a checkpoint, to go on from; and after a CorruptArchiveError, as the good beginning of a damaged archive.
    resume: the sink is open on what an interrupted run wrote, if it left both: the caller calls its `resume`. like: a file
    whose permissions and modification time the target gets. check: raises OutputError if the target must not be made, called
    now and again before publish. Raises OutputError where the target exists or cannot be written, where an interrupted run
    could go on (unless overwrite), and where another run is writing.
    """
    check = check or partial(check_output, target, overwrite=overwrite)
    check()
    path = Path(os.path.realpath(target))
    if path.exists() and not path.is_file() and publish is _rename:  # a device
        with writing(target):
            file: BinaryIO = path.open("wb")
        with _closing(file):
            sink = Sink(file, target)
            yield sink
            sink.flush()
        return
    temporary, checkpoint = partial_path(target), checkpoint_path(target)
    goes_on = resume and temporary.exists() and checkpoint.exists()
    if not resume and not overwrite and temporary.exists() and checkpoint.exists():
        raise OutputError(f"an interrupted run left {str(temporary)!r}: go on with --resume, or begin anew with -f")
    with writing(target):
        if temporary.exists() and not goes_on:
            with _closing(own_file(temporary)) as old:
                _lock(old, target)
            forget(checkpoint)
        if not goes_on:  # a new file: what bore its name may be a link to anything
            temporary.unlink(missing_ok=True)
        file = own_file(temporary) if goes_on else temporary.open("x+b")
    with _closing(file):
        with writing(target):
            _lock(file, target)
            if like is not None:  # at once: a private original is at no time readable by others
                temporary.chmod(stat.S_IMODE(Path(like).stat().st_mode) & 0o777 | stat.S_IWUSR)  # to go on
        sink = Sink(file, target)
        try:
            yield sink
            sink.sync()
            check()  # again: hours may have passed
            with writing(target):
                if like is not None:
                    status = Path(like).stat()
                    temporary.chmod(stat.S_IMODE(status.st_mode) & 0o777)
                    os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
                publish(temporary, path)
                sync_folder(path.parent)
                temporary.unlink(missing_ok=True)
                forget(checkpoint)
        except BaseException as error:
            if isinstance(error, CheckpointError):
                pass
            elif checkpoint.exists():
                error.add_note("--resume goes on from where it was last saved")
            elif isinstance(error, CorruptArchiveError) and sink.n_bytes:
                error.add_note(f"they are in {str(temporary)!r}")
            else:
                temporary.unlink(missing_ok=True)
            raise


def draft_folder(checkpoint: Path) -> Path:
    """Where the next checkpoint is written: a folder, because the library that writes it has temporary files of its own."""
    return checkpoint.with_name(checkpoint.name + ".new")


def forget_draft(checkpoint: Path) -> None:
    """What a killed run had begun to replace the checkpoint with goes."""
    folder = draft_folder(checkpoint)
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def forget(checkpoint: Path) -> None:
    """It goes, and what a killed run had begun to replace it with."""
    checkpoint.unlink(missing_ok=True)
    forget_draft(checkpoint)


def own_file(partial: Path) -> BinaryIO:
    """What an interrupted run wrote, open for going on; made if it is not there. Raises OutputError for a link, which may lead
    out of the folder."""
    file = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600), "r+b")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        file.close()
        raise OutputError(f"{str(partial)!r} is a link or no file; take it away")
    return file


@contextmanager
def _closing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Closes the file; what that has to report was reported before, by the flush."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _lock(file: BinaryIO, target: PathLike) -> None:
    """Held until the file is closed. Raises OutputError if another run holds it."""
    try:
        import fcntl
    except ImportError:  # not everywhere
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(f"another run is writing {os.fspath(target)!r}") from error
    except OSError:  # a file system without locks
        return


@contextmanager
def own_lock(path: Path, target: PathLike) -> Iterator[None]:
    """While the body runs, `path` is there, and no other run has it. Raises OutputError if another has."""
    with writing(target):
        file = own_file(path)
    with _closing(file):
        _lock(file, target)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def check_new_folder(folder: PathLike) -> None:
    """Raises OutputError where `folder` exists and is no empty folder, or cannot be made. Cheap: call before long work."""
    path = Path(folder)
    if path.name in ("", ".."):
        raise OutputError(f"{os.fspath(folder)!r} is no name for a new folder")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {os.fspath(folder)!r}: no folder {str(path.parent)!r} that may be written to")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise OutputError(f"{os.fspath(folder)!r} exists; choose another folder, or empty it")


@contextmanager
def new_folder(folder: PathLike) -> Iterator[Path]:
    """A draft to fill, which becomes `folder` if the body succeeds and goes if it does not. Raises OutputError."""
    path = Path(folder)
    with writing(folder):
        check_new_folder(folder)
        draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        draft.mkdir()
        try:
            yield draft
            for file in draft.iterdir():  # safetensors makes its own private
                file.chmod(draft.stat().st_mode & 0o666)
            sync_folder(draft)
            check_new_folder(folder)  # again: others may have been faster
            draft.rename(path)  # in the place of an empty folder, too
            sync_folder(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # it has another name by now, if all went well


def write_text(path: Path, text: str) -> None:
    """Writes a file of a draft, durably. Raises OSError."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: PathLike) -> None:
    """What was written to the file is on the disk. Raises OSError."""
    with Path(path).open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes renamings in the folder durable, where the file system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
