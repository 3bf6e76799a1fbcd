"""Shows a run as it goes: its figures in one line, and what its health finds as lines. What cannot be shown stops no run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prequential.measure.watch.health import Finding, Health

if TYPE_CHECKING:
    from prequential.online.coding import Progress

MAX_TITLE = 24


class Watch:
    """An `on_progress` that keeps a run's findings in `.health.findings` and shows nothing; those below do."""

    period_s = delay_s = float("inf")  # between two views, and before the first
    shows_end = False

    def __init__(self, title: str) -> None:
        self.health = Health()
        self._title = title if title.isprintable() else ascii(title)
        self._due_s = time.monotonic() + self.delay_s
        self._is_blind = False

    def __call__(self, done: Progress, n_bytes: int) -> None:
        findings, now_s = self.health(done, n_bytes), time.monotonic()
        is_due = now_s >= self._due_s or (self.shows_end and done.n_bytes >= n_bytes)
        if self._is_blind or not (findings or is_due):
            return
        try:
            self.warn(findings)
            if is_due:
                self._due_s = now_s + self.period_s
                self.view(done, n_bytes)
        except Exception:  # the terminal has gone, the stream is closed: the run goes on unseen
            self._is_blind = True

    def warn(self, messages: Iterable[Finding | str]) -> None:
        """Shows each in a line that stays."""
        for message in messages:
            self.write(self._line("warning", str(message)))

    def view(self, done: Progress, n_bytes: int) -> None:
        """Shows where the run is."""

    def write(self, line: str) -> None:
        """Shows a line that stays."""

    def close(self) -> None:
        """The run has ended, well or not."""

    def _line(self, *parts: str) -> str:
        return ": ".join(["prequential", *([self._title] if self._title else []), *parts])

    def _figures(self, done: Progress, n_bytes: int) -> str:
        return f"{done.n_bytes / n_bytes if n_bytes else 1:.0%}, {self.health.figures(n_bytes)}".rstrip(", ")


class Lines(Watch):
    """A line a minute on stderr, the first after a minute."""

    period_s = delay_s = 60.0

    def view(self, done: Progress, n_bytes: int) -> None:
        self.write(self._line(self._figures(done, n_bytes)))

    def write(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bar(Watch):
    """A bar of tqdm's. stays: the bar is left where a run has ended, and another run gets another; else it goes with `close`."""

    period_s, delay_s = 0.2, 0.0
    shows_end = True

    def __init__(self, title: str, tqdm: Any, *, stays: bool) -> None:
        super().__init__(title)
        self._tqdm, self._stays = tqdm, stays
        self._short = self._title if len(self._title) <= MAX_TITLE else f"…{self._title[1 - MAX_TITLE :]}"
        self._bar = None if stays else self._begin()

    def _begin(self) -> Any:
        return self._tqdm(desc=self._short, bar_format="{desc} |{bar}|", dynamic_ncols=True, leave=self._stays)

    def view(self, done: Progress, n_bytes: int) -> None:
        if self._bar is None:
            self._bar = self._begin()
        self._bar.total, self._bar.n = n_bytes, done.n_bytes
        self._bar.set_description_str(" ".join(filter(None, [self._short, self._figures(done, n_bytes)])))
        if self._stays and done.n_bytes >= n_bytes and not len(done.segment):
            self.close()

    def write(self, line: str) -> None:
        self._tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def progress(title: str = "") -> Bar:
    """An `on_progress` for notebooks and scripts: a bar as the place has them, and a line for each finding of the run's health.

    prequential.compress("book.txt", "book.txt.pq", on_progress=prequential.progress("book"))

    Needs no closing, and serves for one call. Its `.health.findings` are what was found.
    """
    from tqdm.auto import tqdm

    return Bar(title, tqdm, stays=True)
