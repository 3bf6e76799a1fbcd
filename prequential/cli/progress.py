"""What stderr shows of a run: on a terminal a bar, elsewhere a line a minute; what its health finds are lines in both.

The first line comes after a minute: to a pipe, a short run without findings says nothing. --quiet says nothing at all.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prequential.measure.watch.progress import Watch


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Watch]:
    """An `on_progress` that shows the run and keeps its findings. What the program logs meanwhile is shown as they are."""
    watch = _watch(title, quiet=quiet)
    logger, handler = logging.getLogger("prequential"), _Handler(watch)
    logger.addHandler(handler)
    try:
        yield watch
    finally:
        logger.removeHandler(handler)
        with suppress(Exception):
            watch.close()


def _watch(title: str, *, quiet: bool) -> Watch:
    from prequential.measure.watch.progress import Bar, Lines, Watch

    if quiet or sys.stderr is None:
        return Watch(title)
    if not sys.stderr.isatty():
        return Lines(title)
    from tqdm import tqdm

    return Bar(title, tqdm, stays=False)


class _Handler(logging.Handler):
    """Shows what is logged as a warning among the others."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._watch.warn([record.getMessage()])
