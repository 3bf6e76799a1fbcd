"""A full disk, a file that is cut while it is read, and a bad TMPDIR end in one line. No process dies by a signal (SIGBUS)."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from prequential_corpora.corpus import spool
from programs import FUSED, TINY, failing
from pytest import MonkeyPatch

from prequential import evaluate
from prequential.cli.main import main
from prequential.errors import CheckpointError, OutputError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import ArrayFile, Trace
from prequential.files import temporary_folder

TEXT = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 400
SETUP = """
import os, sys
from pathlib import Path
import prequential
from prequential.evaluation import evaluation
evaluation.warm_up = lambda *_: None
RUNTIME = prequential.Runtime(kernels="fused", threads=1)
CONFIG = prequential.Config(
    gpt=None,
    mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=6),
    schedule=prequential.ScheduleConfig(history_bits=14, segment_symbols=256, block_symbols=8192),
)

def evaluate(corpus, folder, on_progress=lambda done, n_bytes: None):
    Path(folder).mkdir(exist_ok=True)
    draft = prequential.DraftFolder(path=Path(folder), keep=True)
    return prequential.evaluate(corpus, config=CONFIG, runtime=RUNTIME, baselines=(), draft=draft, on_progress=on_progress)
"""


def child(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SETUP + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


# ---- a corpus that is cut while it is read


CUT_WHILE_CODED = """
from prequential_corpora import corpus
path, folder, text, corpus.SMALL_N_BYTES = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
found = evaluate(path, folder, lambda done, n_bytes: os.truncate(path, 0))
print(found.header.blake2b == evaluate(text.encode() * 400, folder + "2").header.blake2b)
"""


@pytest.mark.parametrize("small_n_bytes", [0, 1 << 20])
@pytest.mark.first_quick
def test_an_evaluation_ends_if_its_corpus_is_cut(tmp_path: Path, small_n_bytes: int) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    done = child(CUT_WHILE_CODED, tmp_path / "a", tmp_path / "draft", TEXT[: len(TEXT) // 400].decode(), small_n_bytes)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


# ---- the trace on a full disk: faults.py fills one in the middle of an evaluation


LIMITED = """
import resource
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


@pytest.mark.parametrize("reason", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_reserve_space_is_used_without(
    tmp_path: Path, monkeypatch: MonkeyPatch, reason: int
) -> None:
    failing(reason, monkeypatch, "posix_fallocate")
    trace = Trace([MODEL], 3, tmp_path / "costs")
    trace.append(MODEL, np.array([1.0, 2.0]))
    assert trace.bits(MODEL).tolist() == [1.0, 2.0, 0.0]
    assert trace.sums(MODEL, np.array([0, 1, 1, 3])).tolist() == [0.0, 1.0, 1.0, 3.0]


def test_a_trace_that_is_cut_while_it_is_in_use_is_an_error(tmp_path: Path) -> None:
    trace = Trace([MODEL], 5000, tmp_path / "costs")
    os.truncate(tmp_path / "costs", 10)
    with pytest.raises(CheckpointError, match="became shorter"):
        trace.total_bits(MODEL)


# ---- temporary files are made where TMPDIR says, or nowhere


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
