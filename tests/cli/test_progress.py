"""Progress on stderr: a bar and warnings on a terminal, warnings and a line a minute elsewhere, nothing when quiet."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import prequential
from prequential.cli.streams import progress_bar
from prequential.machine.compiled import kernel
from prequential.machine.kernel_cache import kernel_folder
from prequential.online import progress as display
from prequential.online.coding import Progress
from prequential.online.progress import ProgressLines

SAME = bytes(70_000)
Terminal = Callable[..., tuple[int, bytes, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> Path:
    """A text, and a file that gives a warning."""
    folder = tmp_path_factory.mktemp("progress")
    (folder / "text").write_bytes(text)
    (folder / "same").write_bytes(SAME)
    return folder


@pytest.fixture(scope="module")
def shown(on_terminal: Terminal, folder: Path) -> str:
    """The output on a terminal of 100 columns while zeros are compressed."""
    code, output, shown = on_terminal(folder, "compress", "same")
    assert (code, output) == (0, b"")
    return shown


def test_a_terminal_shows_bits_gzip_speed_and_time_left_in_one_line(shown: str) -> None:
    views = shown.replace("\n", "\r").split("\r")
    line = next(view for view in views if "gzip" in view and "last 64K" in view)
    for part in ("same ", "%, ", " bits/byte (last 64K 0.", ", gzip ", " kB/s, ", " left", "|"):
        assert part in line
    assert float(line.split(", gzip ")[1].split(")")[0]) < 0.05
    assert max(len(view) for view in views if view.startswith("same ")) <= 100


def test_at_the_end_the_bar_is_gone_and_the_warning_stays(shown: str) -> None:
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in shown.split("\n")]
    warning, summary = [line for line in lines if line.strip()]
    assert warning.startswith("prequential: same: warning: byte 0, block 0: repeated data")
    assert summary.startswith(f"same: {len(SAME):,} -> ")


def test_with_quiet_a_terminal_shows_nothing_and_findings_are_recorded(on_terminal: Terminal, folder: Path) -> None:
    code, output, shown = on_terminal(folder, "evaluate", "--quiet", "--json", "--baselines", "none", "-1", "same")
    assert (code, shown) == (0, "")
    (finding,) = json.loads(output)["findings"]
    assert [finding[name] for name in ("kind", "cause", "position", "block")] == ["repeated", "data", 0, 0]


def test_a_pipe_gets_warnings_and_no_bar(run, folder: Path) -> None:
    done = run(folder, "compress", "-c", "same")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("prequential: same: warning: byte 0, block 0: repeated data")
    assert "\r" not in line
    assert run(folder, "compress", "-c", "text").stderr == b""


def test_a_pipe_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = SimpleNamespace(time_s=0.0, monotonic=lambda: clock.time_s)
    monkeypatch.setattr(display, "time", clock)
    watch = ProgressLines("a")
    for i in range(1, 51):  # ten segments of 1 KiB a minute, of a longer file
        clock.time_s += 6.0
        watch(Progress(n_bytes=1024 * i, code_bits=2048.0 * i, segment=np.zeros(1024, np.uint8)), 1 << 20)
    lines = capsys.readouterr().err.splitlines()
    assert 4 <= len(lines) <= 5 and lines[0].startswith("prequential: a: 1%, 2.000 bits/byte")


SMALL = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1",), table_bits=8))


def test_the_bar_of_a_notebook_stays_with_the_last_figures(capsys: pytest.CaptureFixture[str]) -> None:
    show = prequential.progress("book")
    prequential.compress(b"text " * 1000, config=SMALL, on_progress=show)
    assert show.health.findings == []
    last = capsys.readouterr().err.rstrip().rsplit("\r", 1)[-1]
    assert last.startswith("book 100%, ") and "bits/byte" in last


def test_a_logged_warning_is_shown_like_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("a", quiet=False):
        logging.getLogger("prequential.online.coding").warning("cannot save the run")
    with progress_bar("a", quiet=True):
        logging.getLogger("prequential.online.coding").warning("cannot save the run")
    assert capsys.readouterr().err == "prequential: a: warning: cannot save the run\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_one_line_says_that_kernels_are_compiled(quiet, capsys):
    with progress_bar("a", quiet=quiet):
        for step in (1, 2):  # each is a compilation
            numba.njit(lambda x, step=step: x + step)(1)
    said = capsys.readouterr().err
    assert said.count("compiling kernels") == said.count("\n") == (0 if quiet else 1) and len(said) <= 81


def test_without_a_folder_of_kernels_one_warning_says_that_each_run_compiles_them(monkeypatch, capsys):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, "")  # no home, and not the folder of the system
    kernel_folder.cache_clear()
    try:
        with progress_bar("a", quiet=False):
            kernel(lambda x: x + 5)(1)
        warning, *said = capsys.readouterr().err.splitlines()
    finally:
        monkeypatch.undo()
        kernel_folder.cache_clear()
    begin = "prequential: a: warning: each run compiles its kernels (10 to 30 s), because no folder can keep them"
    assert warning == f"{begin}: this user has no home folder" and said == []


def test_the_parts_of_an_evaluation_are_named(on_terminal: Terminal, folder: Path) -> None:
    code, _, shown = on_terminal(folder, "evaluate", "--verify", "--no-run", "--baselines", "gzip", "text", columns=160)
    assert code == 0
    places = [shown.index(f"text {phase}") for phase in ("coding", "decoding", "baselines")]
    assert places == sorted(places)
