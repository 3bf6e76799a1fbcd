"""Progress of a run on the screen: its status in one line, and its findings as lines. A fault of the screen stops no run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from prequential.errors import wrong_argument
from prequential.online.health import Finding, Health
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.online.coding import Progress

MAX_TITLE = 24


class SilentProgress:
    """An `on_progress` that keeps a run's findings in `.health.findings` and shows nothing. Its subclasses show them."""

    period_s: float = float("inf")  # between two updates
    delay_s: float = float("inf")  # before the first
    shows_end = False

    def __init__(self, title: str) -> None:
        self.health: Health = Health()
        self._title, self._phase, self._has_failed = printable(title), "", False
        self._due_s = time.monotonic() + self.delay_s

    def __call__(self, done: Progress, n_bytes: int) -> None:
        findings, now_s = self.health(done, n_bytes), time.monotonic()
        is_due = now_s >= self._due_s or (self.shows_end and done.n_bytes >= n_bytes)
        if self._has_failed or not (findings or is_due):
            return
        try:
            self.warn(findings)
            if is_due:
                self._due_s = now_s + self.period_s
                self.update(done, n_bytes)
        except Exception:  # the terminal or the stream is closed: the run continues without a display
            self._has_failed = True

    def phase(self, name: str) -> None:
        """Begins a part of the work, which is named until the next one begins."""
        self._phase = printable(name)

    def warn(self, messages: Iterable[Finding | str]) -> None:
        for message in messages:
            self.write(self._line("warning", str(message)))

    def update(self, done: Progress, n_bytes: int) -> None:
        """Shows the status of the run."""

    def write(self, line: str) -> None:
        """Shows a line that stays."""

    def close(self) -> None:
        """Removes what does not stay, at the end of the run."""

    def _line(self, *parts: str) -> str:
        return printable(": ".join(filter(None, ["prequential", self._title, *parts])))

    def _status(self, done: Progress, n_bytes: int) -> str:
        return f"{done.n_bytes / n_bytes if n_bytes else 1:.0%}, {self.health.status(n_bytes)}".rstrip(", ")


def begin(on_progress: object, name: str) -> None:
    """Begins a part of the work, if what shows the progress can name it."""
    if isinstance(on_progress, SilentProgress):
        on_progress.phase(name)


class ProgressLines(SilentProgress):
    """One line a minute on stderr, the first after a minute."""

    period_s: float = 60.0
    delay_s: float = 60.0

    def update(self, done: Progress, n_bytes: int) -> None:
        self.write(self._line(self._phase, self._status(done, n_bytes)))

    def write(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class ProgressBar(SilentProgress):
    """A tqdm bar, by default on stderr. stays: it remains after each run, and the next run has a new one."""

    period_s: float = 0.2
    delay_s: float = 0.0
    shows_end = True

    def __init__(self, title: str, tqdm: Any, *, stays: bool, terminal: TextIO | None = None) -> None:
        super().__init__(title)
        self._tqdm, self._stays, self._terminal = tqdm, stays, terminal
        self._short_title = self._title if len(self._title) <= MAX_TITLE else f"…{self._title[1 - MAX_TITLE :]}"
        self._bar = None if stays else self._new_bar()

    def _new_bar(self) -> Any:
        form = "{desc} |{bar:16}|"  # a row that is filled would leave fragments when the terminal becomes narrower
        desc, file = self._short_title, self._terminal
        return self._tqdm(bar_format=form, dynamic_ncols=True, desc=desc, leave=self._stays, file=file)

    def _describe(self, *parts: str) -> None:
        if self._bar is not None:
            self._bar.set_description_str(" ".join(filter(None, [self._short_title, self._phase, *parts])))

    def phase(self, name: str) -> None:
        """Shows the name at once, also where nothing is reported."""
        super().phase(name)
        if not self._has_failed:
            self._describe()

    def update(self, done: Progress, n_bytes: int) -> None:
        if self._bar is None:
            self._bar = self._new_bar()
        self._bar.total, self._bar.n = n_bytes, done.n_bytes
        self._describe(self._status(done, n_bytes))
        if self._stays and done.n_bytes >= n_bytes and not len(done.segment):
            self.close()

    def write(self, line: str) -> None:
        self._tqdm.write(line, file=self._terminal or sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def progress(title: str = "") -> ProgressBar:
    """An `on_progress` for notebooks and scripts: a tqdm bar, and a line for each finding about the run's health.

    It serves one call and needs no closing. Its `.health.findings` has the findings.

    Examples:
        >>> import prequential
        >>> bar = prequential.progress("book")
        >>> archive = prequential.compress(b"a short text", config=prequential.preset(1), on_progress=bar)
        >>> bar.health.findings
        []
    """
    if not isinstance(title, str):
        raise wrong_argument("title", title, "a text")
    from tqdm.auto import tqdm

    return ProgressBar(title, tqdm, stays=True)
