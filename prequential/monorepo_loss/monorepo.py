"""Monorepo loss: the cost of a window of a git repository under a learner that was trained on the tree before the window.

A point is one window, measured like any held-out corpus (heldout_loss/run.py), with its bytes in the order of the commits, by new
files and added lines, and beside other compressors: C(train + window) - C(train). docs/MEASURES.md says which bytes it has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.baselines.registry import BaselineResult, measure_installed
from prequential_corpora.git.window import GitCorpus, GitDocuments, open_documents

from prequential.comparison.clusters import Grouping
from prequential.errors import CorpusError
from prequential.evaluation.baselines import label
from prequential.heldout_loss.heldout import Policy
from prequential.heldout_loss.heldout_text import format_tables, verdict
from prequential.heldout_loss.run import LoadLearner, Request, Stage, Warn, measure_heldout
from prequential.heldout_loss.summary import kinds_of
from prequential.heldout_loss.trained import TrainedOn, describe, train_on
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress
from prequential.online.runtime import Runtime
from prequential.online.source import Source, source_of
from prequential.printable import format_table, printable
from prequential.records.forms import LOSSES, MonorepoRecord
from prequential.records.schema import record_of


class ConditionalSize(NamedTuple):
    """The bytes that a compressor needs for the window if the training bytes come before it."""

    name: str
    label: str
    compressed_bytes: int


def measure_point(
    load: LoadLearner,
    window: GitCorpus,
    runtime: Runtime,
    policy: Policy,
    setting: Mapping[str, Any],
    *,
    stage: Stage,
    warn: Warn,
) -> dict[str, Any]:
    """The record of a point: as of `measure_heldout`, with kinds and conditional sizes. setting: of the series, as JSON values.

    The compressors hold both corpora in memory.
    """
    test = named_source(window)
    request = Request(frozen=policy, grouping=commits_of(window))
    measured = measure_heldout(load, test, runtime, request, stage=stage, warn=warn)
    with stage("baselines"):
        sizes = conditional_sizes(measured.trained_on.symbols, test.symbols[:], measured.baselines)
    record = measured.to_record({**describe(test), "limit_bytes": None}, runtime)
    for name in LOSSES:
        record[name]["kinds"] = [group.to_record() for group in kinds_of(measured.losses[name])]
    more = {"kind": "monorepo", "setting": dict(setting), "excluded": dict(window.excluded)}
    return record_of(MonorepoRecord, **{**record, **more, "behind": [size._asdict() for size in sizes]})


def commits_of(window: GitCorpus) -> Grouping:
    """The commit of each document: what one commit adds belongs together."""
    return Grouping("commit", [commit for commit, _ in window.commits])


def named_source(window: GitCorpus) -> Source:
    """The window with the names new/PATH and added/PATH of its documents."""
    pairs = zip(window.documents, window.kinds, strict=True)
    documents = [document._replace(name=f"{kind}/{document.name}") for document, kind in pairs]
    return replace(source_of(window), documents=documents)


def conditional_sizes(
    before: NDArray[np.uint8] | None, symbols: NDArray[np.uint8], baselines: Sequence[BaselineResult]
) -> tuple[ConditionalSize, ...]:
    """The sizes of symbols (n,) after `before` (m,) under each baseline that decodes its output; () if `before` is None."""
    if before is None:
        return ()
    names = [result.name for result in baselines]
    alone, _ = measure_installed(before.tobytes(), names)
    together, _ = measure_installed(before.tobytes() + symbols.tobytes(), names)
    n_before = {result.name: result.compressed_bytes for result in alone}
    return tuple(
        ConditionalSize(result.name, label(result), result.compressed_bytes - n_before[result.name])
        for result in together
        if result.name in n_before
    )


def train_on_tree(
    documents: GitDocuments, limit_bytes: int | None, learner: Callable[[], OnlineLearner], on_progress: OnProgress
) -> tuple[OnlineLearner, TrainedOn]:
    """Trains a new learner on the tree, or on the first limit_bytes of its files. Raises CorpusError as `open_tree` does."""
    with open_tree(documents) as corpus:
        return train_on(source_of(corpus, limit_bytes), learner(), on_progress)


def open_tree(documents: GitDocuments) -> GitCorpus:
    """The files of `read_tree` as a training corpus. Raises CorpusError if the rules keep no file of the tree."""
    corpus = open_documents(documents)
    if not any(document.n_bytes for document in corpus.documents):
        corpus.close()
        at = str(corpus.origin["until"])[:12]
        raise CorpusError(f"nothing to learn from in the tree of {corpus.name!r} at {at}{reasons(corpus.excluded)}")
    return corpus


def reasons(excluded: Mapping[str, int]) -> str:
    """The number of files left out by reason, as the end of a sentence: `; left out: 3 binary, 1 lock`."""
    counts = ", ".join(f"{n} {reason}" for reason, n in sorted(excluded.items(), key=lambda pair: -pair[1]))
    return f"; left out: {counts}" if counts else ""


# ---- text


def format_point(record: dict[str, Any]) -> str:
    """The commits, the held-out measurement, new files and added lines, and other compressors after the training bytes."""
    window, train, setting = record["test"], record["train"], record["setting"]
    model = "one model for the complete series" if setting["fixed"] else "a new model for each point"
    until = f"{window['until'][:12]} ({window['until_date']})"
    lines = [
        f"window: {window['n_commits']} commits after {window['since'][:12]}, up to {until}",
        f"trained on: the tree at {train['until'][:12]} ({train['until_date']}); {model}",
    ]
    head, tables = "\n".join(map(printable, lines)), [_kinds(record), _conditional_sizes(record)]
    return "\n\n".join([head, *format_tables(record), *tables, verdict(record)])


def format_empty_window(window: GitCorpus) -> str:
    """One line that says that a window has nothing to score, and why its files were left out."""
    n_commits, since = window.origin["n_commits"], str(window.origin["since"])[:12]
    excluded = reasons(window.excluded)
    return f"{printable(window.name)}: {n_commits} commits after {since} have nothing to score{excluded}; nothing is appended"


def _kinds(record: dict[str, Any]) -> str:
    rows = [
        [group["name"], f"{group['n_documents']:,}", f"{group['n_bytes']:,}"]
        + [f"{record[loss]['kinds'][i]['bits_per_byte']:.4f}" for loss in LOSSES]
        for i, group in enumerate(record["frozen"]["kinds"])
    ]
    return format_table(("kind", "documents", "bytes", *LOSSES), rows)


def _conditional_sizes(record: dict[str, Any]) -> str:
    n_bytes = record["test"]["n_bytes"]
    rows = [("dynamic, all bytes", record["dynamic"]["total"]["bits"])]
    rows += [(size["label"], 8.0 * size["compressed_bytes"]) for size in record["behind"]]
    cells = [[name, f"{bits:,.0f}", f"{bits / n_bytes:.4f}"] for name, bits in rows]
    return format_table(("after the training bytes", "bits", "bits/byte"), cells)
