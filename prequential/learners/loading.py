"""Learners by name, as the command line gives them: `package.module:factory`, or `file.py:factory`."""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from prequential_corpora.corpus import unicode_name

from prequential.errors import ConfigError
from prequential.learners.distributions import named_failures
from prequential.learners.spec import LearnerSpec, other_spec

HUB_PREFIX = "hf:"  # before the folder or name of a model of transformers
INSTALLED = {"site-packages", "dist-packages"}


def load_spec(name: str, arguments: Mapping[str, Any] | None = None) -> LearnerSpec:
    """The learner that the function or class `module:factory` makes with these arguments. It runs that module's code.

    A name that ends in .py is a file. A module that is not installed is searched in the current folder. While it is imported, and
    only then, modules of its folder can be imported, too, after installed ones. Raises ConfigError if this fails.
    """
    module, factory = _named(name)
    source = partial(_source_digest, module)
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


def _named(name: str) -> tuple[ModuleType, Any]:
    """The learner's module, imported, and its factory. Raises ConfigError."""
    module_name, _, factory_name = name.rpartition(":")
    if not module_name or not factory_name:
        raise ConfigError(f"{name!r} names no learner: give package.module:factory or file.py:factory")
    is_file = module_name.endswith(".py")
    if is_file and not Path(module_name).is_file():
        raise ConfigError(f"the file {module_name!r} does not exist")
    with named_failures(f"{module_name!r} cannot be imported"):
        is_known = not is_file and (_top(module_name) in sys.modules or importlib.util.find_spec(_top(module_name)))
        folder = Path(module_name).resolve().parent if is_file else Path.cwd()
        with _importable(None if is_known else folder):
            module = _file(module_name) if is_file else importlib.import_module(module_name)
    try:
        factory = attrgetter(factory_name)(module)
    except AttributeError as error:
        raise ConfigError(f"{module_name!r} has no {factory_name!r}") from error
    if not callable(factory):
        raise ConfigError(f"{name!r} is a {type(factory).__name__}, not a function or class that makes a learner")
    return module, factory


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


def _file(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    assert spec and spec.loader  # as of every name that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # copies and pickles look there
    spec.loader.exec_module(module)
    return module


def _source_digest(module: ModuleType) -> str | None:
    """A digest of the file of the learner's module, and of the imported modules in its folder or below.

    Installed packages there, and this program, do not count. None where there is no source.
    """
    first = Path(module.__file__ or "").resolve()
    modules = [each for name, each in sys.modules.copy().items() if not name.startswith(_top(__name__))]
    files = [file for each in modules if (file := getattr(each, "__file__", None))]
    paths = {Path(file).resolve() for file in files if Path(file).is_absolute()}  # "_ops.py" is one of torch
    own = [path for path in paths - {first} if path.is_relative_to(first.parent)]
    own = [path for path in own if not INSTALLED & {*path.relative_to(first.parent.parent).parts}]
    try:
        code = first.read_bytes()
        for path in sorted(own):
            code += b"\0" + os.fsencode(path.relative_to(first.parent)) + b"\0" + path.read_bytes()
    except OSError:
        return None
    return hashlib.blake2b(code, digest_size=32).hexdigest()[:16]


def _top(name: str) -> str:
    return name.partition(".")[0]
