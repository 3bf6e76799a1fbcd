"""An interrupted run resumes, and its result has the bytes of an uninterrupted run."""

import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from interruption import InterruptionError, stopping_at
from prequential_codecs.archive_header import Header
from small import BOTH as CONFIG
from small import CONFIGS

import prequential
from prequential.errors import CheckpointError
from prequential.files import checkpoint_path, partial_path, work_folder
from prequential.online import checkpoint
from prequential.online.runtime import Runtime

pytestmark = pytest.mark.usefixtures("always_due")


TEXT = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 12
USUAL = {name: getattr(checkpoint, name) for name in ("FIRST_AFTER_S", "COST", "BYTES_PER_S")}
DATA = TEXT[:500] + np.random.default_rng(3).bytes(400) + TEXT[500:]  # a raw block among coded ones
ONE, TWO = Runtime(threads=1), Runtime(threads=2, backend="float64")


@pytest.fixture(scope="module")
def archives():
    return {name: prequential.compress(DATA, config=config, runtime=ONE) for name, config in CONFIGS.items()}


def compress(folder, config=CONFIG, data=DATA, runtime=ONE, **options):
    prequential.compress(data, folder / "a.pq", config=config, runtime=runtime, **options)
    return (folder / "a.pq").read_bytes()


def decompress(folder, archive, runtime=ONE, **options):
    prequential.decompress(archive, folder / "a", runtime=runtime, **options)
    return (folder / "a").read_bytes()


def interrupted(run, *arguments, after, **options):
    with pytest.raises(InterruptionError):
        run(*arguments, on_progress=stopping_at(after), **options)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("after", [2, 3, 6, 7, 11, 20])
@pytest.mark.first_quick
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(name, after, archives, tmp_path):
    interrupted(compress, tmp_path, CONFIGS[name], after=after)
    assert not (tmp_path / "a.pq").exists()
    assert compress(tmp_path, CONFIGS[name], runtime=TWO, resume=True) == archives[name]
    interrupted(decompress, tmp_path, archives[name], after=after)
    assert not (tmp_path / "a").exists()
    assert decompress(tmp_path, archives[name], runtime=TWO, resume=True) == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.pq"]


def test_an_error_before_the_first_checkpoint_leaves_no_file(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "FIRST_AFTER_S", 1e9)
    interrupted(compress, tmp_path, after=14)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_the_run_is_saved(monkeypatch, archives, tmp_path, number):
    monkeypatch.setattr(checkpoint, "FIRST_AFTER_S", 1e9)

    class Stopped(BaseException):
        pass

    def stop(number, frame):
        raise Stopped

    before = signal.signal(number, stop)
    try:
        passed = []

        def once(done, n_bytes):
            signal.raise_signal(number)
            passed.append(done)

        with pytest.raises(Stopped):
            compress(tmp_path, on_progress=once)
        assert len(passed) == 1 and signal.getsignal(number) is stop
        assert checkpoint_path(tmp_path / "a.pq").exists()

        def twice(done, n_bytes):
            signal.raise_signal(number)
            signal.raise_signal(number)  # as of a terminal and of a parent: the same
            monkeypatch.setattr("prequential.machine.process.monotonic", lambda: time.monotonic() + 2)
            signal.raise_signal(number)
            pytest.fail("the second signal acts at once")

        with pytest.raises(Stopped):
            prequential.compress(DATA, tmp_path / "b.pq", config=CONFIG, runtime=ONE, on_progress=twice)
        with pytest.raises(Stopped):
            prequential.compress(DATA, config=CONFIG, runtime=ONE, on_progress=once)
        assert len(passed) == 1  # where nothing can be saved, the first signal acts at once
    finally:
        signal.signal(number, before)
    assert compress(tmp_path, resume=True) == archives["both"]


@pytest.mark.thorough
def test_output_after_the_checkpoint_is_written_again(archives, tmp_path):
    """As after a power cut: the output is longer than at the checkpoint, and its end is arbitrary."""
    interrupted(compress, tmp_path, after=9)
    with partial_path(tmp_path / "a.pq").open("ab") as file:
        file.write(b"half a block")
    assert compress(tmp_path, resume=True) == archives["both"]


def test_decompression_of_a_folder_resumes_and_is_saved_although_the_empty_folder_exists(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "one").write_bytes(DATA)
    archive, output, seen = prequential.compress(tmp_path / "tree", config=CONFIG, runtime=ONE), tmp_path / "again", []
    for after in (8, 8):
        with pytest.raises(InterruptionError):
            prequential.decompress(archive, output, runtime=ONE, resume=True, on_progress=stopping_at(after))
        output.mkdir(exist_ok=True)
    prequential.decompress(
        archive, output, runtime=ONE, resume=True, on_progress=lambda done, n_bytes: seen.append(done.n_bytes)
    )
    assert seen[0] > 14 * 32  # after the first segments, which two runs have decoded
    assert (output / "one").read_bytes() == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "tree"]


# ---- refusals


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"data": DATA[:-1]}, "another original"),
        ({"data": b"x" + DATA[1:]}, "another original"),
        ({"config": replace(CONFIG, seed=1)}, "another configuration"),
        ({"config": CONFIGS["pure"]}, "another configuration"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_with_the_reason_and_kept(changed, reason, tmp_path):
    interrupted(compress, tmp_path, after=9)
    folder = work_folder(tmp_path / "a.pq")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CheckpointError, match=reason):
        compress(tmp_path, resume=True, **changed)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_checkpoint_of_the_opposite_direction_is_refused(archives, tmp_path):
    interrupted(decompress, tmp_path, archives["both"], after=9)
    work_folder(tmp_path / "a").rename(work_folder(tmp_path / "a.pq"))
    partial_path(tmp_path / "a.pq").write_bytes(archives["both"][:-30])
    with pytest.raises(CheckpointError, match="another command"):
        compress(tmp_path, resume=True)


@pytest.mark.parametrize("part", ["header", "block"])
def test_a_partial_output_of_another_run_is_refused(part, archives, tmp_path):
    interrupted(compress, tmp_path, after=22)
    path = partial_path(tmp_path / "a.pq")
    written = bytearray(path.read_bytes())
    written[20 if part == "header" else -20] ^= 4
    path.write_bytes(written)
    with pytest.raises(CheckpointError, match="partial output"):
        compress(tmp_path, resume=True)


def test_any_flipped_bit_of_a_checkpoint_and_any_missing_end_is_found(tmp_path):
    interrupted(compress, tmp_path, after=9)
    path = checkpoint_path(tmp_path / "a.pq")
    intact = path.read_bytes()
    random = np.random.default_rng(0)
    for place in [0, 9, 100, *random.integers(0, len(intact), 60).tolist()]:
        damaged = bytearray(intact)
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            compress(tmp_path, resume=True)
    for n_bytes in (0, 1, 8, 200, 5000):
        path.write_bytes(intact[:n_bytes])
        with pytest.raises(CheckpointError):
            compress(tmp_path, resume=True)


# ---- when


@pytest.mark.parametrize("error", [None, OSError(28, "No space left on device")])
def test_checkpoints_take_at_most_their_share_of_the_time_also_if_they_fail(error, monkeypatch, tmp_path):
    for name, value in USUAL.items():
        monkeypatch.setattr(checkpoint, name, value)
    now, times = [0.0], []

    def slow(*_):
        times.append(now[0])
        now[0] += 9.0
        if error:
            raise error

    monkeypatch.setattr(checkpoint, "write", slow)
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
    checkpoints = checkpoint.Checkpoints(tmp_path / "c", tmp_path / "p", resume=False)
    learner, header = ONE.learner(CONFIG), Header(n_bytes=1, blake2b=bytes(32), config={})
    while now[0] < 20_000:
        checkpoints.save_if_due("compress", header, learner, lambda: None)
        now[0] += 1.0
    assert times[0] >= 60
    assert 0.02 < 9.0 * len(times) / now[0] <= checkpoint.COST


def test_a_disk_that_fills_while_a_checkpoint_is_written_does_not_end_the_run(monkeypatch, caplog, archives, tmp_path):
    def full(path, *_):
        path.write_bytes(b"the beginning")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_packed", full)
    assert compress(tmp_path) == archives["both"]
    assert "No space left" in caplog.text
    assert not list(tmp_path.glob("*checkpoint*"))
