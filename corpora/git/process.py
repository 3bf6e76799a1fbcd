"""A running git process, and where the git program is."""

import os
import shutil
import subprocess
from contextlib import suppress
from typing import IO

from prequential.errors import CorpusError, MissingDependencyError

PIPE_N_BYTES = 1 << 16


def git_program() -> str:
    """The path of the git program. Raises MissingDependencyError."""
    if (program := shutil.which("git")) is None:
        raise MissingDependencyError("git repositories are read with the `git` program, which is not installed")
    return program


def last_line(text: bytes) -> str:
    """The last line of git's error output that states a reason, printable."""
    lines = [line for line in text.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return "".join(c if c.isprintable() else "?" for c in (fatal or ["no reason given"])[-1])[:300]


class GitProcess:
    """A running git process that answers requests. Its output is buffered, so that it can be split at any byte.

    Every method raises CorpusError if git fails.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        """errors: the file to which git writes its error output."""
        self._process, self._errors, self._buffer = process, errors, bytearray()

    def send(self, request: bytes) -> None:
        """Writes a request to git."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed() from error

    def read_until(self, end: bytes, limit: int = 1 << 62) -> bytes:
        """The output up to and including the byte `end`, or the next `limit` bytes if `end` is not in them; b"" at the end."""
        start = 0
        while (at := self._buffer.find(end, start, limit)) < 0 and len(self._buffer) < limit:
            start = len(self._buffer)
            if not self._fill():
                if self._buffer or self._process.wait():
                    raise self._failed()
                return b""
        return self._take(min(limit, at + 1 if at >= 0 else limit))

    def read_exactly(self, n_bytes: int) -> bytes:
        """The next n_bytes of the output."""
        while len(self._buffer) < n_bytes:
            if not self._fill():
                raise self._failed()
        return self._take(n_bytes)

    def finish(self) -> None:
        """Closes git's input and waits until git ends successfully."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError as error:
            raise self._failed() from error
        self.read_until(b"\0")

    def close(self) -> None:
        """Kills git, which may be in the middle of an answer that is no longer needed."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # a request that git did not read
                    stream.close()
        self._process.wait()

    def _fill(self) -> int:
        assert self._process.stdout is not None
        chunk = os.read(self._process.stdout.fileno(), PIPE_N_BYTES)
        self._buffer += chunk
        return len(chunk)

    def _take(self, n_bytes: int) -> bytes:
        taken = bytes(self._buffer[:n_bytes])
        del self._buffer[:n_bytes]
        return taken

    def _failed(self) -> CorpusError:
        self._process.wait()
        self._errors.seek(0)
        reason = last_line(self._errors.read()[-PIPE_N_BYTES:])
        return CorpusError(
            f"git could not read the repository: {reason}; if the clone is shallow or damaged, try git fsck"
        )
