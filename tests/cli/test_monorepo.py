"""monorepo: a series in runs/, one line for each refusal; and repositories that do not exist or hold nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from git_history import Files, make

from prequential.cli.main import main
from prequential.errors import OutputError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
Call = Callable[..., tuple[int, str, str]]
FIRST = ("--since", "2026-01-05", "--until", "2026-01-15")


def code(n_lines: int) -> bytes:
    return b"".join(b"value_%d = compute(%d)\n" % (i, i * i) for i in range(n_lines))


HISTORY: dict[int, Files] = {
    1: {b"a.py": code(30)},
    10: {b"a.py": code(30) + b"end()\n", b"b.rs": b"fn main() {}\n" * 8},
    20: {b"u.lock": b"1\n"},
}


@pytest.fixture
def call(
    small_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Runs `prequential monorepo ARGS` in this process, in a folder with the repository `project`; code, stdout and stderr."""
    make(tmp_path / "project", HISTORY)
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        learner = ["--config", str(small_config)] if "--since" in args else []  # a series has one
        try:
            code = main(["monorepo", "--kernels", "fused", *learner, *args])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


def points(path: str = "runs/project.series.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_point_is_printed_and_appended_and_an_empty_window_is_not(call: Call) -> None:
    done, out, errors = call("project", *FIRST)
    assert (done, errors, len(points())) == (0, "", 1)
    assert "\nwindow: 1 commit after " in out and "(corpus), at " in out
    assert call("project", "--json") == (0, "", "")
    done, out, errors = call("project")
    assert (done, errors, len(out.splitlines())) == (0, "", 1)
    assert "nothing is appended" in out and len(points()) == 1


def test_a_point_that_cannot_be_appended_is_printed_before_the_error(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OutputError("the disk is full")

    monkeypatch.setattr("prequential.heldout_loss.monorepo.append_record", full)
    done, out, errors = call("project", *FIRST, "--json")
    assert (done, errors) == (1, "prequential: the disk is full\n")
    assert json.loads(out)["kind"] == "monorepo"


@pytest.mark.parametrize(
    ("args", "exit_code", "part"),
    [
        (["project"], 2, "give --since, the beginning of the window"),
        (["."], 1, "is not the root of a git repository"),
        (["project", "--since", "HEAD", "--audit-every", "2"], 2, "leave out --audit-every"),
        (["project", "--since", "HEAD~1", "--languages", "Klingon"], 2, "unknown languages ['Klingon']"),
        (["runs", "--since", "HEAD"], 1, "not the root of a git repository"),
        (["missing", "--since", "HEAD"], 1, "'missing' is not a folder; give the root of a git repository"),
        (["project", "--since", "2026-01-15", "--until", "2026-01-05"], 1, "begins after its end"),
        (["project", "--since", "2025-01-01"], 1, "no tree to train on before the window"),
        (["binary", "--since", "2026-01-02"], 1, "nothing to learn from: the corpus 'binary' is empty"),
    ],
)
def test_what_cannot_be_measured_is_one_line(call: Call, args: list[str], exit_code: int, part: str) -> None:
    Path("runs").mkdir()
    make(Path("binary"), {1: {b"x.py": b"\x7fELF\0\0\1"}, 2: {b"a.py": code(3)}})
    done, out, errors = call(*args)
    assert (done, out, len(errors.splitlines())) == (exit_code, "", 1), errors
    assert part in errors


@pytest.mark.parametrize("tail", [b'{"kind": "monorepo"', b"[]\n", b'{"kind": "monorepo", "schema": 1}\n', b"\xff\n"])
def test_a_series_with_a_torn_or_foreign_line_is_named_and_not_changed(call: Call, tail: bytes) -> None:
    Path("s.jsonl").write_bytes(tail)
    done, out, errors = call("project", "--series", "s.jsonl")
    assert (done, out, len(errors.splitlines())) == (1, "", 1)
    assert "line 1 of" in errors and Path("s.jsonl").read_bytes() == tail
