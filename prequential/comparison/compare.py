"""Comparison of two or more runs over the same bytes: the difference in bits, its interval, and where it arose.

Every difference is of ideal code lengths, B - A with A as the reference: below 0 if B needs fewer bits. For one corpus and one
seed each it is exact. Runs of one configuration that differ in the seed form a group; its curve is their mean.
"""

from collections.abc import Mapping, Sequence
from os import PathLike as AnyPath
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.comparison.clusters import check_confidence, label_of
from prequential.comparison.differences import Comparison, Difference, RunGroup
from prequential.comparison.documents import (
    DocumentComparison,
    DocumentLosses,
    HasRecords,
    compare_documents,
    document_losses,
    names_a_record,
    read_document_losses,
)
from prequential.comparison.prediction import Intervals, mean_variance, seeds_variance, text_cells
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.curves import MODEL, crossing_byte, curve_table, mean_curve
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
from prequential.records import IMPORTED, REPORTED

if TYPE_CHECKING:
    from prequential.evaluation.evaluation import Evaluation

DATA_OF = {REPORTED: "rows of a training loop", IMPORTED: "declared data of a log"}


@overload
def compare(
    runs: "Sequence[Run | Evaluation]", *, groups: Sequence[str] | None = None, confidence: float = 0.95
) -> Comparison: ...


@overload
def compare(
    runs: "Sequence[Run | Evaluation | HasRecords | PathLike]",
    *,
    groups: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Comparison | DocumentComparison: ...


def compare(
    runs: "Sequence[Run | Evaluation | HasRecords | PathLike]",
    *,
    groups: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Comparison | DocumentComparison:
    """Each of the runs, or of the groups of runs, compared with the first one: the difference in bits, and its intervals.

    runs: two or more over the same bytes: of `read_runs`, results of `evaluate`, or run folders. Or results of `heldout` over the
    same documents, or their records as FILE.jsonl:NUMBER; these are compared document by document. groups: a label for each run;
    runs with equal labels are averaged. By default, those are that differ only in the seed. confidence: level of the intervals,
    above 0 and below 1.

    Nothing is written. Exchanging two groups changes only the signs. Raises CorpusError for runs that are damaged or of different
    data, ConfigError for fewer than two.

    Examples:
        >>> import prequential
        >>> text, one, two = b"a text that repeats itself; " * 90, prequential.preset(1), prequential.preset(2)
        >>> a, b = (prequential.evaluate(text, config=config, baselines=()) for config in (one, two))
        >>> found = prequential.compare([a, b], groups=["-1", "-2"]).differences[0].bits
        >>> found == float(b.curve.bits[-1] - a.curve.bits[-1])
        True
    """
    if not isinstance(runs, Sequence) or isinstance(runs, str | bytes):
        raise wrong_argument("runs", runs, "a list of two runs or more")
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more")
    check_confidence(confidence)
    losses = [_document_losses(each, i) for i, each in enumerate(runs)]
    if not any(losses):
        return compare_runs([_opened(each, i) for i, each in enumerate(runs)], groups, confidence)
    if groups is not None:
        raise ConfigError("records of documents have no groups: leave out groups=")
    if not all(losses):
        name = str(runs[losses.index([])])
        raise CorpusError(f"{name!r} is not a record of a held-out loss, but others are: compare results of one kind")
    return compare_documents([loss for found in losses for loss in found], confidence)


def _document_losses(run: Any, i: int) -> list[DocumentLosses]:
    """What a result of `heldout` found, or a record; nothing for a run."""
    if isinstance(run, str | AnyPath):
        return [read_document_losses(str(run))] if names_a_record(str(run)) else []
    return [document_losses(record, f"result {i + 1}") for record in getattr(run, "records", ())]


def _opened(run: Any, i: int) -> Run:
    """A run, the run at a path, or a result of `evaluate`, which gets a number for its name."""
    if isinstance(run, Run):
        return run
    if isinstance(run, str | AnyPath):
        return read_run(run)
    from prequential.evaluation.evaluation import Evaluation  # imports torch

    if isinstance(run, Evaluation):
        return Run(Path(f"result {i + 1}"), run.to_record(), curve_table(run.curves))
    raise wrong_argument("runs", run, "runs of read_runs, results of evaluate or heldout, or names of run folders")


def compare_runs(opened: Sequence[Run], groups: Sequence[str] | None = None, confidence: float = 0.95) -> Comparison:
    """Every group compared with the group of the first run. Equal arguments give equal results. Raises as `compare`."""
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
    wrong = [f"{run.name} ({len(f)}: {f[0]['message']})" for run in runs if (f := run.record["findings"])]
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
        labels.append(label_of(same[0]))
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
