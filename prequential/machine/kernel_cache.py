"""Where compiled kernels are kept: in a private folder that belongs to exactly this program on this processor (docs/MACHINES.md).

- The folder's name is a digest of all that a compiled kernel depends on. numba's own cache looks at one source file only, but a
  kernel also contains helpers of other files.
- The digest is taken when the first kernel is imported. If the sources have changed since then, nothing is saved.
- Files are unpickled, so a folder that other users could exchange is not used.
- One file for each kernel and types of arguments, complete or absent. Of several processes, one compiles it, and the others wait.
"""

import functools
import hashlib
import logging
import os
import pickle
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prequential.files.work_folder import has_locked, open_own_file

PACKAGES = ("prequential", "prequential_codecs", "prequential_corpora")

# The files whose code or constants become part of a kernel (a test compares them with the imports).
KERNEL_SOURCES = (
    "prequential/machine/atomics.py",
    "prequential/machine/compiled.py",
    "prequential/machine/kernel_cache.py",
    "prequential/machine/quick_pipeline.py",
    "prequential/exact/*.py",
    "prequential/model/gpt/*.py",
    "prequential/model/mixer/*.py",
    "prequential/model/config.py",
    "prequential/model/hashing.py",
    "prequential/learners/distributions.py",
    "prequential_codecs/bit_coder.py",
)
WITHOUT_EFFECT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")  # of numba's variables: on what a kernel is
UNUSED_S = 30 * 24 * 3600.0
COMPILING_S = 300.0  # that others wait for the process which compiles a kernel
CHECK_BYTES = 16  # a digest at the beginning of each file

_log = logging.getLogger(__name__)


@functools.cache
def package_folder(name: str) -> Path:
    """The folder of one of PACKAGES. It is found without importing the package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"the package {name} is missing: install prequential again")
    return Path(spec.origin).parent


def kernel_sources() -> dict[str, Path]:
    sources: dict[str, Path] = {}
    for package, _, pattern in (name.partition("/") for name in KERNEL_SOURCES):
        folder = package_folder(package)
        sources |= {f"{package}/{path.relative_to(folder).as_posix()}": path for path in folder.glob(pattern)}
    return dict(sorted(sources.items()))


def _digest_of_sources() -> bytes:
    """16 bytes, or b"" without source files."""
    sources = [(name, _check(path.read_bytes())) for name, path in kernel_sources().items()]
    return _check(repr(sources).encode()) if sources else b""


@functools.cache
def version() -> str:
    """A digest of everything that a compiled kernel depends on, 16 hexadecimal digits."""
    import llvmlite  # type: ignore[import-untyped]
    import numba
    from llvmlite import binding

    settings = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT
    )
    processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    everything = AT_IMPORT, sys.version, numba.__version__, llvmlite.__version__, processor, settings
    return hashlib.blake2b(repr(everything).encode(), digest_size=8).hexdigest()


@functools.cache
def kernel_folder() -> Path | None:
    """The folder of this program's compiled kernels, made if it is missing. None, after one warning, if none can be used."""
    try:
        if not AT_IMPORT:
            raise OSError("the program is installed without its source files, which name the folder")
        parent = _cache_home().resolve() / "prequential"  # links above it are not followed a second time
        for each in (*reversed(parent.parents), parent):
            each.mkdir(mode=0o700, exist_ok=True)
        folder = parent / f"kernels-{version()}"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            for other in parent.glob("kernels-*"):
                with suppress(OSError):
                    if other.lstat().st_mtime < time.time() - UNUSED_S:
                        shutil.rmtree(other)
        for each in (folder, *folder.parents):
            _check_private(each)
    except OSError as error:
        _log.warning("each run compiles its kernels (10 to 30 s), because no folder can keep them: %s", error)
        return None
    with suppress(OSError):  # a disk that can only be read
        os.utime(folder)
    return folder


def _cache_home() -> Path:
    """The folder of this user's caches. A relative path in the environment is ignored. Raises OSError without a home."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        if (path := Path(os.environ.get(name, ""))).is_absolute():
            return path
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # of pathlib it raises where there is no home
    if not home.is_absolute() or os.environ.get("HOME") == "":
        raise OSError("this user has no home folder")
    return home / ".cache"


def _check_private(folder: Path) -> None:
    """Raises OSError unless only this user and root can put something else in the place of what is in this folder."""
    status = folder.lstat()
    owners = {os.geteuid(), Path("/").stat().st_uid}  # in some containers the root of the host has another number
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners:
        raise OSError(f"{str(folder)!r} is not a folder of this user")
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        raise OSError(f"others may write in {str(folder)!r}: `chmod go-w` prevents that")


class KernelCache:
    """The files of one kernel, with the methods that numba's dispatchers call. A failure only costs time."""

    def __init__(self, function: Any) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._locked = ExitStack()  # while this process compiles

    def files(self) -> Iterator[Path]:
        folder = kernel_folder()
        return folder.glob(f"{self._name}.*.kernel") if folder else iter(())

    def _path(self, folder: Path, signature: Any, codegen: Any) -> Path:
        types = _check(repr((signature, codegen.magic_tuple())).encode())
        return folder / f"{self._name}.{types.hex()}.kernel"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The kernel that was compiled for these types, as numba's CompileResult, or None."""
        target.refresh()
        with suppress(Exception):  # of a missing or damaged file: compile
            from numba.core.compiler import CompileResult

            if folder := kernel_folder():
                path = self._path(folder, signature, target.codegen())
                if not path.exists():
                    self._wait(path.with_suffix(".lock"))
                data = path.read_bytes()
                self._locked.close()
                if _check(data[CHECK_BYTES:]) == data[:CHECK_BYTES]:
                    return CompileResult._rebuild(target, *pickle.loads(data[CHECK_BYTES:]))
        return None

    def _wait(self, lock: Path) -> None:
        """Locks the file of a kernel that is missing; first waits for another process that compiles it."""
        file = self._locked.enter_context(open_own_file(lock))
        self._locked.callback(lock.unlink, missing_ok=True)
        has_locked(file.fileno(), COMPILING_S)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Saves a kernel. If that is impossible, later runs compile it again."""
        with suppress(OSError), self._locked:
            self._save(signature, compiled)

    def _save(self, signature: Any, compiled: Any) -> None:
        folder = kernel_folder()
        if folder is None or _digest_of_sources() != AT_IMPORT:
            return
        draft = folder / f"{secrets.token_hex(8)}.draft"
        try:
            from numba.core.serialize import dumps

            if compiled.library.has_dynamic_globals:  # pointers of this process
                return
            data = dumps(compiled._reduce())
            draft.write_bytes(_check(data) + data)
            draft.replace(self._path(folder, signature, compiled.codegen))
        except (OSError, AttributeError, ImportError) as error:  # of the disk, or of a numba without these inner parts
            with suppress(OSError):
                draft.unlink()
            _warn_unsaved(folder, getattr(error, "strerror", None) or str(error))


@functools.cache
def _warn_unsaved(folder: Path, reason: str) -> None:
    _log.warning("later runs compile the kernels again, because they cannot be saved in %r: %s", str(folder), reason)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=CHECK_BYTES).digest()


AT_IMPORT = _digest_of_sources()
