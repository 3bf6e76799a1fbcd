"""Comparison of two or more runs over the same bytes: the difference in bits, what it says, and where it arose.

Every difference is of ideal code lengths, B - A with A as the reference: below 0 if B needs fewer bits. For one corpus and one
seed each it is exact. Runs of one configuration that differ in the seed form a group; its curve is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike as AnyPath
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from prequential_codecs.archive_header import OTHER

from prequential.comparison import evidence
from prequential.comparison.clusters import CONFIDENCE, holm, label_of
from prequential.comparison.data_multiple import equal_loss
from prequential.comparison.differences import Comparison, Difference, RunGroup
from prequential.comparison.documents import DocumentComparison, HasRecords, compare_documents, losses_of
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation import summary
from prequential.evaluation.curves import MODEL, Curve, crossing_byte, curve_table, mean_curve
from prequential.evaluation.runs import PathLike, Result, Run, read_run
from prequential.records import IMPORTED, REPORTED

if TYPE_CHECKING:
    from prequential.evaluation.evaluation import Evaluation

DATA_OF = {REPORTED: "rows of a training loop", IMPORTED: "declared data of a log"}
Labels = Sequence[str] | None
MIN_SAMPLES, MAX_UNKNOWN = 8, 0.1  # share of samples; rows that hold two documents without an id between them have some
MAX_UNSCORED = 0.01  # share of the bytes: first tokens of rows, dropped tails


@overload
def compare(runs: Sequence[Run | Evaluation], *, groups: Labels = None) -> Comparison: ...


@overload
def compare(
    runs: Sequence[Run | Evaluation | HasRecords | PathLike], *, groups: Labels = None
) -> Comparison | DocumentComparison: ...


def compare(
    runs: Sequence[Run | Evaluation | HasRecords | PathLike], *, groups: Labels = None
) -> Comparison | DocumentComparison:
    """Each of the runs, or of the groups of runs, compared with the first one: the difference in bits, and what it says.

    runs: two or more over the same bytes: of `read_runs`, results of `evaluate`, or run folders. Or results of `heldout` over the
    same documents, or their records as FILE.jsonl:NUMBER; these are compared document by document. groups: a label for each run;
    runs with equal labels are averaged. By default, those are that differ only in the seed.

    Nothing is written. Exchanging two groups changes only the signs. Raises CorpusError for runs that are damaged or of different
    data, ConfigError for fewer than two.

    Examples:
        >>> import prequential
        >>> text, one, two = b"a text that repeats itself; " * 90, prequential.preset(1), prequential.preset(2)
        >>> a, b = (prequential.evaluate(text, config=config, baselines=()) for config in (one, two))
        >>> bits = prequential.compare([a, b], groups=["-1", "-2"]).differences[0].bits
        >>> bits == float(b.curve.bits[-1] - a.curve.bits[-1])
        True
    """
    if not isinstance(runs, Sequence) or isinstance(runs, str | bytes):
        raise wrong_argument("runs", runs, "a list of two runs or more")
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more")
    losses = [losses_of(each, i) for i, each in enumerate(runs)]
    if not any(losses):
        return compare_runs([_opened(each, i) for i, each in enumerate(runs)], groups)
    if groups is not None:
        raise ConfigError("records of documents have no groups: leave out groups=")
    if not all(losses):
        name = str(runs[losses.index([])])
        raise CorpusError(f"{name!r} is not a record of a held-out loss, but others are: compare results of one kind")
    return compare_documents([each for result in losses for each in result])


def _opened(run: Any, i: int) -> Run:
    """A run, the run at a path, or a result of `evaluate`, which gets a number for its name."""
    if isinstance(run, str | AnyPath):
        return read_run(run)
    if isinstance(run, Result):
        return run.as_run(f"result {i + 1}")
    raise wrong_argument("runs", run, "runs of read_runs, results of evaluate or heldout, or names of run folders")


def compare_runs(opened: Sequence[Run], groups: Labels = None) -> Comparison:
    """Every group compared with the group of the first run. Equal arguments give equal results. Raises as `compare`."""
    opened = of_one_text(opened)
    first = opened[0].record
    for run in opened:
        _check_comparable(opened[0], run)
    labels = group_labels(opened) if groups is None else list(groups)
    if len(labels) != len(opened):
        raise ConfigError(f"{len(labels)} group labels for {len(opened)} runs: give one for each")
    members: dict[str, list[Run]] = {}
    for label, run in zip(labels, opened, strict=True):
        members.setdefault(label, []).append(run)
    if len(members) < 2:
        raise ConfigError(f"the {len(opened)} runs form one group; a comparison needs two: set them with groups=")
    made = tuple(_group(label, runs) for label, runs in members.items())
    differences = _decided([_difference(made, i, first) for i in range(1, len(made))])
    about: dict[str, Any] = {}
    if summary.is_reported(first):
        warnings = list[str]()
        for run in opened:
            seen = [each["message"] for each in run.record["findings"]]
            is_wrong = any(each["kind"] != "seen" for each in run.record["findings"])
            worth = f" ({len(seen)}): MISTAKES of the loop, so its figures are worth nothing" if is_wrong else ""
            warnings += [f"; {run.name}: {seen[0]}{worth}"] if seen else []
        rows = summary.rows_known([run.record for run in opened])
        if rows.startswith((summary.OTHER_ORDER, summary.SAME_TEXT)):
            rows += ": cells hold different rows, so intervals are wide"
        about = {
            "proof": summary.proof(first) + "".join(warnings),
            "rows": rows,
            "sources": _sources(list(members.values())),
        }
    return Comparison(corpus=first["corpus"], groups=made, differences=differences, **about)


def _sources(groups: Sequence[Sequence[Run]]) -> tuple[tuple[str, int, tuple[float, ...]], ...]:
    """Of the sources of rows that all loops named: name, bytes and the mean bits of each group of runs; () if they differ."""
    tables = [[run.record.get("tables", {}).get("groups", {"rows": []})["rows"] for run in runs] for runs in groups]
    sizes = [{row["name"]: row["n_bytes"] for row in rows} for runs in tables for rows in runs]
    if any(each != sizes[0] for each in sizes):
        return ()
    bits = [[{row["name"]: row["bits"][MODEL] for row in rows} for rows in runs] for runs in tables]
    mean = {name: tuple(math.fsum(each[name] for each in runs) / len(runs) for runs in bits) for name in sizes[0]}
    return tuple((name, n_bytes, mean[name]) for name, n_bytes in sizes[0].items())


def _check_comparable(first: Run, run: Run) -> None:
    """Raises CorpusError, which names the difference, if the runs are of different corpora."""
    a, b = first.record["corpus"], run.record["corpus"]
    kinds = [DATA_OF.get(str(each.record.get("coding")), "bytes that were coded") for each in (first, run)]
    why = ""
    if kinds[0] != kinds[1]:
        why = f"they have {kinds[0]} and {kinds[1]}"
    elif (a["n_bytes"], a["blake2b"]) != (b["n_bytes"], b["blake2b"]):
        other = summary.DIFFERENT_ROWS.get(str(run.record.get("coding")), "they are of other bytes")
        why = f"{other} ({a['n_bytes']:,} and {b['n_bytes']:,} bytes)"
        if kinds[0] == DATA_OF[REPORTED]:
            why = f"{why}; {why_no_text((first, run))}"
        elif a.get("kind") == "declared" and a["name"] == b["name"]:
            why = f"{why}: import the longer one with --limit {min(a['n_bytes'], b['n_bytes'])}"
    if why:
        raise CorpusError(f"{str(first.path)!r} and {str(run.path)!r} are not comparable: {why}")


def group_labels(runs: Sequence[Run]) -> list[str]:
    """A label for each run, A, B, C ...: that of the newest group of its configuration, or a new one if that has its seed."""
    groups: list[tuple[dict[str, Any], set[int]]] = []
    labels = []
    for run in runs:
        config, seed = _without_seed(run), summary.seed_of(run.record["config"])
        i = max((i for i, (other, _) in enumerate(groups) if other == config), default=-1)
        if i < 0 or seed in groups[i][1]:
            i = len(groups)
            groups.append((config, set()))
        groups[i][1].add(seed)
        labels.append(label_of(i))
    return labels


def _without_seed(run: Run) -> dict[str, Any]:
    config = dict(run.record["config"])
    if OTHER in config:
        config[OTHER] = {**config[OTHER], "arguments": _unseeded(config[OTHER]["arguments"])}
    return _unseeded(config)


def _unseeded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "seed" or type(value) is not int}


def _group(label: str, runs: Sequence[Run]) -> RunGroup:
    ordered = sorted(runs, key=lambda run: summary.seed_of(run.record["config"]))
    curves = tuple(run.curves[MODEL] for run in ordered)
    return RunGroup(
        label=label,
        runs=tuple(run.name for run in ordered),
        seeds=tuple(summary.seed_of(run.record["config"]) for run in ordered),
        config=_without_seed(ordered[0]),
        bits=tuple(float(curve.bits[-1]) for curve in curves),
        curves=curves,
        documents=evidence.documents_of([run.record for run in runs]),
        learner=", ".join(dict.fromkeys(map(group_learner, ordered))),
    )


def group_learner(run: Run) -> str:
    """The name of the learner that the runs of a group share: that of seed 0."""
    config = dict(run.record["config"])
    return summary.learner_label({**config, "seed": 0} if "seed" in config else config)


def _difference(groups: Sequence[RunGroup], i: int, record: Mapping[str, Any]) -> Difference:
    """The i-th group less the first one. record: of any run."""
    reference, other = groups[0], groups[i]
    ends = np.unique(np.concatenate([curve.n_bytes for curve in (*reference.curves, *other.curves)]))
    ours, theirs = mean_curve(other.curves, ends), mean_curve(reference.curves, ends)
    before, after = reference.documents, other.documents
    of_seeds = [[*dict(zip(group.seeds, group.bits, strict=True)).values()] for group in groups]  # one run of each
    texts, n_effective = None, evidence.effective_documents(record)
    if before and after and before.n_bytes == after.n_bytes:
        texts = evidence.over_documents(before, after)
        n_effective = math.inf  # of equal weight: few long ones do no harm
    elif n_effective >= evidence.MIN_EFFECTIVE:
        texts = evidence.over_texts(reference.curves, other.curves)
    return Difference(
        reference=reference,
        other=other,
        bits=other.mean_bits - reference.mean_bits,
        parts_percent=evidence.parts_percent(theirs, ours),
        seeds=evidence.over_seeds(of_seeds, [group.has_seeds for group in groups], i),
        texts=texts,
        n_documents=len(before.n_bytes) if before else 0,
        n_effective=n_effective,
        crossing_byte=crossing_byte(ours, theirs),
        n_bytes=np.concatenate(([0], ends)),
        running_bits=np.concatenate(([0.0], ours.bits - theirs.bits)),
        equal_loss=equal_loss(theirs, ours) if summary.is_reported(record) else None,
    )


def _decided(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """The differences with the verdicts of their intervals, by Holm's method over all of them: one answer for each question."""
    made = list(differences)
    for name in ("seeds", "texts"):
        known = [(i, interval) for i, each in enumerate(made) if (interval := getattr(each, name))]
        fallen = holm([interval.p_value for _, interval in known], 1 - CONFIDENCE)
        for (i, interval), decides in zip(known, fallen, strict=True):
            made[i] = replace(made[i], **{name: replace(interval, decides=decides)})
    return tuple(made)


# ---- training runs that scored different rows of one text: under two tokenizers, or packed in two ways
#
# Each run declares its text (`Recorder(text=...)`), and its bits per byte of what it scored stand for all of it.


def text_of(run: Run) -> dict[str, Any]:
    """The declared text of a training run; {} if there is none."""
    return run.record.get("reported", {}).get("text") or {}


def of_one_text(opened: Sequence[Run]) -> Sequence[Run]:
    """Training runs that scored different rows of one declared text, as runs of this text: bits per byte of what they scored."""
    texts = list(map(text_of, opened))
    if len({run.record["corpus"]["blake2b"] for run in opened}) == 1 or len({text.get("digest") for text in texts}) > 1:
        return opened
    if any(map(why_unequal, texts)):
        return opened
    made = []
    for run, text in zip(opened, texts, strict=True):
        scale = max(1.0, text["n_bytes"] / text["n_scored_bytes"])  # a space that a tokenizer adds is paid
        curve = run.curves[MODEL]
        ends = np.rint(curve.n_bytes * scale).astype(np.int64)
        corpus = run.record["corpus"] | {"kind": "text", "n_bytes": text["n_bytes"], "blake2b": text["digest"]}
        curves = curve_table({MODEL: Curve(n_bytes=ends, bits=curve.bits * scale)})
        made.append(Run(run.path, run.record | {"corpus": corpus}, curves))
    return made


def why_no_text(runs: Sequence[Run]) -> str:
    """Why `of_one_text` did not help."""
    reasons = [f"{run.name}: {why}" for run in runs if (why := why_unequal(text_of(run)))]
    return "; ".join(reasons) or "the texts that they declare differ"


def why_unequal(text: dict[str, Any]) -> str:
    """Why the text of a run's record does not stand for what it scored; "" if it does."""
    if not text:
        return "it declares no text (Recorder(text=...))"
    share = 1 - text["n_scored_bytes"] / max(1, text["n_bytes"])
    if abs(share) > MAX_UNSCORED:
        what = "were never scored (first tokens of rows, dropped tails)" if share > 0 else "too many were scored"
        return f"{abs(share):.1%} of the bytes of its text {what}"
    if text["n_samples"] < MIN_SAMPLES:
        return f"only {text['n_samples']} samples of its scored text were looked up"
    unknown = text["n_unknown"] / text["n_samples"]
    if unknown > MAX_UNKNOWN:
        return f"{unknown:.0%} of the samples of its scored text are not in the declared one"
    return ""
