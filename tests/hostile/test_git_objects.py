"""Hostile git repositories: objects that no git writes, and git processes that hang, die or answer wrongly."""

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from git_objects import Objects, commit, object_id, tree
from limits import bounded
from prequential_corpora import git_repository as process
from prequential_corpora import git_repository as session
from prequential_corpora.git_window import read_tree, read_window
from pytest import MonkeyPatch

from prequential.errors import CorpusError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "r")


def refusal(read: Callable[[], object]) -> str:
    """The one line of the refusal, which comes in bounded time and memory."""
    with bounded(), pytest.raises(CorpusError) as caught:
        read()
    assert str(caught.value).isprintable()
    return str(caught.value)


# ---- object ids


@pytest.mark.parametrize("parent", ["{id:.12}", "{id}^{{commit}}", "{id}\t", "-", "HEAD"])
def test_a_parent_that_is_not_a_complete_id_is_not_followed(objects: Objects, parent: str) -> None:
    first = objects.commit(objects.file(b"1\n"))
    second = objects.commit(objects.file(b"2\n"), parent.format(id=first), 2)
    objects.commit(objects.file(b"3\n"), second, 3)  # git itself checks the commit of the branch
    assert "malformed" in refusal(lambda: list(read_window(objects.path, "2025-01-01")))


@pytest.mark.parametrize("name", ["HEAD", "{id:.12}", "{id}\n"])
def test_a_tree_that_is_not_a_complete_id_is_not_read(objects: Objects, name: str) -> None:
    first = objects.commit(name.format(id=objects.file(b"1\n")))
    objects.commit(objects.file(b"2\n"), first, 2)
    assert "malformed" in refusal(lambda: list(read_tree(objects.path, "2026-01-02")))


def test_a_revision_is_never_sent_to_the_process_that_reads_objects(objects: Objects, monkeypatch: MonkeyPatch) -> None:
    sent: list[bytes] = []
    send = process.GitProcess.send
    monkeypatch.setattr(process.GitProcess, "send", lambda git, request: (sent.append(request), send(git, request))[1])
    first = objects.commit(objects.file(b"1\n"))
    for kind in (b"tree ", b"parent "):
        data = commit(objects.file(b"2\n"), first, 2).replace(kind, kind + b"HEAD:", 1)
        objects.commit(objects.file(b"3\n"), objects.write(b"commit", data), 3)
        refusal(lambda: list(read_window(objects.path, "2025-01-01")))
    assert sent and not any(b"HEAD" in request for request in sent)


def test_objects_that_are_stored_under_another_id_are_refused(objects: Objects) -> None:
    objects.commit(objects.write(b"tree", tree({b"a.py": (b"100644", objects.write(b"blob", b"other", "1" * 40))})))
    assert "other bytes in blob 1111" in refusal(lambda: list(read_tree(objects.path)))


def test_a_history_with_a_cycle_ends(objects: Objects) -> None:
    state = objects.file(b"1\n")
    objects.write(b"commit", commit(state, "1" * 40), "1" * 40)
    objects.commit(state, "1" * 40)
    assert "other bytes in commit 1111" in refusal(lambda: read_window(objects.path, "2025-01-01"))
    assert "other bytes in commit 1111" in refusal(lambda: read_tree(objects.path, "2025-01-01"))


def test_a_tree_that_contains_itself_ends(objects: Objects, monkeypatch: MonkeyPatch) -> None:
    entries = {b"a.py": (b"100644", objects.write(b"blob", b"1\n")), b"b": (b"40000", "1" * 40)}
    objects.write(b"tree", tree(entries), "1" * 40)
    first = objects.commit(objects.file(b"0\n"))
    objects.commit(objects.write(b"tree", tree({b"d": (b"40000", "1" * 40)})), first, 2)
    assert "4,096 bytes in a path" in refusal(lambda: list(read_tree(objects.path)))
    objects.commit(objects.file(b"3\n"), objects.tip((objects.path / "refs/heads/main").read_text().strip()), 3)
    assert refusal(lambda: list(read_window(objects.path, first)))


# ---- numbers and lengths


def many_files(objects: Objects) -> None:
    objects.commit(objects.bomb(objects.file(b"1\n"), 9))


def many_changes(objects: Objects) -> None:
    """Git lists all changes in its memory before it shows the first one."""
    second = objects.commit(objects.bomb(objects.file(b"2\n"), 9), first_of(objects), 2)
    objects.commit(objects.file(b"3\n"), second, 3)


def many_attributes(objects: Objects) -> None:
    objects.commit(objects.bomb(objects.file(b"*.py linguist-generated\n", b".gitattributes"), 2))


def long_path(objects: Objects) -> None:
    objects.commit(objects.file(b"2\n", b"d" * 4094 + b".py"), first_of(objects), 2)


def first_of(objects: Objects) -> str:
    """The commit that windows of these repositories begin with; its date is before all others."""
    return objects.commit(objects.file(b"1\n"))


@pytest.mark.parametrize(
    ("make", "is_window", "reason"),
    [
        (many_files, False, "more than 1,000 entries"),
        (many_changes, True, "out of memory"),
        (many_attributes, False, "more than 50 .gitattributes files"),
        (long_path, False, "more than 4,096 bytes in a path"),
        (long_path, True, "more than 4,096 bytes in a path"),
    ],
)
def test_more_than_a_repository_has_is_refused(
    make: Callable[[Objects], None], is_window: bool, reason: str, objects: Objects, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MAX_ENTRIES", 1000)
    monkeypatch.setattr(session, "MAX_ATTRIBUTE_FILES", 50)
    monkeypatch.setattr(process, "MEMORY_N_BYTES", 16 << 20)
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
    objects.commit(
        objects.write(b"tree", tree({b"git~1": (b"40000", attributes), b"x": (b"40000", objects.file(b"x\n"))}))
    )
    assert [d.name for d in read_tree(objects.path)] == ["x/a.py"]


# ---- processes


@pytest.fixture
def short_silence(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SILENCE_S", 0.3)


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "config", "objects/info/alternates", "blob", "commit"])
@pytest.mark.usefixtures("short_silence")
def test_a_named_pipe_in_the_repository_is_not_waited_for(objects: Objects, name: str) -> None:
    tip = objects.commit(objects.file(b"1\n"))
    found = {"blob": objects.place(object_id(b"blob", b"1\n")), "commit": objects.place(tip)}
    place = found.get(name, objects.path / name)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    refusal(lambda: list(read_tree(objects.path)))


FAKES = {
    "hangs": "sleep 60",
    "ends": "exit 0",
    "dies": "kill -9 $$",
    "fails": "echo 'fatal: bad\nhint: x' >&2; exit 128",
    "says nothing more": "exec >&-; sleep 60",
    "says too much": "exec yes",
    "says other words": "cat >/dev/null; echo sha1; echo maybe; echo; echo objects",
    "names a folder with NUL": r"printf 'sha1\nfalse\n\nobjects\0x\n'",
    "has no id": "echo sha1; echo false; echo; echo objects; exit 0",
}


@pytest.mark.usefixtures("short_silence")
@pytest.mark.parametrize("how", FAKES)
def test_a_git_that_does_not_answer_as_git_does_is_one_line(
    how: str, objects: Objects, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "git").write_text(f"#!/bin/sh\n{FAKES[how]}\n")
    (tmp_path / "git").chmod(0o755)
    refusal(lambda: list(read_tree(objects.path)))


ANSWERS: dict[str, tuple[bytes, bytes]] = {  # what git says, and what is read
    "another id": (b"blob", b"tree"), "a negative size": (b"blob 4\n", b"blob -4\n"), "a large size": (b"blob 4\n", b"blob 5\n"),
    "a small size": (b"blob 4\n", b"blob 3\n"), "an endless size": (b"blob 4\n", b"blob " + b"9" * 5000 + b"\n"),
    "no end of a line": (b"\n", bytes(1 << 13)), "another mode": (b"100644", b"-00644"), "another status": (b" M\0", b" Z\0"),
    "a longer hunk": (b"+2 @@", b"+2,9 @@"), "a shorter hunk": (b"+2 @@", b"+2,0 @@"), "another sign": (b"\n+b", b"\n b"),
    "no end": (b"end\n", b"enD\n"),
}  # fmt: skip


@pytest.mark.usefixtures("short_silence")
@pytest.mark.parametrize("how", ANSWERS)
def test_an_answer_of_another_form_is_one_line(how: str, objects: Objects, monkeypatch: MonkeyPatch) -> None:
    first = objects.commit(objects.file(b"a\n"))
    last = objects.commit(objects.file(b"a\nb\n"), first, 2)
    window = read_window(objects.path, first, last)
    fill = process.GitProcess._fill

    def filled(git: process.GitProcess) -> int:
        old = len(git._buffer)
        fill(git)
        said = bytes(git._buffer[old:]).replace(*ANSWERS[how])
        git._buffer[old:] = said
        return len(said)

    monkeypatch.setattr(process.GitProcess, "_fill", filled)
    refusal(lambda: list(window))


# ---- the environment and the owner


REDIRECTED = {
    "GIT_DIR": "{other}", "GIT_WORK_TREE": "{other}", "GIT_OBJECT_DIRECTORY": "{other}/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "{other}/objects", "GIT_COMMON_DIR": "{other}", "GIT_NAMESPACE": "x",
    "GIT_INDEX_FILE": "{other}/HEAD", "GIT_CEILING_DIRECTORIES": "/", "GIT_CONFIG_GLOBAL": "{other}/config2",
    "GIT_CONFIG_PARAMETERS": "'core.bare'='maybe'", "GIT_CONFIG_COUNT": "nonsense", "GIT_SHALLOW_FILE": "{other}/HEAD",
    "GIT_GRAFT_FILE": "{other}/HEAD", "GIT_DEFAULT_HASH": "sha256", "GIT_TRACE": "{other}/trace",
}  # fmt: skip


@pytest.mark.parametrize("name", REDIRECTED)
def test_variables_of_git_do_not_change_what_is_read(
    name: str, objects: Objects, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    other = Objects(tmp_path / "other")
    (other.path / "config2").write_text("[core\n")
    other.commit(other.file(b"other\n"))
    objects.commit(objects.file(b"mine\n"))
    monkeypatch.setenv(name, REDIRECTED[name].format(other=other.path))
    assert [d.data for d in read_tree(objects.path)] == [b"mine\n"]
    assert not (other.path / "trace").exists()


def test_a_folder_below_a_repository_whose_path_has_a_colon_is_not_a_repository(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "a:b" / ".git")
    objects.commit(objects.file(b"1\n"))
    (objects.path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    (tmp_path / "a:b" / "sub").mkdir()
    assert "not the root of a git repository" in refusal(lambda: read_tree(tmp_path / "a:b" / "sub"))
    assert [d.name for d in read_tree(tmp_path / "a:b")] == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_owner_is_refused_with_the_command_that_allows_it(objects: Objects) -> None:
    objects.commit(objects.file(b"1\n"))
    os.chown(objects.path, 12345, 12345)
    said = refusal(lambda: read_tree(objects.path))
    assert said == (
        f"'{objects.path}' belongs to another user, so git does not read it; if you trust it: "
        f"git config --global --add safe.directory {objects.path}"
    )


def test_the_commit_of_the_program_does_not_depend_on_variables_of_git(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    from prequential.machine import facts as machine

    checkout, other = Objects(tmp_path / "checkout" / ".git"), Objects(tmp_path / "other")
    expected = checkout.commit(checkout.file(b"1\n"))
    (checkout.path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    subprocess.run(["git", "reset", "--hard", "--quiet"], cwd=tmp_path / "checkout", check=True, env=clean())
    other.commit(other.file(b"2\n"))
    monkeypatch.setattr(machine, "CHECKOUT", tmp_path / "checkout")
    for variables in ({}, {"GIT_DIR": other.path, "GIT_WORK_TREE": tmp_path}, {"GIT_INDEX_FILE": other.path / "HEAD"}):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, str(value))
            assert machine.git_commit() == expected


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
