"""Makes small git repositories with a history, for tests of several folders."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

DAY_S, NEW_YEAR_S = 86400, 1767268800  # noon of 2026-01-01
Files = Mapping[bytes, bytes]


def git(path: Path, *args: str, stdin: bytes = b"") -> str:
    """What git prints in the repository."""
    env = {"PATH": os.environ["PATH"], "HOME": str(path), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", "-C", str(path), *args], env=env, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


def make(path: Path, commits: Mapping[int, Files]) -> Path:
    """A repository with a commit at noon of each of these days of January 2026."""
    stream = []
    for day, files in commits.items():
        who = b"A <a@b> %d +0000" % (NEW_YEAR_S + DAY_S * (day - 1))
        stream.append(b"commit refs/heads/main\nauthor %s\ncommitter %s\ndata 1\nx\n" % (who, who))
        for name, data in files.items():
            stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(data), data))
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "fast-import", "--quiet", stdin=b"".join(stream))
    return path
