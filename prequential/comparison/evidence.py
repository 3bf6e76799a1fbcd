"""What a difference of two learners on one text is evidence of. Each question has its own answer (docs/MEASURES.md, "compare"):

on this text?        the exact difference, and in how many eighths of the text it has its sign. This is no probability
with other seeds?    Student's t, with the deviation over seeds pooled over all groups that are compared
on other texts?      Student's t over documents of equal weight, with MIN_CLUSTERS or more; of a text without documents,
                     prediction.py. Not if the text is worth fewer than MIN_EFFECTIVE equal documents
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prequential.comparison.clusters import CONFIDENCE, Clusters, equal_weights, student
from prequential.comparison.prediction import mean_variance, text_cells
from prequential.evaluation.curves import Curve

N_PARTS = 8
MIN_EFFECTIVE = 4.0  # documents: below, the interval of one text held in at most 0.96 of simulations at 95 %
DOCUMENTS = "documents"  # the table of a run's record


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Of a difference in percent of the reference. p_value: of no difference. decides: whether 0 is outside, by Holm's method.

    over: what it speaks of, such as "12 documents".
    """

    low_percent: float
    high_percent: float
    p_value: float
    over: str
    decides: bool = False


def parts_percent(reference: Curve, other: Curve) -> tuple[float, ...]:
    """By how many percent the other is above the reference in each eighth; 0 where that costs nothing. () if steps are longer."""
    if np.diff(reference.n_bytes, prepend=0).max() > reference.n_bytes[-1] / N_PARTS:
        return ()
    edges = np.linspace(0, reference.n_bytes[-1], N_PARTS + 1)
    ours, theirs = (np.diff(curve.at(edges)) for curve in (other, reference))
    return tuple((100 * np.divide(ours - theirs, theirs, out=np.zeros(N_PARTS), where=theirs != 0)).tolist())


def over_seeds(groups: Sequence[Sequence[float]], varies: Sequence[bool], i: int) -> Interval | None:
    """Of the difference of the i-th group from the first one, if all have one deviation over seeds. None with one seed each.

    groups: bits of each seed. varies: whether seeds change them: a mixer alone has nothing random, and tells of no deviation.
    """
    logs = [100 * np.log(np.maximum(bits, 1e-9)) for bits in groups]
    drawn = [each for each, is_drawn in zip(logs, varies, strict=True) if is_drawn]
    freedom = sum(len(each) - 1 for each in drawn)
    if not freedom or not (varies[0] or varies[i]):
        return None
    mean = float(logs[i].mean() - logs[0].mean())
    variance = sum(float(((each - each.mean()) ** 2).sum()) for each in drawn) / freedom
    error = math.sqrt(variance * (varies[i] / len(logs[i]) + varies[0] / len(logs[0])))
    *ends, p_value = student(mean, error, freedom)
    low, high = (100 * math.expm1(end / 100) for end in ends)
    return Interval(low_percent=low, high_percent=high, p_value=p_value, over="seeds")


def over_documents(reference: Clusters, other: Clusters) -> Interval | None:
    """Over documents of equal weight, relative to the mean rate of the reference; None with fewer than MIN_CLUSTERS."""
    found = equal_weights(other.minus(reference))
    base = float(np.mean(np.divide(reference.bits, reference.n_bytes))) if reference.n_bytes else 0.0
    if found is None or not base:
        return None
    low, high = (100 * end / base for end in (found.low_bits_per_byte, found.high_bits_per_byte))
    over = f"{len(reference.n_bytes)} documents of equal weight"
    return Interval(low_percent=low, high_percent=high, p_value=found.p_value, over=over)


def over_texts(reference: Sequence[Curve], other: Sequence[Curve]) -> Interval | None:
    """By the slow variation of the difference along this text; None for fewer than MIN_CELLS cells."""
    cells = text_cells([(1.0, other), (-1.0, reference)])
    base = float(np.mean([curve.bits[-1] for curve in reference]))
    if cells is None or not base:
        return None
    variance, bits = mean_variance(cells), float(np.mean([curve.bits[-1] for curve in other])) - base
    half = variance.half_width(CONFIDENCE)
    low, high = (100 * end / base for end in (bits - half, bits + half))
    return Interval(low_percent=low, high_percent=high, p_value=variance.p_value(bits), over="this text alone")


# ---- documents of recorded runs


def documents_of(records: Sequence[Mapping[str, Any]]) -> Clusters | None:
    """The documents of a text, with their mean costs over these runs; None if a record does not have the costs of each."""
    each = [(record.get("tables") or {}).get(DOCUMENTS, {}).get("each") or {} for record in records]
    n_bytes = tuple(each[0].get("n_bytes", ()))
    if not n_bytes or any(len(costs.get("bits", ())) != len(n_bytes) for costs in each):
        return None
    bits = np.mean([costs["bits"] for costs in each], axis=0).tolist()
    return Clusters(n_documents=len(n_bytes), n_bytes=n_bytes, bits=tuple(bits))


def effective_documents(record: Mapping[str, Any]) -> float:
    """How many documents of equal length the text is worth: 1 / the sum of their squared shares. Infinite if it has none."""
    table = (record.get("tables") or {}).get(DOCUMENTS, {}).get("rows", ())
    rows = [row for row in table if row.get("n_documents") and row["n_bytes"]]
    total = sum(row["n_bytes"] for row in rows)
    squares = sum((row["n_bytes"] / total) ** 2 / row["n_documents"] for row in rows) if total else 0.0
    return 1 / squares if squares else math.inf
