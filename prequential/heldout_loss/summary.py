"""The cost of a held-out test corpus in sums and means: by document, by language, and by overlap with training.

Sums are exact: costs are whole units of 2**-22 bits, and each byte is in one document or outside all documents. The held-out loss
counts the bytes in documents. Bytes outside (a folder's list of files, the ends of documents) are a group of their own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import compress
from posixpath import splitext

import numpy as np
from numpy.typing import NDArray
from prequential_corpora.corpus import Document
from prequential_corpora.git_rules import language_of
from prequential_corpora.overlap import Overlap

from prequential.comparison.clusters import Grouping, cluster, loss_interval
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.printable import printable
from prequential.records import ClusterFields, DocumentGroup, HeldoutLoss

MAX_DOCUMENTS = 1000  # in a record: the costliest ones; the others are one group
NO_LANGUAGE = "(none)"
CHUNK_BYTES = 1 << 20
Commit = tuple[str, str]  # its id and its date


def summarise_heldout(
    trace: Trace,
    documents: Sequence[Document],
    overlap: Overlap | None = None,
    grouping: Grouping | None = None,
    commits: Sequence[Commit] = (),
) -> HeldoutLoss:
    """The loss of a trace by documents, which are in stream order.

    overlap, grouping, commits: of the same documents; without a grouping, each is a cluster.
    """
    edges = np.array([edge for d in documents for edge in (d.offset, d.offset + d.n_bytes)] + [trace.n_bytes])
    bits = np.diff(trace.sums(MODEL, edges), prepend=0.0)[1::2].tolist()  # gap, document, ..., document, gap
    loss, total_bits = summarise_documents(documents, bits, grouping, commits), trace.total_bits(MODEL)
    loss.total = _group("total", len(documents), trace.n_bytes, total_bits)
    n_outside, outside_bits = trace.n_bytes - loss.documents.n_bytes, total_bits - loss.documents.bits
    loss.outside = _group("outside documents", 0, n_outside, outside_bits)
    if overlap:
        groups = [_group("", 1, d.n_bytes, cost) for d, cost in zip(documents, bits, strict=True)]
        loss.clean = _sum("clean", compress(groups, ~overlap.dirty))
        loss.dirty = _sum("dirty", compress(groups, overlap.dirty))
        loss.novel = _novel(trace, documents, overlap.novel)
    return loss


def summarise_documents(
    documents: Sequence[Document],
    bits: Sequence[float],
    grouping: Grouping | None = None,
    commits: Sequence[Commit] = (),
) -> HeldoutLoss:
    """The loss of documents that cost so many bits each (k,), where bytes outside documents were not scored."""
    groups = [_group(printable(d.name), 1, d.n_bytes, cost) for d, cost in zip(documents, bits, strict=True)]
    for i, group in enumerate(groups):
        group.number, group.commit = i, commits[i][0] if commits else None
    inside, shown = _sum("documents", groups), sorted(groups, key=lambda group: -group.bits)
    languages, others = _by_label(groups, languages_of(documents)), shown[MAX_DOCUMENTS:]
    clusters = cluster([document.n_bytes for document in documents], bits, grouping)
    interval = loss_interval(clusters)
    kinds = _by_label(shown, [group.name.partition("/")[0] for group in shown])  # new and added, with which names begin
    dates, of_commits = dict(commits), _by_label(groups, [commit for commit, _ in commits]) if commits else []
    by_commit = {group.name: group for group in of_commits}
    for name, group in by_commit.items():
        group.date = dates[name]
    return HeldoutLoss(
        total=_sum("total", groups),
        documents=inside,
        outside=_group("outside documents", 0, 0, 0.0),
        bits_per_byte=inside.bits_per_byte,
        interval=asdict(interval) if interval else None,
        macro_documents=_mean(groups),
        macro_languages=_mean(languages),
        languages=languages,
        each=shown[:MAX_DOCUMENTS],
        all_others=_sum("all others", others) if others else None,
        clusters=ClusterFields(**asdict(clusters) | {"n_bytes": list(clusters.n_bytes), "bits": list(clusters.bits)}),
        kinds=sorted(kinds, key=lambda group: group.name, reverse=True) if commits else None,
        commits=[by_commit[name] for name in dates] if commits else None,  # in the order of the window
    )


def languages_of(documents: Sequence[Document]) -> list[str]:
    """The language of each document by its name. If it is unknown: the extension with its dot, or NO_LANGUAGE without one."""
    return [
        language_of(d.name.encode("utf-8", "surrogateescape")) or printable(splitext(d.name)[1].lower()) or NO_LANGUAGE
        for d in documents
    ]


def _by_label(groups: Sequence[DocumentGroup], labels: Sequence[str]) -> list[DocumentGroup]:
    """The groups of each label as one, the costliest first."""
    members: dict[str, list[DocumentGroup]] = {}
    for group, label in zip(groups, labels, strict=True):
        members.setdefault(label, []).append(group)
    return sorted((_sum(label, each) for label, each in members.items()), key=lambda group: -group.bits)


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
    return _group("novel", n_documents, n_bytes, bits)


def _group(name: str, n_documents: int, n_bytes: int, bits: float) -> DocumentGroup:
    rate = bits / n_bytes if n_bytes else None
    return DocumentGroup(name=name, n_documents=n_documents, n_bytes=n_bytes, bits=bits, bits_per_byte=rate)


def _sum(name: str, groups: Iterable[DocumentGroup]) -> DocumentGroup:
    members = list(groups)
    n_documents, n_bytes = sum(group.n_documents for group in members), sum(group.n_bytes for group in members)
    return _group(name, n_documents, n_bytes, float(sum(group.bits for group in members)))


def _mean(groups: Sequence[DocumentGroup]) -> float | None:
    """The mean of the rates of groups that are not empty."""
    rates = [group.bits / group.n_bytes for group in groups if group.n_bytes]
    return float(np.mean(rates)) if rates else None
