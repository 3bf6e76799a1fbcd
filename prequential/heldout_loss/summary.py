"""The cost of a held-out test corpus in sums and means: by document, by language, and by overlap with training.

Sums are exact: costs are whole units of 2**-22 bits, and each byte is in one document or outside all documents. The held-out loss
counts the bytes in documents. Bytes outside (a folder's list of files, the ends of documents) are a group of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from posixpath import splitext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_corpora.corpus import Document
from prequential_corpora.git_rules import language_of
from prequential_corpora.overlap import Overlap

from prequential.comparison.clusters import Clusters, Grouping, RateInterval, cluster, loss_interval
from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.printable import printable
from prequential.records import ClusterFields, DocumentFields, DocumentGroupFields, LossFields, record_of

MAX_DOCUMENTS = 1000  # in a record: the costliest ones; the others are one group
NO_LANGUAGE = "(none)"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class DocumentGroup:
    """Some documents, or some of their bytes, and their exact cost. number, commit: of a single document (`DocumentFields`)."""

    name: str
    n_documents: int
    n_bytes: int
    bits: float
    number: int | None = None
    commit: str | None = None

    @property
    def bits_per_byte(self) -> float | None:
        """None without bytes."""
        return self.bits / self.n_bytes if self.n_bytes else None

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return record_of(DocumentGroupFields, self)


@dataclass(frozen=True, kw_only=True)
class HeldoutLoss:
    """One code length of a test corpus. Tuples of groups are sorted by cost, the costliest first.

    records.py says what the fields mean. clean, dirty, novel: None if the overlap was not measured. interval: None with too
    few clusters. macro_: means with equal weights for each document or language that is not empty. Sums agree exactly:
    documents + outside = total. All documents, all languages, and clean + dirty each add up to `documents`.
    """

    total: DocumentGroup
    documents: DocumentGroup
    outside: DocumentGroup
    per_language: tuple[DocumentGroup, ...]
    per_document: tuple[DocumentGroup, ...]
    macro_documents: float | None
    macro_languages: float | None
    clean: DocumentGroup | None = None
    dirty: DocumentGroup | None = None
    novel: DocumentGroup | None = None
    clusters: Clusters
    interval: RateInterval | None

    @property
    def bits_per_byte(self) -> float | None:
        """The held-out loss: of the bytes in documents, with equal weights."""
        return self.documents.bits_per_byte

    def to_record(self) -> dict[str, Any]:
        """JSON values, with at most MAX_DOCUMENTS single documents."""
        shown, others = self.per_document[:MAX_DOCUMENTS], self.per_document[MAX_DOCUMENTS:]
        groups = {name: getattr(self, name) for name in ("total", "documents", "outside", "clean", "dirty", "novel")}
        clusters = self.clusters
        return record_of(
            LossFields,
            self,
            **{name: group.to_record() if group else None for name, group in groups.items()},
            interval=asdict(self.interval) if self.interval else None,
            languages=[group.to_record() for group in self.per_language],
            each=[record_of(DocumentFields, group) for group in shown],
            all_others=_sum("all others", others).to_record() if others else None,
            clusters=record_of(ClusterFields, clusters, n_bytes=list(clusters.n_bytes), bits=list(clusters.bits)),
        )


def summarise_heldout(
    trace: Trace, documents: Sequence[Document], overlap: Overlap | None = None, grouping: Grouping | None = None
) -> HeldoutLoss:
    """The loss of a trace by documents, which are in stream order.

    overlap, grouping: of the same documents; without a grouping, each is a cluster. Raises CorpusError for documents out of order
    or outside the corpus, and for an overlap of another corpus.
    """
    _check(trace, documents, overlap)
    edges = np.array([edge for d in documents for edge in (d.offset, d.offset + d.n_bytes)] + [trace.n_bytes])
    bits = np.diff(trace.sums(MODEL, edges), prepend=0.0)[1::2].tolist()  # gap, document, ..., document, gap
    groups = groups_of(documents, bits, grouping)
    total = DocumentGroup(
        name="total",
        n_documents=len(groups),
        n_bytes=trace.n_bytes,
        bits=trace.total_bits(MODEL) if trace.n_bytes else 0.0,
    )
    return _summary(total, documents, groups, grouping, _splits(trace, documents, groups, overlap))


def summarise_documents(documents: Sequence[Document], bits: Sequence[float], grouping: Grouping) -> HeldoutLoss:
    """The loss of documents that cost so many bits each (k,), where bytes outside documents were not scored."""
    groups = groups_of(documents, bits, grouping)
    return _summary(_sum("total", groups), documents, groups, grouping, {})


def groups_of(
    documents: Sequence[Document], bits: Sequence[float], grouping: Grouping | None = None
) -> list[DocumentGroup]:
    """Each document with its cost as a group, in the same order."""
    commits = list(map(printable, grouping.labels)) if grouping and grouping.by == "commit" else [None] * len(documents)
    return [
        DocumentGroup(name=printable(d.name), n_documents=1, n_bytes=d.n_bytes, bits=b, number=i, commit=commit)
        for i, (d, b, commit) in enumerate(zip(documents, bits, commits, strict=True))
    ]


def _summary(
    total: DocumentGroup,
    documents: Sequence[Document],
    groups: Sequence[DocumentGroup],
    grouping: Grouping | None,
    splits: Mapping[str, Any],
) -> HeldoutLoss:
    """The loss of the groups of these documents. splits: by overlap with the training corpus."""
    inside = _sum("documents", groups)
    per_language = by_label(groups, languages_of(documents))
    rates = [group.bits / group.n_bytes for group in groups if group.n_bytes]
    clusters = cluster([group.n_bytes for group in groups], [group.bits for group in groups], grouping)
    return HeldoutLoss(
        total=total,
        documents=inside,
        outside=DocumentGroup(
            name="outside documents",
            n_documents=0,
            n_bytes=total.n_bytes - inside.n_bytes,
            bits=total.bits - inside.bits,
        ),
        per_language=per_language,
        per_document=tuple(_costliest_first(groups)),
        macro_documents=_mean(rates),
        macro_languages=_mean([group.bits / group.n_bytes for group in per_language if group.n_bytes]),
        clusters=clusters,
        interval=loss_interval(clusters),
        **splits,
    )


def languages_of(documents: Sequence[Document]) -> list[str]:
    """The language of each document by its name. If it is unknown: the extension with its dot, or NO_LANGUAGE without one."""
    return [
        language_of(d.name.encode("utf-8", "surrogateescape")) or printable(splitext(d.name)[1].lower()) or NO_LANGUAGE
        for d in documents
    ]


def _check(trace: Trace, documents: Sequence[Document], overlap: Overlap | None) -> None:
    end = 0
    for document in documents:
        if document.n_bytes < 0 or not end <= document.offset <= trace.n_bytes - document.n_bytes:
            raise CorpusError(f"document {printable(document.name)!r} is out of order or outside the corpus")
        end = document.offset + document.n_bytes
    if overlap and (len(overlap.n_bytes), len(overlap.in_train)) != (len(documents), trace.n_bytes):
        raise CorpusError("the overlap belongs to another corpus")


def by_label(groups: Sequence[DocumentGroup], labels: Sequence[str]) -> tuple[DocumentGroup, ...]:
    """The groups of each label as one, the costliest first."""
    members: dict[str, list[DocumentGroup]] = {}
    for group, label in zip(groups, labels, strict=True):
        members.setdefault(label, []).append(group)
    return tuple(_costliest_first(_sum(label, with_label) for label, with_label in members.items()))


def kind_of_name(name: str) -> str:
    """The kind of a document of a window, with which its name begins: new or added."""
    return name.partition("/")[0]


def kinds_of(loss: HeldoutLoss) -> list[DocumentGroup]:
    """New files and added lines of a window as groups, of documents with the names new/PATH and added/PATH."""
    kinds = by_label(loss.per_document, [kind_of_name(group.name) for group in loss.per_document])
    return sorted(kinds, key=lambda group: group.name, reverse=True)


def _splits(
    trace: Trace, documents: Sequence[Document], groups: Sequence[DocumentGroup], overlap: Overlap | None
) -> Mapping[str, Any]:
    """The fields clean, dirty and novel of a HeldoutLoss. groups: those of the documents, in the same order."""
    if overlap is None:
        return {}
    clean, dirty = (
        _sum(name, compress(groups, of)) for name, of in (("clean", ~overlap.dirty), ("dirty", overlap.dirty))
    )
    return {"clean": clean, "dirty": dirty, "novel": _novel(trace, documents, overlap.novel)}


def _novel(trace: Trace, documents: Sequence[Document], novel: NDArray[np.bool_]) -> DocumentGroup:
    """The bytes of documents that are marked in `novel` (n,), and the number of documents with such bytes."""
    n_documents, n_bytes, bits = 0, 0, 0.0
    for d in documents:
        n_before, stop = n_bytes, d.offset + d.n_bytes
        for start in range(d.offset, stop, CHUNK_BYTES):
            where = slice(start, min(start + CHUNK_BYTES, stop))
            n_bytes += int(np.count_nonzero(novel[where]))
            bits += float(trace.bits(MODEL, where)[novel[where]].sum())
        n_documents += n_bytes > n_before
    return DocumentGroup(name="novel", n_documents=n_documents, n_bytes=n_bytes, bits=bits)


def _sum(name: str, groups: Iterable[DocumentGroup]) -> DocumentGroup:
    members = list(groups)
    return DocumentGroup(
        name=name,
        n_documents=sum(group.n_documents for group in members),
        n_bytes=sum(group.n_bytes for group in members),
        bits=float(sum(group.bits for group in members)),
    )


def _costliest_first(groups: Iterable[DocumentGroup]) -> list[DocumentGroup]:
    return sorted(groups, key=lambda group: -group.bits)


def _mean(rates: Sequence[float]) -> float | None:
    return float(np.mean(rates)) if rates else None
