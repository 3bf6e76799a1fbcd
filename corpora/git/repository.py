"""The user's repository: where its objects are, and the lookup of revisions. This is the only use of git inside it."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from prequential.corpora.git.process import git_program, last_line
from prequential.errors import CorpusError


class Repository(NamedTuple):
    """A git repository. objects: the folder of its objects. hash_name: sha1 or sha256."""

    path: Path
    objects: Path
    hash_name: str
    is_shallow: bool

    @property
    def name(self) -> str:
        r"""The name of the repository's folder as printable text, without .git. Bytes that are not UTF-8 become \xNN."""
        name = self.path.parent.name if self.path.name == ".git" else self.path.name.removesuffix(".git")
        return os.fsencode(name).decode("utf-8", "backslashreplace")

    def resolve(self, revision: str) -> str:
        """The id of the commit that `revision` names. Raises CorpusError if there is none."""
        if revision.startswith("-") or "\0" in revision or not revision:
            raise CorpusError(f"{revision!r} is not a revision; give a commit, a branch, a tag or a date")
        found = _rev_parse(self.path, "--verify", "--quiet", f"{revision}^{{commit}}")
        if found.returncode == 0:
            return found.stdout.decode().strip()
        if _rev_parse(self.path, "--verify", "--quiet", "HEAD^{commit}").returncode and revision == "HEAD":
            raise CorpusError(f"{self.name!r} has no commits: HEAD names none")
        hint = "; it is a shallow clone: git fetch --unshallow" if self.is_shallow else ""
        raise CorpusError(f"{self.name!r} has no commit {revision!r}{hint}")


def find_repository(repo: str | os.PathLike[str]) -> Repository:
    """The repository whose root is the folder `repo`. Raises CorpusError if there is none that git reads."""
    path = Path(repo)
    if not path.is_dir():
        raise CorpusError(f"{str(path)!r} is not a folder; give the root of a git repository")
    path = path.resolve()
    found = _rev_parse(path, "--show-object-format", "--is-shallow-repository", "--git-path", "objects")
    if found.returncode:
        reason = last_line(found.stderr)
        raise CorpusError(f"{str(path)!r} is not the root of a git repository that git reads: {reason}")
    hash_name, is_shallow, objects = found.stdout.removesuffix(b"\n").split(b"\n", 2)
    return Repository(path, path / os.fsdecode(objects), hash_name.decode(), is_shallow == b"true")


def _rev_parse(repo: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    """git rev-parse in the repository itself, with the user's configuration, because safe.directory must apply."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith("GIT_CONFIG")}
    env |= {"LC_ALL": "C", "GIT_CEILING_DIRECTORIES": str(repo.parent), "GIT_NO_LAZY_FETCH": "1"}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}
    command = [git_program(), "-C", os.fspath(repo), "rev-parse", *args]
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
