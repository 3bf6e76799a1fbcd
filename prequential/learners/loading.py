"""Learners by name, as the command line gives them: `package.module:factory`, or `file.py:factory`."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prequential.corpora.corpus import unicode_name
from prequential.errors import ConfigError
from prequential.learners.adapted import error_line
from prequential.learners.subject import Subject, other_subject


def load_subject(name: str, arguments: Mapping[str, Any] | None = None) -> Subject:
    """The learner that the function or class `module:factory` makes with these arguments. It runs that module's code.

    The module is imported as Python does, with the current folder on the path; a name that ends in .py is a file.
    Raises ConfigError if it cannot be imported or made.
    """
    factory = _named(name)
    return other_subject(
        partial(factory, **(arguments or {})), unicode_name(name), arguments, source=_source_digest(factory)
    )


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


def _source_digest(factory: Any) -> str | None:
    """The first 8 bytes of the BLAKE2b-256 of the file that defines the factory, in hexadecimal digits; None without a file."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(factory))
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=32).hexdigest()[:16] if path else None
    except (TypeError, OSError):
        return None


def _named(name: str) -> Any:
    module_name, colon, factory = name.rpartition(":")
    if not colon or not module_name or not factory:
        raise ConfigError(f"{name!r} names no learner: give package.module:factory or file.py:factory")
    if module_name.endswith(".py") and not Path(module_name).is_file():
        raise ConfigError(f"the file {module_name!r} does not exist")
    try:
        module = _file(module_name) if module_name.endswith(".py") else _module(module_name)
    except Exception as error:
        raise ConfigError(f"{module_name!r} cannot be imported: {error_line(error)}") from error
    found = module
    for part in factory.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{module_name!r} has no {factory!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{name!r} is a {type(found).__name__}, not a function or class that makes a learner")
    return found


def _module(name: str) -> Any:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _file(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # copies and pickles look there
    spec.loader.exec_module(module)
    return module
