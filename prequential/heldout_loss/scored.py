"""Models that are scored document by document and learn nothing: static models, and scores that a cluster computed."""

from collections.abc import Callable, Sequence
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import unicode_name

from prequential.errors import ConfigError
from prequential.files import PathLike
from prequential.heldout_loss.documents import HeldoutCorpus, read_scores
from prequential.heldout_loss.heldout import Context, Model
from prequential.heldout_loss.order_test import MIN_ORDERS, order_test
from prequential.heldout_loss.summary import summarise_documents
from prequential.learners.loading import HUB_PREFIX
from prequential.online.coding import OnProgress, Progress
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.printable import printable
from prequential.records import NOT_CODED, SCORES_REPORTED, HeldoutRecord, digest_of, environment, now, record_of

BATCH_BYTES = 1 << 18  # of documents that are scored between two calls of on_progress


def models(
    static: Sequence[str],
    scores: Sequence[PathLike],
    context: Context | None,
    stride: int | None,
    orders: int | None,
    runtime: Runtime,
) -> list[Callable[[HeldoutCorpus, OnProgress], Model]]:
    """Functions that give the static models (hf:FOLDER, hf:NAME), then those of files of scores, on a test corpus.

    context: what a model sees before a token: its document (isolated), or also the documents before it (carried). None: isolated;
    with orders: carried. stride: tokens that are scored at a time; the window before them overlaps. orders: how many drawn orders
    are scored, too (order_test.py). Raises ConfigError for what can be refused before the work.
    """
    context = context or ("carried" if orders else "isolated")
    if orders is not None and (scores or orders < MIN_ORDERS or context != "carried"):
        raise ConfigError(f"orders= takes {MIN_ORDERS} or more, and static models with the context carried")
    for path in (name.removeprefix(HUB_PREFIX) for name in static):
        if path.startswith((".", "/", "~")) and not Path(path).exists():
            raise ConfigError(f"the folder {path!r} does not exist: name that of a model")
    return [
        *(partial(_static_model, name, context, stride, orders or 0, runtime) for name in static),
        *(partial(_model_of_scores, path, context, runtime) for path in scores),
    ]


def _record(texts: HeldoutCorpus, bits: NDArray[np.float64], **model: Any) -> dict[str, Any]:
    """The record of documents that cost so many bits (k,) under a model."""
    costs = bits.tolist()
    loss = summarise_documents(texts.documents, costs, texts.grouping, texts.commits)
    return record_of(HeldoutRecord, time=now(), test=texts.about, frozen=loss, costs=costs, **model)


def _static_model(
    name: str,
    context: Context,
    stride: int | None,
    n_orders: int,
    runtime: Runtime,
    test: HeldoutCorpus,
    on_progress: OnProgress,
) -> Model:
    """Raises what StaticModel raises."""
    import torch

    from prequential.adapters.static_model import StaticModel

    texts = test.texts()
    if n_orders and (test.about.get("kind") not in ("dataset", "shards") or test.about.get("column") is None):
        raise ConfigError("orders= needs rows in the order of their file (shards: or hf:)")
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError('this machine has no GPU that torch can use: leave out device="cuda"')
    if runtime.threads:
        torch.set_num_threads(runtime.threads)
    carried = context == "carried"
    model = StaticModel(name, context="carried" if carried else "document", stride=stride, device=runtime.device)
    learner = {"name": model.name, "arguments": {"context": context}, "n_symbols": model.n_symbols}
    about = {
        "train": {"source": "static model", "name": "unknown text"},
        "config": {OTHER: learner | {"run_symbols": model.run_symbols}},
        "learner_digest": model.weights_digest(),
        "coding": NOT_CODED,
        "policy": f"{context}: {model.policy}",
    }
    done = Progress()

    def scored(batch: HeldoutCorpus) -> NDArray[np.float64]:
        nonlocal done
        bits = model.costs(batch.symbols, batch.documents)[0]
        n_bytes, code_bits = done.n_bytes + len(bits), done.code_bits + float(bits.sum())
        done = Progress(n_bytes=n_bytes, code_bits=code_bits, segment=batch.symbols, segment_bits=bits)
        on_progress(done, (1 + n_orders) * len(texts.symbols))
        return bits

    def measured() -> dict[str, Any]:
        begin(on_progress, name)
        starts = np.array([document.offset for document in texts.documents])
        members = np.split(np.arange(len(starts)), np.flatnonzero(np.diff(starts // BATCH_BYTES)) + 1)
        batches = [texts] if carried else (texts.only(each.tolist()) for each in members)
        costs = np.concatenate([scored(batch) for batch in batches])
        orders = None
        if n_orders:
            orders = order_test(fsum(costs.tolist()), lambda batch: fsum(scored(batch).tolist()), texts, n_orders)
        where = {**environment(runtime, None), "device": runtime.device}
        return _record(texts, np.add.reduceat(costs, starts), **about, orders=orders, environment=where)

    return Model({**about, "orders": n_orders, "device": runtime.device}, measured, texts)


def _model_of_scores(path: PathLike, context: Context, runtime: Runtime, test: HeldoutCorpus, _: OnProgress) -> Model:
    """What a cluster computed, which is believed. Raises CorpusError unless each document has exactly one score."""
    texts = test.texts()
    bits, name = read_scores(path, texts), printable(f"scores of {unicode_name(Path(path).name)}")
    about = {
        "train": {"source": "scores", "name": "unknown text"},
        "config": {OTHER: {"name": name, "arguments": {}}},
        "learner_digest": digest_of(bits.tobytes()),
        "coding": SCORES_REPORTED,
        "policy": f"{context}: as the file of scores was declared",
    }
    return Model(about, lambda: _record(texts, bits, **about, environment=environment(runtime, None)), texts)
