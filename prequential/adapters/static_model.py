"""A trained causal language model as a baseline that learns nothing: its code length of a corpus under a stated context policy.

    prequential.evaluate("book1", baselines=["xz", StaticModel("models/gpt2", context="document", stride=512)])

Before the first id stands the beginning-of-text id (or the end-of-text id), which is not scored. Special ids are never produced
from the text. Ids are scored `stride` at a time, with as many ids before them as fit into max_length. The corpus is a stream, or
each document begins anew. The bytes of all files that were read count as weights.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import Document
from torch.nn.functional import log_softmax

from prequential.adapters.hub import load_model, quiet
from prequential.errors import ConfigError
from prequential.learners.adapted import AdaptedLearner, schedule_of
from prequential.learners.protocol import MAX_RUN_SYMBOLS
from prequential.learners.subject import Subject, byte_costs
from prequential.printable import printable

PREFIX = "hf:"


class StaticModel:
    """A frozen model, an OnlineModel that learns nothing. name: for tables. weights_bytes: what its weights take."""

    def __init__(
        self,
        name: str,
        *,
        context: Literal["carried", "document"] = "carried",
        stride: int | None = None,
        max_length: int | None = None,
        device: str = "cpu",
    ) -> None:
        """name: hf:FOLDER, hf:NAME or hf:NAME@REVISION. stride: by default max_length, and that is the model's by default.

        Raises MissingDependencyError, and ConfigError for a model or a policy that cannot be used.
        """
        source = name.removeprefix(PREFIX)
        path, _, revision = (source, "", "") if Path(source).exists() else source.partition("@")
        loaded = load_model(path, revision or None)
        self._longest = max_length or _max_length(loaded.model)
        most = min(self._longest, MAX_RUN_SYMBOLS)
        self.run_symbols = stride or most
        if not 1 <= self.run_symbols <= most:
            raise ConfigError(f"stride {stride} lies outside [1, {most}], the model's window")
        if loaded.first_id is None:
            raise ConfigError("the tokenizer has neither a beginning-of-text nor an end-of-text id")
        self._model, self.tokenizer, self._first = loaded.model.to(device), loaded.tokenizer, loaded.first_id
        self.n_symbols = int(self._model.get_input_embeddings().num_embeddings)
        self.name = printable(PREFIX + (Path(path).name if Path(path).exists() else source))
        self._isolates = context == "document"
        policy = "documents apart" if self._isolates else "carried"
        self.policy = f"window {self._longest}, stride {self.run_symbols}, {policy}"
        self.weights_bytes = loaded.n_bytes

    def costs(self, symbols: np.ndarray, documents: Sequence[Document] = ()) -> tuple[np.ndarray, float]:
        """The ideal code length of each byte, (n,) in bits, and the wall time in seconds. documents: for context="document"."""
        start_s, parts = time.perf_counter(), [slice(0, len(symbols))]
        if self._isolates and documents:
            ends = [document.offset + document.n_bytes for document in documents]
            cuts = sorted({0, len(symbols), *(min(end, len(symbols)) for end in ends)})
            parts = [slice(a, b) for a, b in pairwise(cuts)]
        tokenizer = self.tokenizer
        if len(parts) > 1:
            tokenizer = tokenizer.prepared([symbols[part].tobytes() for part in parts])
        subject = Subject(
            description={OTHER: {"n_symbols": self.n_symbols}},
            schedule=schedule_of(self),
            make=lambda: AdaptedLearner(self, self.n_symbols),
            tokenizer=tokenizer,
            is_coded=False,
        )
        found = [costs for part in parts for costs in byte_costs(symbols[part], subject)]
        return np.concatenate(found), time.perf_counter() - start_s

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        """Log-probabilities (n, V). The first id is seen as long as it is within the window."""
        first = [] if len(context) + len(symbols) > self._longest else [self._first]
        known = np.concatenate((first, context[-self._longest :], symbols[:-1]))[-self._longest :]
        with torch.no_grad(), quiet():
            logits = self._model(torch.from_numpy(known[None].astype(np.int64)).to(self._model.device)).logits
        return log_softmax(logits[0, -len(symbols) :].double(), -1)

    def update(self, symbols: np.ndarray) -> None:
        """It learns nothing."""


def _max_length(model: Any) -> int:
    for name in ("max_position_embeddings", "n_positions", "n_ctx"):
        if isinstance(found := getattr(model.config, name, None), int):
            return found
    raise ConfigError("the model's configuration does not say how long its window is: give max_length")
