"""Comparison of held-out or monorepo records over the same documents: differences of losses, with intervals over clusters.

The first record is the reference. Differences are paired: each cluster's bits in one record minus its bits in the other.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prequential.comparison.clusters import (
    CONFIDENCE,
    MAX_CLUSTERS,
    Clusters,
    RateInterval,
    count_of,
    label_of,
    plural,
    rate_interval,
    reason_for_none,
)
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.summary import learner_label
from prequential.printable import format_table, printable
from prequential.records import LOSSES, HeldoutRecord, MonorepoRecord, check_record, parse_object, read_lines

if TYPE_CHECKING:
    import pandas

KINDS: dict[str, type[HeldoutRecord]] = {"heldout": HeldoutRecord, "monorepo": MonorepoRecord}
PLACE = re.compile(r"(.+\.jsonl)(?::([1-9][0-9]{0,8}))?")


class HasRecords(Protocol):
    """A result with held-out or monorepo records, such as `prequential.Heldout`."""

    @property
    def records(self) -> tuple[dict[str, Any], ...]:
        """One for each model."""
        ...


@dataclass(frozen=True, kw_only=True)
class DocumentLosses:
    """A held-out or monorepo record, as far as comparisons need it.

    where: its file and line. learner, train: in words. context: of the frozen loss. losses: the costs of documents, by loss.
    """

    where: str
    learner: str
    train: str
    test: Mapping[str, Any]
    context: str | None
    losses: Mapping[str, Clusters]


@dataclass(frozen=True, kw_only=True)
class LossDifference:
    """The difference of one loss, other - reference, in bits per byte of documents. clusters: of the differences.

    interval: None with too few clusters.
    """

    loss: str
    other: str
    reference_bits_per_byte: float
    other_bits_per_byte: float
    clusters: Clusters
    interval: RateInterval | None

    @property
    def bits_per_byte(self) -> float:
        """Below 0 if the other needs fewer bits."""
        return self.other_bits_per_byte - self.reference_bits_per_byte

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the costs of clusters."""
        values = {name: value for name, value in asdict(self).items() if name != "clusters"}
        return {**values, "n_documents": self.clusters.n_documents, "bits_per_byte": self.bits_per_byte}


@dataclass(frozen=True, kw_only=True, repr=False)
class DocumentComparison:
    """Records over the same documents, called A, B ...; A is the reference. notes: why a loss is not compared.

    str() is the report of the command.

    Examples:
        >>> import prequential
        >>> prequential.DocumentComparison(records=(), differences=(), notes=()).to_frame().empty
        True
    """

    records: tuple[DocumentLosses, ...]
    differences: tuple[LossDifference, ...]
    notes: tuple[str, ...]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each loss of each record but A: its bits_per_byte above that of A, with the ends of the interval.

        The ends are missing with too few clusters.
        """
        import pandas

        rows = [difference.to_dict() for difference in self.differences]
        return pandas.DataFrame([row | (row.pop("interval") or {}) for row in rows])

    def __str__(self) -> str:
        return format_document_comparison(self)

    def __repr__(self) -> str:
        return f"<{'; '.join(_sentences(self))}>"

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the costs of single documents."""
        return {
            "kind": "comparison of documents",
            "test": dict(self.records[0].test),
            "records": [
                {"label": label_of(i), "where": each.where, "learner": each.learner, "train": each.train}
                for i, each in enumerate(self.records)
            ],
            "differences": [difference.to_dict() for difference in self.differences],
            "notes": list(self.notes),
        }


def names_a_record(name: str) -> bool:
    """Whether the name is FILE.jsonl or FILE.jsonl:NUMBER of a file that exists."""
    found = PLACE.fullmatch(name)
    return found is not None and Path(found[1]).is_file()


def read_document_losses(name: str) -> DocumentLosses:
    """The record FILE:NUMBER, counted from 1, or the last one of FILE. Raises CorpusError."""
    found = PLACE.fullmatch(name)
    if not found:
        raise CorpusError(f"{name!r} names no record: give FILE.jsonl:NUMBER")
    path, wanted = found[1], int(found[2] or 0)
    line, number = b"", 0
    for number, each in enumerate(read_lines(path), 1):
        line = each
        if number == wanted:
            break
    if not number or number < wanted:
        raise CorpusError(
            f"{path!r} has {number} records, so there is no {f'record {wanted}' if wanted else 'last one'}"
        )
    where = f"{path}:{number}"
    return document_losses(parse_object(line, where), where)


def document_losses(record: Any, where: str) -> DocumentLosses:
    """What comparisons need of a record. Raises CorpusError for an incomplete record."""
    if not isinstance(record, dict) or record.get("kind") not in list(KINDS):
        raise CorpusError(f"{where} is not the record of a held-out or monorepo loss")
    record = check_record(record, KINDS[record["kind"]], where)
    losses = {}
    for loss in filter(record.get, LOSSES):
        given = record[loss]["clusters"]
        n, n_documents = len(given["n_bytes"]), given["n_documents"]
        fits = len(given["bits"]) == n and min(1, n_documents) <= n <= min(n_documents, MAX_CLUSTERS)
        if not fits or not all(given["n_bytes"]):
            raise CorpusError(f"{where} has {loss} costs that do not match their documents")
        losses[loss] = Clusters(
            n_documents=n_documents,
            n_bytes=tuple(given["n_bytes"]),
            bits=tuple(map(float, given["bits"])),
            by=printable(given.get("by", "document")),
        )
    return DocumentLosses(
        where=where,
        learner=learner_label(record["config"]),
        train=record["train"].get("name", "a corpus"),
        test={name: record["test"].get(name) for name in ("name", "n_bytes", "blake2b")},
        context=record["policy"].partition(":")[0] if record["policy"] else None,
        losses=losses,
    )


def compare_documents(records: Sequence[DocumentLosses], confidence: float = CONFIDENCE) -> DocumentComparison:
    """Every record compared with the first one. Raises CorpusError for other documents, ConfigError for fewer than two."""
    if len(records) < 2:
        raise ConfigError("a comparison needs two records or more")
    reference, *others = records
    differences, notes = [], []
    for i, other in enumerate(others, 1):
        for loss in LOSSES:
            if loss not in reference.losses or loss not in other.losses:
                continue
            if loss == "frozen" and reference.context != other.context:
                notes.append(
                    f"frozen losses of A and {label_of(i)} are not compared: their contexts are {reference.context} and "
                    f"{other.context}"
                )
                continue
            _check_same_documents(reference, other, loss)
            differences.append(difference_of(loss, label_of(i), reference.losses[loss], other.losses[loss], confidence))
    return DocumentComparison(records=tuple(records), differences=tuple(differences), notes=tuple(notes))


def _check_same_documents(reference: DocumentLosses, other: DocumentLosses, loss: str) -> None:
    a, b = reference.test, other.test
    ours, theirs = other.losses[loss], reference.losses[loss]
    names = f"{reference.where} and {other.where} are not comparable"
    is_same_text = (a["n_bytes"], a["blake2b"], theirs.n_documents) == (b["n_bytes"], b["blake2b"], ours.n_documents)
    if is_same_text and ours.by != theirs.by:
        raise CorpusError(f"{names}: their clusters are a {theirs.by} and a {ours.by}: measure both with one cluster=")
    if not is_same_text or ours.n_bytes != theirs.n_bytes:
        raise CorpusError(f"{names}: they scored other documents")


def difference_of(
    loss: str, other: str, theirs: Clusters, ours: Clusters, confidence: float = CONFIDENCE
) -> LossDifference:
    """The costs `ours` minus `theirs`, of the same clusters."""
    paired, n_bytes = ours.minus(theirs), max(1, sum(ours.n_bytes))
    return LossDifference(
        loss=loss,
        other=other,
        reference_bits_per_byte=sum(theirs.bits) / n_bytes,
        other_bits_per_byte=sum(ours.bits) / n_bytes,
        clusters=paired,
        interval=rate_interval(paired, confidence),
    )


# ---- text


def sentence(difference: LossDifference, reference: str, other: str) -> str:
    """Which of the two models to take, and how sure that is."""
    if not any(difference.clusters.bits):
        return f"{other} and {reference} are equal: they cost the same everywhere"
    rate, base = difference.bits_per_byte, difference.reference_bits_per_byte
    share = f" ({100 * abs(rate) / base:.1f} %)" if base else ""
    claim = f"{other} needs {abs(rate):.4f} bits/byte{share} {'less' if rate < 0 else 'more'} than {reference}"
    found, more = difference.interval, f"score more {plural(difference.clusters.by)}"
    if found is None:
        return f"{claim}, but {reason_for_none(difference.clusters)}: do not choose by it, {more}"
    low, high = found.low_bits_per_byte, found.high_bits_per_byte
    n = count_of(found.by, found.n_clusters)
    bounds = f"the {100 * found.confidence:g} % interval of the difference over {n} is {low:+.4f} to {high:+.4f}"
    if low <= 0 <= high:
        return f"{claim}, but {bounds}: this does not tell which is better, {more}"
    return f"{claim}, and {bounds}: take {other if rate < 0 else reference} for text like this"


def format_document_comparison(comparison: DocumentComparison) -> str:
    """The complete report, without a final newline."""
    test = comparison.records[0].test
    head = [f"test: {test['name'] or 'a corpus'}, {test['n_bytes']:,} bytes, BLAKE2b {test['blake2b'][:16]}"]
    head += [
        f"{label_of(i)}: {each.learner}, trained on {each.train} ({each.where})"
        for i, each in enumerate(comparison.records)
    ]
    differences = comparison.differences
    intervals = [difference.interval for difference in differences if difference.interval]
    level = f"{100 * intervals[0].confidence:g} % confidence" if intervals else "interval"
    titles = ("loss, bits/byte", "A", "other", "difference", level, "over")
    parts = ["\n".join(map(printable, head)), format_table(titles, [_row(difference) for difference in differences])]
    if intervals:
        parts.append(
            "interval: the expected difference over clusters of these sizes, if they are independent of each other; Student's t"
        )
    parts += map(printable, comparison.notes)
    return "\n\n".join([*parts, *_sentences(comparison)])


def _sentences(comparison: DocumentComparison) -> list[str]:
    """What to conclude about each record, by its dynamic loss, or by the frozen one if nothing was learned."""
    last = {each.other: each for each in comparison.differences if each.loss != "untrained"}
    return [sentence(each, "A", other) for other, each in last.items()]


def _row(difference: LossDifference) -> list[str]:
    found = difference.interval
    return [
        f"{difference.loss}, {difference.other} - A",
        f"{difference.reference_bits_per_byte:.4f}",
        f"{difference.other_bits_per_byte:.4f}",
        f"{difference.bits_per_byte:+.4f}",
        f"{found.low_bits_per_byte:+.4f} to {found.high_bits_per_byte:+.4f}" if found else "none",
        count_of(difference.clusters.by, len(difference.clusters.n_bytes)),
    ]
