"""Rows of tables as documents: the options that shards and data sets have in common, and the text of a row."""

from collections.abc import Mapping, Sequence
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
    """The documents of a table.

    column: of the texts, or several with commas; None is `text`. separator: follows each document, as UTF-8; may be empty.
    rows: number of documents, the first ones; None is all.
    """

    column: str | None = None
    separator: str = DOCUMENT_END.decode()
    rows: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None

    def describe(self, n_rows: int, *, is_text: bool = False) -> dict[str, str | int | None]:
        """As JSON values, for records. is_text: without columns."""
        return {
            "column": None if is_text else self.column or DEFAULT_COLUMN,
            "separator": self.separator,
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
