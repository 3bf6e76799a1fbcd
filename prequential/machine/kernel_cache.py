"""Where compiled kernels are kept: in a private folder that belongs to exactly this program on this processor (docs/MACHINES.md).

- The folder's name is a digest of all that a compiled kernel depends on. numba's own cache looks at one source file only, but a
  kernel also contains helpers of other files.
- The digest is taken when the first kernel is imported. If the sources have changed since then, nothing is saved; nor if Python
  has loaded bytecode of another text: it does so where the source has the same size and the same time in seconds.
- Files are unpickled, so a folder that other users could exchange is not used.
- One file for each kernel and types of arguments, complete or absent, under a name that no other process chooses.
"""

import functools
import hashlib
import io
import logging
import os
import pickle
import secrets
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any

from prequential.files import is_foreign

PACKAGES = ("prequential", "prequential_codecs", "prequential_corpora")

# The files whose code or constants become part of a kernel (a test compares them with the imports).
KERNEL_SOURCES = (
    "prequential/machine/atomics.py",
    "prequential/machine/compiled.py",
    "prequential/machine/kernel_cache.py",
    "prequential/exact/*.py",
    "prequential/model/gpt/*.py",
    "prequential/model/mixer/**/*.py",
    "prequential/model/config.py",
    "prequential/model/hashing.py",
    "prequential/learners/distributions.py",
    "prequential_codecs/bit_coder.py",
)
WITHOUT_EFFECT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")  # of numba's variables: on what a kernel is
UNUSED_S = 30 * 24 * 3600.0
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
    found: dict[str, Path] = {}
    for package, _, pattern in (name.partition("/") for name in KERNEL_SOURCES):
        folder = package_folder(package)
        found |= {f"{package}/{path.relative_to(folder).as_posix()}": path for path in folder.glob(pattern)}
    return dict(sorted(found.items()))


def _digest_of_sources() -> bytes:
    """16 bytes, or b"" without source files."""
    sources = [(name, _check(path.read_bytes())) for name, path in kernel_sources().items()]
    return _check(repr(sources).encode()) if sources else b""


@functools.cache
def stale_bytecode() -> Path | None:
    """A file of bytecode that Python takes for that of a kernel's source, and that is not; None if there is none. In 0.2 s."""
    for name, path in kernel_sources().items():
        loader = SourceFileLoader(name, str(path))
        if loader.get_code(name) != loader.source_to_code(loader.get_data(loader.path), loader.path):
            return Path(cache_from_source(loader.path))
    return None


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
    home = _cache_home()
    try:
        if not AT_IMPORT:
            raise OSError("the program is installed without its source files, which name the folder")
        if not home.is_absolute():
            raise OSError("this user has no home folder")
        parent = home.resolve() / "prequential"  # links above it are not followed a second time
        folder = parent / f"kernels-{version()}"
        _check_above(parent)
        for each in (*reversed(parent.parents), parent):
            each.mkdir(mode=0o700, exist_ok=True)
        _check_above(parent)  # again, now that all of them exist
        _check_ours(parent)
        if _is_open(parent):  # an open umask, or another program
            parent.chmod(0o700)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _delete_unused(parent)
        _check_ours(folder)
        if _is_open(folder):
            raise OSError(f"{str(folder)!r} is open to others, who may have left files there: delete it")
    except OSError as error:
        _log.warning("each run compiles its kernels (10 to 30 s), because no folder can keep them: %s", error)
        return None
    with suppress(OSError):  # a disk that can only be read
        os.utime(folder)
    return folder


def _cache_home() -> Path:
    """The folder of this user's caches; relative without a home. A relative path in the environment is ignored."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        if (path := Path(os.environ.get(name, ""))).is_absolute():
            return path
    if os.environ.get("HOME") == "":
        return Path(".cache")
    return Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111  # of pathlib it raises where there is no home


def _check_above(folder: Path) -> None:
    """Raises OSError if another user than root could put a folder of his own in the place of one above this one."""
    if not hasattr(os, "geteuid"):
        return
    trusted = {os.geteuid(), Path("/").stat().st_uid}  # in some containers the root of the host has another number
    for above in folder.parents:
        with suppress(FileNotFoundError):
            status = above.stat()
            if status.st_uid not in trusted:
                raise OSError(f"{str(above)!r} belongs to another user")
            if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
                command = shlex.join(["chmod", "go-w", str(above)])
                raise OSError(f"others may write in {str(above)!r} and exchange the folder: `{command}` prevents that")


def _check_ours(folder: Path) -> None:
    """Raises OSError unless this is a folder, not a link, of this user."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(f"{str(folder)!r} is not a folder")
    if is_foreign(status):
        raise OSError(f"{str(folder)!r} belongs to another user")


def _is_open(folder: Path) -> bool:
    return hasattr(os, "geteuid") and folder.lstat().st_mode & 0o077 != 0


def _delete_unused(parent: Path) -> None:
    for folder in parent.glob("kernels-*"):
        with suppress(OSError):
            if folder.lstat().st_mtime < time.time() - UNUSED_S:
                shutil.rmtree(folder)


class KernelCache:
    """The files of one kernel, with the methods that numba's dispatchers call. A failure only costs time."""

    def __init__(self, function: Any) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"

    @property
    def cache_path(self) -> str | None:
        folder = kernel_folder()
        return str(folder) if folder else None

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return self._name, signature, codegen.magic_tuple()

    def files(self) -> Iterator[Path]:
        folder = kernel_folder()
        return folder.glob(f"{self._name}.*.kernel") if folder else iter(())

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The kernel that was compiled for these types, as numba's CompileResult, or None."""
        from numba.core.compiler import CompileResult

        target.refresh()
        for path in self.files():
            with suppress(Exception):  # of a damaged or deleted file: compile again
                with path.open("rb") as file:
                    data = b"" if is_foreign(os.fstat(file.fileno())) else file.read()
                if _check(data[CHECK_BYTES:]) != data[:CHECK_BYTES]:
                    continue
                stream = io.BytesIO(data[CHECK_BYTES:])
                if pickle.load(stream) == self._key(signature, target.codegen()):
                    return CompileResult._rebuild(target, *pickle.load(stream))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Saves a kernel. If that is impossible, later runs compile it again."""
        from numba.core.serialize import dumps

        folder = kernel_folder()
        if folder is None or compiled.library.has_dynamic_globals:  # pointers of this process
            return
        if _digest_of_sources() != AT_IMPORT:
            return
        if bytecode := stale_bytecode():
            reason = f"this run uses {bytecode.name!r}, which is not of its source"
            _warn_unsaved(folder, f"{reason}: delete the folder {str(bytecode.parent)!r} and run it again")
            return
        data = dumps(self._key(signature, compiled.codegen)) + dumps(compiled._reduce())
        name = f"{self._name}.{secrets.token_hex(8)}"
        draft = folder / f"{name}.draft"
        try:
            draft.write_bytes(_check(data) + data)
            draft.replace(folder / f"{name}.kernel")
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            _warn_unsaved(folder, error.strerror or str(error))

    def enable(self) -> None:
        """numba's dispatchers call it; this cache is always on."""

    def flush(self) -> None:
        for path in self.files():
            path.unlink(missing_ok=True)


@functools.cache
def _warn_unsaved(folder: Path, reason: str) -> None:
    _log.warning("later runs compile the kernels again, because they cannot be saved in %r: %s", str(folder), reason)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=CHECK_BYTES).digest()


AT_IMPORT = _digest_of_sources()
