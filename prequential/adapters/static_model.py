"""A trained causal language model as a baseline that learns nothing: its code length of a corpus under a stated context policy.

    prequential.evaluate("book1", baselines=["xz", StaticModel("models/gpt2", context="document", stride=512)])

Before the first id stands the beginning-of-text id (or the end-of-text id), which is not scored; it stands before every window
of a model that was trained so. Special ids are never produced from the text. Ids are scored `stride` at a time, with as many ids
before them as fit into the window; only their logits are computed. The corpus is a stream, or each document begins anew. The
bytes of all files that were read count as weights.
"""

import hashlib
import inspect
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import Document
from torch.nn.functional import log_softmax

from prequential.adapters.hub import check_memory, load_model, quiet
from prequential.errors import ConfigError, CorpusError
from prequential.files import open_regular, reading
from prequential.learners.adapted import AdaptedLearner, schedule_of
from prequential.learners.distributions import tokenise
from prequential.learners.loading import HUB_PREFIX
from prequential.learners.protocol import MAX_RUN_SYMBOLS
from prequential.learners.spec import LearnerSpec, byte_costs
from prequential.printable import printable

DEFAULT_WINDOW = 2048  # of a model whose configuration names none, such as Bloom and Mamba
WINDOWS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
MAX_LOGITS = 1 << 27  # of one stride, by default: 1 GiB of log-probabilities
ROWS = 64  # whose nats are computed at a time
MATRICES = 3  # that are held at a time: logits, their log-probabilities, and the second prediction of a check


class StaticModel:
    """A frozen model, an OnlineModel that learns nothing. name: for tables. weights_bytes: of its files. memory_bytes: of weights
    and logits. policy: what it sees, in words.
    """

    def __init__(
        self,
        name: str,
        *,
        context: Literal["carried", "document"] = "carried",
        stride: int | None = None,
        device: str = "cpu",
        max_memory_bytes: int | None = None,
    ) -> None:
        """name: hf:FOLDER, hf:NAME or hf:NAME@REVISION. stride: by default the model's window (2,048 if it has none), or less
        where that many logits take more than 1 GiB. max_memory_bytes: a model that takes more, with its logits, is refused.

        Raises MissingDependencyError, and ConfigError for a model or a policy that cannot be used.
        """
        source = name.removeprefix(HUB_PREFIX)
        path, _, revision = (source, "", "") if Path(source).exists() else source.partition("@")
        loaded = load_model(path, revision or None, max_memory_bytes)
        self._model, self.tokenizer = loaded.model, loaded.tokenizer
        self.n_symbols: int = int(self._model.get_input_embeddings().num_embeddings)
        sizes = (getattr(self._model.config, name, None) for name in WINDOWS)
        stated = next((size for size in sizes if isinstance(size, int) and size > 0), None)
        self._longest = stated or DEFAULT_WINDOW
        most = min(self._longest, MAX_RUN_SYMBOLS)
        self.run_symbols: int = stride or max(1, min(most, MAX_LOGITS // self.n_symbols))
        if not 1 <= self.run_symbols <= most:
            raise ConfigError(f"stride {stride} lies outside [1, {most}], the model's window")
        if loaded.first_id is None:
            raise ConfigError("the tokenizer has neither a beginning-of-text nor an end-of-text id")
        self._first, self._begins_windows = loaded.first_id, loaded.begins_windows
        self.name: str = printable(HUB_PREFIX + (Path(path).name if Path(path).exists() else source))
        logits_bytes = MATRICES * self.run_symbols * self.n_symbols * torch.float64.itemsize
        self.memory_bytes: int = loaded.memory_bytes + logits_bytes
        check_memory(self.memory_bytes, max_memory_bytes, f"with the logits of {self.run_symbols:,} ids ")
        self._model = self._model.to(device)
        self._model.config.use_cache = False  # keys and values of a window are not used again
        self._last_only = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._isolates = context == "document"
        window = f"window {self._longest}{'' if stated else ' (the model states none)'}"
        first = f"id {self._first} before {'every' if self._begins_windows else 'the first'} window"
        documents = "documents apart" if self._isolates else "carried"
        self.policy: str = f"{window}, stride {self.run_symbols}, {first}, {documents}"
        self.weights_bytes, self._weights = loaded.n_bytes, loaded.weights

    def weights_digest(self) -> str:
        """BLAKE2b-256 of the safetensors files, one after another in the order of their names, in hexadecimal digits.

        `cat model*.safetensors | b2sum -l 256` prints the same. Raises CorpusError for a file that cannot be read.
        """
        digest = hashlib.blake2b(digest_size=32)
        for path in self._weights:
            with reading(path), open_regular(path) as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()

    def costs(self, symbols: np.ndarray, documents: Sequence[Document] = ()) -> tuple[np.ndarray, float]:
        """The ideal code length of each byte, (n,) in bits, and the wall time in seconds. documents: for context="document"."""
        start_s, parts = time.perf_counter(), [slice(0, len(symbols))]
        if self._isolates and documents:
            ends = [document.offset + document.n_bytes for document in documents]
            cuts = sorted({0, len(symbols), *(min(end, len(symbols)) for end in ends)})
            parts = [slice(a, b) for a, b in pairwise(cuts)]
        of_ids, self._n_learners = {OTHER: {"n_symbols": self.n_symbols}}, 0
        spec = LearnerSpec(
            description=of_ids, schedule=schedule_of(self), make=self._learner, tokenizer=self.tokenizer, is_coded=False
        )  # fmt: skip
        try:
            costs = [each for part in parts for each in byte_costs(symbols[part], spec)]
        except CorpusError:
            self._refuse_document(symbols, documents)
            raise
        return np.concatenate(costs), time.perf_counter() - start_s

    def _refuse_document(self, symbols: np.ndarray, documents: Sequence[Document]) -> None:
        """Raises CorpusError with the name of the first document that the tokenizer cannot carry, if there is one."""
        for document in documents:
            text = symbols[document.offset : document.offset + document.n_bytes].tobytes()
            try:
                tokenise(text, self.tokenizer, self.n_symbols)
            except CorpusError as error:
                raise CorpusError(f"document {printable(document.name)!r} cannot be scored: {error}") from error

    def _learner(self) -> AdaptedLearner:
        """The model at the beginning of a document. The first documents check that it does not look ahead."""
        self._n_learners += 1
        return AdaptedLearner(self, self.n_symbols, secret=self._n_learners, n_known=self._n_learners + 1)

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        """Log-probabilities (n, V). The first id is seen as long as it is within the window, or always (`begins_windows`)."""
        return log_softmax(self._logits(context, symbols).double(), -1)

    def nll(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        """Nats (n,) of the symbols, float64, without a table of 64-bit numbers."""
        logits, nats = self._logits(context, symbols), []
        for part, ids in zip(logits.split(ROWS), torch.from_numpy(symbols).to(logits.device).split(ROWS), strict=True):
            rows = part.double()
            nats.append(rows.logsumexp(1) - rows.gather(1, ids[:, None])[:, 0])
        return torch.cat(nats)

    def _logits(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        is_first = self._begins_windows or len(context) + len(symbols) <= self._longest
        n_before = self._longest - len(symbols) + 1 - is_first
        first = [self._first] if is_first else []
        known = np.concatenate((first, context[max(0, len(context) - n_before) :], symbols[:-1]))
        more = {"logits_to_keep": len(symbols)} if self._last_only else {}
        ids = torch.from_numpy(known[None].astype(np.int64)).to(self._model.device)
        with torch.no_grad(), quiet():
            logits = self._model(ids, **more).logits
        return logits[0, -len(symbols) :]

    def update(self, symbols: np.ndarray) -> None:
        """It learns nothing."""
