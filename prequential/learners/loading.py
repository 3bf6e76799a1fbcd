"""Learners by name, as the command line gives them: `package.module:factory`, or `file.py:factory`."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError
from prequential.learners.adapted import error_line
from prequential.learners.subject import Subject, other_subject


def load_subject(name: str, arguments: Mapping[str, Any] | None = None) -> Subject:
    """The learner that the function or class `module:factory` makes with these arguments. It runs that module's code.

    The module is imported as Python does, with the current folder on the path; a name that ends in .py is a file.
    Raises ConfigError if it cannot be imported or made.
    """
    return other_subject(partial(_named(name), **(arguments or {})), name, arguments)


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as a dict; a value is JSON, or else a text. Raises ConfigError for anything else, or a name given twice."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{text!r} is not NAME=VALUE")
        if name in found:
            raise ConfigError(f"{name!r} is given twice")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _named(name: str) -> Any:
    module_name, colon, factory = name.rpartition(":")
    if not colon or not module_name or not factory:
        raise ConfigError(f"{name!r} names no learner: give package.module:factory or file.py:factory")
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
