"""Comparison of two or more runs over the same bytes: the difference in bits, its interval, and where it arose.

Every difference is of ideal code lengths, B - A with A as the reference: below 0 if B needs fewer bits. For one corpus and one
seed each it is exact. Runs of one configuration that differ in the seed form a group; its curve is their mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER

from prequential.comparison.intervals import check_confidence, letters
from prequential.comparison.prediction import Intervals, mean_variance, seeds_variance, text_cells
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve, crossing_byte, mean_curve
from prequential.evaluation.runs import PathLike, Run, read_run
from prequential.evaluation.summary import (
    DIFFERENT_ROWS,
    OTHER_ORDER,
    is_coded,
    is_reported,
    learner_label,
    proof,
    rows_known,
    seed_of,
)
from prequential.records.forms import IMPORTED, REPORTED

DATA_OF = {REPORTED: "rows of a training loop", IMPORTED: "declared data of a log"}


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs of one configuration, ascending by seed. bits: ideal code lengths. learner: its preset or own name.

    archive_bits: lengths of the archives; code lengths unless all runs have archives (is_coded).
    """

    label: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    bits: tuple[float, ...]
    archive_bits: tuple[int, ...]
    curves: tuple[Curve, ...] = field(repr=False, compare=False)
    learner: str = ""
    is_coded: bool = True

    @property
    def name(self) -> str:
        """The label with the learner, unless that is the label."""
        return f"{self.label} ({self.learner})" if self.learner not in ("", self.label) else self.label

    def to_dict(self) -> dict[str, Any]:
        """All but the curves, as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("runs", "seeds", "bits", "archive_bits")}
        return {"label": self.label, "learner": self.learner, "config": dict(self.config), **lists}

    @property
    def mean_bits(self) -> float:
        """Mean ideal code length of the runs, in bits."""
        return math.fsum(self.bits) / len(self.bits)

    @property
    def mean_archive_bits(self) -> float:
        """Mean length of the archives, in bits."""
        return sum(self.archive_bits) / len(self.archive_bits)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A group compared with the reference. bits: other - reference over all bytes, exact if both groups have one run.

    intervals: of confidence and of prediction; None with fewer than MIN_CELLS cells. crossing_byte: from there on the other is
    below; 0: everywhere, None: never. n_bytes (n,) int64 and running_bits (n,) float64, both from 0 on: the difference so far, at
    every byte where a run ends a segment.
    """

    reference: RunGroup
    other: RunGroup
    bits: float
    intervals: Intervals | None
    crossing_byte: int | None
    n_bytes: NDArray[np.int64] = field(repr=False, compare=False)
    running_bits: NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def bits_per_byte(self) -> float:
        """The difference per byte of the corpus."""
        return self.bits / int(self.n_bytes[-1])

    @property
    def percent(self) -> float:
        """The difference in percent of the reference's ideal code length; 0 if that is 0."""
        return self.in_percent(self.bits)

    def in_percent(self, bits: float) -> float:
        """These bits in percent of the reference's ideal code length; 0 if that is 0."""
        return 100 * bits / self.reference.mean_bits if self.reference.mean_bits else 0.0

    @property
    def log2_e(self) -> float:
        """log2 of an e-value against "the data follow the reference", if `other` was fixed before the data were seen.

        If they followed it, its expectation would be at most 1 (Ville's inequality bounds it at any stopping time). Seeds of
        `other` are mixed with equal weights; of those of the reference the best counts.
        """
        mixed = math.log2(len(self.other.bits)) - float(np.logaddexp2.reduce(-np.array(self.other.bits)))
        return min(self.reference.bits) - mixed

    @property
    def archive_bits(self) -> float:
        """The difference of the archives' lengths in bits, with headers and containers."""
        return self.other.mean_archive_bits - self.reference.mean_archive_bits

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        return {
            "reference": self.reference.label,
            "other": self.other.label,
            "bits": self.bits,
            "bits_per_byte": self.bits_per_byte,
            "percent": self.percent,
            "archive_bits": self.archive_bits,
            "log2_e_value": self.log2_e,
            "intervals": None if self.intervals is None else asdict(self.intervals),
            "crossing_byte": self.crossing_byte,
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs over one corpus. The first group is the reference of every difference.

    proof, rows: of reported runs, what they are and what is known about their data; None: both were coded from equal bytes.
    """

    corpus: Mapping[str, Any]
    groups: tuple[RunGroup, ...]
    differences: tuple[Difference, ...]
    proof: str | None = None
    rows: str | None = None

    @property
    def n_runs(self) -> int:
        """The number of runs in all groups."""
        return sum(len(group.runs) for group in self.groups)

    @property
    def choice_bits(self) -> float:
        """The bits that it costs to state which of these runs is the best."""
        return math.log2(self.n_runs)

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        return {
            "kind": "comparison",
            "corpus": dict(self.corpus),
            "groups": [group.to_dict() for group in self.groups],
            "differences": [difference.to_dict() for difference in self.differences],
            "n_runs": self.n_runs,
            "choice_bits": self.choice_bits,
            **({} if self.rows is None else {"proof": self.proof, "rows": self.rows}),
        }


def compare(
    runs: Sequence[Run | PathLike], *, groups: Sequence[str] | None = None, confidence: float = 0.95
) -> Comparison:
    """Every group of `runs` compared with the group of the first run.

    runs: or their folders. groups: a label for each run, equal for runs of one group; by default that of `group_labels`. Equal
    arguments give equal results. Exchanging two groups changes only the signs of the results, exactly.
    Raises CorpusError for runs that are damaged or of different corpora, ConfigError if they form one group.
    """
    check_confidence(confidence)
    opened = [run if isinstance(run, Run) else read_run(run) for run in runs]
    for run in opened:
        _check_comparable(opened[0], run)
    labels = group_labels(opened) if groups is None else list(groups)
    if len(labels) != len(opened):
        raise ConfigError(f"{len(labels)} group labels for {len(opened)} runs: give one for each")
    names = list(dict.fromkeys(labels))
    if len(names) < 2:
        raise ConfigError(f"the {len(opened)} runs form one group; a comparison needs two: set them with groups=")
    reference, *others = (
        _group(name, [run for run, label in zip(opened, labels, strict=True) if label == name]) for name in names
    )
    differences = tuple(_difference(reference, other, confidence) for other in others)
    record = opened[0].record
    about = {"proof": proof(record) + _mistakes(opened), "rows": _rows(opened)} if is_reported(record) else {}
    return Comparison(corpus=record["corpus"], groups=(reference, *others), differences=differences, **about)


def _mistakes(runs: Sequence[Run]) -> str:
    wrong = [f"{run.name} ({n})" for run in runs if (n := len(run.record["findings"]))]
    return f"; MISTAKES were seen in {', '.join(wrong)}: its figures are worth nothing" if wrong else ""


def _rows(runs: Sequence[Run]) -> str:
    rows = rows_known([run.record for run in runs])
    return f"{rows}: cells hold different rows, so intervals are wide" if rows == OTHER_ORDER else rows


def _check_comparable(first: Run, run: Run) -> None:
    """Raises CorpusError, which names the difference, if the runs are of different corpora."""
    first_coding, coding = (each.record.get("coding") for each in (first, run))
    if is_reported(first.record) or is_reported(run.record):
        named = f"{str(first.path)!r} and {str(run.path)!r} are not comparable"
        if first_coding != coding:
            kinds = " and ".join(DATA_OF.get(str(each), "bytes that were coded") for each in (first_coding, coding))
            raise CorpusError(f"{named}: they have {kinds}")
        if first.record["corpus"]["blake2b"] != run.record["corpus"]["blake2b"]:
            sizes = " and ".join(f"{each.record['corpus']['n_bytes']:,}" for each in (first, run))
            raise CorpusError(f"{named}: {DIFFERENT_ROWS[str(coding)]} ({sizes} bytes)")
    for name, what in (("n_bytes", "bytes"), ("blake2b", "BLAKE2b")):
        expected, found = (each.record["corpus"][name] for each in (first, run))
        if expected != found:
            values = " and ".join(repr(value)[:18] for value in (expected, found))
            raise CorpusError(f"{str(first.path)!r} and {str(run.path)!r} are not comparable: corpus ({what}) {values}")


def group_labels(runs: Sequence[Run]) -> list[str]:
    """A label for each run, A, B, C ...: that of the newest group of its configuration, or a new one if that has its seed."""
    groups: list[tuple[dict[str, Any], set[int]]] = []
    labels = []
    for run in runs:
        config = _without_seed(run)
        same = [i for i, (other, _) in enumerate(groups) if other == config][-1:]
        if not same or _seed(run) in groups[same[0]][1]:
            same = [len(groups)]
            groups.append((config, set()))
        groups[same[0]][1].add(_seed(run))
        labels.append(letters(same[0]))
    return labels


def _seed(run: Run) -> int:
    return seed_of(run.record["config"])


def _without_seed(run: Run) -> dict[str, Any]:
    config = dict(run.record["config"])
    if OTHER in config:
        config[OTHER] = {**config[OTHER], "arguments": _unseeded(config[OTHER]["arguments"])}
    return _unseeded(config)


def _unseeded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "seed" or type(value) is not int}


def _group(label: str, runs: Sequence[Run]) -> RunGroup:
    ordered = sorted(runs, key=_seed)
    curves = tuple(run.curves[MODEL] for run in ordered)
    return RunGroup(
        label=label,
        runs=tuple(run.name for run in ordered),
        seeds=tuple(_seed(run) for run in ordered),
        config=_without_seed(ordered[0]),
        bits=tuple(float(curve.bits[-1]) for curve in curves),
        archive_bits=tuple(run.record["archive_bits"] for run in ordered),
        curves=curves,
        learner=", ".join(dict.fromkeys(map(group_learner, ordered))),
        is_coded=all(is_coded(run.record) for run in ordered),
    )


def group_learner(run: Run) -> str:
    """The name of the learner that the runs of a group share: that of seed 0."""
    config = dict(run.record["config"])
    return learner_label({**config, "seed": 0} if "seed" in config else config)


def _difference(reference: RunGroup, other: RunGroup, confidence: float) -> Difference:
    curves = [*reference.curves, *other.curves]
    ends = np.unique(np.concatenate([curve.n_bytes for curve in curves]))
    ours, theirs = mean_curve(other.curves, ends), mean_curve(reference.curves, ends)
    return Difference(
        reference=reference,
        other=other,
        bits=other.mean_bits - reference.mean_bits,
        intervals=intervals_of(reference, other, confidence),
        crossing_byte=crossing_byte(ours, theirs),
        n_bytes=np.concatenate(([0], ends)),
        running_bits=np.concatenate(([0.0], ours.bits - theirs.bits)),
    )


def intervals_of(reference: RunGroup, other: RunGroup, confidence: float) -> Intervals | None:
    """The intervals of the difference over all bytes; None for fewer than MIN_CELLS cells."""
    cells = text_cells([(1.0, other.curves), (-1.0, reference.curves)])
    if cells is None:
        return None
    variance = mean_variance(cells.bits, seeds_variance([(group.seeds, group.bits) for group in (reference, other)]))
    mean, text = (variance.half_width(confidence, n_texts=n) for n in (1, 2))
    bits = other.mean_bits - reference.mean_bits
    varied = " and ".join(group.label for group in (reference, other) if len(group.runs) > 1)
    return Intervals(
        mean_low_bits=bits - mean,
        mean_high_bits=bits + mean,
        text_low_bits=bits - text,
        text_high_bits=bits + text,
        mean_of="the expected difference on text of this length and kind, "
        + (f"over all seeds of {varied}" if varied else "under these seeds"),
        text_of="the difference on another text of this length from the same source, "
        + (f"with as many other seeds of {varied}" if varied else "under these seeds"),
        confidence=confidence,
        n_cells=len(cells.bits),
        cell_bytes=cells.cell_bytes,
    )
