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
from prequential.evaluation.summary import model_summary
from prequential.printable import format_table, printable
from prequential.records import LOSSES, HeldoutRecord, MonorepoRecord, check_record, parse_object, read_lines

if TYPE_CHECKING:
    import pandas

KINDS: dict[str, type[HeldoutRecord]] = {"heldout": HeldoutRecord, "monorepo": MonorepoRecord}
INTERVAL = (
    "interval: the expected difference over clusters of these sizes, if they are independent of each other; Student's t"
)
PLACE = re.compile(r"(.+\.jsonl)(?::([1-9][0-9]{0,8}))?")


class HasRecords(Protocol):
    """A result with held-out or monorepo records, one for each model, such as `prequential.Heldout`."""

    @property
    def records(self) -> tuple[dict[str, Any], ...]: ...


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
        values = asdict(self) | {"n_documents": self.clusters.n_documents, "bits_per_byte": self.bits_per_byte}
        del values["clusters"]
        return values


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
        test = self.records[0].test
        lines = [f"test: {test['name'] or 'a corpus'}, {test['n_bytes']:,} bytes, BLAKE2b {test['blake2b'][:16]}"]
        for i, each in enumerate(self.records):
            lines.append(f"{label_of(i)}: {each.learner}, trained on {each.train} ({each.where})")
        intervals = [difference.interval for difference in self.differences if difference.interval]
        level = f"{100 * intervals[0].confidence:g} % confidence" if intervals else "interval"
        rows = []
        for d in self.differences:
            rates = [f"{d.reference_bits_per_byte:.4f}", f"{d.other_bits_per_byte:.4f}", f"{d.bits_per_byte:+.4f}"]
            ends = d.interval and f"{d.interval.low_bits_per_byte:+.4f} to {d.interval.high_bits_per_byte:+.4f}"
            n = count_of(d.clusters.by, len(d.clusters.n_bytes))
            rows.append([f"{d.loss}, {d.other} - A", *rates, ends or "none", n])
        table = format_table(("loss, bits/byte", "A", "other", "difference", level, "over"), rows)
        about = [INTERVAL] * bool(intervals)
        return "\n\n".join(
            ["\n".join(map(printable, lines)), table, *about, *map(printable, self.notes), *self._sentences()]
        )

    def __repr__(self) -> str:
        return f"<{'; '.join(self._sentences())}>"

    def _sentences(self) -> list[str]:
        """What to conclude about each record, by its dynamic loss, or by the frozen one if nothing was learned."""
        last = {each.other: each for each in self.differences if each.loss != "untrained"}
        return [sentence(each, "A", other) for other, each in last.items()]

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


def read_document_losses(name: str) -> DocumentLosses | None:
    """The record FILE.jsonl:NUMBER, counted from 1, or the last one of FILE.jsonl; None without that file. Raises CorpusError."""
    place = PLACE.fullmatch(name)
    if not place or not Path(place[1]).is_file():
        return None
    lines = list(read_lines(place[1]))
    number = int(place[2] or len(lines))
    if not 0 < number <= len(lines):
        raise CorpusError(f"{place[1]!r} has {len(lines)} records, so there is no record {number or 1}")
    where = f"{place[1]}:{number}"
    return document_losses(parse_object(lines[number - 1], where), where)


def document_losses(record: Any, where: str) -> DocumentLosses:
    """What comparisons need of a record. Raises CorpusError for an incomplete record."""
    if not isinstance(record, dict) or record.get("kind") not in list(KINDS):
        raise CorpusError(f"{where} is not the record of a held-out or monorepo loss")
    record = check_record(record, KINDS[record["kind"]], where)
    losses = {}
    for loss in filter(record.get, LOSSES):
        given = record[loss]["clusters"]
        n_bytes, bits, n_documents = tuple(given["n_bytes"]), tuple(map(float, given["bits"])), given["n_documents"]
        fits = len(bits) == len(n_bytes) and min(1, n_documents) <= len(n_bytes) <= min(n_documents, MAX_CLUSTERS)
        if not fits or not all(n_bytes):
            raise CorpusError(f"{where} has {loss} costs that do not match their documents")
        by = printable(given.get("by", "document"))
        losses[loss] = Clusters(n_documents=n_documents, n_bytes=n_bytes, bits=bits, by=by)
    return DocumentLosses(
        where=where,
        learner=model_summary(record["config"]),
        train=record["train"].get("name", "a corpus"),
        test={name: record["test"].get(name) for name in ("name", "n_bytes", "blake2b")},
        context=record["policy"].partition(":")[0] if record["policy"] else None,
        losses=losses,
    )


def compare_documents(records: Sequence[DocumentLosses], confidence: float = CONFIDENCE) -> DocumentComparison:
    """Every record compared with the first one. Raises CorpusError for other documents, ConfigError for fewer than two."""
    if len(records) < 2:
        raise ConfigError("a comparison needs two records or more")
    reference, differences, notes = records[0], [], []
    for i, other in enumerate(records[1:], 1):
        for loss in (each for each in LOSSES if each in reference.losses and each in other.losses):
            if loss == "frozen" and reference.context != other.context:
                contexts = f"{reference.context} and {other.context}"
                notes.append(f"frozen losses of A and {label_of(i)} are not compared: their contexts are {contexts}")
                continue
            theirs, ours = reference.losses[loss], other.losses[loss]
            names, a, b = f"{reference.where} and {other.where} are not comparable", reference.test, other.test
            sizes = [(x["n_bytes"], x["blake2b"], y.n_documents) for x, y in ((a, theirs), (b, ours))]
            if sizes[0] == sizes[1] and ours.by != theirs.by:
                kinds = f"{theirs.by} and a {ours.by}"
                raise CorpusError(f"{names}: their clusters are a {kinds}: measure both with one cluster=")
            if sizes[0] != sizes[1] or ours.n_bytes != theirs.n_bytes:
                raise CorpusError(f"{names}: they scored other documents")
            differences.append(difference_of(loss, label_of(i), theirs, ours, confidence))
    return DocumentComparison(records=tuple(records), differences=tuple(differences), notes=tuple(notes))


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
    rate, base, interval = difference.bits_per_byte, difference.reference_bits_per_byte, difference.interval
    share = f" ({100 * abs(rate) / base:.1f} %)" if base else ""
    claim = f"{other} needs {abs(rate):.4f} bits/byte{share} {'less' if rate < 0 else 'more'} than {reference}"
    more = f"score more {plural(difference.clusters.by)}"
    if interval is None:
        return f"{claim}, but {reason_for_none(difference.clusters)}: do not choose by it, {more}"
    low, high = interval.low_bits_per_byte, interval.high_bits_per_byte
    n = count_of(interval.by, interval.n_clusters)
    bounds = f"the {100 * interval.confidence:g} % interval of the difference over {n} is {low:+.4f} to {high:+.4f}"
    if low <= 0 <= high:
        return f"{claim}, but {bounds}: this does not tell which is better, {more}"
    return f"{claim}, and {bounds}: take {other if rate < 0 else reference} for text like this"
