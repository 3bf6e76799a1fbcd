"""monorepo: windows that meet, one setting for a series; and repositories that do not exist or hold nothing."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from git_history import Files, make
from prequential_corpora.git_window import open_documents, read_tree, read_window

from prequential.cli.main import main
from prequential.errors import OutputError
from prequential.evaluation.curves import MODEL
from prequential.heldout_loss.heldout import dynamic_trace
from prequential.model.config import Config
from prequential.online.runtime import Runtime
from prequential.online.training import train

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
Call = Callable[..., tuple[int, str, str]]


def code(n_lines: int, mark: str = "") -> bytes:
    return b"".join(b"value_%d = compute(%d)  # %s\n" % (i, i * i, mark.encode()) for i in range(n_lines))


HISTORY: dict[int, Files] = {
    1: {b"a.py": code(30, "first"), b"README.md": b"A project that computes values.\n" * 5, b"vendor/v.py": code(5)},
    10: {b"a.py": code(30, "first") + code(4, "edited"), b"b.py": code(12, "new"), b"main.rs": b"fn main() {}\n" * 8},
    20: {b"c.py": code(10, "later"), b"README.md": b"A project that computes values.\n" * 5 + b"It has parts.\n"},
    30: {b"uv.lock": b"version = 1\n"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("history") / "project", HISTORY)


@pytest.fixture
def call(
    small_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Runs `prequential monorepo ARGS` in this process, in an empty folder; exit code, stdout and stderr."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def call(*args: str, config: bool = True) -> tuple[int, str, str]:
        extra = ["--config", str(small_config)] if config else []
        try:
            code = main(["monorepo", "--quiet", "--kernels", "fused", *extra, *args])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


def records(path: str = "runs/project.series.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def series_of(call: Call, project: Path, *first: str, later: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The series of two points of the history."""
    for args in (["--since", "2026-01-05", "--until", "2026-01-15", *first], [*later]):
        done, _, errors = call(str(project), *args)
        assert (done, errors) == (0, "")
    return records()


def refused(call: Call, part: str, *args: str, code: int = 1, config: bool = True) -> None:
    """The command must fail with one line that has this part."""
    done, out, errors = call(*args, config=config)
    assert (done, out, len(errors.splitlines())) == (code, "", 1), (args, errors)
    assert part in errors


# A point


def test_a_point_is_the_window_in_commit_order_scored_after_the_tree(
    call: Call, project: Path, small_config: Path
) -> None:
    done, out, errors = call(str(project), "--since", "2026-01-05", "--until", "2026-01-15", "--json")
    assert (done, errors) == (0, "")
    (record,) = records()
    assert record == json.loads(out)
    learner = Runtime(kernels="fused").learner(Config.from_dict(json.loads(small_config.read_text())))
    with open_documents(read_tree(project, "2026-01-05")) as tree:
        train(learner, tree.bytes())
    with open_documents(read_window(project, "2026-01-05", "2026-01-15")) as window:
        trace = dynamic_trace(learner, window.bytes())
        assert record["test"]["blake2b"] == window.blake2b
    assert record["dynamic"]["total"]["bits"] == trace.total_bits(MODEL)
    assert record["train"]["n_bytes"] == len(code(30, "first")) + 160 + 2
    assert (record["train"]["until"], record["test"]["n_commits"]) == (record["test"]["since"], 1)
    assert record["excluded"] == {}


def test_documents_are_counted_by_kind_and_language(call: Call, project: Path) -> None:
    first, second = series_of(call, project)
    assert [(g["name"], g["n_documents"]) for g in first["frozen"]["kinds"]] == [("new", 2), ("added", 1)]
    assert [(g["name"], g["n_bytes"]) for g in second["frozen"]["kinds"]] == [
        ("new", len(code(10, "later"))),
        ("added", 14),
    ]
    assert {g["name"] for g in first["frozen"]["languages"]} == {"Python", "Rust"}


def test_only_the_selected_languages_and_training_bytes_are_read(call: Call, project: Path) -> None:
    args = ("--languages", "Python", "--train-limit", "100")
    for record in series_of(call, project, *args):
        assert record["train"]["n_bytes"] == 100
        assert {g["name"] for g in record["frozen"]["languages"]} == {"Python"}
        assert record["setting"]["rules"]["languages"] == ["Python"]


def test_a_point_that_cannot_be_appended_is_printed_before_the_error(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, record: Mapping[str, Any], mode: int) -> None:
        raise OutputError("the disk is full")

    monkeypatch.setattr("prequential.heldout_loss.monorepo.append_record", full)
    done, out, errors = call(str(project), "--since", "2026-01-05")
    assert (done, errors) == (1, "prequential: the disk is full\n")
    assert out.startswith("window: 3 commits after ") and "point 1 of" not in out
    assert "trained on: the tree at " in out
    assert "no interval: an interval needs 3 commits, and there are 2" in out
    done, out, errors = call(str(project), "--since", "2026-01-05", "--json")
    assert (done, errors) == (1, "prequential: the disk is full\n")
    assert json.loads(out)["kind"] == "monorepo"


def test_files_left_out_are_counted(call: Call, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 9\n"
    files: dict[int, Files] = {1: {b"a.py": code(9)}, 3: {b"b.py": code(4)}}
    repo = make(tmp_path / "clocks", files | {4: {b"a.json": pointer, b"c.md": b"Words that the tree lacks.\n"}})
    done, out, errors = call(str(repo), "--since", "2026-01-03T12:00:00")
    assert (done, errors) == (0, "")
    assert out.splitlines()[0].endswith("(2026-01-04T12:00:00Z); left out: 1 lfs")


# A series


def test_the_next_window_begins_where_the_last_one_ended_with_the_same_setting(call: Call, project: Path) -> None:
    call(str(project), "--since", "2026-01-05", "--until", "2026-01-15")
    done, out, errors = call(str(project), config=False)  # no learner is named: the series has one
    assert (done, errors) == (0, "")
    assert out.endswith("point 2 of runs/project.series.jsonl\n")
    first, second = records()
    assert second["test"]["since"] == first["test"]["until"] == second["train"]["until"]
    assert second["setting"] == first["setting"]
    assert second["learner_digest"] != first["learner_digest"]  # trained afresh


def test_an_empty_window_appends_nothing_and_the_next_window_begins_there(call: Call, project: Path) -> None:
    done, out, errors = call(str(project), "--since", "HEAD")
    assert (done, errors, len(out.splitlines())) == (0, "", 1)
    assert list(Path.cwd().iterdir()) == []  # nor does an empty first one leave a file
    call(str(project), "--since", "2026-01-05", "--until", "2026-01-25")
    before = Path("runs/project.series.jsonl").read_bytes()
    done, out, errors = call(str(project))
    assert (done, errors, len(out.splitlines())) == (0, "", 1)
    assert "1 commits after" in out
    assert "nothing to score; left out: 1 lock; nothing is appended" in out
    assert call(str(project), "--json") == (0, "null\n", "")
    assert Path("runs/project.series.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("args", "config", "part"),
    [
        (["-1"], False, "another config"),
        (["--seed", "3"], False, "another config"),
        (["--languages", "Rust"], True, "another rules"),
        (["--train-limit", "50"], True, "another train_limit"),
        (["--context", "isolated"], True, "another context"),
        (["--since", "2026-01-05"], True, "leave out --since"),
    ],
)
def test_a_point_that_is_not_comparable_is_refused_in_one_line(
    call: Call, project: Path, args: list[str], config: bool, part: str
) -> None:
    call(str(project), "--since", "2026-01-05", "--until", "2026-01-15")
    before = Path("runs/project.series.jsonl").read_bytes()
    refused(call, part, str(project), *args, config=config)
    assert Path("runs/project.series.jsonl").read_bytes() == before


# Refusals


@pytest.mark.parametrize(
    ("args", "part"),
    [
        ([], "REPO"),
        (["project"], "--since"),
        (["project", "--since", "HEAD", "--train", "x"], "--train x"),
        (["project", "--since", "HEAD", "--languages", "Klingon"], "unknown languages ['Klingon']"),
        (["project", "--since", "HEAD", "--audit-every", "2"], "leave out --audit-every"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    call: Call, project: Path, args: list[str], part: str
) -> None:
    Path("project").symlink_to(project)
    refused(call, part, *args, code=2)


def test_a_wrong_repository_or_window_is_one_line_with_its_name(call: Call, project: Path) -> None:
    Path("plain").mkdir()
    Path("loop").symlink_to("loop")
    Path("project").symlink_to(project)
    for repo, since, until, part in [
        ("plain", "HEAD", "HEAD", "not the root of a git repository"),
        ("loop", "HEAD", "HEAD", "Too many levels of symbolic links"),
        ("missing", "HEAD", "HEAD", "No such file or directory"),
        ("project", "2026-01-15", "2026-01-05", "begins after its end"),
        ("project", "2025-01-01", "HEAD", "no tree to train on at 2025-01-01"),
    ]:
        refused(call, part, repo, "--since", since, "--until", until)
    assert not Path("runs").exists()


def test_a_tree_with_only_binaries_has_nothing_to_learn_from(call: Call, tmp_path: Path) -> None:
    repo = make(
        tmp_path / "binary", {1: {b"x.py": b"\x7fELF\0\0\1", b"photo.jpg": b"\xff\xd8\0"}, 2: {b"a.py": code(3)}}
    )
    refused(call, "nothing to learn from in the tree of 'binary'", str(repo), "--since", "2026-01-02")


@pytest.mark.parametrize("tail", [b'{"kind": "monorepo"', b"[]\n", b'{"kind": "monorepo", "schema": 1}\n', b"\xff\n"])
def test_a_series_with_a_torn_or_foreign_line_is_named_and_not_changed(call: Call, project: Path, tail: bytes) -> None:
    call(str(project), "--since", "2026-01-05", "--until", "2026-01-15")
    series = Path("runs/project.series.jsonl")
    series.write_bytes(whole := series.read_bytes() + tail)
    refused(call, "line 2 of", str(project))
    assert series.read_bytes() == whole
