"""The standard streams of the command line: open, and with every text in a form that cannot control a terminal."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from prequential.errors import OutputError
from prequential.printable import printable


class StandardOutputError(OutputError):
    """Standard output cannot be written. It ends the command, because no later result could be printed either."""


class PrintableStream:
    """A text stream that escapes what could control a terminal (`printable`), and every character that it cannot encode.

    is_output: standard output, whose failures raise StandardOutputError. Otherwise it is for diagnostics, and text that cannot be
    written is lost. `terminal` is the stream itself, for progress bars.
    """

    def __init__(self, terminal: Any, *, is_output: bool) -> None:
        self.terminal, self._is_output = terminal, is_output

    def write(self, text: str) -> int:
        """Writes the text and returns its length."""
        encoding = getattr(self.terminal, "encoding", None) or "utf-8"
        safe = printable(text, multiline=True).encode(encoding, "backslashreplace").decode(encoding)
        with self._checked():
            self.terminal.write(safe)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Passes all text to the system."""
        with self._checked():
            self.terminal.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if self._is_output:
                raise
        except OSError as error:
            if self._is_output:
                raise StandardOutputError(f"standard output: {error.strerror or error}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def terminal(stream: Any) -> Any:
    """The stream without escapes, for a progress bar, which controls the terminal itself."""
    return stream.terminal if isinstance(stream, PrintableStream) else stream


def open_missing_streams() -> None:
    """Opens /dev/null in place of standard streams that the caller has closed.

    Otherwise the next file that is opened would take their number, and diagnostics would be written to it. Standard input and
    output are opened the wrong way round, so that their first use is an error; diagnostics are lost.
    """
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest free number is this one
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


@contextmanager
def printable_streams() -> Iterator[None]:
    """While the body runs, sys.stdout and sys.stderr escape what could control a terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PrintableStream(before[0], is_output=True), PrintableStream(before[1], is_output=False)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def foreign_code() -> Iterator[None]:
    """While the body runs, its standard output goes to standard error, also that of its libraries: results stay alone."""
    output, python_output = sys.stdout, sys.__stdout__
    output.flush()
    saved = None
    with suppress(OSError):
        saved = os.dup(1)
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = output
        with suppress(OSError, ValueError):
            if python_output:
                python_output.flush()  # while it still leads to standard error
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)


def end_output() -> None:
    """Passes all output to the system, or discards it, so that the interpreter does not fail when it closes the stream."""
    try:
        sys.stdout.flush()
    except (OSError, StandardOutputError):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
