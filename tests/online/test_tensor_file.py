"""Files of tensors are read whole into memory of their own, whatever a stranger or another process does to them."""

import json
import os
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import zstandard

from prequential.errors import CheckpointError
from prequential.online import checkpoint
from prequential.online.tensor_file import open_tensors, write_packed

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


def test_a_file_that_is_changed_and_cut_after_its_check_reaches_no_kernel(tmp_path):
    """The library would map the file: values would change, and the program end by a signal."""
    path, values = tmp_path / "a.safetensors", np.arange(8000)
    write_packed(path, {"a": values, "b": values})
    with pytest.raises(CheckpointError, match="ends within 'b'"), open_tensors(path) as file:
        a = file.read("a")
        with path.open("r+b") as other:
            other.write(b"\xff" * path.stat().st_size)
        assert np.array_equal(a, values)
        os.truncate(path, 1000)
        file.read("b")


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000, b'{"a":1}', b'{"a":{"dtype":"I64","shape":[-1],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"X","shape":[1],"data_offsets":[0,8]}}', b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[]}}',
        b'{"__metadata__":3}', b"\xff\xfe", b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,12]}}',
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
