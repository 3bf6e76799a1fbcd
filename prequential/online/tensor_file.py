"""Safetensors files: reading those that a stranger may have made, or may change at any time, and writing packed ones.

The library maps such a file: another process that truncates or changes it would end the program, or change checked values. Here
every tensor is read into memory of its own. A large one may be packed, because most of a learner's tables is untouched: it is the
bytes of a zstd frame, and the metadata entry `packed` holds its dtype and shape.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from prequential.errors import CheckpointError
from prequential.files import open_regular, sync

MAX_HEADER_BYTES = 1 << 20  # JSON, which expands in memory
METADATA, PACKED = "__metadata__", "packed"
PACKED_FROM_BYTES, PACK_LEVEL, THREADS_FROM_BYTES = 1 << 16, 1, 1 << 24
LARGEST_PLACE = 10**15, 2 * 10**15  # no place in a file needs more digits
DTYPES = {
    name: np.dtype(kind).newbyteorder("<")
    for name, kind in {"F64": "f8", "F32": "f4", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1"}.items()
}


class TensorFile:
    """An open safetensors file. metadata: strings by name. types: dtype and shape of each tensor by name."""

    def __init__(self, file: BufferedReader) -> None:
        """Reads the header. Raises ValueError if it is not that of a safetensors file of these dtypes."""
        n_bytes = int.from_bytes(file.read(8), "little")
        if n_bytes > MAX_HEADER_BYTES:
            raise ValueError(f"it declares a header of {n_bytes:,} bytes")
        try:
            header = json.loads(file.read(n_bytes))
            self.metadata: dict[str, Any] = dict(header.pop(METADATA, {}))
            self.types = {
                name: (DTYPES[entry["dtype"]], tuple(map(_size, entry["shape"]))) for name, entry in header.items()
            }
            self._places = {name: tuple(map(_size, entry["data_offsets"])) for name, entry in header.items()}
            for name, (start, end) in self._places.items():
                if end - start != self._n_bytes(name):
                    raise ValueError(f"{name} has another size than its values")
            packed = json.loads(self.metadata.get(PACKED, "{}"))
            self._packed = {name: self._n_bytes(name) for name in packed}
            for name, (dtype, shape) in packed.items():
                self.types[name] = DTYPES[dtype], tuple(map(_size, shape))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise ValueError(f"its header is damaged: {type(error).__name__}") from error
        self._file, self._first = file, 8 + n_bytes

    def read(self, name: str) -> np.ndarray:
        """A tensor as an array, in memory that it does not share. Raises ValueError if the file ends before its last byte."""
        dtype, shape = self.types[name]
        n_bytes = self._packed.get(name, self._n_bytes(name))
        start = self._first + self._places[name][0]
        if start + n_bytes > os.fstat(self._file.fileno()).st_size:  # before memory is taken for it
            raise ValueError(f"it ends within {name}")
        array = np.empty(n_bytes, np.uint8) if name in self._packed else np.empty(shape, dtype)
        self._file.seek(start)
        if n_bytes and self._file.readinto(array.reshape(-1).view(np.uint8).data) != n_bytes:
            raise ValueError(f"it ends within {name}")
        if name in self._packed:
            array = np.frombuffer(_unpacked(name, array, self._n_bytes(name)), dtype).reshape(shape)
        return array

    def _n_bytes(self, name: str) -> int:
        dtype, shape = self.types[name]
        return math.prod(shape) * dtype.itemsize


def write_packed(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Writes a safetensors file durably, with large arrays packed. Raises OSError."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    types = {name: (names[array.dtype.newbyteorder("<")], array.shape) for name, array in arrays.items()}
    packed = {name: types[name] for name, array in arrays.items() if array.nbytes >= PACKED_FROM_BYTES}

    def header(places: Mapping[str, tuple[int, int]]) -> bytes:
        entries: dict[str, Any] = {METADATA: {**(metadata or {}), PACKED: json.dumps(packed)}}
        for name, (start, end) in places.items():
            dtype, shape = ("U8", (end - start,)) if name in packed else types[name]
            entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
        return json.dumps(entries).encode()

    # The header comes first, but where a frame ends is known only when it is written. So room is left for it.
    room = -(-len(header(dict.fromkeys(arrays, LARGEST_PLACE))) // 8) * 8
    places: dict[str, tuple[int, int]] = {}
    end = 0
    with path.open("wb") as file:
        file.seek(8 + room)
        # The widest items first and frames last: so all are aligned, as in files of the library.
        for name in sorted(arrays, key=lambda name: (name in packed, -arrays[name].itemsize)):
            values = pack(arrays[name]) if name in packed else np.ascontiguousarray(arrays[name])
            file.write(values.reshape(-1).view(np.uint8).data)
            places[name] = end, end + values.nbytes
            end += values.nbytes
        file.seek(0)
        file.write(room.to_bytes(8, "little") + header(places).ljust(room))
        file.flush()
        sync(file.fileno())


def pack(array: np.ndarray) -> np.ndarray:
    import zstandard

    threads = -1 if array.nbytes >= THREADS_FROM_BYTES else 0
    options = zstandard.ZstdCompressor(level=PACK_LEVEL, threads=threads, write_checksum=False)
    return np.frombuffer(options.compress(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data), np.uint8)


def _unpacked(name: str, frame: np.ndarray, n_bytes: int) -> bytearray:
    """The n_bytes of a frame. Raises ValueError if it holds anything else, before more memory is taken."""
    import zstandard

    try:
        if zstandard.frame_content_size(frame.data) != n_bytes:
            raise ValueError(f"{name} has another size than its values")
        found, place = bytearray(n_bytes), 0
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(frame.data) as reader:
            while place < n_bytes and (n := reader.readinto(memoryview(found)[place:])):
                place += n
    except zstandard.ZstdError as error:
        raise ValueError(f"{name} is damaged: {error}") from error
    if place < n_bytes:
        raise ValueError(f"it ends within {name}")
    return found


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError("not a size")
    return value


@contextmanager
def open_tensors(path: Path, *, follow_links: bool = True) -> Iterator[TensorFile]:
    """The safetensors file at `path`. Raises CheckpointError if it cannot be read, also within the body."""
    try:
        with open_regular(path, follow_links=follow_links) as file:
            yield TensorFile(file)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
