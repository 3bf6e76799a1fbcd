"""Hostile git repositories: objects that no git writes, variables that redirect git, and folders of other users."""

import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from limits import bounded
from prequential_corpora import git_repository
from prequential_corpora.git_window import read_tree, read_window
from pytest import MonkeyPatch

from prequential.errors import CorpusError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
NOON_S = 1767268800  # 2026-01-01T12:00:00Z


def object_id(kind: bytes, data: bytes) -> str:
    """The id of an object."""
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(data), data), usedforsecurity=False).hexdigest()


def tree(entries: Mapping[bytes, tuple[bytes, str]]) -> bytes:
    """The contents of a tree. entries: name to mode and object id, in the order of the tree."""
    return b"".join(mode + b" " + name + b"\0" + bytes.fromhex(to) for name, (mode, to) in entries.items())


def commit(tree_id: str, parent: str | None = None, day: int = 1) -> bytes:
    """The contents of a commit at noon of this day of January 2026."""
    who = b"A <a@b> %d +0000" % (NOON_S + 86400 * (day - 1))
    parents = b"" if parent is None else b"parent %s\n" % parent.encode()
    return b"tree %s\n%sauthor %s\ncommitter %s\n\nx\n" % (tree_id.encode(), parents, who, who)


class Objects:
    """A bare repository of loose objects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("objects", "refs/heads"):
            (path / folder).mkdir(parents=True)
        (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        (path / "HEAD").write_text("ref: refs/heads/main\n")

    def place(self, name: str) -> Path:
        """The file of an object. Its folder exists."""
        place = self.path / "objects" / name[:2] / name[2:]
        place.parent.mkdir(exist_ok=True)
        return place

    def write(self, kind: bytes, data: bytes, name: str | None = None) -> str:
        """Writes an object and returns its id. name: another id than its own, under which it is stored."""
        name = name or object_id(kind, data)
        self.place(name).write_bytes(zlib.compress(b"%s %d\0%s" % (kind, len(data), data), 1))
        return name

    def file(self, data: bytes, name: bytes = b"a.py") -> str:
        """Writes a tree of one file."""
        return self.write(b"tree", tree({name: (b"100644", self.write(b"blob", data))}))

    def commit(self, tree_id: str, parent: str | None = None, day: int = 1) -> str:
        """Writes a commit, which becomes the tip of the branch."""
        return self.tip(self.write(b"commit", commit(tree_id, parent, day)))

    def tip(self, name: str) -> str:
        """Makes the commit `name` the tip of the branch."""
        (self.path / "refs/heads/main").write_text(name + "\n")
        return name

    def bomb(self, leaf: str, depth: int, width: int = 10) -> str:
        """A tree of width ** depth copies of the tree `leaf`."""
        for _ in range(depth):
            leaf = self.write(b"tree", tree({b"%d" % i: (b"40000", leaf) for i in range(width)}))
        return leaf


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "r")


def refusal(read: Callable[[], object]) -> str:
    """The one line of the refusal, which comes in bounded time and memory."""
    with bounded(), pytest.raises(CorpusError) as caught:
        read()
    assert str(caught.value).isprintable()
    return str(caught.value)


# ---- objects that no git writes


@pytest.mark.parametrize("parent", ["{id:.12}", "-", "HEAD"])
def test_a_parent_that_is_not_a_complete_id_is_not_followed(objects: Objects, parent: str) -> None:
    first = objects.commit(objects.file(b"1\n"))
    second = objects.commit(objects.file(b"2\n"), parent.format(id=first), 2)
    objects.commit(objects.file(b"3\n"), second, 3)
    assert "parents of commit" in refusal(lambda: list(read_window(objects.path, "2025-01-01")))


def test_a_commit_of_an_impossible_date_is_refused(objects: Objects) -> None:
    data = b"tree %s\nauthor x\ncommitter x\n\nx\n" % objects.file(b"1\n").encode()
    objects.tip(objects.write(b"commit", data))
    assert "malformed" in refusal(lambda: read_tree(objects.path))


def test_a_history_with_a_cycle_ends(objects: Objects) -> None:
    state = objects.file(b"1\n")
    objects.write(b"commit", commit(state, "1" * 40), "1" * 40)
    objects.commit(state, "1" * 40)
    with bounded():
        assert len(read_window(objects.path, "2025-01-01").steps) == 2


# ---- numbers and lengths


def many_files(objects: Objects) -> None:
    objects.commit(objects.bomb(objects.file(b"1\n"), 9))


def many_changes(objects: Objects) -> None:
    """Git lists all changes in its memory before it shows the first one."""
    first = objects.commit(objects.file(b"1\n"))
    second = objects.commit(objects.bomb(objects.file(b"2\n"), 9), first, 2)
    objects.commit(objects.file(b"3\n"), second, 3)


def a_tree_in_itself(objects: Objects) -> None:
    entries = {b"a.py": (b"100644", objects.write(b"blob", b"1\n")), b"b": (b"40000", "1" * 40)}
    objects.write(b"tree", tree(entries), "1" * 40)
    objects.commit(objects.write(b"tree", tree({b"d": (b"40000", "1" * 40)})))


@pytest.mark.parametrize(
    ("make", "is_window", "reason"),
    [
        (many_files, False, "more than 1,000,000 bytes"),
        (many_changes, True, "out of memory"),
        (a_tree_in_itself, False, "more than 1,000,000 bytes"),
    ],
)
def test_more_than_a_repository_has_is_refused(
    make: Callable[[Objects], None], is_window: bool, reason: str, objects: Objects, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "MAX_OUTPUT_N_BYTES", 1_000_000)
    monkeypatch.setattr(git_repository, "MEMORY_N_BYTES", 16 << 20)
    make(objects)
    read = (lambda: read_window(objects.path, "2026-01-01")) if is_window else (lambda: read_tree(objects.path))
    assert reason in refusal(lambda: list(read())).lower()


def test_a_blob_that_is_too_long_is_not_read(objects: Objects) -> None:
    place = objects.place(blob := "1" * 40)
    compressor = zlib.compressobj(9)
    with place.open("wb") as file:
        file.write(compressor.compress(b"blob %d\0" % (4 << 30)))
        for _ in range(64):
            file.write(compressor.compress(bytes(1 << 20)))
        file.write(compressor.flush())
    entries = {b"a.py": (b"100644", blob), b"b.py": (b"100644", objects.write(b"blob", b"b\n"))}
    objects.commit(objects.write(b"tree", tree(entries)))
    with bounded(extra_bytes=64 << 20):
        documents = read_tree(objects.path)
        assert [d.name for d in documents] == ["b.py"]
    assert documents.excluded == {"size": 1}


def test_paths_that_are_special_on_other_systems_do_not_stop_the_reading(objects: Objects) -> None:
    attributes = objects.file(b"* linguist-generated\n", b".gitattributes")
    entries = {b"git~1": (b"40000", attributes), b"x": (b"40000", objects.file(b"x\n"))}
    objects.commit(objects.write(b"tree", tree(entries)))
    assert [d.name for d in read_tree(objects.path)] == ["x/a.py"]


def test_a_git_that_fails_is_one_line(objects: Objects, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "git").write_text("#!/bin/sh\necho 'fatal: bad\nhint: x' >&2; exit 128\n")
    (tmp_path / "git").chmod(0o755)
    assert refusal(lambda: list(read_tree(objects.path))).endswith("git failed: fatal: bad")


# ---- the environment and the owner


REDIRECTED = {
    "GIT_DIR": "{other}", "GIT_WORK_TREE": "{other}", "GIT_OBJECT_DIRECTORY": "{other}/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "{other}/objects", "GIT_COMMON_DIR": "{other}", "GIT_NAMESPACE": "x",
    "GIT_INDEX_FILE": "{other}/HEAD", "GIT_CEILING_DIRECTORIES": "/", "GIT_CONFIG_GLOBAL": "{other}/config2",
    "GIT_CONFIG_PARAMETERS": "'core.bare'='maybe'", "GIT_CONFIG_COUNT": "nonsense", "GIT_SHALLOW_FILE": "{other}/HEAD",
    "GIT_GRAFT_FILE": "{other}/HEAD", "GIT_DEFAULT_HASH": "sha256", "GIT_TRACE": "{other}/trace",
}  # fmt: skip


def test_variables_of_git_do_not_change_what_is_read(
    objects: Objects, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    other = Objects(tmp_path / "other")
    (other.path / "config2").write_text("[core\n")
    other.commit(other.file(b"other\n"))
    objects.commit(objects.file(b"mine\n"))
    for name, value in REDIRECTED.items():
        monkeypatch.setenv(name, value.format(other=other.path))
    assert [d.data for d in read_tree(objects.path)] == [b"mine\n"]
    assert not (other.path / "trace").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_owner_is_refused_with_the_reason(objects: Objects) -> None:
    objects.commit(objects.file(b"1\n"))
    os.chown(objects.path, 12345, 12345)
    assert "dubious ownership" in refusal(lambda: read_tree(objects.path))
