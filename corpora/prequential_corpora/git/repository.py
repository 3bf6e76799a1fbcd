"""The user's repository: where its objects are, and the lookup of revisions. This is the only use of git inside it."""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from prequential_corpora.corpus import unicode_name
from prequential_corpora.git.process import Outcome, git_environment, start_git, wrong_answer
from prequential.errors import CorpusError

N_DIGITS = {"sha1": 40, "sha256": 64}  # of an object id in hexadecimal


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

    def has_id(self, text: bytes) -> bool:
        """Whether `text` can be an object's id: all digits of this repository's hash, and nothing else."""
        return re.fullmatch(rb"[0-9a-f]{%d}" % N_DIGITS[self.hash_name], text) is not None

    def resolve(self, revision: str) -> str:
        """The id of the commit that `revision` names. Raises CorpusError if there is none."""
        if revision.startswith("-") or "\0" in revision or not revision:
            raise CorpusError(f"{revision!r} is not a revision; give a commit, a branch, a tag or a date")
        found = _rev_parse(self.path, "--verify", "--quiet", f"{revision}^{{commit}}")
        if found.status == 0:
            if not self.has_id(commit_id := found.output.removesuffix(b"\n")):
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
    found = _rev_parse(path, *names)
    if found.status:
        if "dubious ownership" in found.reason:
            raise CorpusError(
                f"{str(path)!r} belongs to another user, so git does not read it; if you trust it: "
                f"git config --global --add safe.directory {shlex.quote(str(path))}"
            )
        reason = found.reason or f"git ended with status {found.status}"
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {reason}")
    answer = re.fullmatch(rb"(sha1|sha256)\n(true|false)\n([^\n]*)\n([^\0]+)\n", found.output)
    if answer is None:
        raise wrong_answer("another form than that of git rev-parse")
    if answer[3]:  # GIT_CEILING_DIRECTORIES cannot name a folder with a colon
        raise CorpusError(f"{str(path)!r} is not the root of a git repository, but a folder inside one")
    return Repository(path, path / os.fsdecode(answer[4]), answer[1].decode(), answer[2] == b"true")


def _rev_parse(repo: Path, *args: str) -> Outcome:
    """git rev-parse in the repository itself, with the user's configuration files, because safe.directory must apply."""
    env = git_environment() | {"GIT_CEILING_DIRECTORIES": str(repo.parent), "GIT_NO_LAZY_FETCH": "1"}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}
    process = start_git(["rev-parse", *args], repo, env)
    try:
        return process.outcome()
    finally:
        process.close()
