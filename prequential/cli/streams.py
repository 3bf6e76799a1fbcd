"""Standard streams: results on stdout; failures, warnings and progress on stderr. No text on them can control a terminal."""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from prequential.errors import ConfigError, OutputError, PrequentialError
from prequential.printable import printable, wrapped

if TYPE_CHECKING:
    from prequential.online.progress import SilentProgress

EXIT_FAILURE, EXIT_USAGE = 1, 2
_OF_EQUAL_NAME = (
    "target_width", "target_parameters", "given", "context", "stride", "since", "cluster", "orders", "tokens_per_step",
    "audit_every", "train", "train_limit", "static", "scores", "config", "learner", "bytes_per_token", "tokens", "loss",
    "pattern", "steps",
)  # fmt: skip
# What messages of the library tell to give, and the option that gives it on the command line.
OPTIONS = {
    "overwrite=True": "-f", "resume=True": "--resume", "after_the_fact=True": "--after-the-fact", "groups=": "--group",
    "max_memory_bytes=": "--max-memory", "max_output_bytes=": "--max-output",
    'device="cuda"': "--device cuda", "heldout_curve=True": "--heldout-curve",
    **{f"{name}=": f"--{name.replace('_', '-')}" for name in _OF_EQUAL_NAME},
}  # fmt: skip
_QUOTED = r"""(?<!\w)'[^']*'|(?<!\w)"[^"]*\""""  # names of files, which may be anything
_ARGUMENT = re.compile("|".join([_QUOTED, *(rf"\b(?:{re.escape(name)})" for name in OPTIONS)]))
COMPILING = "first such run: compiling kernels (10 to 30 s, minutes if busy)"


class StandardOutputError(OutputError):
    """Standard output cannot be written. It ends the command, because no later result could be printed either."""


class PrintableStream:
    """A text stream that escapes what could control a terminal (`printable`), and every character that it cannot encode.

    is_output: standard output, whose failures raise StandardOutputError. Otherwise text that cannot be written is lost.
    """

    def __init__(self, terminal: Any, *, is_output: bool) -> None:
        self.terminal, self._is_output = terminal, is_output

    def write(self, text: str) -> int:
        encoding = getattr(self.terminal, "encoding", None) or "utf-8"
        safe = printable(text, multiline=True).encode(encoding, "backslashreplace").decode(encoding)
        self._checked(self.terminal.write, safe)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._checked(self.terminal.flush)

    def _checked(self, action: Callable[..., object], *text: str) -> None:
        try:
            action(*text)
        except OSError as error:
            if self._is_output and isinstance(error, BrokenPipeError):
                raise
            if self._is_output:
                raise StandardOutputError(f"standard output: {error.strerror or error}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def open_missing_streams() -> None:
    """Opens /dev/null in place of standard streams that the caller has closed.

    Otherwise the next file that is opened would take their number, and diagnostics would be written to it. Standard input and
    output are opened the wrong way round, so that their first use is an error; diagnostics are lost.
    """
    for number, (name, flags) in enumerate(dict(stdin=os.O_WRONLY, stdout=os.O_RDONLY, stderr=os.O_WRONLY).items()):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest free number is this one
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


@contextmanager
def printable_streams() -> Iterator[None]:
    """While the body runs, sys.stdout and sys.stderr escape what could control a terminal. At its end all output has left."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PrintableStream(before[0], is_output=True), PrintableStream(before[1], is_output=False)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except (OSError, StandardOutputError):  # otherwise the interpreter would fail when it closes the stream
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stdout, sys.stderr = before


def fitted(text: str) -> str:
    """A report for standard output: on a terminal, `wrapped`; elsewhere each sentence stays one line, for other programs."""
    return wrapped(text) if sys.stdout.isatty() else text


def is_text(args: argparse.Namespace) -> bool:
    """Whether results are printed for people to read."""
    return not (args.quiet or any(getattr(args, form, False) for form in ("json", "csv", "markdown")))


def print_result(
    args: argparse.Namespace, text: str, *records: Mapping[str, Any], figure: str = "", rows: Callable[[], Any] = list
) -> None:
    """Prints the result of a command: its text, or its records as JSON lines, its rows as a table, or with -q the figure alone.

    rows: gives a data frame, or a list of objects. A terminal has the figure in colour at its last place, unless NO_COLOR is set.
    """
    if args.json:
        print("".join(json.dumps(record, allow_nan=False) + "\n" for record in records), end="", flush=True)
    elif getattr(args, "csv", False) or getattr(args, "markdown", False):
        print(_table(rows(), as_csv=args.csv), flush=True)
    elif args.quiet:
        print(figure, end="\n" if figure else "", flush=True)
    else:
        is_coloured = figure and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        before, found, end = fitted(text).rpartition(figure) if is_coloured else ("", "", fitted(text))
        for part, code in ((before, "1;32"), (found, "0")) if found else ():
            print(part, end="")
            getattr(sys.stdout, "terminal", sys.stdout).write(f"\x1b[{code}m")  # without escapes
        print(end, flush=True)


def _table(rows: Any, *, as_csv: bool) -> str:
    """CSV, or a table of Markdown, with a column for each name that has no lists or objects."""
    import pandas

    table = pandas.DataFrame(rows)
    table = table[[name for name in table if not table[name].map(lambda value: isinstance(value, list | dict)).any()]]
    if as_csv:
        return str(table.to_csv(index=False)).rstrip("\n")
    ends = ["---:" if pandas.api.types.is_numeric_dtype(table[name]) else "---" for name in table]
    lines = [[*table], ends, *(map(_cell, row) for row in table.itertuples(index=False))]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _cell(value: Any) -> str:
    if type(value) in (int, float) and value == value:
        return f"{value:,.4f}" if type(value) is float and abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None or value != value else printable(str(value)).replace("|", "\\|")


@contextmanager
def foreign_code() -> Iterator[None]:
    """While the body runs, its standard output goes to standard error, also of libraries and children: results stay alone."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        with suppress(OSError, ValueError, AttributeError):
            sys.__stdout__.flush()  # type: ignore[union-attr]  # while it still leads to standard error
        os.dup2(saved, 1)
        os.close(saved)


# ---- failures: one line each


def for_each(names: Iterable[str], run: Callable[[str], None], *, verbose: bool) -> int:
    """Runs every input, reports those that fail, and returns the exit code."""
    code = 0
    for name in names:
        try:
            run(name)
        except (BrokenPipeError, StandardOutputError):  # no later result could be printed either
            raise
        except Exception as error:
            report_failure(name, error, verbose=verbose)
            code = EXIT_FAILURE
    return code


def report_failure(name: str | None, error: Exception, *, verbose: bool) -> int:
    """Prints `prequential: NAME: reason`, or `prequential: reason` if the reason names it. Returns the exit code.

    verbose: a traceback comes before an error that the user cannot mend.
    """
    if verbose and not isinstance(error, PrequentialError | OSError | MemoryError):
        traceback.print_exception(error)
    reason = in_options(_reason(error))
    named = [] if name is None or repr(name) in reason else [name]
    print(with_notes(": ".join(["prequential", *named, reason]), error), file=sys.stderr)
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE


def with_notes(line: str, error: BaseException) -> str:
    """The line with the notes of the exception: what is left of the work, and how to resume it."""
    return printable("; ".join([line, *map(in_options, getattr(error, "__notes__", []))]))


def in_options(text: str) -> str:
    """A message of the library in words of the command line: arguments of functions as options. Quoted names stay."""
    return _ARGUMENT.sub(lambda match: OPTIONS.get(match[0], match[0]), text)


def _reason(error: Exception) -> str:
    if isinstance(error, PrequentialError):
        return str(error)
    if _lacks_memory(error):
        return "out of memory (`ulimit -a` shows the limits of this user)"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        limit = "the limit of processes (ulimit -u, or that of the container or job) or of memory is reached"
        return f"cannot start a thread: {limit}; --threads 1 needs fewer"
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return f"{os.fsdecode(error.filename)!r}: {reason}" if isinstance(error.filename, str | bytes) else reason
    return " ".join(f"unexpected {type(error).__name__}: {error} (-v prints the traceback)".split())


def _lacks_memory(error: Exception) -> bool:
    """Whether the system gave no memory: to Python, to a call of the system, or to the loader of a library."""
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or "cannot allocate memory" in str(error).lower()
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


# ---- progress: a bar on a terminal, elsewhere a line a minute; warnings are lines in both


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[SilentProgress]:
    """An `on_progress` that shows a run and collects its findings, and shows warnings that the program logs in the same way."""
    from prequential.online.progress import ProgressBar, ProgressLines, SilentProgress

    if quiet or not sys.stderr.isatty():
        watch = SilentProgress(title) if quiet else ProgressLines(title)
    else:
        from tqdm import tqdm

        terminal = getattr(sys.stderr, "terminal", sys.stderr)  # without escapes: the bar itself controls it
        watch = ProgressBar(title, tqdm, stays=False, terminal=terminal)
    logger, handler = logging.getLogger("prequential"), _WarningHandler(watch)
    logger.addHandler(handler)
    try:
        with _compilation_shown(watch):
            yield watch
    finally:
        logger.removeHandler(handler)
        with suppress(Exception):
            watch.close()


@contextmanager
def _compilation_shown(watch: SilentProgress) -> Iterator[None]:
    """Says once that kernels are compiled: a first run must not look as if it hung."""
    from prequential.machine.compiled import event
    from prequential.machine.kernel_cache import kernel_folder

    class Listener(event.Listener):
        said = False

        def on_start(self, _: event.Event) -> None:
            if not self.said and kernel_folder():  # without one, a warning says that each run compiles
                with suppress(Exception):
                    watch.write(f"prequential: {COMPILING}")
            self.said = True

        def on_end(self, _: event.Event) -> None:
            """Numba asks for this method."""

    with event.install_listener("numba:compile", Listener()):
        yield


class _WarningHandler(logging.Handler):
    """Shows each logged warning as a warning of the run."""

    def __init__(self, watch: SilentProgress) -> None:
        super().__init__(logging.WARNING)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._watch.warn([in_options(record.getMessage())])


def print_summary(args: argparse.Namespace, line: str) -> None:
    """Says on stderr what a command has done: on a terminal, and with -v."""
    if not args.quiet and (args.verbose or sys.stderr.isatty()):
        print(printable(line), file=sys.stderr)
