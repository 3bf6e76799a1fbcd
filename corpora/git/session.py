"""Commits, trees, changes and files of a repository, read by git processes in an empty repository that borrows its objects.

There is one process for each kind of question. Answers are parsed by the lengths and counts that git gives, so names and contents
of files can never be taken for git's own words.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from prequential.corpora.git.file_rules import is_safe
from prequential.corpora.git.patch import PATCH_OPTIONS, Pair, read_added_lines
from prequential.corpora.git.process import PIPE_N_BYTES, GitProcess, git_program
from prequential.corpora.git.repository import Repository
from prequential.errors import CorpusError

MAX_COMMIT_N_BYTES = 1 << 24
RENAMES = ("--find-renames=50%", "-l1000")
DATE = re.compile(
    r"\d{4}-\d\d-\d\d.*", re.DOTALL
)  # never a hash and hardly ever a branch; all other text is a revision
BOOLEANS = {b"set": True, b"true": True, b"unset": False, b"false": False}


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
        new_hash = getattr(hashlib, repository.hash_name)
        self.empty_tree: str = new_hash(b"tree 0\0").hexdigest()
        self.empty_blob: bytes = new_hash(b"blob 0\0").hexdigest().encode()
        options = ("--quiet", "--bare", "--template=", f"--object-format={repository.hash_name}")
        self._start("init", *options, str(scratch / "git"), borrow=False).finish()

    def commit(self, commit_id: str) -> Commit:
        """The commit as it was written, without grafts and replacements. Raises CorpusError if it is missing."""
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
            raise CorpusError(f"commit {commit_id} of {self._repository.name!r} is malformed; try git fsck") from error

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

    def blob(self, blob_id: bytes, max_n_bytes: int) -> bytes | None:
        """The blob's bytes; None if it is longer than `max_n_bytes`."""
        return self._object(blob_id, b"blob", max_n_bytes)

    def files(self, tree: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Mode, object id and path of each entry below `tree` that is not a folder, ascending by the bytes of the path."""
        process = self._start("ls-tree", "-r", "-z", "--full-tree", tree)
        while entry := process.read_until(b"\0"):
            head, path = entry[:-1].split(b"\t", 1)
            mode, _, object_id = head.split(b" ")
            yield mode, object_id, path

    def changes(self, before: str, after: str) -> list[Change]:
        """The differences between two trees, without deletions, in git's order (by path)."""
        process = self._process("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", *RENAMES)
        process.send(f"{before} {after}\nend\n".encode())  # diff-tree repeats a line that is not an id, and flushes
        process.read_until(b"\n")  # it also repeats the two ids
        changes = []
        while process.read_exactly(1) == b":":
            _, mode, old_id, new_id, status = process.read_until(b"\0")[:-1].split(b" ")
            path = process.read_until(b"\0")[:-1]
            if status[:1] in b"RC":
                path = process.read_until(b"\0")[:-1]
            if status != b"D":
                changes.append(Change(mode, old_id, new_id, status[:1], path))
        process.read_exactly(len(b"nd\n"))
        return changes

    def added_lines(self, before: str, after: str, wanted: set[Pair], max_n_bytes: int) -> Iterator[tuple[Pair, bytes]]:
        """((old id, new id), added lines) of each wanted edit between two trees, in the order of `changes`.

        The iterator must be exhausted before the next call. max_n_bytes: as in `read_added_lines`. Memory: the added lines of
        one file.
        """
        if not wanted:
            return
        options = ("--no-color", "--no-indent-heuristic", *PATCH_OPTIONS, *RENAMES)
        process = self._process("diff-tree", "--stdin", "-r", *options)
        process.send(f"{before} {after}\nend\n".encode())
        process.read_until(b"\n")
        yield from read_added_lines(process, wanted, max_n_bytes)

    def load_attributes(self, tree: str) -> None:
        """Makes `attributes` answer from the .gitattributes files of `tree`, and from no others."""
        entries = []
        for mode, blob_id, path in self.files(tree):
            if path.rsplit(b"/", 1)[-1] == b".gitattributes" and mode.startswith(b"100") and is_safe(path):
                entries.append(mode + b" " + blob_id + b"\t" + path + b"\0")
        self._has_attributes = bool(entries)
        if entries:
            process = self._start("update-index", "-z", "--index-info")
            process.send(b"".join(entries))
            process.finish()

    def attributes(self, path: bytes) -> tuple[bool | None, bool | None]:
        """(linguist-generated, linguist-vendored) of a safe path; None if no .gitattributes file decides."""
        if not self._has_attributes:
            return None, None
        process = self._process("check-attr", "--cached", "-z", "--stdin", "linguist-generated", "linguist-vendored")
        process.send(path + b"\0")
        found = []
        for _ in range(2):
            _, _, value = (process.read_until(b"\0")[:-1] for _ in range(3))
            found.append(BOOLEANS.get(value))
        return found[0], found[1]

    def _object(self, object_id: bytes, wanted_type: bytes, max_n_bytes: int) -> bytes | None:
        process = self._process("cat-file", "--batch")
        process.send(object_id + b"\n")
        answer = process.read_until(b"\n").split()
        if len(answer) != 3 or answer[1] != wanted_type:
            hint = "it is a shallow clone: git fetch --unshallow" if self._repository.is_shallow else "try git fsck"
            what = f"{wanted_type.decode()} {object_id.decode()}"
            raise CorpusError(f"{self._repository.name!r} lacks {what}, which its history needs; {hint}")
        n_bytes = n_left = int(answer[2])
        while n_bytes > max_n_bytes and n_left:
            n_left -= len(process.read_exactly(min(n_left, PIPE_N_BYTES)))
        data = process.read_exactly(n_left)
        process.read_exactly(1)
        return data if n_bytes <= max_n_bytes else None

    def _process(self, *args: str) -> GitProcess:
        """The process of this command, which answers many requests."""
        command = args[0] + " -p" * ("-p" in args)
        if command not in self._processes:
            self._processes[command] = self._start(*args)
        return self._processes[command]

    def _start(self, *args: str, borrow: bool = True) -> GitProcess:
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") and k != "XDG_CONFIG_HOME"}
        env |= {"HOME": str(self._scratch), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1"}
        if borrow:
            env |= {"GIT_DIR": str(self._scratch / "git"), "GIT_OBJECT_DIRECTORY": str(self._repository.objects)}
        errors = self._stack.enter_context(tempfile.TemporaryFile(dir=self._scratch))  # noqa: SIM115
        command, pipe = [git_program(), *args], subprocess.PIPE
        process = GitProcess(
            subprocess.Popen(command, cwd=self._scratch, env=env, stdin=pipe, stdout=pipe, stderr=errors), errors
        )
        self._stack.callback(process.close)
        return process


@contextmanager
def session_in(repository: Repository) -> Iterator[Session]:
    """A session with a scratch folder. Both are closed and deleted after the block."""
    with tempfile.TemporaryDirectory(prefix="prequential-git-") as scratch, ExitStack() as stack:
        yield Session(repository, Path(scratch), stack)
