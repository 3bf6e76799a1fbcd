"""Comparison of held-out or monorepo records over the same documents: differences of losses, with intervals over clusters.

The first record is the reference. Differences are paired: each cluster's bits in one record minus its bits in the other.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prequential.comparison.clusters import (
    CONFIDENCE,
    LEVEL,
    MAX_CLUSTERS,
    Clusters,
    EqualWeights,
    by_holm,
    count_of,
    equal_weights,
    holm,
    label_of,
    plural,
)
from prequential.errors import CorpusError
from prequential.evaluation.curves import ShownAsTable, data_frame
from prequential.evaluation.summary import learner_label
from prequential.printable import format_table, printable
from prequential.records import LOSSES, HeldoutRecord, MonorepoRecord, check_record, parse_object, read_lines

if TYPE_CHECKING:
    import pandas

KINDS: dict[str, type[HeldoutRecord]] = {"heldout": HeldoutRecord, "monorepo": MonorepoRecord}
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

    equal: the mean over clusters of equal weight, with its interval; None with too few. decides: whether 0 is outside of the
    interval, by Holm's method over all models that are compared.
    """

    loss: str
    other: str
    reference_bits_per_byte: float
    other_bits_per_byte: float
    clusters: Clusters
    equal: EqualWeights | None
    decides: bool = False

    @property
    def bits_per_byte(self) -> float:
        """Weighted with bytes; below 0 if the other needs fewer bits."""
        return self.other_bits_per_byte - self.reference_bits_per_byte

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the costs of clusters."""
        names = ("loss", "other", "reference_bits_per_byte", "other_bits_per_byte", "bits_per_byte", "decides")
        clusters, equal = self.clusters, self.equal and asdict(self.equal)
        about = {"n_documents": clusters.n_documents, "n_clusters": len(clusters.n_bytes), "by": clusters.by}
        about |= {"n_effective": clusters.n_effective, "largest_share": clusters.largest_share, "equal": equal}
        return {name: getattr(self, name) for name in names} | about


@dataclass(frozen=True, kw_only=True, repr=False)
class DocumentComparison(ShownAsTable):
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
        """A row for each loss of each record but A: its bits_per_byte above that of A, and equal_...: over clusters."""
        rows = [difference.to_dict() for difference in self.differences]
        return data_frame([r | {f"equal_{k}": v for k, v in (r.pop("equal") or {}).items()} for r in rows])

    def __str__(self) -> str:
        test = self.records[0].test
        lines = [f"test: {test['name'] or 'a corpus'}, {test['n_bytes']:,} bytes, BLAKE2b {test['blake2b'][:16]}"]
        for i, each in enumerate(self.records):
            lines.append(f"{label_of(i)}: {each.learner}, trained on {each.train} ({each.where})")
        rows = []
        for d in self.differences:
            k, by, equal = len(d.clusters.n_bytes), d.clusters.by, d.equal
            losses = [f"{d.reference_bits_per_byte:.4f}", f"{d.other_bits_per_byte:.4f}"]
            rows.append([f"{d.loss}, {d.other} - A, by bytes", *losses, f"{d.bits_per_byte:+.4f}", "exact", ""])
            if equal:
                ends = f"{equal.low_bits_per_byte:+.4f} to {equal.high_bits_per_byte:+.4f}"
                mean = f"{equal.bits_per_byte:+.4f}"
                rows.append([f"a {by}, of equal weight", "", "", mean, ends, f"lower in {equal.n_lower} of {k}"])
        table = format_table(("loss, bits/byte", "A", "other", "difference", LEVEL, ""), rows)
        return "\n\n".join(["\n".join(map(printable, lines)), table, *map(printable, self.notes), *self._sentences()])

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


def losses_of(result: Any, i: int) -> list[DocumentLosses]:
    """What the i-th of several results found, a `heldout` or the name of a record; nothing for a run."""
    if isinstance(result, str | os.PathLike):
        return [losses] if (losses := read_document_losses(str(result))) else []
    return [document_losses(record, f"result {i + 1}") for record in getattr(result, "records", ())]


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
        learner=learner_label(record["config"]),
        train=trained_on(record["train"]),
        test={name: record["test"].get(name) for name in ("name", "n_bytes", "blake2b")},
        context=record["policy"].partition(":")[0] if record["policy"] else None,
        losses=losses,
    )


def trained_on(train: Mapping[str, Any]) -> str:
    """What a learner read before the test: the field `train` of its record, in words."""
    name, n_bytes = train.get("name", "a corpus"), train.get("n_bytes")
    return str(name) if n_bytes is None else f"{n_bytes:,} bytes of {name}"


def compare_documents(records: Sequence[DocumentLosses]) -> DocumentComparison:
    """Every record compared with the first one. Raises CorpusError for other documents."""
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
            differences.append(difference_of(loss, label_of(i), theirs, ours))
    for loss in LOSSES:  # one family of verdicts for each loss
        family = [(i, d.equal.p_value) for i, d in enumerate(differences) if d.loss == loss and d.equal]
        for (i, _), decides in zip(family, holm([p for _, p in family], 1 - CONFIDENCE), strict=True):
            differences[i] = replace(differences[i], decides=decides)
    return DocumentComparison(records=tuple(records), differences=tuple(differences), notes=tuple(notes))


def difference_of(loss: str, other: str, theirs: Clusters, ours: Clusters) -> LossDifference:
    """The costs `ours` minus `theirs`, of the same clusters."""
    paired, n_bytes = ours.minus(theirs), max(1, sum(ours.n_bytes))
    equal = equal_weights(paired)
    return LossDifference(
        loss=loss,
        other=other,
        reference_bits_per_byte=sum(theirs.bits) / n_bytes,
        other_bits_per_byte=sum(ours.bits) / n_bytes,
        clusters=paired,
        equal=equal,
        decides=equal is not None and equal.p_value <= 1 - CONFIDENCE,
    )


# ---- text


def sentence(difference: LossDifference, reference: str, other: str) -> str:
    """What the one needs less over all bytes; which of the two models to take, and by which evidence."""
    if not any(difference.clusters.bits):
        return f"{other} and {reference} are equal: they cost the same everywhere"
    rate, base = difference.bits_per_byte, difference.reference_bits_per_byte
    clusters, equal = difference.clusters, difference.equal
    share, k, many = f" ({100 * abs(rate) / base:.1f} %)" if base else "", len(clusters.n_bytes), plural(clusters.by)
    claim = f"{other} needs {abs(rate):.4f} bits/byte{share} {'less' if rate < 0 else 'more'} than {reference}"
    if equal is None:
        return f"{claim}, but {count_of(clusters.by, k)} say{'s' * (k == 1)} nothing about others: score more {many}"
    low, high = equal.low_bits_per_byte, equal.high_bits_per_byte
    bounds = f"a {clusters.by} {low:+.4f} to {high:+.4f} ({LEVEL}), lower in {equal.n_lower} of {k}"
    bounds += f", worth {clusters.n_effective:.1f} of equal length (the largest has {clusters.largest_share:.0%} of the bytes)"
    if not difference.decides:
        doubt = f"{by_holm(low, high)}{count_of(clusters.by, k)} do not tell which is better, score more"
        return f"{claim}. But {doubt}: {bounds}"
    better, worse = (other, reference) if equal.bits_per_byte < 0 else (reference, other)
    if (equal.bits_per_byte < 0) != (rate < 0):
        signs = f"{better} is lower for a mean {clusters.by}, {worse} over all bytes"
        return f"{claim}. {signs}, so choose by what you will read: {bounds}"
    return f"{claim}. Take {better} for {many} like these: {bounds}"
