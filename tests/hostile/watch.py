"""Which files a piece of work writes, and whether it starts programs: by Python's audit events, which no code can avoid raising.

The events come before the deed, so what is not allowed does not happen.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import prequential

LINUX = sys.platform == "linux"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events that name a path to be changed, and where their arguments have it and the folder descriptor it is relative to, if any.
PATHS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.mkdir": ((0, 2),), "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.rename": ((0, 2), (1, 3)), "os.chmod": ((0, 2),),
    "os.utime": ((0, 3),), "os.truncate": ((0, None),), "os.symlink": ((1, 2),), "os.link": ((1, 3),), "os.chown": ((0, 3),),
    "os.setxattr": ((0, None),), "os.mkfifo": ((0, 2),), "os.mknod": ((0, 3),),
}  # fmt: skip
PROGRAMS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "socket.bind")
ALLOWED = (
    Path(prequential.__file__).parent / "exact" / "__pycache__",  # compiled kernels
    Path(os.environ.get("NUMBA_CACHE_DIR", os.devnull)),
    Path("/dev/null"),
    Path("/proc/self"),  # what limits.py writes
)


class ForbiddenError(Exception):
    """The work was about to write where it must not, or to start a program."""


_folders: list[Path] = []  # empty: nothing is watched
_installed = False


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Raises ForbiddenError from within the body where it would change a file that is not in `folder`, or start a program."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)  # for good: there is no way to take it away
        _installed = True
    _folders.extend(path.resolve() for path in (folder, *ALLOWED))
    try:
        yield
    finally:
        _folders.clear()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _folders:
        return
    if event == "open":
        path, _, flags = arguments
        if not isinstance(path, int) and isinstance(flags, int) and flags & WRITING:
            _check(event, path)
    elif event in PATHS:
        for at, relative_to in PATHS[event]:
            _check(event, arguments[at], -1 if relative_to is None else arguments[relative_to])
    elif event in PROGRAMS:
        raise ForbiddenError(f"{event} {arguments!r:.200}")


def _check(event: str, path: Any, descriptor: int = -1) -> None:
    if isinstance(path, int):  # a file that is open: it was checked when it was opened
        return
    text = os.fsdecode(path)
    if descriptor >= 0 and not os.path.isabs(text):  # noqa: PTH117
        if not LINUX:  # no way to tell which folder that is; whoever opened it was watched
            return
        text = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), text)  # noqa: PTH115, PTH118
    # The folder's links are followed; the last part, which may be a link itself, is what the event is about.
    real = Path(os.path.realpath(os.path.dirname(os.path.abspath(text))), os.path.basename(text))  # noqa: PTH100, PTH119, PTH120
    if event == "open":
        real = Path(os.path.realpath(real))
    if not any(real.is_relative_to(folder) for folder in _folders):
        raise ForbiddenError(f"{event} {text!r}")
