"""A held-out measurement from end to end: overlap, the frozen and the dynamic loss, and what they are to be compared with."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.registry import BaselineResult, measure_installed
from prequential.corpora.corpus import Document
from prequential.corpora.overlap.overlap import Overlap, measure_overlap
from prequential.measure.evaluation import baselines as baselines_
from prequential.measure.heldout.heldout import Context, dynamic_trace, frozen_trace, policy
from prequential.measure.heldout.summary import Heldout, summarise_heldout
from prequential.measure.heldout.trained import TrainedOn
from prequential.measure.record import environment
from prequential.model.config import Config
from prequential.model.learner import Learner
from prequential.online.coding import OnProgress
from prequential.online.runtime import Runtime

SCHEMA = 1
BASELINES = ("ppmd", "xz")

Stage = Callable[[str], AbstractContextManager[OnProgress]]  # told what begins, gives what is told how far it is


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured of one test corpus; policy: of the frozen loss. None: was not asked for, or cannot be known.

    untrained: the dynamic loss of a learner that has read nothing, of the same configuration: the prequential code length.
    """

    config: Config
    digest: bytes
    trained_on: TrainedOn
    policy: str | None
    frozen: Heldout | None
    dynamic: Heldout | None
    untrained: Heldout
    baselines: tuple[BaselineResult, ...]
    overlap: Overlap | None

    @property
    def saved_bits(self) -> float | None:
        """What training saved: the whole test corpus untrained, less behind the training corpus. Exact; may be negative."""
        return self.untrained.total.bits - self.dynamic.total.bits if self.dynamic else None

    def to_record(self, test: dict[str, Any], runtime: Runtime, program_version: str) -> dict[str, Any]:
        """JSON values, enough to repeat the measurement. test: what is to be said of the test corpus."""
        losses = {"frozen": self.frozen, "dynamic": self.dynamic, "untrained": self.untrained}
        return {
            "schema": SCHEMA,
            "kind": "heldout",
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "train": self.trained_on.to_record(),
            "test": test,
            "config": self.config.to_dict(),
            "learner_digest": self.digest.hex(),
            "policy": self.policy,
            **{name: loss.to_record() if loss else None for name, loss in losses.items()},
            "saved_bits": self.saved_bits,
            "baselines": [baselines_.to_record(result) for result in self.baselines],
            "overlap": self.overlap.to_dict() if self.overlap else None,
            "environment": environment(runtime, program_version, self.config),
        }


def measure_heldout(
    load: Callable[[], tuple[Learner, TrainedOn]],
    symbols: NDArray[np.uint8],
    documents: Sequence[Document],
    runtime: Runtime,
    *,
    context: Context = "carried",
    stride: int | None = None,
    frozen: bool = True,
    dynamic: bool = True,
    overlap: bool = True,
    stage: Stage,
    warn: Callable[[str], object],
) -> Measurement:
    """Everything of symbols (n,) uint8 in these documents under the learner that `load` gives.

    At no time are there two learners. warn: gets the overlap's warning before the work. Overlap is measured where the training
    corpus is at hand. Costs a frozen and two dynamic passes. Raises ConfigError, CorpusError.
    """
    learner, trained_on = load()
    config, digest, seen = learner.config, learner.digest(), None
    if overlap and trained_on.symbols is not None:
        with stage("overlap"):
            seen = measure_overlap(trained_on.symbols, trained_on.documents, symbols, documents)
        if seen.warning:
            warn(seen.warning)
    costs = {}
    if frozen:
        with stage("frozen") as show:
            costs["frozen"] = frozen_trace(learner, symbols, documents, context, stride, show)
    if dynamic:
        with stage("dynamic") as show:
            costs["dynamic"] = dynamic_trace(learner, symbols, show)
    del learner
    with stage("untrained") as show:
        costs["untrained"] = dynamic_trace(runtime.learner(config), symbols, show)
    with stage("baselines"):
        results, _ = measure_installed(symbols.tobytes(), BASELINES)
    losses = {name: summarise_heldout(trace, documents, None, seen) for name, trace in costs.items()}
    return Measurement(
        config=config,
        digest=digest,
        trained_on=trained_on,
        policy=policy(config, context, stride) if frozen else None,
        frozen=losses.get("frozen"),
        dynamic=losses.get("dynamic"),
        untrained=losses["untrained"],
        baselines=tuple(results),
        overlap=seen,
    )
