"""The user's repository, in which git only looks up revisions; and a session: git in an empty one that borrows its objects.

Git itself is trusted, objects are not. All object ids come from git. Memory and output are limited: few bytes can describe
billions of files.
"""

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from typing import IO, NamedTuple

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import reading, temporary_folder
from prequential_corpora.corpus import spooling, unicode_name
from prequential_corpora.git_rules import is_safe

MEMORY_N_BYTES = 4 << 30  # of one git process, not counting mapped files
MAX_OUTPUT_N_BYTES = 1 << 29  # of a list of files, and of the edits of a commit
MAX_ERRORS_N_BYTES = 1 << 16
MAX_ATTRIBUTES_N_BYTES = 1 << 24
# No tree is checked out here, so paths that are special on other systems are names like others.
GIT = ("git", "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", "-c", "core.commitGraph=false")
DIFF = ("diff-tree", "-r", "--find-renames=50%", "-l1000")
RAW = (*DIFF, "-z", "--raw", "--no-abbrev", "--diff-filter=AMRT")
PATCH = (
    *DIFF, "-p", "-U0", "--diff-filter=MR", "--full-index", "--text", "--no-ext-diff", "--no-textconv",
    "--diff-algorithm=myers", "--no-color", "--no-indent-heuristic",
)  # fmt: skip
# The lines of a patch that begin the edit of a file, and a hunk of it. Lines of files begin with + or -, and names are quoted.
EDIT = re.compile(rb"^(?:index ([0-9a-f]+)\.\.([0-9a-f]+)|@@ -[\d,]+ \+(\d+)(?:,(\d+))? @@)", re.MULTILINE)
ATTRIBUTES = ("linguist-generated", "linguist-vendored", "filter")
BOOLEANS = {b"set": True, b"true": True, b"unset": False, b"false": False}
INCOMPLETE = (
    "try git fsck; a partial clone lacks contents (git fetch --refetch --no-filter), a shallow one commits "
    "(git fetch --unshallow)"
)
# never a hash and hardly ever a branch; all other text is a revision
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)

# linguist-generated and linguist-vendored, None if no .gitattributes file decides; and whether the filter is Git LFS
Attributes = tuple[bool | None, bool | None, bool]


def git_environment() -> dict[str, str]:
    """This process's environment for git without a network, grafts and replaced objects.

    It has none of git's variables, which could name another repository, index or configuration.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
    }


def _failure(errors: bytes, status: int) -> CorpusError:
    """The error for a git that ended with this status, with the last line of its error output that states a reason."""
    lines = [line for line in errors.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    reason = fatal[-1] if fatal else f"it ended with status {status}"
    return CorpusError(f"git failed: {''.join(c if c.isprintable() else '?' for c in reason)[:300]}")


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

    def resolve(self, revision: str) -> str:
        """The id of the commit that `revision` names. Raises CorpusError if there is none."""
        if revision.startswith("-") or "\0" in revision or not revision:
            raise CorpusError(f"{revision!r} is not a revision; give a commit, a branch, a tag or a date")
        try:
            return _rev_parse(self.path, "--verify", f"{revision}^{{commit}}").strip().decode()
        except CorpusError as error:
            raise CorpusError(f"{self.name!r} has no commit {revision!r}; a shallow clone may lack it") from error

    @contextmanager
    def session(self) -> Iterator["Session"]:
        """A session with a scratch folder, deleted after the block. Raises OutputError if it cannot be made."""
        with spooling():
            folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-git-")
        with folder as scratch, ExitStack() as stack:
            yield Session(self, Path(scratch), stack)

    def empty_id(self, kind: str) -> str:
        """The id of a tree or a blob without contents."""
        return hashlib.new(self.hash_name, f"{kind} 0\0".encode(), usedforsecurity=False).hexdigest()


def find_repository(repo: str | os.PathLike[str]) -> Repository:
    """The repository whose root is the folder `repo`. Raises CorpusError if there is none that git reads."""
    if shutil.which("git") is None:
        raise MissingDependencyError("git repositories are read with the `git` program, which is not installed")
    path = Path(repo)
    if not path.is_dir():
        raise CorpusError(f"{str(path)!r} is not a folder; give the root of a git repository")
    path = path.resolve()
    names = ("--show-object-format", "--is-shallow-repository", "--show-prefix", "--git-path", "objects")
    try:
        output = _rev_parse(path, *names)
    except CorpusError as error:
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {error}") from error
    hash_name, is_shallow, prefix, objects = output.removesuffix(b"\n").split(b"\n", 3)
    if prefix:
        raise CorpusError(f"{str(path)!r} is not the root of a git repository, but a folder inside one")
    return Repository(path, path / os.fsdecode(objects), hash_name.decode(), is_shallow == b"true")


def _rev_parse(repo: Path, *args: str) -> bytes:
    """git rev-parse in the repository itself, with the user's configuration files, because safe.directory must apply."""
    with reading(repo):
        command = [*GIT, "rev-parse", *args]
        done = subprocess.run(command, cwd=repo, env=git_environment(), capture_output=True, check=False)
    if done.returncode:
        raise _failure(done.stderr, done.returncode)
    return done.stdout


class Commit(NamedTuple):
    """A commit's id, tree and committer date: in seconds since 1970, and in UTC, ISO 8601."""

    id: str
    tree: str
    date_s: int
    date: str


class Change(NamedTuple):
    """One entry of a commit's difference to its parent; `path` is the new path. added: the lines of an edit that are new."""

    mode: bytes
    before: bytes  # object ids, in hexadecimal
    after: bytes
    path: bytes
    added: list[slice] | None = None


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
    """git in an empty repository that borrows the objects of another. Its methods raise CorpusError if git fails."""

    def __init__(self, repository: Repository, scratch: Path, stack: ExitStack) -> None:
        self._repository, self._scratch, self._stack = repository, scratch, stack
        self._errors = stack.enter_context((scratch / "errors").open("a+b"))
        self._processes: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}  # that answer questions
        self._secret = secrets.token_hex(16).encode()  # no path contains it
        self._has_attributes = False
        self._env = git_environment() | {"HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch)}
        self._env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
        git, objects = str(scratch / "git"), repository.objects
        self._output("init", "--quiet", "--bare", "--template=", f"--object-format={repository.hash_name}", git)
        # only now: `init` makes folders among the objects
        self._env |= {"GIT_DIR": git, "GIT_OBJECT_DIRECTORY": str(objects)}
        self._env["GIT_SHALLOW_FILE"] = f"{objects.parent}/shallow"

    def line_to(self, when: str) -> Iterator[Commit]:
        """The commit of a revision, its first parent, the first parent of that one, and so on to the first commit.

        For a date: from the newest commit on HEAD's first-parent line up to it.
        """
        date_s = parse_date(when)
        if date_s is None:
            return self._first_parents(self._repository.resolve(when))
        return dropwhile(lambda commit: commit.date_s > date_s, self._first_parents(self._repository.resolve("HEAD")))

    def _first_parents(self, commit_id: str) -> Iterator[Commit]:
        form = "--format=%T %ct %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"
        process = self._keep(self._start("rev-list", "--first-parent", *form, commit_id))
        assert process.stdout
        while line := process.stdout.readline().decode():
            name, fields = line.split()[1], process.stdout.readline().decode().split()
            if len(fields) != 3:
                raise CorpusError(f"commit {name} of {self._repository.name!r} is malformed; try git fsck")
            yield Commit(name, fields[0], int(fields[1]), fields[2])
        if process.wait():
            raise self._failed(process.returncode)

    def files(self, tree: str) -> Iterator[Change]:
        """Each entry below `tree` that is not a folder, as an addition, ascending by the bytes of the path."""
        for entry in self._output("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
            about, _, path = entry.partition(b"\t")
            mode, _, object_id = about.split(b" ")
            yield Change(mode, b"", object_id, path)

    def changes(self, before: str, after: str) -> list[Change]:
        """The differences between two trees, without deletions, in git's order (by path)."""
        fields = iter(self._difference(RAW, before, after).split(b"\0")[:-1])
        changes, edited = list[Change](), set[int]()
        for about in fields:
            mode, old, new, status = about.split(b" ")[1:]
            path = next(fields)
            if status.startswith(b"R"):
                path = next(fields)
            if status[:1] in b"MR" and old != new:
                edited.add(len(changes))
            changes.append(Change(mode, old, new, path))
        added: dict[tuple[bytes, bytes], list[slice]] = {}
        for edit in EDIT.finditer(self._difference(PATCH, before, after) if edited else b""):
            old, new, first, n = edit.groups()
            if old:
                lines = added[old, new] = []
            else:
                lines.append(slice(int(first) - 1, int(first) - 1 + int(n or 1)))
        for i in edited:
            changes[i] = changes[i]._replace(added=added.get((changes[i].before, changes[i].after), []))
        return changes

    def _difference(self, command: tuple[str, ...], before: str, after: str) -> bytes:
        """The output of a diff-tree for two trees. Each command has one process, which repeats a line that is no object id."""
        process = self._process(*command, "--stdin")
        assert process.stdin and process.stdout
        question, end, output = f"{before} {after}\n".encode(), b"end %s\n" % self._secret, bytearray()
        self._ask(process, question + end)
        while not output.endswith(end):
            part = os.read(process.stdout.fileno(), 1 << 20)
            output += part
            if len(output) > MAX_OUTPUT_N_BYTES:
                raise self._too_large()
            if not part:
                raise self._failed(process.wait())
        if not output.startswith(question):  # git says nothing of a missing tree
            raise CorpusError(f"{self._repository.name!r} lacks a tree: {INCOMPLETE}")
        return bytes(output[len(question) : -len(end)])

    def load_attributes(self, tree: str) -> None:
        """Makes `attributes` answer from the .gitattributes files of `tree`, and from no others."""
        entries = b""
        for mode, _, blob_id, path, _ in self.files(tree):
            if path.rsplit(b"/", 1)[-1] == b".gitattributes" and mode.startswith(b"100") and is_safe(path):
                self.blob(blob_id, MAX_ATTRIBUTES_N_BYTES)  # git takes a missing one for an empty one
                entries += mode + b" " + blob_id + b"\t" + path + b"\0"
        if entries:
            self._output("update-index", "-z", "--index-info", given=entries)
            self._has_attributes = True

    def attributes(self, paths: Sequence[bytes]) -> Iterator[Attributes]:
        """The attributes of each of these paths, which are safe."""
        if not self._has_attributes or not paths:
            return iter([(None, None, False)] * len(paths))
        given = b"".join(path + b"\0" for path in paths)
        answers = self._output("check-attr", "--cached", "-z", "--stdin", *ATTRIBUTES, given=given)
        values = iter(answers.split(b"\0")[2::3])
        triples = zip(values, values, values, strict=True)
        return ((BOOLEANS.get(a), BOOLEANS.get(b), name == b"lfs") for a, b, name in triples)

    def blob(self, object_id: bytes, max_n_bytes: int) -> bytes | None:
        """The contents of a blob; None if they are longer than max_n_bytes. Raises CorpusError if it is missing."""
        process = self._process("cat-file", "--batch")
        assert process.stdout
        self._ask(process, object_id + b"\n")
        about = process.stdout.readline().split()
        if about[1:2] != [b"blob"]:
            raise CorpusError(f"{self._repository.name!r} lacks blob {object_id.decode()}: {INCOMPLETE}")
        n_bytes = int(about[2])
        if n_bytes > max_n_bytes:
            process.kill()  # a new process starts faster than a long object is skipped
            del self._processes["cat-file", "--batch"]
            return None
        data = process.stdout.read(n_bytes + 1)
        if len(data) <= n_bytes:
            raise self._failed(process.wait())
        return data[:-1]

    def _output(self, *args: str, given: bytes = b"") -> bytes:
        """The output of git, run to its end with this input."""
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            file.write(given)
            file.seek(0)
            with self._start(*args, given=file) as process:
                assert process.stdout
                output = process.stdout.read(MAX_OUTPUT_N_BYTES + 1)
                if len(output) > MAX_OUTPUT_N_BYTES:
                    process.kill()
                    raise self._too_large()
        if process.returncode:
            raise self._failed(process.returncode)
        return output

    def _start(self, *args: str, given: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """A git process with limited memory."""
        with reading(self._repository.path):
            process = subprocess.Popen(
                [*GIT, *args],
                cwd=self._scratch,
                env=self._env,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        with suppress(ImportError, AttributeError, OSError, ValueError):  # Linux only; a lower limit stays
            import resource

            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY_N_BYTES, MEMORY_N_BYTES))
        return process

    def _process(self, *args: str) -> subprocess.Popen[bytes]:
        """The process of this command that answers questions until the end of the session."""
        if args not in self._processes:
            self._processes[args] = self._keep(self._start(*args, given=subprocess.PIPE))
        return self._processes[args]

    def _ask(self, process: subprocess.Popen[bytes], question: bytes) -> None:
        assert process.stdin
        with reading(self._repository.path):
            os.write(process.stdin.fileno(), question)

    def _too_large(self) -> CorpusError:
        return CorpusError(f"{self._repository.name!r} is too large: git says more than {MAX_OUTPUT_N_BYTES:,} bytes")

    def _keep(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """The process, which is killed at the end of the session, even in the middle of an answer."""
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def _failed(self, status: int) -> CorpusError:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MAX_ERRORS_N_BYTES))
        return CorpusError(f"{_failure(self._errors.read(), status)}; {INCOMPLETE}")
