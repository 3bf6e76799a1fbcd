"""Temporary files are made where TMPDIR says, or nowhere: Python itself would take another folder without a word."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from prequential_corpora.chunks import spool
from prequential_corpora.corpus import RowDocuments
from prequential_corpora.git.process import start_git
from programs import FUSED, TINY
from pytest import MonkeyPatch

from prequential import evaluate
from prequential.cli.main import main
from prequential.errors import OutputError
from prequential.evaluation.trace import ArrayFile
from prequential.files import temporary_folder


@pytest.mark.parametrize("name", ["TMPDIR", "TMP"])
@pytest.mark.parametrize("kind", ["missing", "a file", "not writable"])
def test_a_temporary_folder_that_cannot_be_used_is_refused(
    kind: str, name: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.delenv("TEMP", raising=False)
    path = tmp_path / "unusable"
    if kind == "a file":
        path.touch()
    if kind == "not writable":
        path.mkdir()
        monkeypatch.setattr("os.access", lambda found, *_: Path(found) != path)
    monkeypatch.setenv(name, str(path))
    with pytest.raises(OutputError, match=rf"^{name} is '.*unusable', which is not a folder that you can write"):
        temporary_folder()


USERS: dict[str, Callable[[Path], object]] = {
    "a copy of a corpus": lambda _: spool([b"text"]),
    "a copy of a known length": lambda _: spool([b"text"], 4),
    "the documents of many rows": lambda _: RowDocuments(1)._write(),
    "git": lambda folder: start_git(["--version"], folder, {}),
    "a trace": lambda _: ArrayFile(np.uint8, 10),
    "an evaluation": lambda _: evaluate(b"text " * 20, config=TINY, runtime=FUSED, baselines=()),
}


@pytest.mark.usefixtures("no_warm_up")
@pytest.mark.parametrize("user", USERS)
def test_whatever_needs_a_temporary_file_refuses_an_unusable_folder(
    user: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(OutputError, match=r"^TMPDIR is '.*missing'"):
        USERS[user](tmp_path)


def test_without_any_temporary_folder_the_line_names_the_remedy(
    tmp_path: Path, monkeypatch: MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"text")
    assert main(["evaluate", str(tmp_path / "tree"), "--no-run", "-q"]) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "set TMPDIR to one that you can write" in shown
