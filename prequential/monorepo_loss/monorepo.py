"""Monorepo loss: the cost of a window of a git repository under a learner that was trained on the tree before the window.

A point is one window, measured like any held-out corpus (heldout_loss/run.py), with its bytes in the order of the commits, by new
files and added lines. docs/MEASURES.md says which bytes it has.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from prequential_corpora.git_window import GitCorpus, GitDocuments, open_documents

from prequential.comparison.clusters import Grouping
from prequential.errors import CorpusError
from prequential.heldout_loss.heldout import Policy
from prequential.heldout_loss.run import LoadLearner, Passes, Stage, Warn, measure_heldout
from prequential.heldout_loss.summary import kinds_of
from prequential.heldout_loss.text import format_tables, verdict
from prequential.heldout_loss.trained import TrainedOn, describe, train_on
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress
from prequential.online.runtime import Runtime
from prequential.online.source import Source, source_of
from prequential.printable import printable
from prequential.records.forms import LOSSES, MonorepoRecord
from prequential.records.schema import record_of


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
    """The record of a point: as of `measure_heldout`, with kinds. setting: of the series, as JSON values."""
    test = named_source(window)
    passes = Passes(frozen=policy, grouping=commits_of(window))
    measured = measure_heldout(load, test, runtime, passes, stage=stage, warn=warn)
    record = measured.to_record({**describe(test), "limit_bytes": None}, runtime)
    for name in LOSSES:
        record[name]["kinds"] = [group.to_record() for group in kinds_of(measured.losses[name])]
    more = {"kind": "monorepo", "setting": dict(setting), "excluded": dict(window.excluded)}
    return record_of(MonorepoRecord, **{**record, **more})


def commits_of(window: GitCorpus) -> Grouping:
    """The commit of each document: what one commit adds belongs together."""
    return Grouping("commit", [commit for commit, _ in window.commits])


def named_source(window: GitCorpus) -> Source:
    """The window with the names new/PATH and added/PATH of its documents."""
    pairs = zip(window.documents, window.kinds, strict=True)
    documents = [document._replace(name=f"{kind}/{document.name}") for document, kind in pairs]
    return replace(source_of(window), documents=documents)


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
    """The commits, and the held-out measurement."""
    window, train = record["test"], record["train"]
    until = f"{window['until'][:12]} ({window['until_date']})"
    lines = [
        f"window: {window['n_commits']} commits after {window['since'][:12]}, up to {until}{reasons(record['excluded'])}",
        f"trained on: the tree at {train['until'][:12]} ({train['until_date']})",
    ]
    head = "\n".join(map(printable, lines))
    return "\n\n".join([head, *format_tables(record), verdict(record)])


def format_empty_window(window: GitCorpus) -> str:
    """One line that says that a window has nothing to score, and why its files were left out."""
    n_commits, since = window.origin["n_commits"], str(window.origin["since"])[:12]
    excluded = reasons(window.excluded)
    return f"{printable(window.name)}: {n_commits} commits after {since} have nothing to score{excluded}; nothing is appended"
