"""Reading and writing one file, with errors that name it; files that a stranger may have made; the folder for temporary files."""

import errno
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from prequential.errors import CorpusError, OutputError

PathLike = str | os.PathLike[str]

NOT_STORED = {errno.EIO, errno.ENOSPC, errno.EDQUOT}  # errors of fsync after which the bytes may be lost


class Sink:
    """Writes bytes to a file; counts and hashes them. n_bytes: written.

    A failure raises OutputError with the file's name. BrokenPipeError passes through: in a pipeline it is not an error.
    """

    def __init__(self, file: BinaryIO, name: PathLike) -> None:
        self.n_bytes = 0
        self._file, self._name = file, os.fspath(name)
        self._blake2b = hashlib.blake2b(digest_size=32)

    def write(self, data: bytes) -> int:
        rest: bytes | memoryview = data
        with writing(self._name):
            while rest:  # a file without a buffer may take a part
                n = self._file.write(rest)
                if not n:
                    raise BlockingIOError(errno.EAGAIN, "it takes no bytes now")
                rest = memoryview(rest)[n:]
        self._count(data)
        return len(data)

    def _count(self, data: bytes) -> None:
        self._blake2b.update(data)
        self.n_bytes += len(data)

    def sync(self) -> None:
        """Flushes, and waits until a file on a disk is stored there."""
        with writing(self._name):
            self._file.flush()
            try:
                number = self._file.fileno()
            except (OSError, ValueError):  # memory
                return
            sync(number)

    def resume(self, n_bytes: int) -> None:
        """Continues after the first n_bytes of the existing file, and drops the rest. Raises OutputError for a shorter file."""
        with writing(self._name):
            self._file.seek(0)
            while self.n_bytes < n_bytes and (data := self._file.read(min(1 << 20, n_bytes - self.n_bytes))):
                self._count(data)
            self._file.truncate()
        if self.n_bytes < n_bytes:
            has = f"{self._name!r} holds {self.n_bytes} bytes, fewer than the {n_bytes} of the checkpoint"
            raise OutputError(f"{has}; overwrite=True starts again")

    @property
    def blake2b(self) -> bytes:
        """BLAKE2b digest of the bytes written so far, 32 bytes."""
        return self._blake2b.digest()


@contextmanager
def stream_output(file: BinaryIO, *, overwrite: bool = False, name: str | None = None) -> Iterator[Sink]:
    """A sink for an open stream, flushed at the end; the caller closes the stream. A terminal is refused unless `overwrite`."""
    is_standard = file is getattr(sys.stdout, "buffer", None)
    name = name or ("standard output" if is_standard else str(getattr(file, "name", "output")))
    if not overwrite and file.isatty():
        raise OutputError(f"{name} is a terminal; redirect it, name a file, or overwrite=True writes to it")
    yield Sink(file, name)
    with writing(name):
        file.flush()


def sync(number: int) -> None:
    """Waits until the file or folder of a descriptor is stored. Raises OSError, but not where nothing can be synchronised."""
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno in NOT_STORED:
            raise


@contextmanager
def writing(name: PathLike) -> Iterator[None]:
    """Turns an OSError of the body into OutputError: `cannot write 'NAME': REASON`. BrokenPipeError passes through."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {os.fspath(name)!r}: {error.strerror or error}") from error


@contextmanager
def reading(what: PathLike) -> Iterator[None]:
    """Turns an OSError of the body into CorpusError: `cannot read 'WHAT': REASON`, in one line for every file name."""
    try:
        yield
    except OSError as error:
        raise CorpusError(f"cannot read {str(what)!r}: {error.strerror or error}") from error


@contextmanager
def possible_name(path: PathLike) -> Iterator[None]:
    """Turns the ValueError of the body, for a name with a NUL or one that cannot be encoded, into OSError."""
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error


def open_regular(path: PathLike, *, follow_links: bool = True) -> BufferedReader:
    """The regular file at `path`, open for reading. Raises OSError at once for all else, and for a link unless follow_links."""
    with possible_name(path):
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return os.fdopen(number, "rb")


def read_regular(path: PathLike, max_bytes: int, *, follow_links: bool = True) -> bytes:
    """The contents of the regular file at `path`. Raises OSError as `open_regular`, also for more than max_bytes bytes."""
    with open_regular(path, follow_links=follow_links) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"longer than {max_bytes:,} bytes", str(Path(path)))
    return data


def temporary_folder() -> str:
    """The folder for temporary files. Raises OutputError if TMPDIR names an unusable one: Python would take another."""
    name = next((name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)  # the order of tempfile
    try:
        folder = os.path.abspath(os.environ[name] if name else tempfile.gettempdir())  # noqa: PTH100
    except FileNotFoundError as error:
        raise OutputError("temporary files need a folder: set TMPDIR to one that you can write") from error
    if name and not os.access(os.path.join(folder, ""), os.W_OK | os.X_OK):  # noqa: PTH118
        raise OutputError(f"{name} is {os.environ[name]!r}, which is not a folder that you can write: set it anew")
    return folder
