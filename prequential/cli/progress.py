"""Progress of a run on stderr: a bar on a terminal, a line a minute elsewhere; and the command that resumes a run.

Warnings are lines in both. The first line comes after a minute: a short run without findings prints nothing to a pipe. With
--quiet nothing is printed.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from prequential.cli.streams import terminal
from prequential.files import RESUMABLE
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.watch.progress import SilentProgress

COMPILING = (
    "compiling kernels, once for each kind of run after an installation (some 15 to 30 s on an idle processor, minutes on a "
    "busy one)"
)


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[SilentProgress]:
    """An `on_progress` that shows a run and collects its findings. Warnings that the program logs are shown in the same way."""
    watch = _watch(title, quiet=quiet)
    logger, handler = logging.getLogger("prequential"), _WarningHandler(watch)
    logger.addHandler(handler)
    try:
        with _compilation_shown(watch):
            yield watch
    finally:
        logger.removeHandler(handler)
        with suppress(Exception):
            watch.close()


def print_summary(args: argparse.Namespace, line: str) -> None:
    """Says on stderr what a command has done: on a terminal, and with -v."""
    if not args.quiet and (args.verbose or sys.stderr.isatty()):
        print(printable(line), file=sys.stderr)


def _watch(title: str, *, quiet: bool) -> SilentProgress:
    from prequential.watch.progress import ProgressBar, ProgressLines, SilentProgress

    if quiet:
        return SilentProgress(title)
    if not sys.stderr.isatty():
        return ProgressLines(title)
    from tqdm import tqdm

    return ProgressBar(title, tqdm, stays=False, terminal=terminal(sys.stderr))


@contextmanager
def _compilation_shown(watch: SilentProgress) -> Iterator[None]:
    """Shows when kernels are compiled, in one line and in the bar: a first run must not look as if it hung."""
    from prequential.machine.compiled import event

    class Listener(event.Listener):
        said, depth = False, 0

        def on_start(self, _: event.Event) -> None:
            self.depth += 1
            if self.depth > 1:  # a kernel that is compiled for another one
                return
            with suppress(Exception):
                self.phase = watch.phase("compiling kernels")
                if not self.said:
                    watch.write(f"prequential: {COMPILING}")
                self.said = True

        def on_end(self, _: event.Event) -> None:
            self.depth -= 1
            if self.depth == 0:
                with suppress(Exception):
                    watch.phase(self.phase)

    with event.install_listener("numba:compile", Listener()):
        yield


class _WarningHandler(logging.Handler):
    """Shows each logged warning as a warning of the run."""

    def __init__(self, watch: SilentProgress) -> None:
        super().__init__(logging.WARNING)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._watch.warn([record.getMessage()])


# ---- commands that resume an interrupted run, to be pasted into a shell


@contextmanager
def resumable(args: argparse.Namespace, **changes: Any) -> Iterator[None]:
    """If the body fails and leaves a checkpoint, the error names the command that resumes the run: `args` with these changes."""
    try:
        yield
    except BaseException as error:
        notes, command = getattr(error, "__notes__", []), command_line(args, **changes, resume=True)
        error.__notes__ = [f"`{command}` continues from the last checkpoint" if n == RESUMABLE else n for n in notes]
        raise


def command_line(args: argparse.Namespace, **changes: Any) -> str:
    """The command of these arguments, some of them changed. Options of their default value are left out."""
    values, words, names = {**vars(args), **changes}, args.parser.prog.split(), list[str]()
    for action in args.parser._actions:
        value: Any = values.get(action.dest)
        if not action.option_strings:
            names += value if isinstance(value, list) else [value]
        elif value not in (None, action.default, []):
            words += _option(action, value)
    return shlex.join([*words, *(["--"] if any(name[:1] == "-" != name for name in names) else []), *names])


def _option(action: argparse.Action, value: Any) -> list[str]:
    """The words that give the option this value; none for an option of another value of the same name, such as --fast."""
    name = action.option_strings[0]
    if action.nargs == 0:
        if f"-{value}" in action.option_strings:  # a level
            return [f"-{value}"]
        return [name] if action.const == value else []
    if action.choices is not None and value not in action.choices:
        return []
    return [word for each in (value if isinstance(value, list) else [value]) for word in (name, str(each))]
