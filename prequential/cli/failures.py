"""From exceptions to one line each on stderr; several inputs go on past a failure."""

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
        except BrokenPipeError:  # nobody is left to write for
            raise
        except Exception as error:
            report(name, error, verbose=verbose)
            code = EXIT_FAILURE
    return code


def report(name: str | None, error: Exception, *, verbose: bool) -> None:
    """Prints `prequential: NAME: reason`, and the traceback if the user wants to know."""
    if verbose:
        traceback.print_exception(error)
    parts = ["prequential", *([] if name is None else [name if name.isprintable() else ascii(name)]), _reason(error)]
    print(with_notes(": ".join(parts), error), file=sys.stderr)


def with_notes(line: str, error: BaseException) -> str:
    """The line, and what the exception passed on its way: what is left of the work, and how to go on."""
    notes = (note if note.isprintable() else ascii(note)[1:-1] for note in getattr(error, "__notes__", []))
    return "; ".join([line, *notes])


def _reason(error: Exception) -> str:
    """One line."""
    if isinstance(error, PrequentialError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return " ".join(f"unexpected {type(error).__name__}: {error} (-v shows where)".split())
