"""One shard: a file of many documents, read one after another in limited memory. docs/DATA.md lists the kinds.

A small table may hold terabytes, because each row may be the same entry of a dictionary. So a batch has at most BATCH_N_ROWS
rows, and so few that they take BATCH_BYTES if each is as long as all texts that their row group stores. A shard that is damaged,
ends early, or has a row that is too long or without a text in UTF-8 is refused.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

from prequential.errors import CorpusError
from prequential.files import open_regular
from prequential.files.strict_json import LongLineError, bounded_lines, parse_row
from prequential_corpora.corpus import CHUNK_N_BYTES

ShardKind = Literal["table", "lines", "text"]

COMPRESSED = (".gz", ".zst")
KINDS: dict[str, ShardKind] = {
    ".parquet": "table", ".jsonl": "lines", ".ndjson": "lines", ".json": "lines", ".txt": "text",
}  # fmt: skip
BATCH_N_ROWS, BATCH_BYTES = 16, 1 << 26
MAX_LINE_BYTES = MAX_ROW_BYTES = 1 << 28
MAX_WINDOW_N_BYTES = 1 << 31  # the largest that zstd writes
# Decoded at a time. They give at most 64 MiB, because a block of 4 bytes can stand for 128 KiB.
INPUT_N_BYTES = 1 << 11

# Arrow raises the first three.
FOREIGN_ERRORS = (OSError, ValueError, pa.ArrowException, EOFError, zlib.error, zstandard.ZstdError)


class _BadRowError(Exception):
    """A fault of the next row."""


def shard_kind(name: str) -> ShardKind | None:
    """The kind of a file with this name; None if it is not a shard."""
    path = Path(name.lower())
    if path.suffix not in COMPRESSED:
        return KINDS.get(path.suffix)
    inner = KINDS.get(Path(path.stem).suffix, "text")
    return "text" if inner == "table" else inner  # a compressed Parquet file cannot be read from front to back


def read_rows(path: Path, name: str, kind: ShardKind, column: str) -> Iterator[bytes]:
    """Each row's text as UTF-8, from a table or from lines. Raises CorpusError; its message names the shard and the row."""
    row = 0
    try:
        for text in _table_rows(path, name, column) if kind == "table" else _line_rows(path, column):
            yield text
            row += 1
    except (_BadRowError, LongLineError) as error:
        raise CorpusError(f"shard {name!r}, row {row}: {error}") from error
    except FOREIGN_ERRORS as error:
        raise _unreadable(f"{name!r}, at row {row} or later", error) from error


def read_text(path: Path, name: str) -> Iterator[bytes]:
    """The bytes of a text shard, decompressed, 1 MiB at a time. Raises CorpusError; its message names the shard."""
    try:
        with _opened(path) as stream:
            while chunk := stream.read(CHUNK_N_BYTES):
                yield chunk
    except FOREIGN_ERRORS as error:
        raise _unreadable(repr(name), error) from error


def _unreadable(where: str, error: Exception) -> CorpusError:
    reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:300]
    return CorpusError(f"cannot read shard {where}: {reason}")


def _table_rows(path: Path, name: str, column: str) -> Iterator[bytes]:
    with (
        open_regular(path) as stream,
        pq.ParquetFile(stream, buffer_size=CHUNK_N_BYTES, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        fields = [field for field in file.schema_arrow if field.name == column]
        if not fields:
            raise CorpusError(f"shard {name!r}: {_missing(column, file.schema_arrow.names)}")
        if len(fields) > 1:
            raise CorpusError(f"shard {name!r}: {len(fields)} columns are called {column!r}; give each its own name")
        if not _is_string(fields[0].type):
            raise CorpusError(f"shard {name!r}: column {column!r} holds {fields[0].type}, not strings")
        for group in range(file.num_row_groups):
            n_bytes = _stored_bytes(file.metadata.row_group(group), column)
            n_rows = min(max(BATCH_BYTES // n_bytes, 1), BATCH_N_ROWS)
            for batch in file.iter_batches(n_rows, row_groups=[group], columns=[column], use_threads=False):
                yield from _texts(batch.column(column), max(n_bytes, BATCH_BYTES // n_rows))


def _stored_bytes(group: Any, column: str) -> int:
    """The length of a column in a row group as it is stored, without compression; at least 1."""
    chunks = map(group.column, range(group.num_columns))
    return max(1, sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column))


def _is_string(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _texts(column: Any, longest: int) -> Iterator[bytes]:
    """The texts of a batch. longest: the length in bytes that a row has at most, as its row group declares."""
    texts, limit = column.cast(pa.large_string()).cast(pa.large_binary()), min(longest, MAX_ROW_BYTES)
    lengths = pc.binary_length(texts).to_pylist()
    n_good = next((i for i, n_bytes in enumerate(lengths) if n_bytes is None or n_bytes > limit), len(lengths))
    for text in texts.slice(0, n_good).to_pylist():
        _check_utf8(text)
        yield text
    if n_good < len(lengths):
        n_bytes = lengths[n_good]
        raise _BadRowError(
            "the text " + ("is null" if n_bytes is None else f"has {n_bytes:,} bytes, more than {limit:,}")
        )


def _check_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise _BadRowError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from error


def _line_rows(path: Path, column: str) -> Iterator[bytes]:
    with _opened(path) as stream:
        for line in bounded_lines(stream, MAX_LINE_BYTES):
            if line.strip():  # programs that write JSON lines may leave blank ones
                yield _member(line, column)


def _member(line: bytes, name: str) -> bytes:
    _check_utf8(line)
    try:
        row = parse_row(line)
    except ValueError as error:
        raise _BadRowError(f"the line is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _BadRowError(f"the line is not a JSON object but {type(row).__name__}")
    if name not in row:
        raise _BadRowError(_missing(name, list(row)))
    text = row[name]
    if not isinstance(text, str):
        raise _BadRowError("the text " + ("is null" if text is None else f"is not a string but {type(text).__name__}"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # "\ud800" in JSON
        raise _BadRowError("the text contains half of a surrogate pair, which UTF-8 cannot encode") from error


def _missing(column: str, columns: list[str]) -> str:
    return f"there is no column {column!r}; choose with ?column= from {columns}"


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The contents of the file, decompressed if its name says so. Every read raises one of FOREIGN_ERRORS for a damaged file."""
    suffix = path.suffix.lower()
    with open_regular(path) as file:
        if suffix not in COMPRESSED:
            yield file
            return
        if not file.peek(1):
            raise OSError("the compressed file is empty")
        stream = gzip.GzipFile(fileobj=file) if suffix == ".gz" else _ZstdFrames(file)
        yield io.BufferedReader(stream, CHUNK_N_BYTES)


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
