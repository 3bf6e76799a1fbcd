"""Git processes with limits: how they are started, and how their answers are read; a patch, of which the added lines are kept.

A stranger's repository decides what git reads, so git may be slow, large, wrong or stuck. Each case is a CorpusError. Hunks
(`git diff-tree -p -U0`) are read by the line counts that git gives, so contents are never taken for git's own lines.
"""

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import temporary_folder

PIPE_N_BYTES = 1 << 16
MAX_FIELD_N_BYTES = 1 << 16  # of a line or a field of an answer: two quoted paths need about 33,000
SILENCE_S = 300.0  # git that says nothing for so long is stopped
MEMORY_N_BYTES = 4 << 30  # of one git process, not counting mapped files. Few bytes can describe billions of files.
PATCH_OPTIONS = ("-p", "-U0", "--full-index", "--text", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers")
FILE = b"diff --git "
END = b"end\n"
HUNK = re.compile(rb"@@ -\d{1,10}(?:,(\d{1,10}))? \+\d{1,10}(?:,(\d{1,10}))? @@")
INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: [0-7]+)?\n")
HEADER = re.compile(
    rb"(?:old mode|new mode|deleted file mode|new file mode|rename from|rename to|(?:dis)?similarity index|---|\+\+\+) "
)

Pair = tuple[bytes, bytes]  # object ids of the old and the new version, in hexadecimal


def git_environment() -> dict[str, str]:
    """This process's environment without git's variables, which could name another repository, index or configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}


def start_git(args: Sequence[str], folder: Path, env: Mapping[str, str], remedy: str = "try git fsck") -> "GitProcess":
    """Starts git in `folder`, with limited memory. remedy: for errors. Raises CorpusError, MissingDependencyError."""
    if (program := shutil.which("git")) is None:
        raise MissingDependencyError("git repositories are read with the `git` program, which is not installed")
    command, pipe = [program, *args], subprocess.PIPE
    errors = tempfile.TemporaryFile(dir=temporary_folder(), prefix="prequential-git-")  # noqa: SIM115  # closed with the process
    try:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=errors)
    except OSError as error:
        errors.close()
        raise CorpusError(f"cannot start git in {str(folder)!r}: {error.strerror or error}") from error
    _limit_memory(process.pid)
    return GitProcess(process, errors, remedy)


def _limit_memory(number: int) -> None:
    with suppress(ImportError, AttributeError, OSError):  # Linux only; and git may have ended
        import resource

        limits = [n for n in resource.prlimit(number, resource.RLIMIT_DATA) if n != resource.RLIM_INFINITY]
        n_bytes = min([MEMORY_N_BYTES, *limits])
        resource.prlimit(number, resource.RLIMIT_DATA, (n_bytes, n_bytes))


class GitProcess:
    """A running git process that answers requests. Every method raises CorpusError if git fails or is silent for `SILENCE_S`."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes], remedy: str) -> None:
        self._process, self._errors, self._buffer, self._remedy = process, errors, bytearray(), remedy

    def send(self, request: bytes) -> None:
        assert self._process.stdin is not None
        number = self._process.stdin.fileno()
        try:
            for start in range(0, len(request), select.PIPE_BUF):  # a pipe that is ready takes so much without waiting
                self._wait_for(number, select.POLLOUT)
                os.write(number, request[start : start + select.PIPE_BUF])
        except OSError as error:
            raise self.failed() from error

    def read_until(self, end: bytes, max_n_bytes: int = MAX_FIELD_N_BYTES) -> bytes:
        """As `read_part`, but `end` must be among the next max_n_bytes."""
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

    def answer(self) -> tuple[int, bytes, str]:
        """Closes git's input, and waits until git ends: its exit status, output, and reason of failure (one line, or "")."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while self._fill():
            if len(self._buffer) > MAX_FIELD_N_BYTES:
                raise wrong_answer(f"more than {MAX_FIELD_N_BYTES:,} bytes")
        return self._status(), self._take(len(self._buffer)), self._reason()

    def finish(self) -> None:
        """Closes git's input, and waits until git ends successfully and without more output."""
        status, output, _ = self.answer()
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
        return CorpusError(f"git could not read the repository: {reason}; {self._remedy}")

    def _reason(self) -> str:
        """The last line of git's error output that states a reason, printable; "" if it is empty."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - PIPE_N_BYTES))
        text = self._errors.read().decode("utf-8", "backslashreplace")
        lines = [line for line in text.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        return "".join(c if c.isprintable() else "?" for c in (fatal or [""])[-1])[:300]

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


class Patch:
    """The files of one patch, in git's order, as far as they are requested. Memory: the added lines of one file."""

    def __init__(self, process: GitProcess, max_n_bytes: int) -> None:
        """max_n_bytes: of the added lines of a file; of more, slightly more than that are kept."""
        self._process, self._max_n_bytes = process, max_n_bytes
        self._line = self._next_line()  # the last line that was read: END, or the first one of a file
        if self._line != END and not self._line.startswith(FILE):
            raise wrong_answer("an unknown line in a patch")

    def added_lines(self, pair: Pair) -> bytes:
        """The added lines of the next file with these versions, with their line ends. Skips the files before it."""
        while self._line != END:
            found, added = self._read_file(pair)
            if found:
                return added
        raise CorpusError(f"git lists a change to {pair[1].decode()} but shows no lines of it; try git fsck")

    def skip_rest(self) -> None:
        while self._line != END:
            self._read_file(None)

    def _read_file(self, wanted: Pair | None) -> tuple[bool, bytes]:
        """Whether the next file has the wanted versions, and then its added lines. Reads up to the line after the file."""
        found, added, sign = False, bytearray(), b" "
        while (line := self._next_line()) != END and not line.startswith(FILE):
            if index := INDEX.fullmatch(line):
                found = (index[1], index[2]) == wanted
            elif hunk := HUNK.match(line):
                sign = self._read_hunk(hunk, added if found else None)
            elif line.startswith(b"\\"):  # "No newline at end of file"
                if sign == b"+":
                    del added[-1:]
            elif not HEADER.match(line):
                raise wrong_answer("an unknown line in a patch")
        self._line = line
        return found, bytes(added)

    def _read_hunk(self, hunk: re.Match[bytes], added: bytearray | None) -> bytes:
        """Reads one hunk by its line counts and returns the sign of its last line, + or -. Appends the added lines to `added`."""
        n_left = {b"-": int(hunk[1] or 1), b"+": int(hunk[2] or 1)}
        sign = b" "
        while any(n_left.values()):
            part = self._process.read_part(b"\n", PIPE_N_BYTES)
            # "No newline at end of file" of the old version: more lines follow
            if sign == b"-" and part.startswith(b"\\"):
                continue
            sign, start = part[:1], 1
            if not n_left.get(sign):
                raise wrong_answer("another number of lines in a patch than it declares")
            n_left[sign] -= 1
            while True:
                if sign == b"+" and added is not None and len(added) <= self._max_n_bytes:
                    added += part[start:]
                if part.endswith(b"\n"):
                    break
                part, start = self._process.read_part(b"\n", PIPE_N_BYTES), 0
        return sign

    def _next_line(self) -> bytes:
        """The next line outside a hunk. Git quotes names here, so a name cannot break a line."""
        return self._process.read_until(b"\n", MAX_FIELD_N_BYTES)
