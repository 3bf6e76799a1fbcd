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
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from prequential.errors import CheckpointError
from prequential.files import open_regular, sync
from prequential.files.strict_json import parse_json

MAX_HEADER_BYTES = 1 << 20  # JSON, which expands in memory
METADATA, PACKED = "__metadata__", "packed"
PACKED_FROM_BYTES, PACK_LEVEL, THREADS_FROM_BYTES = 1 << 16, 1, 1 << 24
LARGEST_PLACE = 10**15, 2 * 10**15  # no place in a file needs more digits
DTYPES = {
    name: np.dtype(kind).newbyteorder("<")
    for name, kind in {"F64": "f8", "F32": "f4", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1"}.items()
}
Type = tuple[np.dtype, tuple[int, ...]]


class TensorFile:
    """An open safetensors file. metadata: strings by name. types: dtype and shape of each tensor by name."""

    def __init__(self, file: BufferedReader) -> None:
        """Reads the header. Raises ValueError if the file is not complete, or holds anything but tensors of DTYPES."""
        self._file, self._places = file, dict[str, tuple[int, int]]()  # where each begins and ends
        n_file, n_header = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
        if n_header > MAX_HEADER_BYTES:
            raise ValueError(f"it declares a header of {n_header:,} bytes")
        end = 8 + n_header
        try:
            header = parse_json(file.read(n_header))
            self.metadata = dict(header.pop(METADATA, {}))
            self.types = {name: _type(entry["dtype"], entry["shape"]) for name, entry in header.items()}
            for name, (dtype, shape) in self.types.items():
                start, stop = map(_size, header[name]["data_offsets"])
                self._places[name] = end + start, end + stop
                if stop - start != math.prod(shape) * dtype.itemsize:
                    raise ValueError("another size than its values")
            self._packed = parse_json(self.metadata.get(PACKED, "{}").encode())
            self.types |= {name: _type(*self._packed[name]) for name in self.types if name in self._packed}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"its header is damaged: {type(error).__name__}") from error
        for name, (start, stop) in sorted(self._places.items(), key=lambda item: item[1]):
            if start != end:
                raise ValueError("its tensors leave gaps or overlap")
            if stop > n_file:
                raise ValueError(f"it ends within {name!r}")
            end = stop
        if end != n_file:
            raise ValueError(f"it has {n_file:,} bytes, but its header says {end:,}")

    def read(self, name: str) -> np.ndarray:
        """A tensor as an array, in memory that it does not share. Raises ValueError if the file ends before its last byte."""
        (dtype, shape), (start, stop) = self.types[name], self._places[name]
        values = np.empty(stop - start, np.uint8)
        self._file.seek(start)
        if len(values) and self._file.readinto(values.data) != len(values):
            raise ValueError(f"it ends within {name!r}")
        if name in self._packed:
            values = _unpacked(name, values, math.prod(shape) * dtype.itemsize)
        return values.view(dtype).reshape(shape)


def _type(dtype: str, shape: list[Any]) -> Type:
    return DTYPES[dtype], tuple(map(_size, shape))


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError("not a size")
    return value


def _unpacked(name: str, frame: np.ndarray, n_bytes: int) -> np.ndarray:
    """The n_bytes of a frame. Raises ValueError if it holds anything else, before more memory is taken."""
    import zstandard

    try:
        if zstandard.frame_content_size(frame.data) != n_bytes:
            raise ValueError(f"{name} has another size than its values")
        values = np.empty(n_bytes, np.uint8)
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(frame.data) as reader:
            if reader.readinto(values.data) != n_bytes:
                raise ValueError(f"it ends within {name!r}")
    except zstandard.ZstdError as error:
        raise ValueError(f"{name} is damaged: {error}") from error
    return values


def write_packed(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Writes a new safetensors file durably, with large arrays packed; only its owner may read it. Raises OSError."""
    import zstandard

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
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:  # "x" does not follow links
        file.seek(8 + room)
        # The widest items first and frames last: so all are aligned, as in files of the library.
        for name in sorted(arrays, key=lambda name: (name in packed, -arrays[name].itemsize)):
            data: Any = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data
            if name in packed:
                threads = -1 if data.nbytes >= THREADS_FROM_BYTES else 0
                data = zstandard.ZstdCompressor(PACK_LEVEL, threads=threads, write_checksum=False).compress(data)
            n_bytes = file.write(data)
            places[name] = end, end + n_bytes
            end += n_bytes
        file.seek(0)
        file.write(room.to_bytes(8, "little") + header(places).ljust(room))
        file.flush()
        sync(file.fileno())


@contextmanager
def open_tensors(path: Path, *, follow_links: bool = True) -> Iterator[TensorFile]:
    """The safetensors file at `path`. Raises CheckpointError if it cannot be read, also within the body."""
    try:
        with open_regular(path, follow_links=follow_links) as file:
            yield TensorFile(file)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
