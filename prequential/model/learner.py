"""The learner: GPT and n-gram connections as one predictor of integer frequencies.

    begin(T) ; { predict(columns) -> frequencies ; observe(columns) }* ; update()

`predict` uses the weights from before the segment and symbols from before each position. The GPT's logits of columns whose
inputs are known may be computed in one go (`read`); the n-gram rows are added, and learn, chunk by chunk.
"""

from types import ModuleType

import torch

from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.config import Config
from prequential.model.gpt import GPT
from prequential.model.ngram import Ngram

Tensor = torch.Tensor


class Learner:
    """Frequencies from before, learning after: see the module's text. B streams, T columns of a segment, V symbols."""

    def __init__(self, config: Config, ops: ModuleType, matmul: Matmul, pool: Pool) -> None:
        self.config, self._ops, self._pool = config, ops, pool
        self.gpt = GPT(config.gpt, config.n_symbols, config.seed, ops, matmul, pool) if config.gpt else None
        self.ngram = Ngram(config.ngram, config.n_symbols, ops, pool) if config.ngram else None

    def set_streams(self, source: list[int]) -> None:
        """From now on there are len(source) streams, stream i continuing the old stream source[i]."""
        self._n_streams = len(source)
        for part in (self.gpt, self.ngram):
            if part:
                part.set_streams(source)

    def begin(self, n_columns: int) -> None:
        """Opens a segment of n_columns columns."""
        shape = (self._n_streams, n_columns, self.config.n_symbols)
        self._logits = torch.zeros(shape)
        self._frequencies = torch.empty(shape, dtype=torch.int32)
        if self.ngram:
            self._index = torch.empty(len(self.ngram.config.contexts), *shape[:2], dtype=torch.int64)
            self._bucket = torch.empty_like(self._index)
        if self.gpt:
            self.gpt.begin(n_columns)

    def read(self, symbols: Tensor, first: int) -> None:
        """The GPT reads `symbols` (B, t) int64, the inputs of columns first .. first + t - 1."""
        if self.gpt:
            self._logits[:, first : first + symbols.shape[1]] = self.gpt.forward(symbols, first)

    def predict(self, symbols: Tensor, first: int) -> Tensor:
        """Frequencies (B, t, V) int32 of what follows `symbols` (B, t) int64, already read at columns first .. first + t - 1."""
        columns = slice(first, first + symbols.shape[1])
        if self.ngram:
            self._index[:, :, columns] = self.ngram.forward(symbols)

        def work(streams: slice) -> None:
            logits = self._logits[streams, columns].flatten(0, 1)  # (N, V)
            if self.ngram:
                logits, bucket = self.ngram.add(logits, self._index[:, streams, columns].flatten(1))
                self._bucket[:, streams, columns] = bucket.view(len(bucket), -1, symbols.shape[1])
            self._frequencies[streams, columns] = self._ops.frequencies(logits).view(
                -1, *self._frequencies[0, columns].shape
            )

        self._pool.map(
            work, [slice(0, self._n_streams)] if symbols.numel() < 64 else self._pool.pieces(self._n_streams)
        )
        return self._frequencies[:, columns]

    def observe(self, symbols: Tensor, first: int) -> None:
        """The n-gram rows learn a finished chunk: `symbols` (B, t) int64 are what stood at columns first .. first + t - 1."""
        if self.ngram:
            columns = slice(first, first + symbols.shape[1])
            self.ngram.update(
                self._index[:, :, columns].flatten(1),
                self._bucket[:, :, columns].flatten(1),
                self._frequencies[:, columns].flatten(0, 1),
                symbols.reshape(-1),
            )

    def update(self, symbols: Tensor) -> None:
        """The GPT learns the finished segment, whose symbols (B, T) int64 were all coded, and the segment closes."""
        if self.gpt:
            gradient = self._ops.loss_gradient(self._frequencies.flatten(0, 1), symbols.reshape(-1))
            self.gpt.update(gradient)

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later frequencies depend on, by name."""
        tensors: dict[str, Tensor] = {}
        for name, part in (("gpt", self.gpt), ("ngram", self.ngram)):
            if part:
                tensors |= {f"{name}.{key}": value for key, value in part.state().items()}
        return tensors

    def digest(self) -> bytes:
        """8 bytes that two learners share if and (but for chance) only if they will predict alike."""
        return digest(self.state())
