"""A folder of shards as one corpus, `shards:FOLDER[?OPTIONS]`: its documents in a fixed order. docs/DATA.md lists the kinds.

A small table may hold terabytes, because each row may be the same entry of a dictionary. So a batch has at most BATCH_N_ROWS
rows, and so few that they take BATCH_BYTES if each is as long as all texts that their row group stores. A shard that is damaged,
ends early, or has a line that is too long or a row without a text in UTF-8 is refused.
"""

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from os import fsencode
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from prequential.errors import CorpusError
from prequential.files import open_regular, reading
from prequential.files.strict_json import bounded_lines, parse_row
from prequential_corpora.corpus import CHUNK_N_BYTES, Corpus, Documents, NamedParts, copied, read_file, unicode_name
from prequential_corpora.rows import BadRowError, RowOptions, columns_of, parse_options, text_of
from prequential_corpora.tree import Tree, scan_tree
from prequential_corpora.tree_restore import TreeEntry, host_path

ShardKind = Literal["table", "lines", "text"]

HIDDEN = re.compile(rb"(?:^|/)\.")  # a part of the path begins with a dot
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


def open_shards(text: str) -> Corpus:
    """The documents of the shards that `text` names, the part after `shards:`. Raises CorpusError for none or several kinds."""
    folder, _, query = text.partition("?")
    options, path = parse_options(query, RowOptions), Path(folder)
    with reading(path):
        status = path.stat()
    if path.is_dir():
        tree = scan_tree(path)  # notebooks and other systems keep copies in hidden files
        files = [file for file in tree.files if shard_kind(file.name) and not HIDDEN.search(file.path)]
    else:
        entry = TreeEntry(fsencode(path.name), status.st_size, False)
        tree = Tree(path.parent, [entry], (), status.st_mode & 0o777 | 0o600)
        files = [entry] if shard_kind(entry.name) else []
    n_skipped = len(tree.skipped) + len(tree.entries) - len(files)
    return read_shards(replace(tree, entries=files), folder, options, n_skipped)


def read_shards(tree: Tree, name: str, options: RowOptions, n_skipped: int) -> Corpus:
    """The documents of all files of the tree, which are shards of one kind in reading order. name: of the folder or data set.

    Raises CorpusError if there are none or several kinds.
    """
    kinds = {shard_kind(file.name): unicode_name(file.path) for file in reversed(tree.files)}
    if not kinds:
        known = ".parquet, .jsonl, .txt, .gz, .zst (links and hidden files are skipped)"
        raise CorpusError(f"{name!r} contains no shard; known are {known}")
    if len(kinds) > 1:
        examples = " and ".join(f"{file!r} ({kind})" for kind, file in reversed(kinds.items()))
        raise CorpusError(f"{name!r} contains shards of several kinds: {examples}; name a folder of one kind")
    (kind,) = kinds
    assert kind
    if kind == "text" and options.column is not None:
        raise CorpusError(f"the shards of {name!r} are text, without a column {options.column!r}: leave out ?column=")
    n_opened, places = 0, Documents(options.separator.encode())

    def documents() -> Iterator[NamedParts]:
        nonlocal n_opened
        for shard, document in islice(_documents(tree, kind, options.column), options.rows):
            n_opened = shard + 1
            yield document

    data = copied(places.stream(documents()))
    opened = tree.files if options.rows is None else tree.files[:n_opened]
    about: dict[str, str | int | None] = {"n_shards": len(opened), "n_skipped": n_skipped}
    about["shards_blake2b"] = _list_digest(tree.root, opened)
    about |= options.describe(len(places), is_text=kind == "text")
    return Corpus("shards", unicode_name(Path(name).absolute().name), data, places, about, tree.mode)


def _documents(tree: Tree, kind: ShardKind, column: str | None) -> Iterator[tuple[int, NamedParts]]:
    """Each document with the number of its shard."""
    for number, file in enumerate(tree.files):
        path, name = host_path(tree.root, file.path), unicode_name(file.path)
        if kind == "text":
            yield number, (name, read_text(path, name))
        else:
            yield from ((number, (None, (text,))) for text in read_rows(path, name, kind, column))


def _list_digest(root: Path, files: Sequence[TreeEntry]) -> str:
    """BLAKE2b, 32 bytes, of one line for each shard in reading order: name NUL length NUL BLAKE2b of its bytes in hex LF."""
    digest = hashlib.blake2b(digest_size=32)
    for file in files:
        contents = hashlib.blake2b(digest_size=32)
        for chunk in read_file(host_path(root, file.path), file.n_bytes):
            contents.update(chunk)
        digest.update(b"%s\0%d\0%s\n" % (file.path, file.n_bytes, contents.hexdigest().encode()))
    return digest.hexdigest()


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
