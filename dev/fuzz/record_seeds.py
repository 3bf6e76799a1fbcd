"""Small valid records of runs, curves, forecasts, series and drafts, made by the program itself. fuzz_records.py damages them.

Learners and corpora are as small as their purpose allows.
"""

import contextlib
import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest import mock

import git_history
from interruption import InterruptionError, hurried, stopping_at

import prequential
from prequential.cli.main import main
from prequential.evaluation.runs import Run, new_run_folder, read_run

RUNTIME = prequential.Runtime(threads=1, kernels="fused")
OPTIONS = ("--kernels", "fused", "--threads", "1", "-q")
TEXT = b"".join(b"line %d: the quick brown fox\n" % (i * i) for i in range(120))[:2000]
LONG = TEXT + b"".join(b"row %d: jumps over the lazy dog\n" % (i * 7) for i in range(200))[:2500]
SCHEDULE = prequential.ScheduleConfig(
    first_segment_symbols=128, segment_symbols=256, row_symbols=16, n_rows=16, history_bits=14, block_symbols=700
)
MIXER = prequential.MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4)
GPT = prequential.GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=1, window=8)
LEARNERS = {
    "mixer": prequential.Config(gpt=None, mixer=MIXER, schedule=SCHEDULE),
    "other": prequential.Config(seed=1, gpt=None, mixer=MIXER, schedule=SCHEDULE),
    "both": prequential.Config(gpt=GPT, mixer=MIXER, schedule=SCHEDULE),
    "pure": prequential.Config(gpt=GPT, mixer=None, schedule=SCHEDULE),
}


@contextmanager
def quick() -> Iterator[None]:
    """Evaluations without a warm-up, and records without the commit, for which git would be started."""
    with (
        mock.patch("prequential.evaluation.evaluation.warm_up", lambda *_: None),
        mock.patch("prequential.records.git_commit", lambda: None),
    ):
        yield


@cache
def seeds() -> Path:
    """The folder of all seeds. It is deleted at the end of the process."""
    folder = tempfile.TemporaryDirectory(prefix="record-seeds-")
    weakref.finalize(seeds, folder.cleanup)
    with contextlib.chdir(folder.name), quick():
        for make in (_make_inputs, _make_runs, _make_forecast, _make_measurements, _make_drafts):
            make()
    return Path(folder.name)


def has_git() -> bool:
    """Whether a series can be made."""
    return shutil.which("git") is not None


def _call(*args: str) -> None:
    """Runs a command that must succeed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(args)
    assert code == 0, (args, said.getvalue())


def _make_inputs() -> None:
    Path("text.txt").write_bytes(TEXT)
    Path("long.txt").write_bytes(LONG)
    Path("tiny.txt").write_bytes(TEXT[:200])
    for name, config in LEARNERS.items():
        Path(f"{name}.json").write_text(json.dumps(config.to_dict()))


def _evaluate(name: str, folder: str, *, corpus: str = "text.txt", config: str) -> None:
    """Makes a run folder of this name."""
    _call("evaluate", corpus, "--config", config, "--runs", "made", "--baselines", "gzip", *OPTIONS)
    Path(folder).mkdir(exist_ok=True)
    (made,) = Path("made").iterdir()
    made.rename(Path(folder, name))


def _make_runs() -> None:
    for name, learner in (("a", "mixer"), ("b", "other"), ("c", "both")):
        _evaluate(name, "runs", config=f"{learner}.json")
    ladder = ("--sizes", "16x1,24x1,32x1", "--seeds", "0,1", "--seeded", "24x1", *OPTIONS)
    _call("sweep", "text.txt", "--ladder", "--config", "pure.json", "--runs", "ladder", *ladder)
    for i, path in enumerate(sorted(Path("ladder").iterdir())):
        path.rename(f"ladder/{i}")
    for name in ("runs", "ladder"):
        _call("runs", "pack", name, "-o", f"{name}.packed")


def _make_forecast() -> None:
    _call("forecast", "ladder", "--target-width", "64", "--target-bytes", str(len(LONG)), "-o", "forecast.json", "-q")
    _call("forecast", "target", "--score", "forecast.json", "--corpus", "long.txt", *OPTIONS)
    next(path for path in Path("target").iterdir() if path.is_dir()).rename("target/run")


def _make_measurements() -> None:
    args = ("--train", "text.txt", "--test", "long.txt", "--config", "mixer.json", "--runs", "measured", *OPTIONS)
    _call("heldout", *args)
    if has_git():
        parts = {day: {b"a.py": TEXT[: 100 * day], b"%d.rs" % day: TEXT[: 100 * day]} for day in (1, 10, 20)}
        git_history.make(Path("repository"), parts)
        for dates in (("--since", "2026-01-05", "--until", "2026-01-15"), ()):
            _call("monorepo", "repository", *dates, "--config", "mixer.json", "--series", "series.jsonl", *OPTIONS)


def _make_drafts() -> None:
    """Drafts of text.txt: for `both` while it codes, for `mixer` when it has coded."""
    with hurried():
        _interrupt(".run-coding", "both", stopping_at(6))
    with mock.patch("prequential.evaluation.evaluation.measure_baselines", side_effect=InterruptionError):
        _interrupt(".run-coded", "mixer", lambda *_: None)


def _interrupt(name: str, learner: str, on_progress: Callable[..., None]) -> None:
    with suppress(InterruptionError), new_run_folder("drafts", hint=str) as folder:
        prequential.evaluate(
            "text.txt",
            config=LEARNERS[learner],
            baselines=(),
            runtime=RUNTIME,
            on_progress=on_progress,
            draft=folder,
        )
    folder.path.rename(folder.path.with_name(name))


def finished(draft: str) -> Run:
    """The run that the resumed draft must become, without its times: that of the same learner over the same bytes."""
    return read_run(seeds() / "runs" / {".run-coding": "c", ".run-coded": "a"}[draft])
