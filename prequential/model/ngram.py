"""Direct n-gram connections: hashed rows of logits, one per context, added to the GPT's and trained by the same gradient.

The idea is Mikolov et al.'s RNNME (2011): a maximum-entropy model over n-grams beside the network. Each context source
(the last n symbols, the current word, a skip pattern) hashes to a row of V logits. A gate per source and per log2 of the
row's count scales the row before it is added. Rows step by gradient * (row_step / sqrt(count) + floor); gates by Adam.
Only rows that are touched are ever read or written: cost does not depend on the size of the tables.

Letters: S sources, B streams, T columns, V symbols, N = B*T.
"""

from types import ModuleType

import torch

from prequential.exact.plain_ngram import N_BUCKETS, WORD, WORD_PAIR
from prequential.exact.pool import Pool
from prequential.model.config import NgramConfig

Tensor = torch.Tensor

# Lags of the symbols that make up a context, 1 = the last symbol; or letters of the current word so far (case folded), and the
# same with the previous word.
CONTEXTS: dict[str, tuple[int, ...]] = {str(n): tuple(range(1, n + 1)) for n in range(1, 9)} | {
    "skip2": (2,),
    "skip2-3": (2, 3),
    "skip2-4": (2, 3, 4),
    "skip1,3": (1, 3),
    "skip1,3-4": (1, 3, 4),
    "word": (WORD,),
    "word2": (WORD_PAIR,),
}
CONTEXT_NAMES = tuple(CONTEXTS)
HISTORY = max(max(lags) for lags in CONTEXTS.values())
BETA1, BETA2 = 0.9, 0.99  # of the gates' Adam


class Ngram:
    """See the module's text. History and word hashes are carried per stream from segment to segment."""

    def __init__(self, config: NgramConfig, n_symbols: int, ops: ModuleType, pool: Pool) -> None:
        self.config, self._ops, self._pool = config, ops, pool
        n_sources, n_rows = len(config.contexts), len(config.contexts) << config.row_bits
        self._lags = torch.zeros(n_sources, HISTORY, dtype=torch.int64)
        for s, name in enumerate(config.contexts):
            self._lags[s, : len(CONTEXTS[name])] = torch.tensor(CONTEXTS[name])
        self.rows = torch.zeros(n_rows, n_symbols, dtype=torch.int32)
        self.counts = torch.zeros(n_rows, dtype=torch.int32)
        self.gates = torch.ones(n_sources, N_BUCKETS)
        self._gate_mean = torch.zeros_like(self.gates)
        self._gate_square = torch.zeros_like(self.gates)
        self._history: Tensor | None = None

    def set_streams(self, source: list[int]) -> None:
        """New stream i continues old stream source[i]; the first call starts with an empty past."""
        if self._history is None:
            self._history = torch.zeros(len(source), HISTORY, dtype=torch.int64)
            self._words = torch.zeros(len(source), 2, dtype=torch.int64)
        else:
            self._history, self._words = self._history[source], self._words[source]

    def forward(self, symbols: Tensor) -> Tensor:
        """Row numbers (S, B, T) int64 of the contexts that end with each of `symbols` (B, T) int64; advances the past."""
        index, self._history, self._words = self._ops.ngram_contexts(
            symbols, self._history, self._words, self._lags, self.config.row_bits
        )
        return index

    def add(self, logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, V) float32 plus the gated rows of index (S, N): new logits, and the count buckets (S, N) used."""
        return self._ops.ngram_add(logits, self.rows, self.counts, self.gates, index)

    def update(self, index: Tensor, bucket: Tensor, frequency: Tensor, symbols: Tensor) -> None:
        """Learns from N coded positions: index, bucket (S, N) as in `add`, frequency (N, V) int32, symbols (N,) int64."""
        c = self.config
        gradient = torch.empty(self.gates.shape, dtype=torch.int64)

        def work(sources: slice) -> None:  # a source's rows, counts and gates are its own
            gradient[sources] = self._ops.ngram_update(
                self.rows, self.counts, self.gates[sources], index[sources], bucket[sources], frequency, symbols,
                c.row_step, c.row_step_floor,
            )  # fmt: skip

        self._pool.map(work, self._pool.pieces(len(index)))
        nats = gradient.float() * 2.0**-24
        self._ops.adam_(self.gates, nats, self._gate_mean, self._gate_square, c.gate_step, BETA1, BETA2)

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on."""
        assert self._history is not None
        return {
            "rows": self.rows, "counts": self.counts, "gates": self.gates, "gate_mean": self._gate_mean,
            "gate_square": self._gate_square, "history": self._history, "words": self._words,
        }  # fmt: skip
