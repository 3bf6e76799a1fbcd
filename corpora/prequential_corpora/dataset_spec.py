"""Names of data sets, `hf:SOURCE[@REVISION][?OPTIONS]`, parsed and checked before anything is opened.

    hf:reviews.jsonl                                  a local file: json, jsonl, csv, txt or parquet
    hf:reviews/?split=test&column=body                a local folder, as the `datasets` package reads it
    hf:stanfordnlp/imdb@COMMIT?config=plain_text      the hub, at one commit

OPTIONS is a query string (`%0A` is a line feed): config, split, column, separator. A name on the hub means the version that was
pushed last, so it does not identify a corpus. Without a revision it is refused.
"""

import re
from collections.abc import Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl

from prequential.errors import CorpusError
from prequential_corpora.chunks import DOCUMENT_END

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
MOVING_REVISION = re.compile(r"main|master|HEAD|refs/.*")


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """The rows of a data set that form a corpus.

    source: path of a local file or folder (then `revision` is None), or a name on the hub.
    revision: full commit hash, or a tag.
    config: the data set's configuration, if it has several.
    column: the text column. None: the only string column.
    separator: follows the text of every row in the corpus, as UTF-8; may be empty.
    """

    source: str
    revision: str | None = None
    config: str | None = None
    split: str = "train"
    column: str | None = None
    separator: str = DOCUMENT_END.decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The data set that `text` names, the part after `hf:`. Raises CorpusError.

        If a file or folder with the complete name exists, it is used and not the hub.
        """
        name, _, query = text.partition("?")
        options = parse_options(query, {field.name for field in fields(cls)} - {"source", "revision"})
        if name and Path(name).exists():
            return cls(source=name, **options)
        source, _, revision = name.partition("@")
        if not HUB_NAME.fullmatch(source):
            raise CorpusError(
                f"there is no such data set: {source!r} is neither a file, a folder nor a name on the hub"
            )
        if not revision or MOVING_REVISION.fullmatch(revision):
            raise CorpusError(
                f"there is no file or folder {source!r}; for a data set on the hub, pin a revision that cannot change: "
                f"hf:{source}@COMMIT (the commit hash in its History) or @TAG"
            )
        return cls(source=source, revision=revision, **options)


def parse_options(query: str, known: Set[str]) -> dict[str, str]:
    """The options of a query string. Raises CorpusError for an unknown option and for one that occurs twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise CorpusError(f"cannot read the options {query!r} of a data set: {error}") from error
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= known:
        raise CorpusError(f"cannot read the options {query!r} of a data set: give each of {sorted(known)} at most once")
    return options
