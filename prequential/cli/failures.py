"""Failures as one line each on stderr. If a command has several inputs, it continues after a failure."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable

from prequential.cli.streams import StandardOutputError
from prequential.errors import PrequentialError
from prequential.machine.usable_memory import limits_of_user
from prequential.printable import printable

EXIT_FAILURE = 1
# What messages of the library tell to give, and the option that gives it on the command line.
OPTIONS = {
    "overwrite=True": "-f",
    "resume=True": "--resume",
    "trust_runs=True": "--trust-runs",
    'device="cuda"': "--device cuda",
    "given=": "--given",
    "groups=": "--group",
    "context=": "--context",
    "stride=": "--stride",
    "since=": "--since",
    "audit_every=": "--audit-every",
    "max_memory_bytes=": "--max-memory",
    "max_output_bytes=": "--max-output",
    "max_decoding_s=": "--max-time",
}
_QUOTED = r"""(?<!\w)'[^']*'|(?<!\w)"[^"]*\""""  # names of files, which may be anything
_ARGUMENT = re.compile("|".join([_QUOTED, *(rf"\b(?:{re.escape(name)})" for name in OPTIONS)]))


def for_each(names: Iterable[str], run: Callable[[str], None], *, verbose: bool) -> int:
    """Runs every input, reports those that fail, and returns the exit code."""
    code = 0
    for name in names:
        try:
            run(name)
        except (BrokenPipeError, StandardOutputError):  # no later result could be printed either
            raise
        except Exception as error:
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            report_failure(name, error, verbose=verbose)
            code = EXIT_FAILURE
    return code


def was_interrupted(error: BaseException | None) -> bool:
    """Whether the exception comes from Ctrl-C: in some places, such as class bodies, Python makes others of it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def report_failure(name: str | None, error: Exception, *, verbose: bool) -> None:
    """Prints `prequential: NAME: reason`, or `prequential: reason` if the reason names it.

    verbose: after the traceback, if the error is not one that a user can mend.
    """
    if verbose and not isinstance(error, PrequentialError | OSError | MemoryError):
        traceback.print_exception(error)
    reason = in_options(_reason(error))
    named = [] if name is None or repr(name) in reason else [name]
    print(with_notes(": ".join(["prequential", *named, reason]), error), file=sys.stderr)


def warn(text: str) -> None:
    """Prints `prequential: warning: TEXT`."""
    print(printable(in_options(f"prequential: warning: {text}")), file=sys.stderr)


def with_notes(line: str, error: BaseException) -> str:
    """The line with the notes of the exception: what is left of the work, and how to resume it."""
    return printable("; ".join([line, *map(in_options, getattr(error, "__notes__", []))]))


def in_options(text: str) -> str:
    """A message of the library in words of the command line: arguments of functions as options. Quoted names stay."""
    return _ARGUMENT.sub(lambda found: OPTIONS.get(found[0], found[0]), text)


def _lacks_memory(error: Exception) -> bool:
    """Whether the system gave no memory: to Python, to a call of the system, or to the loader of a library."""
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or "cannot allocate memory" in str(error).lower()
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _reason(error: Exception) -> str:
    if isinstance(error, PrequentialError):
        return str(error)
    if _lacks_memory(error):
        return f"out of memory{limits_of_user()}"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return (
            "cannot start a thread: the limit of processes (ulimit -u, or that of the container or job) or of memory is "
            f"reached{limits_of_user()}; --threads 1 needs fewer"
        )
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return f"{os.fsdecode(error.filename)!r}: {reason}" if isinstance(error.filename, str | bytes) else reason
    return " ".join(f"unexpected {type(error).__name__}: {error} (-v prints the traceback)".split())
