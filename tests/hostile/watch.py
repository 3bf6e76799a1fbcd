"""Refuses writes outside a folder and the start of programs, by Python's audit events. No Python code can avoid raising these.

The events come before the operation, so a forbidden operation does not happen.
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
# Events that change a path: the positions of the path, and of the folder descriptor to which it is relative, in their arguments.
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
    Path("/proc/self"),  # limits.py writes there
)


class ForbiddenError(Exception):
    """A write outside the folder, or the start of a program."""


_folders: list[Path] = []  # empty: no check
_installed = False


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Raises ForbiddenError in the body if it would change a file outside `folder`, or start a program."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)  # permanent: an audit hook cannot be removed
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
    if isinstance(path, int):  # an open file: it was checked when it was opened
        return
    text = os.fsdecode(path)
    if descriptor >= 0 and not os.path.isabs(text):  # noqa: PTH117
        if not LINUX:  # the folder is unknown; it was checked when it was opened
            return
        text = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), text)  # noqa: PTH115, PTH118
    # Links in the folder's path are resolved. The last part, which may be a link, is the object of the event.
    real = Path(os.path.realpath(os.path.dirname(os.path.abspath(text))), os.path.basename(text))  # noqa: PTH100, PTH119, PTH120
    if event == "open":
        real = Path(os.path.realpath(real))
    if not any(real.is_relative_to(folder) for folder in _folders):
        raise ForbiddenError(f"{event} {text!r}")
