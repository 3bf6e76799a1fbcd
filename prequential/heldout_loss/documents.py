"""The texts of a test corpus for models that are scored document by document, and the two files that a cluster exchanges.

`write_documents` writes the documents with their ids. `read_scores` reads what each of them costs. An id is the document's place
and a digest of its bytes, so scores of other documents are refused. Only documents that are UTF-8 and not empty are scored.
"""

import json
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from prequential_corpora.corpus import Document

from prequential.comparison.clusters import Grouping, folders_of
from prequential.errors import ConfigError, CorpusError
from prequential.files import PathLike, output_file
from prequential.heldout_loss.summary import Commit
from prequential.online.source import CorpusLike, Source, open_source
from prequential.printable import printable
from prequential.records import ScoreFields, read_records

LOG = logging.getLogger(__name__)
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldoutCorpus:
    """An open test corpus: symbols (n,) uint8, and where its documents are in them. about: how records describe it.

    grouping: which documents depend on each other. commits: of a window of a repository, the commit of each document; otherwise
    empty. mode: the permissions that all its files have.
    """

    symbols: Bytes
    documents: Sequence[Document]
    grouping: Grouping
    commits: Sequence[Commit] = ()
    about: dict[str, Any]
    mode: int = 0o777

    @classmethod
    def of(cls, source: Source, cluster: str | None = None, test: CorpusLike | None = None) -> "HeldoutCorpus":
        """cluster, test: as `by` and `test` of `grouping_of`. Raises CorpusError for an empty corpus."""
        source.check_not_empty("score")
        if not source.documents:  # bytes in memory are one document
            source = replace(source, documents=[Document("bytes", 0, source.n_bytes)])
        return cls(
            symbols=source.symbols,
            documents=source.documents,
            grouping=grouping_of(source, cluster, test),
            commits=source.commits,
            about=source.describe(),
            mode=source.mode,
        )

    @cached_property
    def ids(self) -> list[str]:
        """The place of each document, with a digest of its bytes."""
        return [f"{i}-{blake2b(self.bytes_of(d), digest_size=8).hexdigest()}" for i, d in enumerate(self.documents)]

    def bytes_of(self, document: Document) -> bytes:
        """The contents of one of the documents."""
        return self.symbols[document.offset : document.offset + document.n_bytes].tobytes()

    def only(self, kept: Sequence[int]) -> "HeldoutCorpus":
        """The documents of these numbers, one directly after another."""
        documents = [self.documents[i] for i in kept]
        parts = [self.symbols[d.offset : d.offset + d.n_bytes] for d in documents]
        starts = accumulate((d.n_bytes for d in documents), initial=0)
        return replace(
            self,
            symbols=np.concatenate([self.symbols[:0], *parts]),
            documents=[d._replace(offset=n) for d, n in zip(documents, starts, strict=False)],
            grouping=self.grouping._replace(labels=[self.grouping.labels[i] for i in kept]),
            commits=[self.commits[i] for i in kept] if self.commits else (),
        )

    def texts(self) -> "HeldoutCorpus":
        """The documents that are UTF-8 and not empty. Raises CorpusError if there are none."""
        held = [i for i, document in enumerate(self.documents) if document.n_bytes]
        kept = [i for i in held if _is_utf8(self.bytes_of(self.documents[i]))]
        if not kept:
            name = self.about.get("name", "")
            raise CorpusError(f"nothing to score: the test corpus {name!r} has no document that is UTF-8")
        if n_other := len(held) - len(kept):
            LOG.warning("%s documents are left out: they are not UTF-8", f"{n_other:,} of {len(held):,}")
        return self.only(kept)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def write_documents(documents: HeldoutCorpus, path: PathLike, *, overwrite: bool = False) -> None:
    """Writes one line of JSON for each document: id, name, bytes, and text or base64. Raises OutputError."""
    with output_file(path, overwrite=overwrite, mode=documents.mode) as sink:
        for id_, document in zip(documents.ids, documents.documents, strict=True):
            about = {"id": id_, "name": printable(document.name), "bytes": document.n_bytes}
            sink.write(json.dumps({**about, "text": documents.bytes_of(document).decode()}).encode() + b"\n")


def read_scores(path: PathLike, documents: HeldoutCorpus) -> NDArray[np.float64]:
    """The cost of each document in bits, (k,), from lines of ScoreFields. Raises CorpusError, which names the line.

    Every document must have exactly one score, of all its bytes.
    """
    places, nats = {id_: i for i, id_ in enumerate(documents.ids)}, np.full(len(documents.ids), math.nan)
    for where, score in read_records(path, ScoreFields):
        i = places.get(score["id"])
        if i is None or documents.documents[i].n_bytes != score["bytes"]:
            what = f"the id {score['id']!r} of {score['bytes']:,} bytes, which is no document of this test corpus"
            raise CorpusError(f"{where} has {what}: score each document as it is written")
        if not math.isnan(nats[i]):
            raise CorpusError(f"{where} scores the document {score['id']!r} a second time: give each id once")
        nats[i] = score["nats"]
    if missing := np.flatnonzero(np.isnan(nats)).tolist():
        which = f"{len(missing):,} of {len(nats):,} documents, such as {documents.ids[missing[0]]!r}"
        raise CorpusError(f"{str(path)!r} has no score of {which}: score all")
    return np.asarray(nats / math.log(2))


# ---- groups


def grouping_of(source: Source, by: str | None = None, test: CorpusLike | None = None) -> Grouping:
    """The clusters of a corpus. by: None: commits of a window, otherwise top folders; `2`: folders of two levels; `document`:
    each document is alone; otherwise a field of its rows.

    test: the name of the corpus. Raises ConfigError for a field of a corpus without fields, and CorpusError for a missing field.
    """
    names = [document.name for document in source.documents]
    if by is None and source.commits:
        return Grouping("commit", [commit for commit, _ in source.commits])
    if by is None or re.fullmatch("[1-9]", by):
        return folders_of(names, int(by or 1))
    if by == "document":
        return Grouping(by, [str(i) for i in range(len(names))])
    if not (isinstance(test, str) and test.startswith(("shards:", "hf:"))):
        raise ConfigError(f"only rows (shards:, hf:) have fields such as {by!r}: leave out cluster=: top folders count")
    return Grouping(printable(by), _column(test, by)[: len(names)])


def _column(name: str, field: str) -> list[str]:
    """The values of a field in the order of the rows: the documents of the same corpus with this text column."""
    corpus, _, query = name.partition("?")
    kept = [option for option in query.split("&") if option and not option.startswith("column=")]
    rows = open_source(f"{corpus}?{'&'.join([*kept, f'column={quote(field)}'])}")
    return [rows.symbols[d.offset : d.offset + d.n_bytes].tobytes().decode() for d in rows.documents]
