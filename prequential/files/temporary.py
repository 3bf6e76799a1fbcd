"""The folder for temporary files: the one that TMPDIR names, or else the system's."""

import os
import tempfile
from pathlib import Path

from prequential.errors import OutputError


def temporary_folder() -> str:
    """The folder for temporary files. Raises OutputError if TMPDIR names an unusable one, or if none is found.

    Python would take another one without a word, perhaps on a disk that others can read or that is too small.
    """
    name = next((name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)  # the order of tempfile
    if name is None:
        try:
            return tempfile.gettempdir()
        except FileNotFoundError as error:
            raise OutputError("temporary files need a folder: set TMPDIR to one that you can write") from error
    folder = Path(os.environ[name]).absolute()
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"{name} is {os.environ[name]!r}, which is not a folder that you can write: set it to another one"
        )
    return str(folder)
