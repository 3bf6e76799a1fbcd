"""Output files that are either complete or absent: written as TARGET.partial, synchronised, renamed to TARGET.

If a run leaves a checkpoint (online/checkpoint.py), TARGET.partial stays next to it, and the run can be resumed. Otherwise
TARGET.partial is deleted, or replaced by the next run.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from prequential.errors import CheckpointError, CorruptArchiveError, OutputError
from prequential.files.folders import sync_folder
from prequential.files.locks import closing, lock, open_regular_file
from prequential.files.sink import PathLike, Sink, writing

Publish = Callable[[Path, Path], None]  # turns the complete partial file into the target


def check_output(target: PathLike, *, overwrite: bool) -> None:
    """Raises OutputError if `target` is a folder, or a file and not `overwrite`. Cheap: call it before long work."""
    path = Path(target)
    if path.is_dir():
        raise OutputError(f"{str(target)!r} is a folder; give the name of a file")
    if not overwrite and (path.is_symlink() or path.is_file()):
        raise OutputError(f"{str(target)!r} exists; choose another name with -o, or overwrite it with -f")


def partial_path(target: PathLike) -> Path:
    """The temporary file in which the output `target` grows."""
    path = Path(os.path.realpath(target))  # a link stays: the file that it names is replaced
    return path.with_name(path.name + ".partial")


def checkpoint_path(target: PathLike) -> Path:
    """The checkpoint of the run that makes `target`."""
    path = Path(os.path.realpath(target))
    return path.with_name(path.name + ".checkpoint")


def checkpoint_draft(checkpoint: Path) -> Path:
    """The folder in which the next checkpoint is written. The library that writes it makes temporary files of its own."""
    return checkpoint.with_name(checkpoint.name + ".new")


def delete_checkpoint_draft(checkpoint: Path) -> None:
    """Deletes a checkpoint that a killed run left incomplete."""
    folder = checkpoint_draft(checkpoint)
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def delete_checkpoint(checkpoint: Path) -> None:
    """Deletes the checkpoint, and an incomplete one next to it."""
    checkpoint.unlink(missing_ok=True)
    delete_checkpoint_draft(checkpoint)


def _rename(temporary: Path, path: Path) -> None:
    temporary.replace(path)


class _Paths(NamedTuple):
    """A target as the user names it, the file that it stands for, and the two files of a run that makes it."""

    target: PathLike
    path: Path
    temporary: Path
    checkpoint: Path


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
    """A sink whose bytes become `target` if the body succeeds.

    If the body fails, TARGET.partial is deleted, with two exceptions. It stays next to a checkpoint, for a resumed run. And it
    stays after a CorruptArchiveError, as the intact beginning of a damaged archive.

    resume: opens the file of an interrupted run, if that run left it and a checkpoint. The caller then calls `Sink.resume`.
    like: a file from which the target gets its permissions and modification time.
    check: raises OutputError if the target must not be written. It is called at the start and again before `publish`.
    Raises OutputError if the target exists or cannot be written, if an interrupted run could be resumed (unless `overwrite`),
    and if another run is writing the target.
    """
    check = check or partial(check_output, target, overwrite=overwrite)
    check()
    paths = _Paths(target, Path(os.path.realpath(target)), partial_path(target), checkpoint_path(target))
    if paths.path.exists() and not paths.path.is_file() and publish is _rename:
        with _device(paths) as sink:
            yield sink
        return
    with closing(_open_partial(paths, overwrite=overwrite, resume=resume)) as file:
        _lock_partial(paths, file, like)
        sink = Sink(file, target)
        try:
            yield sink
            sink.sync()
            check()  # again: hours may have passed
            _publish(paths, publish, like)
        except BaseException as error:
            _keep_or_delete(paths, error, n_bytes=sink.n_bytes)
            raise


@contextmanager
def _device(paths: _Paths) -> Iterator[Sink]:
    """A sink that writes directly to a device or a named pipe."""
    with writing(paths.target):
        file = paths.path.open("wb")
    with closing(file):
        sink = Sink(file, paths.target)
        yield sink
        sink.flush()


def _open_partial(paths: _Paths, *, overwrite: bool, resume: bool) -> BinaryIO:
    """TARGET.partial, open for writing: that of an interrupted run if `resume` and a checkpoint exists, otherwise a new file."""
    temporary, checkpoint = paths.temporary, paths.checkpoint
    interrupted = temporary.exists() and checkpoint.exists()
    if interrupted and not resume and not overwrite:
        raise OutputError(
            f"an interrupted run left {str(temporary)!r}; continue it with --resume, or start again with -f"
        )
    with writing(paths.target):
        if interrupted and resume:
            return open_regular_file(temporary)
        if temporary.exists():
            with closing(open_regular_file(temporary)) as old:
                lock(old, paths.target)
            delete_checkpoint(checkpoint)
        temporary.unlink(missing_ok=True)  # a new file, because the old name may be a link to anything
        return temporary.open("x+b")


def _lock_partial(paths: _Paths, file: BinaryIO, like: PathLike | None) -> None:
    """Locks TARGET.partial and gives it the permissions of `like` at once, so that a copy of a private file stays private."""
    with writing(paths.target):
        lock(file, paths.target)
        if like is not None:
            paths.temporary.chmod(
                Path(like).stat().st_mode & 0o777 | stat.S_IWUSR
            )  # writable, so that it can be resumed


def _publish(paths: _Paths, publish: Publish, like: PathLike | None) -> None:
    """Turns TARGET.partial into the target and deletes the checkpoint."""
    with writing(paths.target):
        if like is not None:
            status = Path(like).stat()
            paths.temporary.chmod(status.st_mode & 0o777)
            os.utime(paths.temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        publish(paths.temporary, paths.path)
        sync_folder(paths.path.parent)
        paths.temporary.unlink(missing_ok=True)
        delete_checkpoint(paths.checkpoint)


def _keep_or_delete(paths: _Paths, error: BaseException, *, n_bytes: int) -> None:
    """After an error: keeps TARGET.partial, of n_bytes, if it is still useful, and says so in a note. Otherwise deletes it."""
    if isinstance(error, CheckpointError):
        return
    if paths.checkpoint.exists():
        error.add_note("--resume continues from the last checkpoint")
    elif isinstance(error, CorruptArchiveError) and n_bytes:
        error.add_note(f"they are in {str(paths.temporary)!r}")
    else:
        paths.temporary.unlink(missing_ok=True)
