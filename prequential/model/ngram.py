"""Direct n-gram connections: hashed rows of logits, one per context, added to the GPT's and trained by the same gradient.

The idea is Mikolov et al.'s RNNME (2011): a maximum-entropy model over n-grams beside the network. Each context source
(the last n symbols, the current word, a skip pattern) hashes to a row of V logits. A gate per source and per log2 of the row's
count scales the row before it is added. Rows step by gradient * (row_step / sqrt(count) + floor); gates by Adam.

Exactness: rows are int32 in units of 2**-16 nat, so updates from many positions add up in any order; gate gradients are int64
dot products. Only rows that were touched are ever read or written: cost does not depend on the size of the tables.

Letters: S sources, B streams, T columns, V symbols, N = B*T.
"""

import math
from types import ModuleType

import torch

from prequential.model.config import NgramConfig

Tensor = torch.Tensor

# lags of the symbols that make up a context, 1 = the last symbol
LAGS: dict[str, tuple[int, ...]] = {str(n): tuple(range(1, n + 1)) for n in range(1, 9)} | {
    "skip2": (2,),
    "skip2-3": (2, 3),
    "skip2-4": (2, 3, 4),
    "skip1,3": (1, 3),
    "skip1,3-4": (1, 3, 4),
}
WORDS = ("word", "word2")  # letters of the current word so far; the same and the previous word
CONTEXT_NAMES = (*LAGS, *WORDS)
HISTORY = max(max(lags) for lags in LAGS.values())

N_BUCKETS = 16  # of log2(count)
ROW_UNIT = 2.0**-16  # nats

# odd 64-bit constants of the hashes (wrapping multiplication), from the fractional part of the golden ratio and of sqrt(2)
_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
_STEP = 0x6A09E667F3BCC909


class Ngram:
    """See the module's text. `history` and the word hashes are carried per stream from segment to segment."""

    def __init__(self, config: NgramConfig, n_symbols: int, ops: ModuleType) -> None:
        self.config, self.n_symbols, self._ops = config, n_symbols, ops
        n_sources, n_rows = len(config.contexts), 1 << config.row_bits
        self.rows = torch.zeros(n_sources * n_rows, n_symbols, dtype=torch.int32)
        self.counts = torch.zeros(n_sources * n_rows, dtype=torch.int32)
        self.gates = torch.full((n_sources, N_BUCKETS), 1.0)
        self._gate_mean = torch.zeros_like(self.gates)
        self._gate_square = torch.zeros_like(self.gates)
        self._history: Tensor | None = None

    def set_streams(self, source: list[int]) -> None:
        """New stream i continues old stream source[i]; the first call starts with an empty past."""
        index = torch.tensor(source, dtype=torch.int64)
        if self._history is None:
            self._history = torch.zeros(len(source), HISTORY, dtype=torch.int64)
            self._words = torch.zeros(len(source), 2, dtype=torch.int64)
        else:
            self._history, self._words = self._history[index], self._words[index]

    def forward(self, symbols: Tensor) -> Tensor:
        """Row numbers (S, B, T) int64 of the contexts that end with each of `symbols` (B, T) int64; advances the history."""
        n_streams, n_columns = symbols.shape
        history = torch.cat((self._history, symbols), 1)
        self._history = history[:, -HISTORY:]
        words = self._word_hashes(symbols)
        hashes = []
        for name in self.config.contexts:
            if name in LAGS:
                h = torch.full((n_streams, n_columns), len(LAGS[name]), dtype=torch.int64)
                for lag in LAGS[name]:
                    h = (h + history[:, HISTORY + 1 - lag : HISTORY + 1 - lag + n_columns] + 1) * _STEP
            else:
                h = words[name]
            hashes.append((h * _SPREAD >> (64 - self.config.row_bits)) & ((1 << self.config.row_bits) - 1))
        return torch.stack(hashes) + (torch.arange(len(hashes)) << self.config.row_bits)[:, None, None]

    def _word_hashes(self, symbols: Tensor) -> dict[str, Tensor]:
        """Hash after each symbol of the letters since the last non-letter, alone and with the previous word: (B, T) each."""
        letter = ((symbols >= 97) & (symbols <= 122)) | ((symbols >= 65) & (symbols <= 90)) | (symbols >= 128)
        folded = torch.where((symbols >= 65) & (symbols <= 90), symbols + 32, symbols)
        word, previous = self._words.unbind(1)
        one, two = torch.empty_like(symbols), torch.empty_like(symbols)
        for t in range(symbols.shape[1]):
            previous = torch.where(letter[:, t] | (word == 0), previous, word)
            word = torch.where(letter[:, t], (word + folded[:, t] + 1) * _STEP, 0)
            one[:, t], two[:, t] = word, (word ^ (previous * 3)) * _STEP + 1
        self._words = torch.stack((word, previous), 1)
        return {"word": one * 5 + symbols * (one == 0), "word2": two + symbols * (one == 0)}

    def add(self, logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """logits (N, V) float32 plus the gated rows of index (S, N): new logits, and the count buckets (S, N) used."""
        bucket = _log2_bucket(self.counts[index])
        for s in range(len(index)):
            gate = self.gates[s][bucket[s]] * ROW_UNIT
            logits = logits + self.rows[index[s]].float() * gate[:, None]
        return logits, bucket

    def update(self, index: Tensor, bucket: Tensor, frequency: Tensor, symbols: Tensor) -> None:
        """Learns from N coded positions: index, bucket (S, N) as in `add`, frequency (N, V) int32, symbols (N,) int64."""
        excess = frequency.long()  # 2**24 * gradient in nats at the logits
        excess[torch.arange(len(symbols)), symbols] -= 1 << 24
        gate_gradient = torch.zeros(self.gates.shape, dtype=torch.int64)
        for s in range(len(index)):
            dot = (self.rows[index[s]] * excess).sum(1) >> 16  # exact; units of 2**-24 nat
            gate_gradient[s].index_add_(0, bucket[s], dot)
        self.counts.index_add_(0, index.reshape(-1), torch.ones(index.numel(), dtype=torch.int32))
        excess_float = excess.float()
        for s in range(len(index)):
            count = self.counts[index[s]].float()
            step = self.config.row_step / self._sqrt(count) + self.config.row_step_floor
            delta = (excess_float * (step * -(2.0**-8))[:, None]).round_().to(torch.int32)
            self.rows.index_add_(0, index[s], delta)
        gradient = gate_gradient.float() * 2.0**-24
        self._ops.adam_(self.gates, gradient, self._gate_mean, self._gate_square, self.config.gate_step, 0.9, 0.99)

    def _sqrt(self, x: Tensor) -> Tensor:
        return x.double().sqrt().float()

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on."""
        assert self._history is not None
        return {
            "rows": self.rows, "counts": self.counts, "gates": self.gates, "gate_mean": self._gate_mean,
            "gate_square": self._gate_square, "history": self._history, "words": self._words,
        }  # fmt: skip


def _log2_bucket(count: Tensor) -> Tensor:
    """0 for 0, else 1 + floor(log2(count)), at most N_BUCKETS - 1: int64, from integer comparisons."""
    thresholds = torch.tensor([1 << k for k in range(N_BUCKETS - 1)], dtype=count.dtype)
    return torch.bucketize(count, thresholds, right=True)
