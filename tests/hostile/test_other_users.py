"""Another user of the machine, in folders that both may write: his files, links, pipes, locks and runs."""

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from limits import bounded
from programs import FUSED as RUNTIME
from programs import TINY, mode_of, tiny_options
from pytest import CaptureFixture, MonkeyPatch
from studies import TINY as GPT

from prequential import Config, CorpusError, MixerConfig, compress
from prequential.cli.main import main
from prequential.errors import OutputError
from prequential.evaluation.runs import ARCHIVE, RECORD, Run, new_run_folder, pack_runs, read_runs
from prequential.files import output_file, outputs, write_text
from prequential.files import outputs as append
from prequential.files.outputs import append_line, check_appendable
from prequential.records import NOT_CODED
from prequential.sweeps.plan_runs import RunOutcome, run_plan
from prequential.sweeps.plans import Plan, Variant

pytestmark = pytest.mark.usefixtures("usual_umask", "no_warm_up")
OneLine = Callable[..., str]
OTHER = Config(gpt=None, mixer=MixerConfig(contexts=("1", "2", "3"), table_bits=6, match_bits=6))
TEXT = b"it was the best of times, it was the worst of times. " * 12
FORECASTS = Path(__file__).parents[2] / "benchmarks" / "forecasts" / "enwik8-contexts"
STRANGER = 54321


def give_away(*paths: Path) -> None:
    """Makes the files, folders or links the other user's."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files to another user")
    for path in paths:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def kept_beside(path: Path) -> Path:
    """The file in which a line was kept that could not be appended."""
    (beside,) = path.parent.glob(f"{path.name}.new-*")
    return beside


# ---- records


def test_nothing_is_appended_to_a_file_of_another_user_and_the_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    give_away(path)
    with pytest.raises(OutputError, match=r"'.*a\.jsonl' belongs to another user; choose another file$"):
        check_appendable(path)
    with pytest.raises(OutputError, match=r"another user.*; the record is in '.*a\.jsonl\.new-"):
        append_line(path, b"secret\n")
    assert path.read_bytes() == b""
    assert (kept_beside(path).read_bytes(), mode_of(kept_beside(path))) == (b"secret\n", 0o600)


@pytest.mark.parametrize(
    ("mode", "source_mode", "remedy"),
    [
        (0o644, 0o600, "chmod 600"), (0o640, 0o600, "chmod 600"), (0o644, 0o640, "chmod 640"), (0o604, 0o640, "chmod 600"),
        (0o644, 0o644, ""), (0o600, 0o644, ""), (0o664, 0o644, ""), (0o640, 0o640, ""),
    ],
)  # fmt: skip
def test_a_line_is_appended_only_where_no_more_users_read_it(
    mode: int, source_mode: int, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    path.chmod(mode)
    if remedy:
        with pytest.raises(OutputError, match=f"can be read by users who cannot read the source: {remedy} it"):
            check_appendable(path, source_mode)
        with pytest.raises(OutputError):
            append_line(path, b"line\n", source_mode)
        assert path.read_bytes() == b""
        path.chmod(int(remedy.removeprefix("chmod "), 8))
    append_line(path, b"line\n", source_mode)
    append_line(tmp_path / "new.jsonl", b"line\n", source_mode)
    assert path.read_bytes() == b"line\n" and mode_of(tmp_path / "new.jsonl") == source_mode


@pytest.mark.parametrize(
    ("command", "records"),
    [
        (["heldout", "--train", "a", "--test", "b", "--runs", "runs"], "runs/heldout.jsonl"),
        (["heldout", "--train", "b", "--test", "a", "--runs", "runs"], "runs/heldout.jsonl"),
    ],
)
def test_a_record_that_more_users_could_read_is_refused_before_the_work(
    command: list[str], records: str, tmp_path: Path, monkeypatch: MonkeyPatch, one_line: OneLine
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_bytes(b'{"t": "x", "y": "z"}\n' * 9)
    Path("a").chmod(0o600)
    Path(records).parent.mkdir(exist_ok=True)
    Path(records).write_bytes(b"{}\n")
    said = one_line(*command, *tiny_options(tmp_path))
    assert f"'{records}' can be read by users who cannot read the source: chmod 600 it" in said
    assert Path(records).read_bytes() == b"{}\n"


def test_what_is_made_of_two_runs_is_as_private_as_one_of_them(tmp_path: Path) -> None:
    for name in ("open", "private"):
        (tmp_path / name).write_bytes(TEXT)
        (tmp_path / name).chmod(0o600 if name == "private" else 0o644)
        list(run_plan(tmp_path / name, plan(), tmp_path / name[0], runtime=RUNTIME))
    opened, private = (read_runs(tmp_path / name)[0] for name in "op")
    assert (opened.mode & 0o077, private.mode & 0o077) == (0o044, 0)
    pack_runs(tmp_path / "o", tmp_path / "open.jsonl")
    private.path.rename(tmp_path / "o" / "another")
    pack_runs(tmp_path / "o", tmp_path / "both.jsonl")
    assert (mode_of(tmp_path / "open.jsonl"), mode_of(tmp_path / "both.jsonl")) == (0o644, 0o600)
    opened.path.chmod(0o700)  # the folder alone says how private a run is
    assert opened.mode & 0o077 == 0


@pytest.mark.parametrize("lock", [fcntl.LOCK_SH, fcntl.LOCK_EX])
def test_a_measurement_whose_record_is_locked_ends_in_one_line_and_keeps_the_record(
    lock: int, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    monkeypatch.setattr(append, "LOCK_WAIT_S", 0.2)
    (tmp_path / "a").write_bytes(TEXT)
    path = tmp_path / "heldout.jsonl"
    path.touch()
    (tmp_path / "b").write_bytes(bytes(range(256)))
    args = ["heldout", "--train", str(tmp_path / "b"), "--test", str(tmp_path / "a"), "--runs", str(tmp_path)]
    with path.open("rb") as reader:
        fcntl.flock(reader, lock)
        with bounded(60.0):
            assert main([*args, *tiny_options(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is locked by another program" in line and f"the record is in '{kept_beside(path)}'" in line
    assert json.loads(kept_beside(path).read_bytes())["test"]["n_bytes"] == len(TEXT)


# ---- runs that a plan finds finished


def plan(*configs: Config) -> Plan:
    return Plan(variants=(Variant(name="tiny", configs=configs or (TINY,)),))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(TEXT)
    return tmp_path / "a"


def planned(corpus: Path, *configs: Config) -> list[RunOutcome]:
    runs = corpus.parent / "runs"
    return list(run_plan(corpus, plan(*configs), runs, runtime=RUNTIME))


@pytest.fixture
def finished(corpus: Path) -> Run:
    """A run that is finished, of this user, with its archive."""
    (outcome,) = planned(corpus)
    assert outcome.run
    assert [again.is_new for again in planned(corpus)] == [False]
    return outcome.run


def forge(run: Run, **values: object) -> None:
    (run.path / RECORD).write_text(json.dumps({**run.record, **values}))


def give_run_away(run: Run) -> None:
    give_away(run.path, *run.path.iterdir())


def replace_archive(run: Run, text: bytes = TEXT[1:], config: Config = TINY) -> None:
    run.archive.write_bytes(compress(text, config=config, runtime=RUNTIME))


BAD_RUNS: dict[str, tuple[Callable[[Run], object], str]] = {
    "of another user": (give_run_away, "belongs to another user"),
    "folder of another user": (lambda run: give_away(run.path), "belongs to another user"),
    "record of another user": (lambda run: give_away(run.path / RECORD), "belongs to another user"),
    "no archive": (lambda run: run.archive.unlink(), "lacks its archive"),
    "archive cut": (lambda run: os.truncate(run.archive, 50), "lacks its archive"),
    "archive of other bytes": (replace_archive, "has another archive"),
    "archive of another learner": (lambda run: replace_archive(run, TEXT, OTHER), "has another archive"),
    "another size in the record": (lambda run: forge(run, archive_bytes=9), "has another archive"),
    "another payload in the record": (lambda run: forge(run, payload_bytes=9), "has another archive"),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_a_plan_refuses_a_finished_run_whose_figures_another_user_may_have_chosen(
    name: str, finished: Run, corpus: Path
) -> None:
    spoil, reason = BAD_RUNS[name]
    spoil(finished)
    with pytest.raises(CorpusError, match=f"{finished.name}' {reason}.*or choose another folder$"):
        planned(corpus)
    assert [outcome.is_new for outcome in planned(corpus, OTHER)] == [True]  # it stands in the way of no other


def test_a_code_length_without_archive_is_used_again_if_it_is_this_users(finished: Run, corpus: Path) -> None:
    finished.archive.unlink()
    forge(finished, coding=NOT_CODED)
    assert [outcome.is_new for outcome in planned(corpus)] == [False]
    give_run_away(finished)
    with pytest.raises(CorpusError, match="another user"):
        planned(corpus)


@pytest.mark.parametrize(
    "command",
    [
        "sweep a",
        "sweep a --dry-run",
        "sweep a --json",
        "sweep a --ladder --sizes 16x1 --seeds 0",
    ],
)
@pytest.mark.usefixtures("corpus")
def test_a_command_names_a_planted_run_in_one_line(
    command: str, tmp_path: Path, monkeypatch: MonkeyPatch, one_line: OneLine
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(GPT.to_dict()))
    words = f"{command} --runs runs --config config.json --kernels fused --limit 300".split()
    assert main([word for word in words if word != "--dry-run"]) == 0
    (run, *_) = read_runs("runs")
    give_run_away(run)
    assert f"{run.name}' belongs to another user" in one_line(*words)


@pytest.mark.parametrize("options", ["--target-width 512 --target-bytes 200M -o forecast.json", "--score FROZEN"])
@pytest.mark.first_quick
def test_runs_of_another_user_make_no_forecast_and_no_score(
    options: str, tmp_path: Path, monkeypatch: MonkeyPatch, one_line: OneLine
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FORECASTS / "ladder.jsonl.zst", "ladder.jsonl")
    give_away(Path("ladder.jsonl"))
    frozen = str(FORECASTS / "forecast.json")
    args = ["forecast", "ladder.jsonl", *(frozen if word == "FROZEN" else word for word in options.split()), "-q"]
    assert "belongs to another user" in one_line(*args)
    assert os.listdir() == ["ladder.jsonl"]  # noqa: PTH208


# ---- links, pipes and names in a folder that both may write


@pytest.mark.parametrize("when", ["before", "after the first check"])
def test_a_link_of_another_user_redirects_no_output(when: str, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    victim, target, check = tmp_path / "victim", tmp_path / "out", outputs.check_output
    victim.write_bytes(b"precious")

    def plant() -> None:
        if not target.is_symlink():
            target.symlink_to(victim)
            give_away(target)

    def check_and_plant(*args: object, **options: bool) -> None:
        check(*args, **options)  # type: ignore[arg-type]
        plant()

    if when == "before":
        plant()
    monkeypatch.setattr(outputs, "check_output", check_and_plant)
    with pytest.raises(OutputError, match="is a link of another user"), output_file(target, overwrite=True) as sink:
        sink.write(b"secret")
    assert victim.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "victim"]


def test_a_link_that_appears_after_the_name_was_looked_up_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    with output_file(tmp_path / "out", overwrite=True) as sink:
        sink.write(b"secret")
        (tmp_path / "out").symlink_to("victim")
        give_away(tmp_path / "out")
    assert ((tmp_path / "victim").read_bytes(), (tmp_path / "out").is_symlink()) == (b"precious", False)


def test_an_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "out").symlink_to("real")
    with output_file(tmp_path / "out", overwrite=True) as sink:
        sink.write(b"new")
    assert (tmp_path / "real").read_bytes() == b"new" and (tmp_path / "out").is_symlink()


def test_nothing_is_written_into_a_pipe_of_another_user(tmp_path: Path) -> None:
    pipe, got = tmp_path / "out", []
    os.mkfifo(pipe, 0o666)
    give_away(pipe)

    def read() -> None:
        with suppress(OSError), pipe.open("rb") as file:
            got.append(file.read())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    with bounded(5.0), pytest.raises(OutputError, match="is a pipe of another user"), output_file(pipe) as sink:
        sink.write(b"secret")
    with suppress(OSError):  # lets the reader end
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    thread.join(5)
    assert got in ([], [b""])


def test_a_file_that_takes_the_place_of_a_device_is_not_emptied(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "is_device", lambda target: True)
    (tmp_path / "out").write_bytes(b"precious")
    with pytest.raises(OutputError), output_file(tmp_path / "out", overwrite=True) as sink:
        sink.write(b"secret")
    assert (tmp_path / "out").read_bytes() == b"precious"


@pytest.mark.parametrize("planted", ["dangling link", "folder", "file"])
def test_a_name_that_another_user_took_costs_no_run(planted: str, corpus: Path, monkeypatch: MonkeyPatch) -> None:
    (runs := corpus.with_name("runs")).mkdir()
    monkeypatch.setattr("prequential.evaluation.runs.run_name", lambda record: "name")
    if planted == "dangling link":
        (runs / "name").symlink_to("nowhere")
    elif planted == "folder":
        (runs / "name" / "his").mkdir(parents=True)
    else:
        (runs / "name").touch()
    (outcome,) = planned(corpus)
    assert outcome.run and outcome.run.name == "name-2" and (outcome.run.path / ARCHIVE).is_file()


def test_drafts_and_their_files_are_private_from_the_first_byte_in_a_folder_that_all_may_write(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o1777)
    before = os.umask(0)
    try:
        write_text(tmp_path / "a", "secret")
        with new_run_folder(tmp_path / "runs") as folder:
            assert (mode_of(tmp_path / "a"), mode_of(folder.draft)) == (0o600, 0o700)
    finally:
        os.umask(before)
