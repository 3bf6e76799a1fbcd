"""Outputs that are whole or absent: written to a temporary file beside the target, synchronised, renamed.

Nothing that bears the target's name is ever half-written: not after an error, a full disk, Ctrl-C or SIGTERM. (After
kill -9 or a power cut a file `.prequential-*.partial` may remain beside it.) Devices and pipes are written to directly.
"""

import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prequential.errors import OutputError

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


@contextmanager
def atomic_output(
    target: PathLike, *, overwrite: bool = False, keep_partial: bool = False, like: PathLike | None = None
) -> Iterator[Sink]:
    """A sink whose bytes become the file `target` if the body succeeds, and nothing if it does not.

    like: a file whose permissions and modification time the target gets. keep_partial: after a failure, what the sink
    took stays as TARGET.partial. Raises OutputError where the target exists or cannot be written.
    """
    check_output(target, overwrite=overwrite)
    path = Path(os.path.realpath(target))  # the file behind a link is replaced, not the link
    direct = path.exists() and not path.is_file()
    temporary = path if direct else path.with_name(f".prequential-{secrets.token_hex(6)}.partial")
    with writing(target):
        file = temporary.open("wb" if direct else "xb")
    try:
        sink = Sink(file, target)
        if like is not None and not direct:  # at once: a private original is at no time readable by others
            with writing(target):
                temporary.chmod(stat.S_IMODE(Path(like).stat().st_mode) & 0o777)
        yield sink
        sink.flush()
        if not direct:
            check_output(target, overwrite=overwrite)  # again: hours may have passed
            with writing(target):
                _publish(file, temporary, path, like)
    except BaseException:
        with suppress(OSError):
            file.close()
            if not direct and keep_partial and temporary.stat().st_size:
                temporary.replace(f"{target}.partial")
        raise
    finally:
        with suppress(OSError):
            file.close()
        if not direct:
            temporary.unlink(missing_ok=True)


def _publish(file: BinaryIO, temporary: Path, path: Path, like: PathLike | None) -> None:
    """Makes the temporary file durable and gives it its name."""
    if like is not None:
        status = Path(like).stat()
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.fsync(file.fileno())
    file.close()
    temporary.replace(path)
    with suppress(OSError):  # some file systems cannot synchronise a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
