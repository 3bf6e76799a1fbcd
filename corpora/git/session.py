"""git itself, as `git_window.py` talks to it: one process for each kind of question, in a repository that obeys nobody.

Only revisions are looked up in the repository of the user. All else runs in an empty one that borrows its objects. Answers are
parsed by the lengths and counts that git gives, so that what files hold and are called cannot pass for git's own words.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from prequential.corpora.git.file_rules import is_safe
from prequential.errors import CorpusError, MissingDependencyError

MAX_COMMIT_N_BYTES = 1 << 24
PIPE_N_BYTES = 1 << 16
RENAMES = ("--find-renames=50%", "-l1000")
PATCH = ("-p", "-U0", "--full-index", "--text", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers")
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)  # no hash and hardly a branch; whatever else is a revision
HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class Commit(NamedTuple):
    """A commit's id, tree, first parent and committer date (seconds since 1970)."""

    id: str
    tree: str
    parent: str | None
    date_s: int

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.date_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Change(NamedTuple):
    """One entry of a commit's difference to its parent; `path` is the new one."""

    mode: bytes
    before: bytes  # object ids, in hexadecimal
    after: bytes
    status: bytes  # A, M, R or T
    path: bytes


class Objects(NamedTuple):
    """Where a repository keeps its objects, and how to look up a revision in it."""

    repo: Path
    folder: Path
    hash_name: str
    is_shallow: bool

    @property
    def name(self) -> str:
        r"""The repository's folder as printable text, without .git; bytes that are not UTF-8 become \xNN."""
        name = self.repo.parent.name if self.repo.name == ".git" else self.repo.name.removesuffix(".git")
        return os.fsencode(name).decode("utf-8", "backslashreplace")

    def resolve(self, revision: str) -> str:
        """The commit's id. Raises CorpusError where there is none."""
        if revision.startswith("-") or "\0" in revision or not revision:
            raise CorpusError(f"{revision!r} is no revision")
        found = _rev_parse(self.repo, "--verify", "--quiet", f"{revision}^{{commit}}")
        if found.returncode == 0:
            return found.stdout.decode().strip()
        if _rev_parse(self.repo, "--verify", "--quiet", "HEAD^{commit}").returncode and revision == "HEAD":
            raise CorpusError(f"{self.name!r} has no commits: HEAD names none")
        hint = "; it is a shallow clone: git fetch --unshallow" if self.is_shallow else ""
        raise CorpusError(f"{self.name!r} has no commit {revision!r}{hint}")


def find_objects(repo: str | os.PathLike[str]) -> Objects:
    path = Path(repo)
    if not path.is_dir():
        raise CorpusError(f"{str(path)!r} is not a folder; give the root of a git repository")
    path = path.resolve()
    found = _rev_parse(path, "--show-object-format", "--is-shallow-repository", "--git-path", "objects")
    if found.returncode:
        reason = _last_line(found.stderr)
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {reason}")
    hash_name, is_shallow, objects = found.stdout.removesuffix(b"\n").split(b"\n", 2)
    return Objects(path, path / os.fsdecode(objects), hash_name.decode(), is_shallow == b"true")


def _rev_parse(repo: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    """git rev-parse in the repository itself, with the user's configuration: safe.directory must count."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith("GIT_CONFIG")}
    env |= {"LC_ALL": "C", "GIT_CEILING_DIRECTORIES": str(repo.parent), "GIT_NO_LAZY_FETCH": "1"}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}
    command = [_git(), "-C", os.fspath(repo), "rev-parse", *args]
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _git() -> str:
    if (program := shutil.which("git")) is None:
        raise MissingDependencyError("a git repository is read through the `git` program, which is not installed")
    return program


def _last_line(text: bytes) -> str:
    """The last line of what git said that says anything; printable."""
    lines = [line for line in text.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return "".join(c if c.isprintable() else "?" for c in (fatal or ["no reason given"])[-1])[:300]


def parse_date(text: str) -> int | None:
    """Seconds since 1970 where `text` is an ISO date, else None. Raises CorpusError for one that does not exist."""
    if not DATE.fullmatch(text):
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError as error:
        raise CorpusError(f"{text!r} is no ISO 8601 date: {error}") from error
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() // 1)


def state_at(session: "Session", objects: Objects, when: str) -> Commit | None:
    """The commit of a revision; of a date: the newest on HEAD's first-parent line not after it, None before all."""
    date_s = parse_date(when)
    if date_s is None:
        return session.commit(objects.resolve(when))
    line = session.first_parents(objects.resolve("HEAD"))
    return next((commit for commit in line if commit.date_s <= date_s), None)


class _Pipe:
    """A running git process: lines go in, bytes come out, buffered so that they can be split at any byte."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process, self._errors, self._buffer = process, errors, bytearray()

    def ask(self, request: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed() from error

    def until(self, end: bytes, limit: int = 1 << 62) -> bytes:
        """Up to and including the byte `end`, or the next `limit` bytes without it; b"" after the last."""
        start = 0
        while (at := self._buffer.find(end, start, limit)) < 0 and len(self._buffer) < limit:
            start = len(self._buffer)
            if not self._fill():
                if self._buffer or self._process.wait():
                    raise self._failed()
                return b""
        return self._take(min(limit, at + 1 if at >= 0 else limit))

    def exactly(self, n_bytes: int) -> bytes:
        while len(self._buffer) < n_bytes:
            if not self._fill():
                raise self._failed()
        return self._take(n_bytes)

    def finish(self) -> None:
        """Says that there are no more requests and waits for the process, which must succeed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError as error:
            raise self._failed() from error
        self.until(b"\0")

    def close(self) -> None:
        """Ends the process, which may be in the middle of an answer that nobody wants any more."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # a request that the process did not live to read
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
        said = _last_line(self._errors.read()[-PIPE_N_BYTES:])
        return CorpusError(f"git could not read the repository: {said}; a shallow or damaged clone? try git fsck")


class Session:
    """Git processes in an empty repository that borrows the objects of another; each starts when first needed."""

    def __init__(self, objects: Objects, scratch: Path, stack: ExitStack) -> None:
        self._objects, self._scratch, self._stack = objects, scratch, stack
        self._pipes: dict[str, _Pipe] = {}
        self._has_attributes = False
        new_hash = getattr(hashlib, objects.hash_name)
        self.empty_tree: str = new_hash(b"tree 0\0").hexdigest()
        self.empty_blob: bytes = new_hash(b"blob 0\0").hexdigest().encode()
        init = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            f"--object-format={objects.hash_name}",
            str(scratch / "git"),
        ]
        self._start(*init, borrow=False).finish()

    def commit(self, commit_id: str) -> Commit:
        """The commit as it was written, grafts and replacements aside. Raises CorpusError where it is missing."""
        data = self._object(commit_id.encode(), b"commit", MAX_COMMIT_N_BYTES)
        head = (data or b"").split(b"\n\n", 1)[0].split(b"\n")
        fields = [line.split(b" ", 1) for line in head if not line.startswith(b" ") and b" " in line]
        parents = [value.decode() for key, value in fields if key == b"parent"]
        try:
            first = dict(reversed(fields))
            date_s = int(first[b"committer"].rsplit(b" ", 2)[1])
            datetime.fromtimestamp(date_s, UTC)
            return Commit(commit_id, first[b"tree"].decode(), parents[0] if parents else None, date_s)
        except (KeyError, ValueError, IndexError, OverflowError, OSError) as error:
            raise CorpusError(f"commit {commit_id} of {self._objects.name!r} is malformed; try git fsck") from error

    def first_parents(self, commit_id: str) -> Iterator[Commit]:
        """The commit, its first parent, the first parent of that, and so on to a root."""
        following: str | None = commit_id
        while following is not None:
            commit = self.commit(following)
            yield commit
            following = commit.parent

    def blob(self, blob_id: bytes, max_n_bytes: int) -> bytes | None:
        """The blob's bytes; None where there are more than `max_n_bytes`."""
        return self._object(blob_id, b"blob", max_n_bytes)

    def files(self, tree: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Mode, object id and path of each entry below `tree` that is no folder, ascending by the bytes of the path."""
        pipe = self._start("ls-tree", "-r", "-z", "--full-tree", tree)
        while entry := pipe.until(b"\0"):
            head, path = entry[:-1].split(b"\t", 1)
            mode, _, object_id = head.split(b" ")
            yield mode, object_id, path

    def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two trees, without deletions, in git's order (by path)."""
        pipe = self._pipe("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", *RENAMES)
        pipe.ask(f"{before} {after}\nend\n".encode())  # diff-tree repeats what is no object id, and flushes
        pipe.until(b"\n")  # it also repeats the pair
        changes = []
        while pipe.exactly(1) == b":":
            _, mode, old_id, new_id, status = pipe.until(b"\0")[:-1].split(b" ")
            path = pipe.until(b"\0")[:-1]
            if status[:1] in b"RC":
                path = pipe.until(b"\0")[:-1]
            if status != b"D":
                changes.append(Change(mode, old_id, new_id, status[:1], path))
        pipe.exactly(len(b"nd\n"))
        return changes

    def added_lines(
        self, before: str, after: str, wanted: set[tuple[bytes, bytes]], max_n_bytes: int
    ) -> Iterator[tuple[tuple[bytes, bytes], bytes]]:
        """((old id, new id), added lines) of each edit whose ids are wanted, in the order of `changes`.

        Lines keep their ends; little more than `max_n_bytes` are read of what is longer. To be exhausted before it is
        called again. Memory: the added lines of one file.
        """
        if not wanted:
            return
        pipe = self._pipe("diff-tree", "--stdin", "-r", "--no-color", "--no-indent-heuristic", *PATCH, *RENAMES)
        pipe.ask(f"{before} {after}\nend\n".encode())
        pipe.until(b"\n")
        pair, added, sign = (b"", b""), bytearray(), b" "
        while (line := pipe.until(b"\n")) != b"end\n":  # names are quoted here: none can break a line
            if line.startswith(b"diff --git "):
                if pair in wanted:
                    yield pair, bytes(added)
                pair, added = (b"", b""), bytearray()
            elif line.startswith(b"index "):
                old_id, _, new_id = line.split()[1].partition(b"..")
                pair = (old_id, new_id)
            elif hunk := HUNK.match(line):
                sign = _read_hunk(pipe, hunk, added if pair in wanted else None, max_n_bytes)
            elif line.startswith(b"\\") and sign == b"+":  # "No newline at end of file"
                del added[-1:]
        if pair in wanted:
            yield pair, bytes(added)

    def load_attributes(self, tree: str) -> None:
        """Makes the .gitattributes of `tree`, and no others, those that `attributes` answers from."""
        entries = []
        for mode, blob_id, path in self.files(tree):
            if path.rsplit(b"/", 1)[-1] == b".gitattributes" and mode.startswith(b"100") and is_safe(path):
                entries.append(mode + b" " + blob_id + b"\t" + path + b"\0")
        self._has_attributes = bool(entries)
        if entries:
            pipe = self._start("update-index", "-z", "--index-info")
            pipe.ask(b"".join(entries))
            pipe.finish()

    def attributes(self, path: bytes) -> tuple[bool | None, bool | None]:
        """(linguist-generated, linguist-vendored) of a safe path; None where no .gitattributes decides."""
        if not self._has_attributes:
            return None, None
        pipe = self._pipe("check-attr", "--cached", "-z", "--stdin", "linguist-generated", "linguist-vendored")
        pipe.ask(path + b"\0")
        found = []
        for _ in range(2):
            _, _, value = (pipe.until(b"\0")[:-1] for _ in range(3))
            found.append({b"set": True, b"true": True, b"unset": False, b"false": False}.get(value))
        return found[0], found[1]

    def _object(self, object_id: bytes, wanted_type: bytes, max_n_bytes: int) -> bytes | None:
        pipe = self._pipe("cat-file", "--batch")
        pipe.ask(object_id + b"\n")
        answer = pipe.until(b"\n").split()
        if len(answer) != 3 or answer[1] != wanted_type:
            hint = "it is a shallow clone: git fetch --unshallow" if self._objects.is_shallow else "try git fsck"
            what = f"{wanted_type.decode()} {object_id.decode()}"
            raise CorpusError(f"{self._objects.name!r} lacks {what}, which its history needs; {hint}")
        n_bytes = n_left = int(answer[2])
        while n_bytes > max_n_bytes and n_left:
            n_left -= len(pipe.exactly(min(n_left, PIPE_N_BYTES)))
        data = pipe.exactly(n_left)
        pipe.exactly(1)
        return data if n_bytes <= max_n_bytes else None

    def _pipe(self, *args: str) -> _Pipe:
        """The process of this command, which answers many requests."""
        command = args[0] + " -p" * ("-p" in args)
        if command not in self._pipes:
            self._pipes[command] = self._start(*args)
        return self._pipes[command]

    def _start(self, *args: str, borrow: bool = True) -> _Pipe:
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") and k != "XDG_CONFIG_HOME"}
        env |= {"HOME": str(self._scratch), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1"}
        if borrow:
            env |= {"GIT_DIR": str(self._scratch / "git"), "GIT_OBJECT_DIRECTORY": str(self._objects.folder)}
        errors = self._stack.enter_context(tempfile.TemporaryFile(dir=self._scratch))  # noqa: SIM115
        process = subprocess.Popen(
            [_git(), *args], cwd=self._scratch, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        pipe = _Pipe(process, errors)
        self._stack.callback(pipe.close)
        return pipe


@contextmanager
def session_in(objects: Objects) -> Iterator[Session]:
    """A session and its scratch folder; both are gone after the block, however it ends."""
    with tempfile.TemporaryDirectory(prefix="prequential-git-") as scratch, ExitStack() as stack:
        yield Session(objects, Path(scratch), stack)


def _read_hunk(pipe: _Pipe, hunk: re.Match[bytes], added: bytearray | None, max_n_bytes: int) -> bytes:
    """Reads one hunk by its counts, whatever its lines say; the sign of its last line, + or -.

    Appends its added lines to `added`, if given, until that is longer than `max_n_bytes`.
    """
    n_left = {b"-": int(hunk[1] or 1), b"+": int(hunk[2] or 1)}
    sign = b" "
    while any(n_left.values()):
        piece = pipe.until(b"\n", PIPE_N_BYTES)
        if piece.startswith(b"\\"):  # "No newline at end of file", of the old one: more lines follow
            continue
        sign, piece_start = piece[:1], 1
        n_left[sign] -= 1
        while True:
            if sign == b"+" and added is not None and len(added) <= max_n_bytes:
                added += piece[piece_start:]
            if piece.endswith(b"\n"):
                break
            piece, piece_start = pipe.until(b"\n", PIPE_N_BYTES), 0
    return sign
