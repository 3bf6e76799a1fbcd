"""Failures as one line each on stderr. If a command has several inputs, it continues after a failure."""

import argparse
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from prequential_corpora import is_path

from prequential.cli.streams import StandardOutputError
from prequential.errors import CorpusError, PrequentialError
from prequential.files import check_output, reading
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


# ---- paths: looked at before anything large is imported, so that a wrong one is refused at once


def are_refused(args: argparse.Namespace) -> bool:
    """Whether the command has nothing to do, because of missing inputs or existing outputs. Prints a line for each of them.

    A command declares with `set_defaults`: `inputs`, the names of its arguments that are corpora, archives or folders, or a
    function of all arguments that gives these names; and `output_of`, a function of its arguments and of one input that gives the
    path of the output. A command with a list of inputs goes on with the others, and reports those later. The work itself checks
    everything again, because files may change.
    """
    inputs = getattr(args, "inputs", ())
    attributes = inputs(args) if callable(inputs) else inputs
    values = [value for name in attributes if (value := getattr(args, name)) is not None]
    is_list = len(values) == 1 and isinstance(values[0], list)
    names: list[str] = values[0] if is_list else values
    after_end = getattr(args, "after_end", ())
    # argparse takes -1 for a negative number
    if presets := [name for name in names if re.fullmatch(r"-\d+", name) and name not in after_end]:
        args.parser.error(f"unrecognized arguments: {' '.join(presets)}")
    given = getattr(args, "given", None)
    if "" in (*names, given, getattr(args, "output", None)):  # for pathlib it is the current folder
        args.parser.error("a name is empty: give the name of a file or folder")
    if names.count("-") > 1:
        args.parser.error("- is given twice, but standard input can be read only once")
    if given is not None and (reason := _refusal(args, given, is_input=False)):
        report_failure(None, reason, verbose=args.verbose)
        return True
    reasons = [(name, reason) for name in names if (reason := _refusal(args, name))]
    if not reasons or (is_list and len(reasons) < len(names)):
        return False
    for name, reason in reasons if is_list else reasons[:1]:
        report_failure(name if is_list else None, reason, verbose=args.verbose)
    return True


def _refusal(args: argparse.Namespace, name: str, *, is_input: bool = True) -> Exception | None:
    """Why this source cannot be read, or nothing be made of this input, as far as the file system shows it."""
    try:
        if name == "-" and sys.stdin.isatty():
            raise CorpusError(
                "standard input is a terminal: name a file, or pipe data into the command (--help explains it)"
            )
        with reading(name):
            if is_path(name) and not Path(name).parent.is_file():  # FILE/NAME is a packed run
                Path(name).stat()
        if is_input and hasattr(args, "output_of") and (output := args.output_of(args, name)) is not None:
            check_output(output, overwrite=args.force)
    except PrequentialError as error:
        return error
    return None
