"""Compressed files as streams: gzip members (zeros may follow the last one) and zstd frames, one after another, all complete.

A zstd frame needs memory for its window: usually 8 MiB, and 2 GiB for one of `zstd --long=31`.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import zstandard

from prequential.corpora.chunks import CHUNK_N_BYTES
from prequential.files import open_regular

SUFFIXES = (".gz", ".zst")
ERRORS = (OSError, EOFError, zlib.error, zstandard.ZstdError)
MAX_WINDOW_N_BYTES = 1 << 31  # the largest that zstd writes
INPUT_N_BYTES = (
    1 << 11
)  # decoded at a time. They give at most 64 MiB, because a block of 4 bytes can stand for 128 KiB.

OTHER_BYTES = (
    "Not a gzipped file",
    "Unknown frame descriptor",
)  # what the libraries say of bytes that start no member or frame


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The contents of the file, decompressed if its name says so. Every read raises one of ERRORS for a damaged file."""
    suffix = path.suffix.lower()
    with open_regular(path) as file:
        if suffix not in SUFFIXES:
            yield file
            return
        if not file.peek(1):
            raise OSError("the compressed file is empty")
        try:
            stream = gzip.GzipFile(fileobj=file) if suffix == ".gz" else _ZstdFrames(file)
            yield io.BufferedReader(stream, CHUNK_N_BYTES)  # type: ignore[arg-type]
        except (OSError, zstandard.ZstdError) as error:
            if not any(reason in str(error) for reason in OTHER_BYTES):
                raise
            raise OSError("it has bytes that are not compressed data, at its start or after its end") from error


class _ZstdFrames(io.RawIOBase):
    """zstandard's own reader takes a frame that is cut off for one that ends."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._context = file, zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_N_BYTES)
        self._frame: Any = None  # the decoder of a frame that has not ended
        self._input, self._output = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output and (data := self._input or self._file.read(INPUT_N_BYTES)):
            self._decode(data)
        if not self._output and self._frame is not None:
            raise EOFError("the file ends within a zstd frame")
        n_bytes = min(len(buffer), len(self._output))
        buffer[:n_bytes] = self._output[:n_bytes]
        self._output = self._output[n_bytes:]
        return n_bytes

    def _decode(self, data: bytes) -> None:
        if self._frame is None:
            self._frame = self._context.decompressobj()
        self._output = memoryview(self._frame.decompress(data))
        self._input = b""
        if self._frame.eof:
            self._input, self._frame = self._frame.unused_data, None
