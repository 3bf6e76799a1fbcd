"""Claims: of several processes on a shared folder, also on several machines, one does a piece of work.

A claim is a file that its process creates, renews every minute, and deletes at the end. It has expired ten minutes after the last
renewal, and at once if its process was of this machine and is gone. The clocks of the machines must agree within some minutes. If
two processes take over an expired claim in the same moment, both do the work.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from prequential.errors import PrequentialError
from prequential.files.streams import writing

RENEWAL_S, EXPIRY_S = 60.0, 600.0


class ClaimedError(PrequentialError):
    """Another process does this work. path: its claim."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.path = Path(path)


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Claims the file while the body runs. Raises ClaimedError if another process holds it, and OutputError."""
    mark = f"{os.getpid()} {_place()}"
    with writing(path):
        if not _created(path, mark):
            if not is_claimed(path):
                path.unlink(missing_ok=True)
            if not _created(path, mark):
                raise ClaimedError(path)
    over = Event()
    Thread(target=_renew, args=(path, mark, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        with suppress(OSError):  # the work is done
            if _mark(path) == mark:  # not of who took over an expired claim
                path.unlink()


def is_claimed(path: Path) -> bool:
    """Whether a process holds the claim at `path`."""
    try:
        number, _, place = _mark(path).partition(" ")
        is_gone = place == _place() != "?" and not Path("/proc", number).exists()
        return not is_gone and time.time() - path.stat().st_mtime < EXPIRY_S
    except OSError as error:  # another one, of a network: look again later
        return not isinstance(error, FileNotFoundError)


def _created(path: Path, mark: str) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    try:
        path.write_text(mark, encoding="utf-8")
    except OSError:  # a full disk: nobody waits for an empty claim
        path.unlink()
        raise
    return True


def _mark(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _renew(path: Path, mark: str, over: Event) -> None:
    while not over.wait(RENEWAL_S):
        with suppress(OSError):
            if _mark(path) == mark:
                os.utime(path)


def _place() -> str:
    """Where the numbers of processes have a meaning: this start of this machine, and this container. "?" if it is not known."""
    with suppress(OSError):
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    return "?"
