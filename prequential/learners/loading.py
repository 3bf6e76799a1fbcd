"""Learners by name, as the command line gives them: `package.module:factory`, or `file.py:factory`."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from prequential_corpora.corpus import unicode_name

from prequential.errors import ConfigError
from prequential.learners.distributions import named_failures
from prequential.learners.spec import LearnerSpec, other_spec

HUB_PREFIX = "hf:"  # before the folder or name of a model of transformers


def load_spec(name: str, arguments: Mapping[str, Any] | None = None) -> LearnerSpec:
    """The learner that the function or class `module:factory` makes with these arguments. It runs that module's code.

    A name that ends in .py is a file. A module that is not installed is searched in the current folder. While it is imported, and
    only then, modules of its folder can be imported, too, after installed ones. Raises ConfigError if this fails.
    """
    before = set(sys.modules)
    folder, module, factory = _named(name)

    def mark_own() -> None:
        if folder:
            _mark_own(folder, sys.modules.keys() - before)

    def source() -> str | None:
        mark_own()  # also of what the factory has imported
        return _source_digest(module, factory, folder, arguments or {})

    mark_own()

    return other_spec(partial(factory, **(arguments or {})), unicode_name(name), arguments, source=source)


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as a dict; a value is JSON, or else a text. Raises ConfigError for anything else, or a name given twice."""
    arguments: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{text!r} is not NAME=VALUE")
        if name in arguments:
            raise ConfigError(f"{name!r} is given twice")
        try:
            arguments[name] = json.loads(value)
        except ValueError:
            arguments[name] = value
    return arguments


def _source_digest(module: Any, factory: Any, folder: Path | None, arguments: Mapping[str, Any]) -> str | None:
    """A digest of the file that defines the factory, of the learner's own modules, and of the files that its arguments name."""
    try:
        defining = inspect.getsourcefile(inspect.unwrap(factory))
    except TypeError:  # an object that makes learners
        defining = None
    try:
        defining = str(Path(defining or module.__file__).resolve())
        code = Path(defining).read_bytes()
        for path in _own_files(folder, module.__name__):
            if str(path) != defining:
                name = path.relative_to(folder) if folder else path.name
                code += b"\0" + os.fsencode(name) + b"\0" + path.read_bytes()
        for path in _given_files(arguments):
            code += b"\0\0" + os.fsencode(path.name) + b"\0" + _file_digest(path, *_identity(path))
    except (TypeError, AttributeError, OSError):
        return None
    return hashlib.blake2b(code, digest_size=32).hexdigest()[:16]


def _given_files(arguments: Mapping[str, Any]) -> list[Path]:
    """Files that arguments name, and the files directly in folders that they name, such as the folder of a model."""
    found: list[Path] = []
    for value in arguments.values():
        with suppress(OSError):  # a text that cannot be a name
            path = Path(value.removeprefix(HUB_PREFIX) if isinstance(value, str) else os.devnull)
            within = sorted(path.iterdir()) if value and path.is_dir() else [path]
            found += [each for each in within if each.is_file()]
    return found


def _identity(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@cache
def _file_digest(path: Path, *identity: int) -> bytes:
    """A digest of the file's bytes; it is read once as long as it keeps its identity, because a sweep asks for each run."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def _named(name: str) -> tuple[Path | None, Any, Any]:
    """The learner's own folder, or None for an installed module; its module; and its factory. Raises ConfigError."""
    module_name, colon, factory = name.rpartition(":")
    if not colon or not module_name or not factory:
        raise ConfigError(f"{name!r} names no learner: give package.module:factory or file.py:factory")
    is_file = module_name.endswith(".py")
    if is_file and not Path(module_name).is_file():
        raise ConfigError(f"the file {module_name!r} does not exist")
    with named_failures(f"{module_name!r} cannot be imported"):
        folder = Path(module_name).resolve().parent if is_file else _folder_of(module_name)
        with _importable(folder):
            module = _file(module_name) if is_file else importlib.import_module(module_name)
    found = module
    for part in factory.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{module_name!r} has no {factory!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{name!r} is a {type(found).__name__}, not a function or class that makes a learner")
    return folder, module, found


# ---- the learner's own folder

INSTALLED = {"site-packages", "dist-packages"}
_OWN = "from the folder of a learner"  # marks the specification of a module


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """While the body runs, modules of the folder can be imported. An installed module of the same name comes first."""
    if folder is None or str(folder) in sys.path:
        yield
        return
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _is_own(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "loader_state", None) == _OWN


def _mark_own(folder: Path, new: Set[str]) -> None:
    """Marks those of the new modules that came from the folder."""
    for module in [sys.modules[name] for name in new if _top(name) != _top(__name__)]:
        spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
        if spec and file and Path(file).resolve().is_relative_to(folder) and not INSTALLED & {*Path(file).parts}:
            spec.loader_state = _OWN


def _own_files(folder: Path | None, name: str) -> list[Path]:
    """The files of the learner's own modules, sorted: marked ones in its folder, and those below them. Of an installed module
    they are those of its package.
    """
    modules = dict(sys.modules)
    own = {each for each, module in modules.items() if _is_own(module)} if folder else {_top(name)} - {_top(__name__)}
    files = {getattr(module, "__file__", None) for each, module in modules.items() if own & {each, _top(each)}}
    found = {Path(file).resolve() for file in files if file}
    return sorted(path for path in found if not folder or path.is_relative_to(folder))


def _top(name: str) -> str:
    return name.partition(".")[0]


def _folder_of(module_name: str) -> Path | None:
    """The current folder, unless the module is installed."""
    top = _top(module_name)
    known = sys.modules.get(top)
    if _is_own(known) if known else not importlib.util.find_spec(top):
        return Path.cwd().resolve()
    return None


def _file(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not a Python file")
    spec.loader_state = _OWN
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # copies and pickles look there
    spec.loader.exec_module(module)
    return module
