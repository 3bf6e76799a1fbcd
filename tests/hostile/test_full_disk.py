"""A full disk, a file that is cut while it is read, and a bad TMPDIR end in one line. No process dies by a signal (SIGBUS)."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from programs import FUSED, TINY, failing
from pytest import MonkeyPatch

from prequential import evaluate
from prequential.cli.main import main
from prequential.errors import CheckpointError, OutputError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace

TEXT = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 400


def child(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


CUT_WHILE_CODED = """
import os, sys
from pathlib import Path
from prequential_corpora import corpus
import prequential
from prequential.evaluation import evaluation
evaluation.warm_up = lambda *_: None
path, folder, corpus.SMALL_N_BYTES = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
text = path.read_bytes()
mixer = prequential.MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=6)
schedule = prequential.ScheduleConfig(history_bits=14, segment_symbols=256, block_symbols=8192)

draft = prequential.DraftFolder(path=folder, keep=True)
config = prequential.Config(gpt=None, mixer=mixer, schedule=schedule)
prequential.evaluate(path, config=config, baselines=(), draft=draft, on_progress=lambda *_: os.truncate(path, 0))
print(prequential.decompress(folder / "archive.pq") == text)
"""


@pytest.mark.parametrize("small_n_bytes", [0, 1 << 20])  # a file is mapped, or copied
@pytest.mark.first_quick
def test_an_evaluation_ends_if_its_corpus_is_cut(tmp_path: Path, small_n_bytes: int) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    (tmp_path / "draft").mkdir()
    done = child(CUT_WHILE_CODED, tmp_path / "a", tmp_path / "draft", small_n_bytes)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


# ---- the trace on a full disk: faults.py fills one in the middle of an evaluation


LIMITED = """
import resource, sys
from prequential.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
raise SystemExit(main(["evaluate", "-1", "--quiet", "--baselines", "none", "--runs", sys.argv[2], sys.argv[1]]))
"""


@pytest.mark.parametrize(("n_bytes", "file"), [(5, "/.run-"), (64 << 10, "/costs'")])  # our mark, the trace
def test_what_does_not_fit_is_refused_before_the_run_and_leaves_no_draft(
    n_bytes: int, file: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    done = child(LIMITED, tmp_path / "a", tmp_path / "runs", n_bytes)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and file in line and line.endswith(": File too large")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_file_system_that_cannot_reserve_space_is_used_without(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    failing(errno.EOPNOTSUPP, monkeypatch, "posix_fallocate")
    trace = Trace([MODEL], 3, tmp_path / "costs")
    trace.append(MODEL, np.array([1.0, 2.0]))
    assert trace.bits(MODEL).tolist() == [1.0, 2.0, 0.0]


def test_a_trace_that_is_cut_while_it_is_in_use_is_an_error(tmp_path: Path) -> None:
    trace = Trace([MODEL], 5000, tmp_path / "costs")
    os.truncate(tmp_path / "costs", 10)
    with pytest.raises(CheckpointError, match="became shorter"):
        trace.total_bits(MODEL)


# ---- temporary files are made where TMPDIR says, or nowhere


@pytest.mark.usefixtures("no_warm_up")
@pytest.mark.parametrize(("name", "kind"), [("TMPDIR", "missing"), ("TMP", "a file"), ("TMPDIR", "not writable")])
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
        monkeypatch.setattr("os.access", lambda asked, *_: Path(asked) != path)
    monkeypatch.setenv(name, str(path))
    with pytest.raises(OutputError, match=rf"^{name} is '.*unusable', which is not a folder that you can write"):
        evaluate(TEXT[:100], config=TINY, runtime=FUSED, baselines=())


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
