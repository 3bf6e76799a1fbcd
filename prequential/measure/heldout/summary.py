"""What a held-out test corpus cost, in sums and means: per document and language, seen before or not, and how it spreads.

Every sum is exact: costs are whole units of 2**-22 bits, and each byte is in one document or outside of all. The loss is that of
bytes in documents; what stands between them (a folder's list of files, the ends of documents) is a row of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import splitext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.corpus import Document
from prequential.corpora.git.file_rules import language_of
from prequential.corpora.overlap.overlap import Overlap
from prequential.errors import CorpusError
from prequential.measure.evaluation.trace import MODEL, Trace
from prequential.measure.table import printable

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
MAX_DOCUMENTS = 1000  # of a record, the costliest; the others are summed up
NO_LANGUAGE = "(none)"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some documents, or bytes of them: how many, how long, and what they cost, exactly."""

    name: str
    n_documents: int
    n_bytes: int
    bits: float

    @property
    def bits_per_byte(self) -> float | None:
        """None of nothing."""
        return self.bits / self.n_bytes if self.n_bytes else None

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return {**vars(self), "bits_per_byte": self.bits_per_byte}


@dataclass(frozen=True, kw_only=True)
class Heldout:
    """One code length of a test corpus. Groups are sorted by cost, the costliest first.

    total: all bytes. documents: of those, the ones in documents: the held-out loss. outside: the rest. languages: their groups
    by label. each: a group for each document. macro_documents, macro_languages: means of bits per byte in which each document,
    each language counts the same, whatever its length; empty ones do not. quantiles: of bits per byte over documents, at
    QUANTILES. clean, dirty, novel: documents little seen in training, the others, and bytes in no match to training or to
    earlier in the test corpus (corpora/overlap/overlap.py); None where overlap was not measured. The sums agree: documents + outside =
    total; languages, each document, and clean + dirty sum to documents.
    """

    total: Group
    documents: Group
    outside: Group
    languages: tuple[Group, ...]
    each: tuple[Group, ...]
    macro_documents: float | None
    macro_languages: float | None
    quantiles: tuple[float, ...]
    clean: Group | None = None
    dirty: Group | None = None
    novel: Group | None = None

    @property
    def bits_per_byte(self) -> float | None:
        """The held-out loss: of the bytes in documents, each byte counting the same."""
        return self.documents.bits_per_byte

    def to_record(self) -> dict[str, Any]:
        """JSON values; of many documents the costliest MAX_DOCUMENTS, and the sum of the others."""
        shown, others = self.each[:MAX_DOCUMENTS], self.each[MAX_DOCUMENTS:]
        splits = {"clean": self.clean, "dirty": self.dirty, "novel": self.novel}
        return {
            "total": self.total.to_record(),
            "documents": self.documents.to_record(),
            "outside": self.outside.to_record(),
            "bits_per_byte": self.bits_per_byte,
            "macro_documents": self.macro_documents,
            "macro_languages": self.macro_languages,
            "quantiles": {"of": list(QUANTILES), "bits_per_byte": list(self.quantiles)},
            **{name: group.to_record() if group else None for name, group in splits.items()},
            "languages": [group.to_record() for group in self.languages],
            "each": [group.to_record() for group in shown],
            "all_others": _sum("all others", others).to_record() if others else None,
        }


def summarise_heldout(
    trace: Trace, documents: Sequence[Document], labels: Sequence[str] | None = None, overlap: Overlap | None = None
) -> Heldout:
    """The summary of a trace of n bytes, of which documents tell what is where.

    labels: (D,) of each document, such as its language; by default `languages_of`. overlap: of the same corpus and documents.
    Costs some microseconds a document. Raises CorpusError for documents out of order or outside the corpus, and for labels or an
    overlap of another corpus.
    """
    labels = languages_of(documents) if labels is None else labels
    _check(trace, documents, labels, overlap)
    edges = np.array([edge for d in documents for edge in (d.offset, d.offset + d.n_bytes)] + [trace.n_bytes])
    bits = np.diff(trace.sums(MODEL, edges), prepend=0.0)[1::2].tolist()  # gap, document, gap, ..., document, gap
    each = [Group(name=printable(d.name), n_documents=1, n_bytes=d.n_bytes, bits=b) for d, b in _pairs(documents, bits)]
    whole = Group(
        name="total",
        n_documents=len(each),
        n_bytes=trace.n_bytes,
        bits=trace.total_bits(MODEL) if trace.n_bytes else 0.0,
    )
    inside = _sum("documents", each)
    languages = _by_label(each, labels)
    rates = [group.bits / group.n_bytes for group in each if group.n_bytes]
    return Heldout(
        total=whole,
        documents=inside,
        outside=Group(
            name="outside documents",
            n_documents=0,
            n_bytes=whole.n_bytes - inside.n_bytes,
            bits=whole.bits - inside.bits,
        ),
        languages=languages,
        each=tuple(_costliest_first(each)),
        macro_documents=_mean(rates),
        macro_languages=_mean([group.bits / group.n_bytes for group in languages if group.n_bytes]),
        quantiles=tuple(np.quantile(rates, QUANTILES).tolist()) if rates else (),
        **_splits(trace, documents, each, overlap),
    )


def languages_of(documents: Sequence[Document]) -> list[str]:
    """The language of each document by its name; where that is not known its extension, with its dot; NO_LANGUAGE without one."""
    return [
        language_of(d.name.encode("utf-8", "surrogateescape")) or printable(splitext(d.name)[1].lower()) or NO_LANGUAGE
        for d in documents
    ]


def _check(trace: Trace, documents: Sequence[Document], labels: Sequence[str], overlap: Overlap | None) -> None:
    end = 0
    for document in documents:
        if document.n_bytes < 0 or not end <= document.offset <= trace.n_bytes - document.n_bytes:
            raise CorpusError(f"document {printable(document.name)!r} is out of order or outside the corpus")
        end = document.offset + document.n_bytes
    if len(labels) != len(documents):
        raise CorpusError(f"{len(labels)} labels for {len(documents)} documents")
    if overlap and (len(overlap.n_bytes), len(overlap.in_train)) != (len(documents), trace.n_bytes):
        raise CorpusError("the overlap is of another corpus")


def _by_label(each: Sequence[Group], labels: Sequence[str]) -> tuple[Group, ...]:
    members: dict[str, list[Group]] = {}
    for group, label in _pairs(each, labels):
        members.setdefault(label, []).append(group)
    return tuple(_costliest_first(_sum(label, groups) for label, groups in members.items()))


def _splits(
    trace: Trace, documents: Sequence[Document], each: Sequence[Group], overlap: Overlap | None
) -> Mapping[str, Any]:
    if overlap is None:
        return {}
    dirty = overlap.dirty.tolist()
    return {
        "clean": _sum("clean", (group for group, seen in _pairs(each, dirty) if not seen)),
        "dirty": _sum("dirty", (group for group, seen in _pairs(each, dirty) if seen)),
        "novel": _novel(trace, documents, overlap.novel),
    }


def _novel(trace: Trace, documents: Sequence[Document], novel: NDArray[np.bool_]) -> Group:
    """The bytes of documents that are marked (n,); n_documents: in how many documents they lie."""
    n_documents, n_bytes, bits = 0, 0, 0.0
    for d in documents:
        n_before, stop = n_bytes, d.offset + d.n_bytes
        for start in range(d.offset, stop, CHUNK_BYTES):
            where = slice(start, min(start + CHUNK_BYTES, stop))
            n_bytes += int(np.count_nonzero(novel[where]))
            bits += float(trace.bits(MODEL, where)[novel[where]].sum())
        n_documents += n_bytes > n_before
    return Group(name="novel", n_documents=n_documents, n_bytes=n_bytes, bits=bits)


def _sum(name: str, groups: Iterable[Group]) -> Group:
    members = list(groups)
    return Group(
        name=name,
        n_documents=sum(group.n_documents for group in members),
        n_bytes=sum(group.n_bytes for group in members),
        bits=float(sum(group.bits for group in members)),
    )


def _costliest_first(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: -group.bits)


def _mean(rates: Sequence[float]) -> float | None:
    return float(np.mean(rates)) if rates else None


def _pairs(a: Sequence[Any], b: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(a, b, strict=True)
