"""The user's repository, in which git only looks up revisions; and a session: processes in an empty one that borrows its objects.

Objects may be hostile: git is given complete ids only; commits and blobs must have the hash that their id states, so a history
has no cycle; and lengths and numbers are limited, because a small tree can list one subtree many times.
"""

import hashlib
import os
import re
import select
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import temporary_folder
from prequential_corpora.corpus import unicode_name, unwritable
from prequential_corpora.git_rules import is_safe

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


N_DIGITS = {"sha1": 40, "sha256": 64}  # of an object id in hexadecimal
MAX_COMMIT_N_BYTES = 1 << 24
MAX_ENTRIES = 1 << 23  # of a tree, and of the difference of two trees
MAX_PATH_N_BYTES = 1 << 12  # as in Linux. It also limits the depth of a tree.
MAX_ATTRIBUTE_FILES = 1 << 14
RENAMES = ("--find-renames=50%", "-l1000")
# never a hash and hardly ever a branch; all other text is a revision
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)
BOOLEANS = {b"set": True, b"true": True, b"unset": False, b"false": False}
ATTRIBUTES = ("linguist-generated", "linguist-vendored", "filter")
COMMIT = re.compile(
    rb"tree ([^\n]*)\n(?:parent ([^\n]*)\n)?(?:[^\n]+\n)*?committer [^\n]* (-?\d{1,18}) [^ \n]* *(?:\n|\Z)"
)
OBJECT = re.compile(rb"([0-9a-f]+) ([a-z]+) (\d{1,18})\n")
ENTRY = re.compile(rb"([0-7]{6}) (?:blob|commit) ([0-9a-f]+)\t([^\0]+)\0")
CHANGE = re.compile(rb"[0-7]{6} ([0-7]{6}) ([0-9a-f]+) ([0-9a-f]+) ([ACDMRT])\d*\0")


class Repository(NamedTuple):
    """A git repository. objects: the folder of its objects. hash_name: sha1 or sha256."""

    path: Path
    objects: Path
    hash_name: str
    is_shallow: bool

    @property
    def name(self) -> str:
        r"""The name of the repository's folder as valid Unicode, without .git. Bytes that are not UTF-8 become \xNN."""
        name = self.path.parent.name if self.path.name == ".git" else self.path.name.removesuffix(".git")
        return unicode_name(name)

    @property
    def remedy(self) -> str:
        """What to do if an object is missing."""
        is_partial = any((self.objects / "pack").glob("*.promisor"))  # git fsck finds nothing wrong with such a clone
        kind = " and ".join(["shallow"] * self.is_shallow + ["partial"] * is_partial)
        options = " --unshallow" * self.is_shallow + " --refetch --no-filter" * is_partial
        return f"it is a {kind} clone: git fetch{options}" if kind else "try git fsck"

    def has_id(self, text: bytes) -> bool:
        """Whether `text` can be an object's id: all digits of this repository's hash, and nothing else."""
        return re.fullmatch(rb"[0-9a-f]{%d}" % N_DIGITS[self.hash_name], text) is not None

    def resolve(self, revision: str) -> str:
        """The id of the commit that `revision` names. Raises CorpusError if there is none."""
        if revision.startswith("-") or "\0" in revision or not revision:
            raise CorpusError(f"{revision!r} is not a revision; give a commit, a branch, a tag or a date")
        status, output, _ = _rev_parse(self.path, "--verify", "--quiet", f"{revision}^{{commit}}")
        if status == 0:
            if not self.has_id(commit_id := output.removesuffix(b"\n")):
                raise wrong_answer("no object id")
            return commit_id.decode()
        if revision == "HEAD":
            raise CorpusError(f"{self.name!r} has no commits: HEAD names none that git reads")
        hint = "; it is a shallow clone: git fetch --unshallow" if self.is_shallow else ""
        raise CorpusError(f"{self.name!r} has no commit {revision!r}{hint}")


def find_repository(repo: str | os.PathLike[str]) -> Repository:
    """The repository whose root is the folder `repo`. Raises CorpusError if there is none that git reads."""
    path = Path(repo)
    if not path.is_dir():
        raise CorpusError(f"{str(path)!r} is not a folder; give the root of a git repository")
    path = path.resolve()
    names = ("--show-object-format", "--is-shallow-repository", "--show-prefix", "--git-path", "objects")
    status, output, reason = _rev_parse(path, *names)
    if status:
        if "dubious ownership" in reason:
            raise CorpusError(
                f"{str(path)!r} belongs to another user, so git does not read it; if you trust it: "
                f"git config --global --add safe.directory {shlex.quote(str(path))}"
            )
        reason = reason or f"git ended with status {status}"
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {reason}")
    answer = re.fullmatch(rb"(sha1|sha256)\n(true|false)\n([^\n]*)\n([^\0]+)\n", output)
    if answer is None:
        raise wrong_answer("another form than that of git rev-parse")
    if answer[3]:  # GIT_CEILING_DIRECTORIES cannot name a folder with a colon
        raise CorpusError(f"{str(path)!r} is not the root of a git repository, but a folder inside one")
    return Repository(path, path / os.fsdecode(answer[4]), answer[1].decode(), answer[2] == b"true")


def _rev_parse(repo: Path, *args: str) -> tuple[int, bytes, str]:
    """git rev-parse in the repository itself, with the user's configuration files, because safe.directory must apply."""
    env = git_environment() | {"GIT_CEILING_DIRECTORIES": str(repo.parent), "GIT_NO_LAZY_FETCH": "1"}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}  # as in `Session.commit`
    process = start_git(["rev-parse", *args], repo, env)
    try:
        return process.answer()
    finally:
        process.close()


class Commit(NamedTuple):
    """A commit's id, tree, first parent and committer date (seconds since 1970)."""

    id: str
    tree: str
    parent: str | None
    date_s: int

    @property
    def date(self) -> str:
        """The committer date in UTC, ISO 8601."""
        return datetime.fromtimestamp(self.date_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Change(NamedTuple):
    """One entry of a commit's difference to its parent; `path` is the new path."""

    mode: bytes
    before: bytes  # object ids, in hexadecimal
    after: bytes
    status: bytes  # A, M, R or T
    path: bytes


def parse_date(text: str) -> int | None:
    """Seconds since 1970 if `text` looks like an ISO date, else None. Raises CorpusError for a date that does not exist."""
    if not DATE.fullmatch(text):
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError as error:
        raise CorpusError(f"{text!r} is not an ISO 8601 date: {error}") from error
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() // 1)


class Session:
    """Git processes in an empty repository that borrows the objects of another. Each starts when it is first needed."""

    def __init__(self, repository: Repository, scratch: Path, stack: ExitStack) -> None:
        self._repository, self._scratch, self._stack = repository, scratch, stack
        self._processes: dict[str, GitProcess] = {}
        self._has_attributes = False
        self.empty_tree = self._hash(b"tree", b"").decode()
        self.empty_blob = self._hash(b"blob", b"")
        options = ("--quiet", "--bare", "--template=", f"--object-format={repository.hash_name}")
        self._start("init", *options, str(scratch / "git"), borrow=False).finish()

    def commit(self, commit_id: str) -> Commit:
        """The commit as it was written, without grafts and replacements. Raises CorpusError if it is missing or malformed."""
        data = self.contents(commit_id.encode(), b"commit", MAX_COMMIT_N_BYTES)
        try:
            if (found := COMMIT.match(data or b"")) is None:
                raise ValueError("it has another form")
            if not all(self._repository.has_id(other) for other in found.group(1, 2) if other is not None):
                raise ValueError("it names no object")
            commit = Commit(commit_id, found[1].decode(), found[2].decode() if found[2] else None, int(found[3]))
            commit.date  # noqa: B018  # refuses a year that no calendar has
        except (ValueError, OverflowError, OSError) as error:
            raise CorpusError(f"commit {commit_id} of {self._repository.name!r} is malformed; try git fsck") from error
        return commit

    def first_parents(self, commit_id: str) -> Iterator[Commit]:
        """The commit, its first parent, the first parent of that one, and so on to the first commit."""
        following: str | None = commit_id
        while following is not None:
            commit = self.commit(following)
            yield commit
            following = commit.parent

    def state_at(self, when: str) -> Commit | None:
        """The commit of a revision. For a date: the newest commit on HEAD's first-parent line up to it, or None."""
        date_s = parse_date(when)
        if date_s is None:
            return self.commit(self._repository.resolve(when))
        line = self.first_parents(self._repository.resolve("HEAD"))
        return next((commit for commit in line if commit.date_s <= date_s), None)

    def files(self, tree: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Mode, object id and path of each entry below `tree` that is not a folder, ascending by the bytes of the path."""
        process = self._start("ls-tree", "-r", "-z", "--full-tree", self._checked(tree))
        n_entries = 0
        while process.has_more():
            entry = ENTRY.fullmatch(process.read_until(b"\0"))
            if entry is None or not self._repository.has_id(entry[2]):
                raise wrong_answer("an entry of a tree of another form")
            n_entries = self._counted(n_entries, entry[3])
            yield entry[1], entry[2], entry[3]
        process.close()

    def changes(self, before: str, after: str) -> Iterator[Change]:
        """The differences between two trees, without deletions, in git's order (by path). Exhaust it before the next call."""
        options = ("--stdin", "-r", "-z", "--raw", "--no-abbrev", *RENAMES)
        process = self._compare(self._process("diff-tree", *options), before, after)
        n_entries = 0
        while (head := process.read_exactly(1)) == b":":
            change = CHANGE.fullmatch(process.read_until(b"\0"))
            if change is None or not all(map(self._repository.has_id, change.group(2, 3))):
                raise wrong_answer("a change of another form")
            path = process.read_until(b"\0")[:-1]
            if change[4] in (b"R", b"C"):
                path = process.read_until(b"\0")[:-1]
            n_entries = self._counted(n_entries, path)
            if change[4] != b"D":
                yield Change(change[1], change[2], change[3], change[4], path)
        if head + process.read_exactly(len(b"nd\n")) != b"end\n":
            raise wrong_answer("a change of another form")

    def patch(self, before: str, after: str, max_n_bytes: int) -> Patch:
        """The patch between two trees, in the order of `changes`; it must be read to its end. max_n_bytes: as in `Patch`."""
        options = ("--no-color", "--no-indent-heuristic", *PATCH_OPTIONS, *RENAMES)
        return Patch(self._compare(self._process("diff-tree", "--stdin", "-r", *options), before, after), max_n_bytes)

    def load_attributes(self, tree: str) -> None:
        """Makes `attributes` answer from the .gitattributes files of `tree`, and from no others."""
        process, n_files = self._start("update-index", "-z", "--index-info"), 0
        for mode, blob_id, path in self.files(tree):
            if path.rsplit(b"/", 1)[-1] == b".gitattributes" and mode.startswith(b"100") and is_safe(path):
                self.contents(blob_id, b"blob", MAX_COMMIT_N_BYTES)  # git takes a missing one for an empty one
                process.send(mode + b" " + blob_id + b"\t" + path + b"\0")
                n_files += 1
                if n_files > MAX_ATTRIBUTE_FILES:
                    raise self._too_many(f"{MAX_ATTRIBUTE_FILES:,} .gitattributes files")
        process.finish()
        process.close()
        self._has_attributes = n_files > 0

    def attributes(self, path: bytes) -> tuple[bool | None, bool | None, bool]:
        """(linguist-generated, linguist-vendored, filter=lfs) of a safe path; None if no .gitattributes file decides."""
        if not self._has_attributes:
            return None, None, False
        process = self._process("check-attr", "--cached", "-z", "--stdin", *ATTRIBUTES)
        process.send(path + b"\0")
        found = []
        for name in ATTRIBUTES:
            if (process.read_until(b"\0"), process.read_until(b"\0")) != (path + b"\0", name.encode() + b"\0"):
                raise wrong_answer("another attribute than the requested one")
            found.append(process.read_until(b"\0")[:-1])
        return BOOLEANS.get(found[0]), BOOLEANS.get(found[1]), found[2] == b"lfs"

    def contents(self, object_id: bytes, wanted_type: bytes, max_n_bytes: int) -> bytes | None:
        """The contents of an object; None if they are longer than max_n_bytes. Raises CorpusError if they have another hash."""
        process = self._process("cat-file", "--batch")
        process.send(self._checked(object_id.decode()).encode() + b"\n")
        header = OBJECT.fullmatch(process.read_until(b"\n"))
        what = f"{wanted_type.decode()} {object_id.decode()}"
        if header is None or header.group(1, 2) != (object_id, wanted_type):
            lacks = f"{self._repository.name!r} lacks {what}, which its history needs"
            raise CorpusError(f"{lacks}; {self._repository.remedy}")
        if (n_bytes := int(header[3])) > max_n_bytes:
            self._processes.pop("cat-file").close()  # a new process starts faster than a long object is skipped
            return None
        data, end = process.read_exactly(n_bytes), process.read_exactly(1)
        if end != b"\n" or self._hash(wanted_type, data) != object_id:
            raise CorpusError(f"{self._repository.name!r} has other bytes in {what} than its name says; try git fsck")
        return data

    def _hash(self, kind: bytes, data: bytes) -> bytes:
        digest = hashlib.new(self._repository.hash_name, b"%s %d\0" % (kind, len(data)), usedforsecurity=False)
        digest.update(data)
        return digest.hexdigest().encode()

    def _checked(self, object_id: str) -> str:
        if not self._repository.has_id(object_id.encode()):
            raise CorpusError(f"{object_id!r} is not a complete object id of {self._repository.name!r}")
        return object_id

    def _counted(self, n_entries: int, path: bytes) -> int:
        """n_entries + 1. Raises CorpusError if this or the path is above its limit."""
        if len(path) > MAX_PATH_N_BYTES:
            raise self._too_many(f"{MAX_PATH_N_BYTES:,} bytes in a path")
        if n_entries >= MAX_ENTRIES:
            raise self._too_many(f"{MAX_ENTRIES:,} entries in a tree")
        return n_entries + 1

    def _too_many(self, limit: str) -> CorpusError:
        return CorpusError(f"{self._repository.name!r} has more than {limit}, the limit of this program")

    def _compare(self, process: GitProcess, before: str, after: str) -> GitProcess:
        """The diff-tree process, with the comparison of two trees as its next output, followed by the line `end`."""
        request = f"{self._checked(before)} {self._checked(after)}\n".encode()
        process.send(request + b"end\n")  # diff-tree repeats a line that is not an id, and flushes
        if process.read_until(b"\n") != request:  # it also repeats the two ids
            raise wrong_answer("other trees than the requested ones")
        return process

    def _process(self, *args: str) -> GitProcess:
        """The process of this command, which answers many requests."""
        command = args[0] + " -p" * ("-p" in args)
        if command not in self._processes:
            self._processes[command] = self._start(*args)
        return self._processes[command]

    def _start(self, *args: str, borrow: bool = True) -> GitProcess:
        env = git_environment() | {"HOME": str(self._scratch), "XDG_CONFIG_HOME": str(self._scratch)}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
        env |= {"GIT_NO_LAZY_FETCH": "1"}
        if borrow:
            env |= {"GIT_DIR": str(self._scratch / "git"), "GIT_OBJECT_DIRECTORY": str(self._repository.objects)}
        # No tree is checked out here, so paths that are special on other systems are names like others.
        options = ("-c", "core.protectNTFS=false", "-c", "core.protectHFS=false")
        process = start_git([*options, *args], self._scratch, env, self._repository.remedy)
        self._stack.callback(process.close)
        return process


@contextmanager
def session_in(repository: Repository) -> Iterator[Session]:
    """A session with a scratch folder. Both are closed and deleted after the block. Raises OutputError if it cannot be made."""
    try:
        folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-git-")
    except OSError as error:
        raise unwritable(error) from error
    with folder as scratch, ExitStack() as stack:
        yield Session(repository, Path(scratch), stack)
