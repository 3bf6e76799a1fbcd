"""The user's repository, in which git only looks up revisions; and a session: git in an empty one that borrows its objects.

Git itself is trusted, objects are not: git is given complete ids only; commits and blobs must have the hash that their id states,
so a history has no cycle; and lengths and numbers are limited, because a small tree can list one subtree many times.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple, cast

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import temporary_folder
from prequential_corpora.corpus import unicode_name, unwritable
from prequential_corpora.git_rules import is_safe

MAX_FIELD_N_BYTES = 1 << 16  # of a line or a field of an answer: two quoted paths need about 33,000
MEMORY_N_BYTES = 4 << 30  # of one git process, not counting mapped files. Few bytes can describe billions of files.
MAX_COMMIT_N_BYTES = 1 << 24
MAX_ENTRIES = 1 << 23  # of a tree, and of the difference of two trees
MAX_PATH_N_BYTES = 1 << 12  # as in Linux. It also limits the depth of a tree.
N_DIGITS = {"sha1": 40, "sha256": 64}  # of an object id in hexadecimal
# No tree is checked out here, so paths that are special on other systems are names like others.
OPTIONS = ("-c", "core.protectNTFS=false", "-c", "core.protectHFS=false")
RENAMES = ("--find-renames=50%", "-l1000")
DIFF_TREE = ("diff-tree", "--stdin", "-r", *RENAMES)
RAW = (*DIFF_TREE, "-z", "--raw", "--no-abbrev")
PATCH = (
    *DIFF_TREE, "-p", "-U0", "--full-index", "--text", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers", "--no-color",
    "--no-indent-heuristic",
)  # fmt: skip
CAT_FILE = ("cat-file", "--batch")
ATTRIBUTES = ("linguist-generated", "linguist-vendored", "filter")
BOOLEANS = {b"set": True, b"true": True, b"unset": False, b"false": False}
END = b"end\n"
HUNK = re.compile(rb"@@ -\d{1,10}(?:,(\d{1,10}))? \+\d{1,10}(?:,(\d{1,10}))? @@")
INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: [0-7]+)?\n")
# never a hash and hardly ever a branch; all other text is a revision
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)
COMMIT = re.compile(
    rb"tree ([^\n]*)\n(?:parent ([^\n]*)\n)?(?:[^\n]+\n)*?committer [^\n]* (-?\d{1,18}) [^ \n]* *(?:\n|\Z)"
)

Pair = tuple[bytes, bytes]  # object ids of the old and the new version, in hexadecimal


def git_environment() -> dict[str, str]:
    """This process's environment without git's variables, which could name another repository, index or configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "LC_ALL": "C",
        "GIT_NO_LAZY_FETCH": "1",
    }


def _command(args: Sequence[str]) -> list[str]:
    if (program := shutil.which("git")) is None:
        raise MissingDependencyError("git repositories are read with the `git` program, which is not installed")
    return [program, *args]


def run_git(args: Sequence[str], folder: Path, env: Mapping[str, str], given: bytes = b"") -> tuple[int, bytes, str]:
    """Runs git to its end, with this input: its exit status, output, and reason of failure (one line, or "")."""
    try:
        done = subprocess.run(_command(args), cwd=folder, env=env, input=given, capture_output=True, check=False)
    except OSError as error:
        raise CorpusError(f"cannot start git in {str(folder)!r}: {error.strerror or error}") from error
    return done.returncode, done.stdout, _reason(done.stderr)


class GitProcess:
    """A running git process that answers requests. Its methods raise CorpusError, with git's reason, if it ends early."""

    def __init__(self, args: Sequence[str], folder: Path, env: Mapping[str, str], remedy: str = "try git fsck") -> None:
        """Starts git in `folder`, with limited memory. remedy: for errors. Raises CorpusError, MissingDependencyError."""
        command, pipe, self._remedy = _command(args), subprocess.PIPE, remedy
        self._errors = tempfile.TemporaryFile(dir=temporary_folder(), prefix="prequential-git-")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=self._errors)
        except OSError as error:
            self._errors.close()
            raise CorpusError(f"cannot start git in {str(folder)!r}: {error.strerror or error}") from error
        assert self._process.stdin is not None
        self._input, self._output = self._process.stdin, cast(BufferedReader, self._process.stdout)
        with suppress(ImportError, AttributeError, OSError):  # Linux only; and git may have ended
            import resource

            limits = [
                n for n in resource.prlimit(self._process.pid, resource.RLIMIT_DATA) if n != resource.RLIM_INFINITY
            ]
            n_bytes = min([MEMORY_N_BYTES, *limits])
            resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (n_bytes, n_bytes))

    def send(self, request: bytes) -> None:
        try:
            self._input.write(request)
            self._input.flush()
        except OSError as error:
            raise self.failed() from error

    def read(self, n_bytes: int) -> bytes:
        data = self._output.read(n_bytes)
        if len(data) < n_bytes:
            raise self.failed()
        return data

    def line(self) -> bytes:
        """The next line with its end, or as much of it as a field may have."""
        return self._output.readline(MAX_FIELD_N_BYTES) or self.read(1)

    def field(self) -> bytes:
        """The output up to the next NUL, which is not part of it."""
        field = b""
        while len(field) < MAX_FIELD_N_BYTES:
            if not (ready := self._output.peek()):
                raise self.failed()
            part, end, _ = ready.partition(b"\0")
            self._output.read(len(part + end))
            field += part
            if end:
                return field
        raise CorpusError(f"git could not read the repository: a name has more than {MAX_FIELD_N_BYTES:,} bytes")

    def has_more(self) -> bool:
        """Whether there is more output. If not, git has ended successfully."""
        if not (ready := self._output.peek()) and self._process.wait():
            raise self.failed()
        return bool(ready)

    def close(self) -> None:
        """Kills git, even in the middle of an answer. A second call does nothing."""
        self._process.kill()
        for stream in (self._input, self._output, self._errors):
            with suppress(OSError):  # a request that git did not read
                stream.close()
        self._process.wait()

    def failed(self) -> CorpusError:
        """The error for a git that has ended, or that should have, with its reason."""
        status = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MAX_FIELD_N_BYTES))
        reason = _reason(self._errors.read()) or f"it ended early, with status {status}"
        return CorpusError(f"git could not read the repository: {reason}; {self._remedy}")


def _reason(errors: bytes) -> str:
    """The last line of git's error output that states a reason, printable; "" if it is empty."""
    lines = [line for line in errors.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return "".join(c if c.isprintable() else "?" for c in (fatal or [""])[-1])[:300]


def patch_files(process: GitProcess, max_n_bytes: int) -> Iterator[tuple[Pair, bytes]]:
    """Versions and added lines (with their ends) of each file of a patch, in git's order. Memory: the added lines of one file.

    max_n_bytes: of the added lines of a file; of more, slightly more than that are returned. Git quotes names here, so a name
    cannot break a line.
    """
    pair: Pair | None = None
    added, sign = bytearray(), b" "
    while True:
        line = process.line()
        if line == END or line.startswith(b"diff --git "):
            if pair:
                yield pair, bytes(added)
            if line == END:
                return
            pair, added = None, bytearray()
        elif index := INDEX.fullmatch(line):
            pair = index[1], index[2]
        elif hunk := HUNK.match(line):
            sign = _read_hunk(process, {b"-": int(hunk[1] or 1), b"+": int(hunk[2] or 1)}, added, max_n_bytes)
        elif line.startswith(b"\\") and sign == b"+":  # "No newline at end of file"
            del added[-1:]


def _read_hunk(process: GitProcess, n_left: dict[bytes, int], added: bytearray, max_n_bytes: int) -> bytes:
    """Reads one hunk by its numbers of lines, appends its added lines to `added`, and returns the sign of its last line."""
    sign = b" "
    while any(n_left.values()):
        part = process.line()
        # "No newline at end of file" of the old version: more lines follow
        if sign == b"-" and part.startswith(b"\\"):
            continue
        sign, text = part[:1], part[1:]
        n_left[sign] -= 1
        while True:
            if sign == b"+" and len(added) <= max_n_bytes:
                added += text
            if text.endswith(b"\n"):
                break
            text = process.line()
    return sign


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
            return output.strip().decode()
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
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {reason or status}")
    hash_name, is_shallow, prefix, objects = output.removesuffix(b"\n").split(b"\n", 3)
    if prefix:  # GIT_CEILING_DIRECTORIES cannot name a folder with a colon
        raise CorpusError(f"{str(path)!r} is not the root of a git repository, but a folder inside one")
    return Repository(path, path / os.fsdecode(objects), hash_name.decode(), is_shallow == b"true")


def _rev_parse(repo: Path, *args: str) -> tuple[int, bytes, str]:
    """git rev-parse in the repository itself, with the user's configuration files, because safe.directory must apply."""
    env = git_environment() | {"GIT_CEILING_DIRECTORIES": str(repo.parent)}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}  # as in `Session.commit`
    return run_git(["rev-parse", *args], repo, env)


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
        self._processes: dict[tuple[str, ...], GitProcess] = {}
        self._has_attributes = False
        self.empty_tree = self._hash(b"tree", b"").decode()
        self.empty_blob = self._hash(b"blob", b"")
        self._env = git_environment() | {"HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch)}
        self._env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
        git, hash_name = str(scratch / "git"), repository.hash_name
        self._run("init", "--quiet", "--bare", "--template=", f"--object-format={hash_name}", git)
        # only now: `init` makes folders among the objects
        self._env |= {"GIT_DIR": git, "GIT_OBJECT_DIRECTORY": str(repository.objects)}

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

    def files(self, tree: str) -> Iterator[Change]:
        """Each entry below `tree` that is not a folder, as an addition, ascending by the bytes of the path. Exhaust it."""
        command = "ls-tree", "-r", "-z", "--full-tree", self._checked(tree)
        process, n_entries = self._process(*command), 0
        while process.has_more():
            about, _, path = process.field().partition(b"\t")
            mode, _, object_id = about.split(b" ")
            n_entries = self._counted(n_entries, path)
            yield Change(mode, b"", object_id, b"A", path)
        self._processes.pop(command).close()

    def changes(self, before: str, after: str) -> Iterator[Change]:
        """The differences between two trees, without deletions, in git's order (by path). Exhaust it before the next call."""
        process, n_entries = self._compare(RAW, before, after), 0
        while process.read(1) == b":":
            _, mode, old, new, status = process.field().split(b" ")
            path = process.field()
            if status[:1] in (b"R", b"C"):
                path = process.field()
            n_entries = self._counted(n_entries, path)
            if status != b"D":
                yield Change(mode, old, new, status[:1], path)
        process.read(len(END) - 1)

    def patch(self, before: str, after: str, max_n_bytes: int) -> Iterator[tuple[Pair, bytes]]:
        """The files of the patch between two trees, in the order of `changes`: as `patch_files`. Exhaust it."""
        return patch_files(self._compare(PATCH, before, after), max_n_bytes)

    def load_attributes(self, tree: str) -> None:
        """Makes `attributes` answer from the .gitattributes files of `tree`, and from no others."""
        entries = b""
        for mode, _, blob_id, _, path in self.files(tree):
            if path.rsplit(b"/", 1)[-1] == b".gitattributes" and mode.startswith(b"100") and is_safe(path):
                self.contents(blob_id, b"blob", MAX_COMMIT_N_BYTES)  # git takes a missing one for an empty one
                entries += mode + b" " + blob_id + b"\t" + path + b"\0"
        if entries:
            self._run("update-index", "-z", "--index-info", given=entries)
            self._has_attributes = True

    def attributes(self, path: bytes) -> tuple[bool | None, bool | None, bool]:
        """(linguist-generated, linguist-vendored, filter=lfs) of a safe path; None if no .gitattributes file decides."""
        if not self._has_attributes:
            return None, None, False
        process = self._process("check-attr", "--cached", "-z", "--stdin", *ATTRIBUTES)
        process.send(path + b"\0")
        generated, vendored, filter_name = [[process.field() for _ in range(3)][2] for _ in ATTRIBUTES]
        return BOOLEANS.get(generated), BOOLEANS.get(vendored), filter_name == b"lfs"

    def contents(self, object_id: bytes, wanted_type: bytes, max_n_bytes: int) -> bytes | None:
        """The contents of an object; None if they are longer than max_n_bytes. Raises CorpusError if they have another hash."""
        process = self._process(*CAT_FILE)
        process.send(self._checked(object_id.decode()).encode() + b"\n")
        about, what = process.line().split(), f"{wanted_type.decode()} {object_id.decode()}"
        if about[:2] != [object_id, wanted_type]:
            lacks = f"{self._repository.name!r} lacks {what}, which its history needs"
            raise CorpusError(f"{lacks}; {self._repository.remedy}")
        if (n_bytes := int(about[2])) > max_n_bytes:
            self._processes.pop(CAT_FILE).close()  # a new process starts faster than a long object is skipped
            return None
        data = process.read(n_bytes + 1)[:-1]
        if self._hash(wanted_type, data) != object_id:
            raise CorpusError(f"{self._repository.name!r} has other bytes in {what} than its name says; try git fsck")
        return data

    def _counted(self, n_entries: int, path: bytes) -> int:
        """n_entries + 1. Raises CorpusError if this or the path is above its limit."""
        limits = (len(path), MAX_PATH_N_BYTES, "bytes in a path"), (n_entries + 1, MAX_ENTRIES, "entries in a tree")
        for n, most, of in limits:
            if n > most:
                raise CorpusError(f"{self._repository.name!r} has more than {most:,} {of}, the limit of this program")
        return n_entries + 1

    def _hash(self, kind: bytes, data: bytes) -> bytes:
        digest = hashlib.new(self._repository.hash_name, b"%s %d\0" % (kind, len(data)), usedforsecurity=False)
        digest.update(data)
        return digest.hexdigest().encode()

    def _checked(self, object_id: str) -> str:
        if not self._repository.has_id(object_id.encode()):
            raise CorpusError(f"{object_id!r} is not a complete object id of {self._repository.name!r}")
        return object_id

    def _compare(self, command: tuple[str, ...], before: str, after: str) -> GitProcess:
        """The diff-tree process, with the comparison of two trees as its next output, followed by the line `end`."""
        process = self._process(*command)
        # diff-tree repeats the line with the ids; and one that holds no id, after which it flushes
        process.send(f"{self._checked(before)} {self._checked(after)}\n".encode() + END)
        process.line()
        return process

    def _process(self, *args: str) -> GitProcess:
        """The process of this command, which answers many requests."""
        if args not in self._processes:
            self._processes[args] = GitProcess([*OPTIONS, *args], self._scratch, self._env, self._repository.remedy)
            self._stack.callback(self._processes[args].close)
        return self._processes[args]

    def _run(self, *args: str, given: bytes = b"") -> None:
        status, _, reason = run_git([*OPTIONS, *args], self._scratch, self._env, given)
        if status:
            raise CorpusError(f"git could not read the repository: {reason or status}; {self._repository.remedy}")


@contextmanager
def session_in(repository: Repository) -> Iterator[Session]:
    """A session with a scratch folder. Both are closed and deleted after the block. Raises OutputError if it cannot be made."""
    try:
        folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-git-")
    except OSError as error:
        raise unwritable(error) from error
    with folder as scratch, ExitStack() as stack:
        yield Session(repository, Path(scratch), stack)
