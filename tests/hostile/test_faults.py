"""A failing disk: each system call of a command fails in turn (faults.py). This file runs a sample; with -m slow, all of them."""

import errno
import json
from pathlib import Path

import pytest
from faults import COMMANDS, is_possible, restarted_with_library
from programs import TINY, failing, tiny_options
from pytest import MonkeyPatch
from seeds import RUNTIME

import prequential
from prequential.cli.main import main
from prequential.files import new_folder, output_file, set_mode
from prequential.files.outputs import append_line

needs_compiler = pytest.mark.skipif(not is_possible(), reason="needs Linux and a C compiler")


def violations(*arguments: str) -> list[object]:
    """What faults.py finds."""
    report = json.loads(restarted_with_library(arguments).stdout)
    manners = [row for kinds in report.values() for each in kinds.values() for row in each.values()]
    assert sum(row.get("tried", 0) for row in manners) > 0
    return [violation for row in manners for violation in row["violations"]]


@pytest.mark.thorough
@needs_compiler
def test_a_sample_of_failing_calls_ends_in_one_line_or_not_at_all() -> None:
    sample = ("--kind", "write", "fsync", "read", "disk", "--every", "70")
    assert violations("--command", "compress", "evaluate", *sample) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("command", COMMANDS)
def test_every_failing_call_ends_in_one_line_or_not_at_all(command: str) -> None:
    assert violations("--command", command) == []


# ---- file systems that refuse something


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.EIO])
def test_outputs_appear_on_file_systems_without_permissions_and_times(
    error: int, tmp_path: Path, monkeypatch: MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "source").write_bytes(b"source")
    failing(error, monkeypatch, "chmod", "utime")
    for like in (None, tmp_path / "source"):
        with output_file(tmp_path / "a", like=like, overwrite=True) as sink:
            sink.write(b"text")
        assert (tmp_path / "a").read_bytes() == b"text"
    with new_folder(tmp_path / "model"):
        pass
    set_mode(tmp_path, 0o700)
    assert {path.name for path in tmp_path.iterdir()} == {"source", "a", "model"}
    assert caplog.messages == []


@pytest.mark.usefixtures("no_warm_up")
def test_every_output_appears_on_a_file_system_that_synchronises_nothing(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"text " * 20)
    failing(errno.EINVAL, monkeypatch, "fsync")
    prequential.compress(tmp_path / "tree", tmp_path / "a.pq", config=TINY, runtime=RUNTIME)
    prequential.decompress(tmp_path / "a.pq", tmp_path / "restored", runtime=RUNTIME)
    append_line(tmp_path / "a.jsonl", b"line\n")
    monkeypatch.chdir(tmp_path)
    learner = tiny_options(tmp_path)
    assert main(["evaluate", "tree", "--baselines", "none", *learner]) == 0
    assert main(["train", "tree", "-o", "model", *learner]) == 0
    assert (tmp_path / "restored" / "a").read_bytes() == b"text " * 20
    assert {"a.pq", "a.jsonl", "runs", "model", "restored"} <= {path.name for path in tmp_path.iterdir()}
