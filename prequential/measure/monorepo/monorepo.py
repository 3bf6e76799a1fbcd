"""Monorepo loss: what a window of a git repository costs a learner that was trained on the tree before it.

A point is one window, measured as any held-out corpus is (measure/heldout/run.py), its bytes in the order of the commits; beside
that, new files and added lines of others apart, and what other compressors make of the window behind the training bytes:
C(train + window) - C(train). docs/MONOREPO.md says which bytes a window has.

Sums are exact: kinds, languages, clean and dirty documents each add up to the bits of all documents.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.registry import BaselineResult, measure_installed
from prequential.corpora.git.window import GitCorpus, GitDocuments, open_documents
from prequential.errors import CorpusError
from prequential.measure.evaluation.baselines import label
from prequential.measure.heldout.heldout import Context
from prequential.measure.heldout.run import Measurement, Stage, measure_heldout
from prequential.measure.heldout.summary import Group, Heldout
from prequential.measure.heldout.trained import TrainedOn, describe, train_on
from prequential.model.learner import Learner
from prequential.online.coding import OnProgress
from prequential.online.runtime import Runtime

SCHEMA = 1
KIND = "monorepo"
LOSSES = ("frozen", "dynamic", "untrained")


class Behind(NamedTuple):
    """What a compressor needs for the window where it has the training bytes before it, in bytes."""

    name: str
    label: str
    compressed_bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """One window, measured: frozen, dynamic and untrained (no None of these), overlap with what was trained on, baselines."""

    window: GitCorpus
    measurement: Measurement
    behind: tuple[Behind, ...]

    def to_record(self, setting: Mapping[str, Any], runtime: Runtime, program_version: str) -> dict[str, Any]:
        """JSON values: those of a Measurement, whose `test` names the commits, and more. setting: what all points share.

        Of every loss: `kinds`, groups of new files and of added lines. `excluded`: files of the window left out, by reason.
        """
        test = {**describe(self.window, self.window.bytes()), "limit_bytes": None}
        record = self.measurement.to_record(test, runtime, program_version)
        for name in LOSSES:
            record[name]["kinds"] = [group.to_record() for group in kinds_of(getattr(self.measurement, name))]
        return {
            **record,
            "schema": SCHEMA,
            "kind": KIND,
            "setting": dict(setting),
            "excluded": dict(self.window.excluded),
            "behind": [size._asdict() for size in self.behind],
        }


def measure_point(
    load: Callable[[], tuple[Learner, TrainedOn]],
    window: GitCorpus,
    runtime: Runtime,
    *,
    context: Context = "carried",
    stride: int | None = None,
    stage: Stage,
    warn: Callable[[str], object],
) -> Point:
    """Scores the window under the learner that `load` gives, with the bytes that it has read; as `measure_heldout` otherwise.

    Documents are called new/PATH and added/PATH. The other compressors hold both corpora in memory.
    """
    symbols = window.bytes()
    pairs = zip(window.documents, window.labels, strict=True)
    documents = [document._replace(name=f"{label.kind}/{document.name}") for document, label in pairs]
    measured = measure_heldout(
        load, symbols, documents, runtime, context=context, stride=stride, stage=stage, warn=warn
    )
    with stage("baselines"):
        behind = measure_behind(measured.trained_on.symbols, symbols, measured.baselines)
    return Point(window=window, measurement=measured, behind=behind)


def kinds_of(heldout: Heldout) -> tuple[Group, ...]:
    """New files and added lines as groups, of documents called as `measure_point` calls them."""
    members: dict[str, list[Group]] = {}
    for group in heldout.each:
        members.setdefault(group.name.partition("/")[0], []).append(group)
    return tuple(
        Group(
            name=kind,
            n_documents=len(groups),
            n_bytes=sum(group.n_bytes for group in groups),
            bits=sum(group.bits for group in groups),
        )
        for kind, groups in sorted(members.items(), reverse=True)
    )


def measure_behind(
    before: NDArray[np.uint8] | None, symbols: NDArray[np.uint8], baselines: Sequence[BaselineResult]
) -> tuple[Behind, ...]:
    """Sizes of symbols (n,) behind `before` (m,), of data that came back. Costs two compressions each, in memory.

    A compressor that does not give back its data is left out.
    """
    if before is None:
        return ()
    names = [result.name for result in baselines]
    parts, _ = measure_installed(before.tobytes(), names)
    wholes, _ = measure_installed(before.tobytes() + symbols.tobytes(), names)
    n_before = {part.name: part.compressed_bytes for part in parts}
    return tuple(
        Behind(whole.name, label(whole), whole.compressed_bytes - n_before[whole.name])
        for whole in wholes
        if whole.name in n_before
    )


def train_on_tree(
    documents: GitDocuments, limit_bytes: int | None, learner: Callable[[], Learner], on_progress: OnProgress
) -> tuple[Learner, TrainedOn]:
    """The learner, once it has read the files of `read_tree`, or the first limit_bytes of them, in the order of their paths.

    Raises CorpusError where the rules keep nothing of the tree.
    """
    with open_tree(documents) as corpus:
        return train_on(corpus, limit_bytes, learner(), on_progress)


def open_tree(documents: GitDocuments) -> GitCorpus:
    """The files of `read_tree` as a corpus to learn from. Raises CorpusError where the rules keep nothing of the tree."""
    corpus = open_documents(documents)
    if not any(document.n_bytes for document in corpus.documents):
        corpus.close()
        at = str(corpus.origin["until"])[:12]
        raise CorpusError(f"nothing to learn from in the tree of {corpus.name!r} at {at}{reasons(corpus.excluded)}")
    return corpus


def reasons(excluded: Mapping[str, int]) -> str:
    """How many files were left out and why, to follow a statement: `; left out: 3 binary, 1 lock`."""
    counts = ", ".join(f"{n} {reason}" for reason, n in sorted(excluded.items(), key=lambda pair: -pair[1]))
    return f"; left out: {counts}" if counts else ""
