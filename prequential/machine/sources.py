"""Where the source files of the program's three packages are, in a checkout as in an installation."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("prequential", "prequential_codecs", "prequential_corpora")


@cache
def package_folder(name: str) -> Path:
    """The folder of one of PACKAGES. It is found without importing the package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"the package {name} is missing: install prequential again")
    return Path(spec.origin).parent
