"""Progress of a run on stderr: a bar on a terminal, a line a minute elsewhere; warnings are lines in both.

The first line comes after a minute: a short run without findings prints nothing to a pipe. With --quiet nothing is printed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prequential.cli.streams import terminal

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


def shows_summary(*, quiet: bool, verbose: bool) -> bool:
    """Whether a command says in one line what it has done: on a terminal, and with -v."""
    return not quiet and (verbose or sys.stderr.isatty())


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
