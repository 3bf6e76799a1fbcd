"""Local data sets of a stranger: metadata, links, archives and formats that lead out of the folder are refused in one line."""

import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError, MissingDependencyError

pytest.importorskip("datasets")

ROW, SECRET = b'{"text": "mine"}\n', b'{"text": "secret"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set next to a file that it must not read."""
    (tmp_path / "secret.jsonl").write_bytes(SECRET)
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "rows.jsonl").write_bytes(ROW)
    return tmp_path / "set"


def card(folder: Path, *lines: str, name: str = "README.md") -> None:
    """Writes the metadata of one configuration."""
    text = "configs:\n- config_name: default\n" + "".join(f"  {line}\n" for line in lines)
    (folder / name).write_text(f"---\n{text}---\ntext\n" if name == "README.md" else text)


def data(folder: Path) -> bytes:
    with open_corpus(f"hf:{folder}") as corpus:
        return corpus.bytes().tobytes()


def check_refused(folder: Path, reason: str) -> None:
    """The data set is refused in one line, and nothing is left outside its folder."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(CorpusError, match=reason) as caught:
        data(folder)
    assert "\n" not in str(caught.value)
    assert sorted(folder.parent.iterdir()) == before
    assert list((folder.parent / "spool").iterdir()) == []


OUTSIDE = [
    "../secret.jsonl", "../*.jsonl", "sub/../../secret.jsonl", "{parent}/secret.jsonl", "file://{parent}/secret.jsonl",
    "file:{parent}/secret.jsonl", "local://{parent}/secret.jsonl", "~/secret.jsonl", "http://127.0.0.1:9/secret.jsonl",
    "zip://secret.jsonl::{parent}/secret.zip", "zip://*::http://127.0.0.1:9/secret.zip",
    "hf://datasets/owner/texts/secret.jsonl", "simplecache::file://{parent}/secret.jsonl",
]  # fmt: skip


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_metadata_that_name_files_outside_the_folder_are_refused(pattern: str, folder: Path) -> None:
    pattern = pattern.format(parent=folder.parent)
    listed = f"data_files: [{{split: train, path: [rows.jsonl, {pattern!r}]}}]"
    for line in (f"data_files: {pattern!r}", listed, f"data_dir: {pattern!r}"):
        card(folder, line)
        check_refused(folder, "names data files outside the data set")
    (folder / "README.md").unlink()
    card(folder, f"data_files: {pattern!r}", name=".huggingface.yaml")
    check_refused(folder, "names data files outside the data set")


@pytest.mark.parametrize("version", ["../../../../written", "{parent}/written", ".."])
def test_metadata_cannot_choose_where_tables_are_written(version: str, folder: Path) -> None:
    card(folder, "data_files: rows.jsonl", f"version: {version.format(parent=folder.parent)!r}")
    check_refused(folder, "has a version that cannot be the name of a folder")


def test_metadata_with_aliases_are_refused(folder: Path) -> None:
    levels = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 20)}]" for n in range(1, 9))]
    card(folder, "data_files: rows.jsonl", *levels, "features: *a8")
    check_refused(folder, "has aliases in its metadata")


@pytest.mark.parametrize(
    "text", [b"---\n[\n---\n", b"---\n\xff: 1\n---\n", b"---\nconfigs: 1\n---\n", b"---\n" + b"[" * 5000 + b"\n---\n"]
)
@pytest.mark.first_quick
def test_metadata_that_cannot_be_read_are_refused(text: bytes, folder: Path) -> None:
    (folder / "README.md").write_bytes(text)
    check_refused(folder, "cannot load the data set")


LINKS: dict[str, Callable[[Path], None]] = {
    "a file outside": lambda folder: (folder / "more.jsonl").symlink_to("../secret.jsonl"),
    "metadata outside": lambda folder: (folder / "README.md").symlink_to("../secret.jsonl"),
    "a folder outside": lambda folder: (folder / "more").symlink_to(".."),
    "a loop": lambda folder: (folder / "more").symlink_to("."),
    "nothing": lambda folder: (folder / "more.jsonl").symlink_to("none"),
    "a device": lambda folder: (folder / "more.jsonl").symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_that_leads_out_of_the_folder_is_refused(case: str, folder: Path) -> None:
    LINKS[case](folder)
    check_refused(folder, "is a link that does not name a file in the folder")


def test_metadata_and_links_inside_the_folder_are_followed(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "other.jsonl").write_bytes(b'{"text": "other"}\n')
    (folder / "linked.jsonl").symlink_to("sub/other.jsonl")
    card(folder, "data_files: [linked.jsonl, 'sub/*.jsonl']", "version: 1.0.0")
    assert data(folder) == b"other\0other\0"
    card(folder, "data_dir: sub")
    assert data(folder) == b"other\0"


def test_an_archive_of_files_is_refused(folder: Path) -> None:
    with zipfile.ZipFile(folder.parent / "z", "w") as archive:
        archive.writestr("x.jsonl::http://127.0.0.1:9/x.zip", ROW)
    with tarfile.open(folder.parent / "t", "w") as archive:
        fifo = tarfile.TarInfo("x.jsonl")
        fifo.type = tarfile.FIFOTYPE
        archive.addfile(fifo)
    for name in ("z", "t"):
        for renamed in ("rows.jsonl", "rows.zip", "rows.txt"):
            (folder / "rows.jsonl").unlink(missing_ok=True)
            (folder / renamed).write_bytes((folder.parent / name).read_bytes())
            check_refused(folder, "is an archive of files|cannot load|of the format")
            (folder / renamed).unlink()
    for suffix in (".jsonl", ".csv", ".txt", ".json"):
        path = (folder.parent / "z").rename(folder.parent / f"z{suffix}")
        with pytest.raises(CorpusError, match="is an archive of files"):
            open_corpus(f"hf:{path}")
        path.rename(folder.parent / "z")


def test_formats_that_may_name_other_files_are_refused(folder: Path) -> None:
    (folder / "rows.jsonl").unlink()
    (folder / "rows.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    check_refused(folder, "of the format 'hdf5'")


def test_names_that_the_package_reads_as_patterns_are_refused(folder: Path) -> None:
    for name in ("rows[1].jsonl", "*.jsonl", "a::b.jsonl", "$HOME.jsonl"):
        path = folder.parent / name
        path.write_bytes(ROW)
        with pytest.raises(CorpusError, match="reads as a pattern"):
            open_corpus(f"hf:{path}")
    check_refused(folder.rename(folder.parent / "s[e]t"), "reads as a pattern")


def test_a_named_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder.parent / "pipe.jsonl")
    with pytest.raises(CorpusError, match="not a regular file"):
        open_corpus(f"hf:{folder.parent}/pipe.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    assert data(folder) == b"mine\0"
    for name in ("README.md", ".huggingface.yaml"):
        os.mkfifo(folder / name)
        check_refused(folder, "not a regular file")
        (folder / name).unlink()


def test_code_of_a_data_set_does_not_run(folder: Path) -> None:
    (folder / "set.py").write_text(f"open({str(folder.parent / 'ran')!r}, 'w')\n")
    check_refused(folder, "scripts are no longer supported")


def test_a_package_that_runs_code_of_data_sets_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType("datasets")
    old.__version__ = "3.6.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", old)
    with pytest.raises(MissingDependencyError, match="version 4 or later"):
        data(folder)
