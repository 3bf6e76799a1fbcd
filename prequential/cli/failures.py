"""Failures as one line each on stderr. If a command has several inputs, it continues after a failure."""

import sys
import traceback
from collections.abc import Callable, Iterable

from prequential.errors import PrequentialError

EXIT_FAILURE = 1


def for_each(names: Iterable[str], run: Callable[[str], None], *, verbose: bool) -> int:
    """Runs every input, reports those that fail, and returns the exit code."""
    code = 0
    for name in names:
        try:
            run(name)
        except BrokenPipeError:  # the reader of standard output has closed it
            raise
        except Exception as error:
            report_failure(name, error, verbose=verbose)
            code = EXIT_FAILURE
    return code


def report_failure(name: str | None, error: Exception, *, verbose: bool) -> None:
    """Prints `prequential: NAME: reason`, after the traceback if `verbose`."""
    if verbose:
        traceback.print_exception(error)
    parts = ["prequential", *([] if name is None else [name if name.isprintable() else ascii(name)]), _reason(error)]
    print(with_notes(": ".join(parts), error), file=sys.stderr)


def with_notes(line: str, error: BaseException) -> str:
    """The line with the notes of the exception: what is left of the work, and how to resume it."""
    notes = (note if note.isprintable() else ascii(note)[1:-1] for note in getattr(error, "__notes__", []))
    return "; ".join([line, *notes])


def _reason(error: Exception) -> str:
    if isinstance(error, PrequentialError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return " ".join(f"unexpected {type(error).__name__}: {error} (-v prints the traceback)".split())
