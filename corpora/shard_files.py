"""One shard: a file of many documents, read one after another in bounded memory.

    table   .parquet                                      rows; the text is a column of strings
    lines   .jsonl .ndjson .json, also + .gz or .zst      rows, a JSON object each; the text is a member
    text    .txt, also + .gz or .zst; any other .gz .zst  the shard is one document, its bytes as they are

Memory: 64 rows of a table and a page of its column, one line, or 1 MiB. A shard that is damaged, or ends early, or has a row
without a text in UTF-8, is refused with its name and the row, counted from 0: nothing is left out silently.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq

from prequential.corpora.chunks import CHUNK_N_BYTES
from prequential.errors import CorpusError

ShardKind = Literal["table", "lines", "text"]

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
KINDS: dict[str, ShardKind] = {
    ".parquet": "table", ".jsonl": "lines", ".ndjson": "lines", ".json": "lines", ".txt": "text",
}  # fmt: skip
BATCH_N_ROWS = 64  # rows can be whole books
MAX_LINE_BYTES = 1 << 28


FOREIGN_ERRORS = (OSError, ValueError, pa.ArrowException)  # Arrow raises all three


class _BadShardError(Exception):
    """What is wrong with the whole of a shard."""


class _BadRowError(Exception):
    """What is wrong with the row that comes next."""


def shard_kind(name: str) -> ShardKind | None:
    """What a file of this name holds; None if it is no shard."""
    path = Path(name.lower())
    if path.suffix not in COMPRESSIONS:
        return KINDS.get(path.suffix)
    inner = KINDS.get(Path(path.stem).suffix, "text")
    return "text" if inner == "table" else inner  # a compressed Parquet file cannot be read from front to back


def read_rows(path: Path, name: str, kind: ShardKind, column: str) -> Iterator[bytes]:
    """The UTF-8 of each row's text, of a table or of lines. Raises CorpusError that names the shard and the row."""
    row = 0
    try:
        for text in _table_rows(path, column) if kind == "table" else _line_rows(path, column):
            yield text
            row += 1
    except _BadShardError as error:
        raise CorpusError(f"shard {name!r}: {error}") from error
    except _BadRowError as error:
        raise CorpusError(f"shard {name!r}, row {row}: {error}") from error
    except FOREIGN_ERRORS as error:
        raise _unreadable(f"{name!r}, at row {row} or after it", error) from error


def read_text(path: Path, name: str) -> Iterator[bytes]:
    """The bytes of a text shard, decompressed, 1 MiB at a time. Raises CorpusError that names the shard."""
    try:
        with _opened(path) as stream:
            while chunk := stream.read(CHUNK_N_BYTES):
                yield chunk
    except FOREIGN_ERRORS as error:
        raise _unreadable(repr(name), error) from error


def _unreadable(where: str, error: Exception) -> CorpusError:
    reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:300]
    return CorpusError(f"cannot read shard {where}: {reason}")


def _table_rows(path: Path, column: str) -> Iterator[bytes]:
    with (
        path.open("rb") as stream,
        pq.ParquetFile(stream, buffer_size=CHUNK_N_BYTES, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        schema = file.schema_arrow
        found = schema.get_all_field_indices(column)
        if len(found) != 1:
            raise _BadShardError(_missing(column, schema.names))
        if not _is_string(schema.field(found[0]).type):
            raise _BadShardError(f"column {column!r} holds {schema.field(found[0]).type}, not strings")
        for batch in file.iter_batches(BATCH_N_ROWS, columns=[column], use_threads=False):
            yield from _texts(batch.column(column))


def _is_string(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _texts(column: Any) -> Iterator[bytes]:
    strings = column.cast(pa.large_string())
    try:
        strings.validate(full=True)
        is_valid = True
    except pa.ArrowInvalid:  # some row's: which one, the loop finds out
        is_valid = False
    for text in strings.cast(pa.large_binary()).to_pylist():
        if text is None:
            raise _BadRowError("the text is null")
        if not is_valid:
            _check_utf8(text)
        yield text


def _check_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise _BadRowError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from error


def _line_rows(path: Path, column: str) -> Iterator[bytes]:
    with _opened(path) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise _BadRowError(f"a line of more than {MAX_LINE_BYTES} bytes")
            yield _member(line, column)


def _member(line: bytes, name: str) -> bytes:
    _check_utf8(line)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _BadRowError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _BadRowError(f"not a JSON object but {type(row).__name__}")
    if name not in row:
        raise _BadRowError(_missing(name, list(row)))
    text = row[name]
    if not isinstance(text, str):
        found = "is null" if text is None else f"is no string but {type(text).__name__}"
        raise _BadRowError(f"the text {found}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # "\ud800" in JSON
        raise _BadRowError("the text holds half of a surrogate pair, which has no UTF-8") from error


def _missing(column: str, there_are: list[str]) -> str:
    return f"no column {column!r}; choose with ?column= from {there_are}"


def _opened(path: Path) -> BinaryIO:
    """The file's contents, decompressed. Several frames or members may follow each other; all must be whole."""
    file = path.open("rb")
    compression = COMPRESSIONS.get(path.suffix.lower())
    if compression is None:
        return file
    if not file.read(1):
        file.close()
        raise OSError(f"the {compression} stream is empty")
    file.seek(0)
    return cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(file, compression), CHUNK_N_BYTES))
