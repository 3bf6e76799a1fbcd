"""Learners by name, as the command line gives them: `package.module:factory`, or `file.py:factory`."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from prequential_corpora.corpus import unicode_name

from prequential.errors import ConfigError
from prequential.learners.adapted import named_failures
from prequential.learners.subject import Subject, other_subject


def load_subject(name: str, arguments: Mapping[str, Any] | None = None) -> Subject:
    """The learner that the function or class `module:factory` makes with these arguments. It runs that module's code.

    A name that ends in .py is a file. A module that is not installed is searched in the current folder. While it is imported, and
    only then, modules of its folder can be imported, too, after installed ones. Raises ConfigError if this fails.
    """
    folder, factory = _named(name)
    source = _source_digest(factory, folder)
    return other_subject(partial(factory, **(arguments or {})), unicode_name(name), arguments, source=source)


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as a dict; a value is JSON, or else a text. Raises ConfigError for anything else, or a name given twice."""
    grid = parse_grid(texts)
    if twice := [name for name, values in grid.items() if len(values) > 1]:
        raise ConfigError(f"{twice[0]!r} is given twice")
    return {name: values[0] for name, values in grid.items()}


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """NAME=VALUE as the values of each name, in order. Raises ConfigError for anything else."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{text!r} is not NAME=VALUE")
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        found.setdefault(name, []).append(parsed)
    return found


def _source_digest(factory: Any, folder: Path | None) -> str | None:
    """A digest of the file that defines the factory and of the modules that it has from its own folder; None without a file."""
    try:
        defining = inspect.getsourcefile(inspect.unwrap(factory))
        if not defining:
            return None
        code = Path(defining).read_bytes()
        if folder:
            for path in _own_files(folder):
                if path != Path(defining).resolve():
                    code += b"\0" + os.fsencode(path.relative_to(folder)) + b"\0" + path.read_bytes()
    except (TypeError, OSError):
        return None
    return hashlib.blake2b(code, digest_size=32).hexdigest()[:16]


def _named(name: str) -> tuple[Path | None, Any]:
    """The learner's own folder, or None for an installed module; and its factory. Raises ConfigError."""
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
    return folder, found


# ---- the learner's own folder

_OWN = "from the folder of a learner"  # marks the specification of a module


class _OwnFolder(MetaPathFinder):
    """Finds modules in a folder, after all others."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = None if path else PathFinder.find_spec(name, [self._folder])
        if spec:
            spec.loader_state = _OWN
        return spec


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """While the body runs, modules of the folder can be imported. An installed module of the same name comes first."""
    if folder is None:
        yield
        return
    finder = _OwnFolder(folder)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _is_own(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "loader_state", None) == _OWN


def _own_files(folder: Path) -> list[Path]:
    """The files of the modules that were imported from the folder, and of those below them, sorted."""
    modules = dict(sys.modules)
    own = {name for name, module in modules.items() if _is_own(module)}
    files = {getattr(module, "__file__", None) for name, module in modules.items() if name.partition(".")[0] in own}
    return sorted(path for path in {Path(file).resolve() for file in files if file} if path.is_relative_to(folder))


def _folder_of(module_name: str) -> Path | None:
    """The current folder, unless the module is installed."""
    top = module_name.partition(".")[0]
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
