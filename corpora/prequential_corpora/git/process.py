"""Git processes with limits: how they are started, and how their answers are read.

A stranger's repository decides what git reads, so git may be slow, large, wrong or stuck (for example, an object may be a named
pipe). Each case is a CorpusError.
"""

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import temporary_folder

PIPE_N_BYTES = 1 << 16
MAX_FIELD_N_BYTES = 1 << 16  # of a line or a field of an answer: two quoted paths need about 33,000
SILENCE_S = 300.0  # git that says nothing for so long is stopped
MEMORY_N_BYTES = 4 << 30  # of one git process, not counting mapped files. Few bytes can describe billions of files.


def git_program() -> str:
    """The path of the git program. Raises MissingDependencyError."""
    if (program := shutil.which("git")) is None:
        raise MissingDependencyError("git repositories are read with the `git` program, which is not installed")
    return program


def git_environment() -> dict[str, str]:
    """This process's environment without git's variables, which could name another repository, index or configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}


def last_line(text: bytes) -> str:
    """The last line of git's error output that states a reason, printable; "" if it is empty."""
    lines = [line for line in text.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return "".join(c if c.isprintable() else "?" for c in (fatal or [""])[-1])[:300]


class Outcome(NamedTuple):
    """Exit status and output of a git process that has ended, and the reason of its failure: one line, or ""."""

    status: int
    output: bytes
    reason: str


def start_git(args: Sequence[str], folder: Path, env: Mapping[str, str]) -> "GitProcess":
    """Starts git in `folder`, with limited memory. Raises CorpusError, MissingDependencyError."""
    command, pipe = [git_program(), *args], subprocess.PIPE
    errors = tempfile.TemporaryFile(dir=temporary_folder(), prefix="prequential-git-")  # noqa: SIM115  # closed with the process
    try:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=errors)
    except OSError as error:
        errors.close()
        raise CorpusError(f"cannot start git in {str(folder)!r}: {error.strerror or error}") from error
    _limit_memory(process.pid)
    return GitProcess(process, errors)


def _limit_memory(number: int) -> None:
    with suppress(ImportError, AttributeError, OSError):  # Linux only; and git may have ended
        import resource

        limits = [n for n in resource.prlimit(number, resource.RLIMIT_DATA) if n != resource.RLIM_INFINITY]
        n_bytes = min([MEMORY_N_BYTES, *limits])
        resource.prlimit(number, resource.RLIMIT_DATA, (n_bytes, n_bytes))


class GitProcess:
    """A running git process that answers requests. Its output is buffered, so that it can be split at any byte.

    Every method raises CorpusError if git fails, ends too early or does not answer for `SILENCE_S`.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process, self._errors, self._buffer = process, errors, bytearray()

    def send(self, request: bytes) -> None:
        """Writes a request to git."""
        assert self._process.stdin is not None
        number = self._process.stdin.fileno()
        try:
            for start in range(0, len(request), select.PIPE_BUF):  # a pipe that is ready takes so much without waiting
                self._wait_for(number, select.POLLOUT)
                os.write(number, request[start : start + select.PIPE_BUF])
        except OSError as error:
            raise self.failed() from error

    def read_until(self, end: bytes, max_n_bytes: int = MAX_FIELD_N_BYTES) -> bytes:
        """The output up to and including the byte `end`, which must be among the next max_n_bytes."""
        part = self.read_part(end, max_n_bytes)
        if not part.endswith(end):
            raise wrong_answer(f"a field of more than {max_n_bytes:,} bytes")
        return part

    def read_part(self, end: bytes, max_n_bytes: int) -> bytes:
        """The output up to and including the byte `end`, or the next max_n_bytes if `end` is not among them."""
        start = 0
        while (at := self._buffer.find(end, start, max_n_bytes)) < 0 and len(self._buffer) < max_n_bytes:
            start = len(self._buffer)
            if not self._fill():
                raise self.failed()
        return self._take(min(max_n_bytes, at + 1 if at >= 0 else max_n_bytes))

    def read_exactly(self, n_bytes: int) -> bytes:
        """The next n_bytes of the output."""
        while len(self._buffer) < n_bytes:
            if not self._fill():
                raise self.failed()
        return self._take(n_bytes)

    def has_more(self) -> bool:
        """Whether there is more output. If not, git has ended successfully."""
        if self._buffer or self._fill():
            return True
        if self._status():
            raise self.failed()
        return False

    def outcome(self) -> Outcome:
        """Closes git's input, and waits until git ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while self._fill():
            if len(self._buffer) > MAX_FIELD_N_BYTES:
                raise wrong_answer(f"more than {MAX_FIELD_N_BYTES:,} bytes")
        return Outcome(self._status(), self._take(len(self._buffer)), self._reason())

    def finish(self) -> None:
        """Closes git's input, and waits until git ends successfully and without more output."""
        status, output, _ = self.outcome()
        if status or output:
            raise self.failed()

    def close(self) -> None:
        """Kills git, even in the middle of an answer. A second call does nothing."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(OSError):  # a request that git did not read
                    stream.close()
        self._process.wait()

    def failed(self) -> CorpusError:
        """The error for a git that has ended, or that should have, with its reason."""
        status = self._status()
        reason = self._reason() or f"it ended early, with status {status}"
        return CorpusError(
            f"git could not read the repository: {reason}; if the clone is shallow or damaged, try git fsck"
        )

    def _reason(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - PIPE_N_BYTES))
        return last_line(self._errors.read())

    def _status(self) -> int:
        try:
            return self._process.wait(SILENCE_S)
        except subprocess.TimeoutExpired:
            raise _silent() from None

    def _fill(self) -> int:
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        self._wait_for(number, select.POLLIN)
        chunk = os.read(number, PIPE_N_BYTES)
        self._buffer += chunk
        return len(chunk)

    def _wait_for(self, number: int, event: int) -> None:
        """Waits until the pipe can be read or written, or its other end is closed."""
        pipe = select.poll()
        pipe.register(number, event)
        if not pipe.poll(SILENCE_S * 1000):
            raise _silent()

    def _take(self, n_bytes: int) -> bytes:
        taken = bytes(self._buffer[:n_bytes])
        del self._buffer[:n_bytes]
        return taken


def wrong_answer(what: str) -> CorpusError:
    """The error for output that git never writes, or that is longer than this program accepts."""
    return CorpusError(f"git could not read the repository: its answer has {what}; try git fsck")


def _silent() -> CorpusError:
    return CorpusError(
        f"git could not read the repository: it has not answered for {SILENCE_S:.0f} s; "
        "look for named pipes in the repository, and try git fsck"
    )
