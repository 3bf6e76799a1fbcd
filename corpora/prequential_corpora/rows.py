"""Rows of tables as documents: the options that shards and data sets have in common, the text of a row, and the shuffle.

**Shuffling.** key is the seed as 8 bytes, little-endian. Shards are sorted by BLAKE2b(name, key, 16 bytes), ascending. Then rows
pass through a buffer of B documents, which the first B fill. For each later document, numbered i = 0, 1, 2 and so on, the one at
place w_i mod B leaves and the new one takes its place. At the end, while n documents are left, the one at place w_i mod n leaves
and the last one takes its place; i continues to count. w_i = BLAKE2b(i as 8 bytes, key, 8 bytes), all little-endian. So a
document comes at most B - 1 places earlier than without shuffling, and possibly much later. A text shard is one document.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from prequential.errors import CorpusError
from prequential_corpora.corpus import DOCUMENT_END

T = TypeVar("T")

DEFAULT_COLUMN = "text"


class BadRowError(ValueError):
    """A fault of the next row."""


class RowOptions(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The documents of a table, and their order.

    column: of the texts, or several with commas; None is `text`. separator: follows each document, as UTF-8; may be empty.
    seed: of the shuffling; None keeps the order. buffer: in documents, only with a seed. rows: number of documents; None is all.
    """

    column: str | None = None
    separator: str = DOCUMENT_END.decode()
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    buffer: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None
    rows: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None

    def __post_init__(self) -> None:
        if self.buffer and self.seed is None:
            raise ValueError("a shuffle buffer needs a seed: add seed=N")

    @property
    def key(self) -> bytes | None:
        """The key of the shuffling; None keeps the order."""
        return None if self.seed is None else self.seed.to_bytes(8, "little")

    def chosen(self, rows: Iterator[T]) -> Iterator[T]:
        """These rows in this order."""
        return islice(rows if self.key is None else shuffled(rows, self.key, self.buffer or 1024), self.rows)

    def describe(self, n_rows: int, *, is_text: bool = False) -> dict[str, str | int | None]:
        """As JSON values, for records. is_text: without columns, so that only shards are shuffled."""
        return {
            "column": None if is_text else self.column or DEFAULT_COLUMN,
            "separator": self.separator,
            "shuffle_seed": self.seed,
            "shuffle_buffer": None if self.seed is None or is_text else self.buffer or 1024,
            "n_rows": n_rows,
        }


def parse_options(query: str, kind: type[T]) -> T:
    """The options of a query string, in which + stands for itself. Raises CorpusError, also for one that is given twice."""
    try:
        given = query.replace("+", "%2B")
        pairs = parse_qsl(given, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
        if len(options := dict(pairs)) < len(pairs):
            raise ValueError("one is given twice")
        return msgspec.convert(options, kind, strict=False)
    except ValueError as error:
        reason = str(error).replace("- at `$.", "for `")
        raise CorpusError(f"cannot read the options {query!r} of a corpus: {reason}") from error


def shuffled(documents: Iterator[T], key: bytes, n_places: int) -> Iterator[T]:
    """The documents in the order that the key defines (see the module's docstring), with n_places of them in memory."""
    held = list(islice(documents, n_places))
    digests = (hashlib.blake2b(i.to_bytes(8, "little"), key=key, digest_size=8).digest() for i in count())
    draws = (int.from_bytes(digest, "little") for digest in digests)
    for document in documents:
        place = next(draws) % n_places
        yield held[place]
        held[place] = document
    while held:
        place = next(draws) % len(held)
        yield held[place]
        held[place] = held[-1]
        held.pop()


def columns_of(option: str | None, names: Sequence[str], strings: Sequence[str]) -> list[str]:
    """The columns that the option names, out of `names`; commas separate several. Raises BadRowError; it lists `strings`."""
    option = option or DEFAULT_COLUMN
    columns = [option] if option in names else option.split(",")
    if missing := [column for column in columns if column not in names]:
        raise BadRowError(f"there is no column {missing[0]!r}; choose (?column=, or data[NAME]) from {list(strings)}")
    return columns


def text_of(row: Mapping[str, Any], option: str | None) -> bytes:
    """The text of a row in UTF-8; those of several columns with a line feed between them. Raises BadRowError."""
    columns = columns_of(option, list(row), [name for name, value in row.items() if isinstance(value, str)])
    return b"\n".join(encoded(row[column]) for column in columns)


def encoded(text: object) -> bytes:
    """The text in UTF-8, or the bytes that it is already. Raises BadRowError for what is no text, such as a null."""
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    if not isinstance(text, str):
        raise BadRowError("the text " + ("is null" if text is None else f"is not a string but {type(text).__name__}"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # "\ud800" in JSON
        raise BadRowError("the text contains half of a surrogate pair, which UTF-8 cannot encode") from error
