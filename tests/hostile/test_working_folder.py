"""What stands next to an output: nobody else's files are deleted, followed, opened for others, or waited for."""

import errno
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from interruption import InterruptionError, hurried, stopping_at
from limits import bounded
from programs import TINY, failing, mode_of, snapshot
from pytest import MonkeyPatch
from seeds import RUNTIME, seeds

import prequential
from prequential.errors import CorpusError, OutputError
from prequential.files import checkpoint_path, hold_work_folder, output_file, partial_path, work_folder
from prequential.files.work_folder import OWNER
from prequential.records import append_record

pytestmark = pytest.mark.usefixtures("usual_umask")
PRECIOUS = b"precious"
ARCHIVE = "net.pq"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / ARCHIVE).write_bytes(seeds()["mixer"].archive)
    return tmp_path / "f"


def decompress(folder: Path, name: str = "net", **options: object) -> None:
    prequential.decompress(folder / ARCHIVE, folder / name, runtime=RUNTIME, **options)  # type: ignore[call-overload]


def leave_interrupted(folder: Path, name: str = "net") -> None:
    with hurried(), pytest.raises(InterruptionError):
        decompress(folder, name, on_progress=stopping_at(4))
    assert checkpoint_path(folder / name).exists() and partial_path(folder / name).exists()


# ---- a user's files


@pytest.mark.parametrize("files", [("mine",), ("partial", "run.checkpoint"), ("owner",), ("owner", "partial"), None])
def test_a_folder_without_our_mark_or_a_file_is_refused_and_stays(files: tuple[str, ...] | None, folder: Path) -> None:
    work = work_folder(folder / "net")
    work.mkdir() if files else work.write_bytes(PRECIOUS)
    for name in files or ():
        (work / name).write_bytes(PRECIOUS)
    before = snapshot(folder)
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(OutputError, match="not a file or folder that a run of yours left"):
            decompress(folder, **options)
    assert snapshot(folder) == before


@pytest.mark.parametrize("begun", [{}, {OWNER: b""}, {OWNER: b"", "mine": PRECIOUS}])
def test_a_folder_that_a_killed_run_began_is_used_and_deleted_unless_it_holds_other_files(
    begun: dict[str, bytes], folder: Path
) -> None:
    work = work_folder(folder / "net")
    work.mkdir()
    for name, data in begun.items():
        (work / name).write_bytes(data)
    decompress(folder)
    assert {path.name for path in folder.iterdir()} - {work.name} == {"net", ARCHIVE}
    assert work.exists() == ("mine" in begun) and ("mine" not in begun or (work / "mine").read_bytes() == PRECIOUS)


# ---- pipes and links in place of our files


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "owner": lambda link, target: os.link(target, link),
    "partial": lambda link, target: link.symlink_to(target),
    "new.checkpoint": lambda link, target: link.symlink_to(target),
    "run.checkpoint": lambda link, _: os.mkfifo(link),
}


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link_in_the_working_folder_and_a_pipe_is_refused_at_once(
    name: str, folder: Path, tmp_path: Path
) -> None:
    leave_interrupted(folder)
    victim = tmp_path / "victim"
    victim.write_bytes(before := PRECIOUS)
    path = work_folder(folder / "net") / name
    path.unlink(missing_ok=True)
    LINKS[name](path, victim)
    refused = pytest.raises(prequential.PrequentialError)
    with bounded(5.0), refused if name == "run.checkpoint" else suppress(prequential.PrequentialError):
        decompress(folder, resume=True)
    assert victim.read_bytes() == before


def test_a_record_is_appended_whole_or_not_at_all(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    append_record(tmp_path / "a.jsonl", {"a": 1})
    before = (tmp_path / "a.jsonl").read_bytes()
    failing(errno.ENOSPC, monkeypatch, "fsync")
    with pytest.raises(OutputError, match="No space left"):
        append_record(tmp_path / "a.jsonl", {"a": 2})
    assert (tmp_path / "a.jsonl").read_bytes() == before


# ---- long names


@pytest.mark.parametrize("name", ["é" * 127, "n" * 255])
def test_a_long_name_has_a_working_folder_and_resumes(
    name: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave_interrupted(folder, name)
    assert work_folder(folder / name) != work_folder(folder / f"m{name[1:]}")
    decompress(folder, name, resume=True)
    assert not caplog.records  # as of a run that starts anew
    assert snapshot(folder) == {ARCHIVE: seeds()["mixer"].archive, name: seeds()["mixer"].original}


@pytest.mark.parametrize("name", ["n" * 256, "a\0b", "\ud800", "n" * 256 + "/a"])
def test_a_name_that_no_file_can_have_is_refused_before_the_work(name: str, folder: Path) -> None:
    before = snapshot(folder)
    for archive in (folder / ARCHIVE, seeds()["tree"].archive):
        with pytest.raises(OutputError, match="cannot write"):
            prequential.decompress(archive, folder / name, runtime=RUNTIME, on_progress=lambda *_: pytest.fail("works"))
    with pytest.raises(OutputError, match="cannot write"):
        prequential.compress(PRECIOUS, folder / name, config=TINY, runtime=RUNTIME)
    with pytest.raises(CorpusError, match="cannot read"):
        prequential.decompress(folder / name, runtime=RUNTIME)
    assert snapshot(folder) == before


# ---- races


def test_a_target_that_appears_during_the_run_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(OutputError, match="exists"), output_file(target) as sink:
        sink.write(b"ours")
        target.write_bytes(PRECIOUS)
    assert snapshot(tmp_path) == {"out": PRECIOUS}


@pytest.mark.thorough
def test_many_runs_of_one_output_never_hold_it_together(tmp_path: Path) -> None:
    """Runs that begin while another one is just finishing find either its lock or its complete output."""
    holder = threading.Lock()

    def work(_: int) -> bool:
        try:
            with hold_work_folder(tmp_path / "out"):
                assert holder.acquire(blocking=False)
                holder.release()
        except OutputError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert any(pool.map(work, range(800)))
    assert list(tmp_path.iterdir()) == []


# ---- permissions


def test_the_archive_of_a_private_file_is_private_at_any_time(tmp_path: Path) -> None:
    """At every system call, each file in a folder that others may enter is closed to them."""
    source, out, widest, active = tmp_path / "source", tmp_path / "o", 0, True
    source.write_bytes(b"secret " * 200)
    source.chmod(0o600)
    out.mkdir()

    def look(event: str, arguments: object) -> None:
        nonlocal widest
        if active and event in ("open", "os.rename", "os.link", "os.remove", "os.chmod"):
            for path in out.rglob("*"):
                with suppress(OSError):
                    above = [parent for parent in path.parents if out in parent.parents]
                    if path.is_file() and all(parent.stat().st_mode & 0o077 for parent in above):
                        widest |= mode_of(path) & 0o077

    sys.addaudithook(look)
    prequential.compress(source, out / "a.pq", config=TINY, runtime=RUNTIME)
    prequential.decompress(out / "a.pq", out / "a", runtime=RUNTIME)
    active = False
    assert widest == 0
    assert mode_of(out / "a.pq") == mode_of(out / "a") == 0o600
