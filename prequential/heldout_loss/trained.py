"""Trained learners: of a corpus, or a stored model. Their GPT has also learned from the last segment."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prequential_corpora.corpus import Document, unicode_name

from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.files import PathLike
from prequential.heldout_loss.heldout import Bytes, scored_trace
from prequential.learners.spec import LearnerSpec, own_spec
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner
from prequential.online.model_store import load_model
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, open_source
from prequential.online.training import train


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A learner that has read a corpus. spec: what it is one of. about: the corpus, as JSON values of a record.

    symbols (n,) uint8, documents: the corpus itself, if its bytes are available.
    """

    spec: LearnerSpec
    learner: Learner
    about: dict[str, Any]
    symbols: Bytes | None = None
    documents: Sequence[Document] = ()


def describe(source: Source) -> dict[str, Any]:
    """The description of a source in records. Reads it once for its digest."""
    sizes = {"n_bytes": source.n_bytes, "whole_bytes": source.whole_bytes}
    return {**source.origin, **sizes, "blake2b": source.blake2b.hex()}


def train_on(corpus: CorpusLike, spec: LearnerSpec, limit_bytes: int | None, on_progress: OnProgress) -> Trained:
    """A new learner that has read the corpus. Raises CorpusError for an empty one, and what the learner raises."""
    begin(on_progress, "training")
    with open_source(corpus, limit_bytes) as source:
        if not source.n_bytes:
            raise CorpusError(f"nothing to learn from: the training corpus {source.name!r} is empty")
        learner, symbols = spec.make(), source.symbols[:]
        if spec.config:
            code_bits = train(learner, symbols, on_progress).code_bits
        else:
            code_bits = scored_trace(symbols, spec, learner, on_progress).total_bits(MODEL)
        about = {"source": "corpus", **describe(source), "code_bits": code_bits}
        return Trained(spec=spec, learner=learner, about=about, symbols=symbols, documents=source.documents)


def stored_model(folder: PathLike, runtime: Runtime) -> Trained:
    """The learner of a stored model. Raises what `load_model` raises."""
    stored = load_model(folder, runtime)
    about = {"source": "model", **stored.trained_on, "model": unicode_name(os.fspath(folder))}
    return Trained(spec=own_spec(stored.learner.config, runtime), learner=stored.learner, about=about)
