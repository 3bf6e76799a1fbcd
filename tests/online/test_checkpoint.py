"""An interrupted run resumes, and its result has the bytes of an uninterrupted run."""

import json
import os
import signal
import tracemalloc
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from interruption import InterruptionError, stopping_at
from prequential_codecs.archive_header import Header
from small import BOTH as CONFIG
from small import CONFIGS

import prequential
from prequential.errors import CheckpointError, CorruptArchiveError, OutputError
from prequential.files import checkpoint_path, partial_path, work_folder
from prequential.online import checkpoint
from prequential.online.runtime import Runtime
from prequential.online.tensor_file import open_tensors, write_packed

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


@given(stops=st.lists(st.integers(1, 7), min_size=1, max_size=6), data=st.data())
@pytest.mark.thorough
def test_any_number_of_interruptions_gives_the_same_archive(stops, data, archives, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    for after in stops:
        try:
            compress(folder, resume=True, on_progress=stopping_at(after))
            break
        except InterruptionError:
            pass
    else:
        compress(folder, resume=True)
    assert (folder / "a.pq").read_bytes() == archives["both"]


def test_an_error_before_the_first_block_leaves_no_file(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "FIRST_AFTER_S", 1e9)
    interrupted(compress, tmp_path, after=1)
    assert list(tmp_path.iterdir()) == []


def test_finished_blocks_stay_after_an_error_without_a_checkpoint(monkeypatch, archives, tmp_path):
    monkeypatch.setattr(checkpoint, "FIRST_AFTER_S", 1e9)
    interrupted(compress, tmp_path, after=14)
    written = partial_path(tmp_path / "a.pq").read_bytes()
    assert len(written) > 100 and archives["both"].startswith(written)
    with pytest.raises(OutputError, match="a valid beginning, but nothing to resume from"):
        compress(tmp_path)
    with pytest.raises(CorruptArchiveError):
        prequential.decompress(written, runtime=ONE)
    assert partial_path(tmp_path / "a.pq").read_bytes() == written
    assert compress(tmp_path, overwrite=True) == archives["both"]


@pytest.mark.thorough
def test_resume_without_a_checkpoint_says_that_it_starts_anew(archives, tmp_path, caplog):
    assert compress(tmp_path, resume=True) == archives["both"]
    assert [record.message for record in caplog.records] == [
        "nothing was saved of an interrupted run: this one starts anew"
    ]


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


@pytest.mark.thorough
def test_the_partial_output_of_another_folder_is_refused(tmp_path):
    for name, data in (("tree", DATA), ("short", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one").write_bytes(data)
    long, short = (prequential.compress(tmp_path / name, config=CONFIG, runtime=ONE) for name in ("tree", "short"))
    with pytest.raises(InterruptionError):
        prequential.decompress(long, tmp_path / "again", runtime=ONE, on_progress=stopping_at(12))
    (tmp_path / "again").mkdir()
    with pytest.raises(CheckpointError, match="another original"):
        prequential.decompress(short, tmp_path / "again", runtime=ONE, resume=True)
    prequential.decompress(long, tmp_path / "again", runtime=ONE, resume=True)
    assert (tmp_path / "again" / "one").read_bytes() == DATA


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


BOMB = zstandard.compress(bytes(1 << 30))
SHORT = zstandard.ZstdCompressor(write_content_size=False).compress(b"short")


@pytest.mark.parametrize(
    ("shape", "frame", "reason"),
    [
        ([1 << 17], BOMB, "another size than its values"),
        ([1 << 17], SHORT, "another size than its values"),
        ([1 << 17], zstandard.compress(bytes(1 << 17))[:-3], "ends within|is damaged"),
        ([1 << 17], b"no frame", "is damaged"),
        ([1 << 16, 2], zstandard.compress(bytes(1 << 17)), "another shape"),
        (["x"], zstandard.compress(bytes(1 << 17)), "header is damaged"),
    ],
)
def test_a_crafted_packed_tensor_takes_no_more_memory_than_its_shape(shape, frame, reason, tmp_path):
    path, own = tmp_path / "c", {"a": np.zeros(1 << 17, np.int8)}
    tensors = {"a": np.frombuffer(frame, np.uint8)}
    safetensors.numpy.save_file(tensors, path, {"packed": json.dumps({"a": ["I8", shape]})})
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=reason), open_tensors(path) as file:
        checkpoint.read_arrays(file, own)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_tables_that_are_mostly_untouched_take_little_room(tmp_path):
    values = np.zeros(1 << 22, np.int32)
    values[::100_000] = 7
    write_packed(tmp_path / "c", {"a": values, "b": np.arange(3)})
    assert (tmp_path / "c").stat().st_size < values.nbytes / 1000
    with open_tensors(tmp_path / "c") as file:
        read = checkpoint.read_arrays(file, {"a": values, "b": np.arange(3)})
    assert np.array_equal(read["a"], values) and read["a"].flags.writeable and read["b"].tolist() == [0, 1, 2]


def test_packing_full_tables_holds_one_frame_at_a_time(tmp_path):
    random = np.random.default_rng(0)
    arrays = {f"a{i}": random.integers(0, 256, 1 << 22, np.uint8) for i in range(6)} | {
        "empty": np.zeros((0, 3), np.int32)
    }
    tracemalloc.start()
    try:
        write_packed(tmp_path / "c", arrays, {"x": "y"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 << 22
    with open_tensors(tmp_path / "c") as file:
        assert file.metadata["x"] == "y"
        read = checkpoint.read_arrays(file, arrays)
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
    assert safetensors.numpy.load_file(tmp_path / "c").keys() == arrays.keys()


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
    checkpoints = checkpoint.Checkpoints(tmp_path / "c", tmp_path / "p", resume=False, clock=lambda: now[0])
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


@pytest.mark.thorough
def test_compression_of_a_read_only_source_resumes_and_the_archive_has_its_mode(archives, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(DATA)
    source.chmod(0o444)
    for resume, on_progress in ((False, stopping_at(9)), (True, lambda done, n_bytes: None)):
        with suppress(InterruptionError):
            prequential.compress(
                source, tmp_path / "a.pq", config=CONFIG, runtime=ONE, resume=resume, on_progress=on_progress
            )
        if not resume:
            assert partial_path(tmp_path / "a.pq").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a.pq").stat().st_mode & 0o777 == 0o444


def test_what_was_read_does_not_change_with_the_file(tmp_path):
    """A process that rewrites the file after the check of its values must not reach the kernels."""
    path, values = tmp_path / "a.safetensors", np.arange(1000)
    write_packed(path, {"a": values})
    with open_tensors(path) as file:
        read = checkpoint.read_arrays(file, {"a": values})
        with path.open("r+b") as other:
            other.seek(-8 * len(values), 2)
            other.write(b"\xff" * 8 * len(values))
        assert np.array_equal(read["a"], values)
    assert np.array_equal(read["a"], values)


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path):
    """The library would map the file, and end the program by a signal."""
    path, values = tmp_path / "a.safetensors", np.arange(100_000)
    write_packed(path, {"a": values})
    with pytest.raises(CheckpointError, match="ends within 'a'"), open_tensors(path) as file:
        os.truncate(path, 1000)
        checkpoint.read_arrays(file, {"a": values})


@pytest.mark.parametrize(
    "header",
    [
        b"[]", b"{", b"[" * 100_000, b'{"a":1}', b'{"a":{"dtype":"I64","shape":[-1],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"X","shape":[1],"data_offsets":[0,8]}}', b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[]}}',
        b'{"a":{"dtype":"I64","shape":1,"data_offsets":[0,8]}}', b'{"__metadata__":3}',
        b'{"a":{"dtype":"I64","shape":[true],"data_offsets":[0,8]}}', b"\xff\xfe",
        b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,12]}}', b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[8,8]}}',
    ],
)  # fmt: skip
def test_a_crafted_header_of_tensors_is_refused(header, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(CheckpointError, match="header is damaged"), open_tensors(path):
        pass


@pytest.mark.parametrize("shape", ["[1099511627776]", "[1048576,1048576]"])  # 2**43 bytes both
def test_a_header_does_not_take_memory_that_the_file_does_not_have(shape, tmp_path):
    path = tmp_path / "a.safetensors"
    header = b'{"a":{"dtype":"I64","shape":%b,"data_offsets":[0,%d]}}' % (shape.encode(), 1 << 43)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(CheckpointError, match="ends within 'a'"), open_tensors(path) as file:
        file.read("a")
    path.write_bytes((1 << 27).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="declares a header of 134,217,728 bytes"), open_tensors(path):
        pass
