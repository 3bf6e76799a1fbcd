"""Models that are scored document by document and learn nothing: static models, and scores that a cluster computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import unicode_name

from prequential.errors import ConfigError
from prequential.files import PathLike
from prequential.heldout_loss.documents import DocumentSet, read_scores
from prequential.heldout_loss.heldout import Context, check_context
from prequential.heldout_loss.order_test import MIN_ORDERS, order_test
from prequential.heldout_loss.run import heldout_record
from prequential.heldout_loss.summary import summarise_documents
from prequential.online.coding import OnProgress, Progress
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.printable import printable
from prequential.records import NOT_CODED, SCORES_REPORTED, environment

BATCH_BYTES = 1 << 18  # of documents that are scored between two calls of on_progress


@dataclass(frozen=True, kw_only=True)
class Models:
    """Which models are scored, in this order: static models (hf:FOLDER, hf:NAME), then files of scores.

    context: what a model sees before a token: its document (isolated), or also the documents before it (carried). None: isolated;
    with orders: carried. stride: tokens that are scored at a time; the window before them overlaps. orders: how many drawn orders
    are scored, too (order_test.py).
    """

    static: Sequence[str] = ()
    scores: Sequence[PathLike] = ()
    context: Context | None = None
    stride: int | None = None
    orders: int | None = None

    def __post_init__(self) -> None:
        context = self.context or ("carried" if self.orders else "isolated")
        if self.orders is not None and (self.scores or self.orders < MIN_ORDERS or context != "carried"):
            raise ConfigError(f"orders= takes {MIN_ORDERS} or more, and static models with the context carried")
        check_context(context)
        object.__setattr__(self, "context", context)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What each document costs under one model, bits (k,), and the fields of its record that say which model it is."""

    bits: NDArray[np.float64]
    model: dict[str, Any]

    def to_record(self, documents: DocumentSet) -> dict[str, Any]:
        """The record of a held-out measurement, as JSON values."""
        loss = summarise_documents(documents.documents, self.bits.tolist(), documents.grouping, documents.commits)
        return heldout_record(test=documents.test, frozen=loss, **self.model)


def score_static(
    name: str, documents: DocumentSet, models: Models, runtime: Runtime, on_progress: OnProgress
) -> Scored:
    """Scores the documents under a static model. Raises what StaticModel raises."""
    import torch

    from prequential.adapters.static_model import StaticModel

    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError('this machine has no GPU that torch can use: leave out device="cuda"')
    if runtime.threads:
        torch.set_num_threads(runtime.threads)
    carried = models.context == "carried"
    model = StaticModel(name, context="carried" if carried else "document", stride=models.stride, device=runtime.device)
    done, n_passes = Progress(), 1 + (models.orders or 0)

    def scored(batch: DocumentSet) -> NDArray[np.float64]:
        nonlocal done
        bits = model.costs(batch.symbols, batch.documents)[0]
        n_bytes, code_bits = done.n_bytes + len(bits), done.code_bits + float(bits.sum())
        done = Progress(n_bytes=n_bytes, code_bits=code_bits, segment=batch.symbols, segment_bits=bits)
        on_progress(done, n_passes * len(documents.symbols))
        return bits

    begin(on_progress, name)
    starts = np.array([document.offset for document in documents.documents])
    members = np.split(np.arange(len(starts)), np.flatnonzero(np.diff(starts // BATCH_BYTES)) + 1)
    batches = [documents] if carried else (documents.only(each.tolist()) for each in members)
    costs = np.concatenate([scored(batch) for batch in batches])
    canonical_bits, n_orders = fsum(costs.tolist()), models.orders or 0
    orders = order_test(canonical_bits, lambda batch: fsum(scored(batch).tolist()), documents, n_orders)
    learner = {"name": model.name, "arguments": {"context": models.context}, "n_symbols": model.n_symbols}
    about = {
        "train": {"source": "static model", "name": "unknown text"},
        "config": {OTHER: learner | {"run_symbols": model.run_symbols}},
        "learner_digest": model.weights_digest(),
        "coding": NOT_CODED,
        "policy": f"{models.context}: {model.policy}",
        "orders": orders if n_orders else None,
        "environment": {**environment(runtime, None), "device": runtime.device},
    }
    return Scored(bits=np.add.reduceat(costs, starts), model=about)


def read_scored(path: PathLike, documents: DocumentSet, models: Models, runtime: Runtime) -> Scored:
    """What a cluster computed, which is believed. Raises CorpusError unless each document has exactly one score."""
    bits, name = read_scores(path, documents), printable(f"scores of {unicode_name(Path(path).name)}")
    about = {
        "train": {"source": "scores", "name": "unknown text"},
        "config": {OTHER: {"name": name, "arguments": {}}},
        "learner_digest": blake2b(bits.tobytes(), digest_size=32).hexdigest(),
        "coding": SCORES_REPORTED,
        "policy": f"{models.context}: as the file of scores was declared",
        "environment": environment(runtime, None),
    }
    return Scored(bits=bits, model=about)
