"""One shard: a file of many documents, read one after another in limited memory. docs/DATA.md lists the kinds.

A small table may hold terabytes, because each row may be the same entry of a dictionary. So a batch has at most BATCH_N_ROWS
rows, and so few that they take BATCH_BYTES if each is as long as all texts that their row group stores. A shard that is damaged,
ends early, or has a line that is too long or a row without a text in UTF-8 is refused.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from prequential.errors import CorpusError
from prequential.files import open_regular
from prequential.files.strict_json import bounded_lines, parse_row
from prequential_corpora.corpus import CHUNK_N_BYTES
from prequential_corpora.rows import BadRowError, columns_of, text_of

ShardKind = Literal["table", "lines", "text"]

COMPRESSED = (".gz", ".zst")
KINDS: dict[str, ShardKind] = {
    ".parquet": "table", ".jsonl": "lines", ".ndjson": "lines", ".json": "lines", ".txt": "text",
}  # fmt: skip
BATCH_N_ROWS, BATCH_BYTES = 16, 1 << 26
MAX_LINE_BYTES = 1 << 28
MAX_WINDOW_N_BYTES = 1 << 31  # the largest that zstd writes
# Decoded at a time. They give at most 64 MiB, because a block of 4 bytes can stand for 128 KiB.
INPUT_N_BYTES = 1 << 11

# Arrow raises the first three.
FOREIGN_ERRORS = (OSError, ValueError, pa.ArrowException, EOFError, zlib.error, zstandard.ZstdError)


def shard_kind(name: str) -> ShardKind | None:
    """The kind of a file with this name; None if it is not a shard."""
    path = Path(name.lower())
    if path.suffix not in COMPRESSED:
        return KINDS.get(path.suffix)
    inner = KINDS.get(Path(path.stem).suffix, "text")
    return "text" if inner == "table" else inner  # a compressed Parquet file cannot be read from front to back


def read_rows(path: Path, name: str, kind: ShardKind, column: str | None) -> Iterator[bytes]:
    """Each row's text as UTF-8, from a table or from lines. Raises CorpusError; its message names the shard and the row."""
    row = 0
    try:
        for text in (_table_rows if kind == "table" else _line_rows)(path, column):
            yield text
            row += 1
    except BadRowError as error:
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


def _table_rows(path: Path, option: str | None) -> Iterator[bytes]:
    with (
        open_regular(path) as stream,
        pq.ParquetFile(stream, buffer_size=CHUNK_N_BYTES, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        schema = file.schema_arrow
        columns = columns_of(option, schema.names, [field.name for field in schema if _is_string(field.type)])
        for column in columns:
            if schema.names.count(column) > 1:
                raise BadRowError(f"{schema.names.count(column)} columns are called {column!r}; give each its own name")
            if not _is_string(schema.field(column).type):
                raise BadRowError(f"column {column!r} holds {schema.field(column).type}, not strings")
        for group in range(file.num_row_groups):
            n_rows = min(max(BATCH_BYTES // _stored_bytes(file.metadata.row_group(group), columns), 1), BATCH_N_ROWS)
            for batch in file.iter_batches(n_rows, row_groups=[group], columns=columns, use_threads=False):
                yield from (text_of(row, option) for row in batch.to_pylist())


def _stored_bytes(group: Any, columns: list[str]) -> int:
    """The length of columns in a row group as they are stored, without compression; at least 1."""
    chunks = map(group.column, range(group.num_columns))
    return max(1, sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns))


def _is_string(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _line_rows(path: Path, option: str | None) -> Iterator[bytes]:
    with _opened(path) as stream:
        for line in bounded_lines(stream, MAX_LINE_BYTES):
            if line.strip():  # programs that write JSON lines may leave blank ones
                try:
                    row = parse_row(line)
                except ValueError as error:
                    raise BadRowError(f"the line is not JSON: {error}") from error
                if not isinstance(row, dict):
                    raise BadRowError(f"the line is not a JSON object but {type(row).__name__}")
                yield text_of(row, option)


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
            self._frame = self._frame or self._context.decompressobj()
            self._output, self._input = memoryview(self._frame.decompress(data)), b""
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
        if not self._output and self._frame is not None:
            raise EOFError("the file ends within a zstd frame")
        n_bytes = min(len(buffer), len(self._output))
        buffer[:n_bytes], self._output = self._output[:n_bytes], self._output[n_bytes:]
        return n_bytes
