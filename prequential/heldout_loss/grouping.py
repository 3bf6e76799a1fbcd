"""Which documents of a test corpus depend on each other: those of one folder, of one commit, or with one value of a field."""

import re
from urllib.parse import quote

from prequential.comparison.clusters import Grouping, folders_of
from prequential.errors import ConfigError
from prequential.online.source import CorpusLike, Source, open_source
from prequential.printable import printable

ALONE = "document"


def grouping_of(source: Source, test: CorpusLike, by: str | None) -> Grouping:
    """The clusters of a corpus. by: None: top folders; `2`: folders of two levels; `document`: each document is alone; otherwise
    a field of its rows.

    test: the name of the corpus. Raises ConfigError for a field of a corpus without fields, and CorpusError for a missing field.
    """
    names = [document.name for document in source.documents]
    if by is None or re.fullmatch("[1-9]", by):
        return folders_of(names, int(by or 1))
    if by == ALONE:
        return Grouping(ALONE, [str(i) for i in range(len(names))])
    if not (isinstance(test, str) and test.startswith(("shards:", "hf:"))):
        raise ConfigError(
            f"only rows (shards:FOLDER, hf:SOURCE) have fields such as {by!r}: leave out cluster=, and top folders count"
        )
    return Grouping(printable(by), _column(test, by)[: len(names)])


def _column(name: str, field: str) -> list[str]:
    """The values of a field in the order of the rows: the documents of the same corpus with this text column."""
    corpus, _, query = name.partition("?")
    kept = [option for option in query.split("&") if option and not option.startswith("column=")]
    with open_source(f"{corpus}?{'&'.join([*kept, f'column={quote(field)}'])}") as rows:
        symbols = rows.symbols[:]
        return [bytes(symbols[d.offset : d.offset + d.n_bytes]).decode() for d in rows.documents]
