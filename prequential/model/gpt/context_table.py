"""Embeddings of contexts: besides the last symbols, each alone, some of them taken together enter the GPT.

A context (the last 2 .. 6 symbols, the word so far, it and the word before) is hashed to a row of one table, which all kinds of
contexts share. A step changes only the rows of its own contexts, so the cost does not depend on the table's size. Its gradient
is divided by the root of the sum of that row's mean squares so far (Adagrad of Duchi et al. 2011, one size for a row): rows that
were met rarely take large steps.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch

from prequential.exact.plain import TINY, peak_of
from prequential.model.config import CONTEXT_REACH, GPT_CONTEXTS, GPTConfig
from prequential.model.gpt.context_kernels import LONGEST, N_KINDS, SUM_LIMIT, context_rows, sum_by_row

Tensor = torch.Tensor

assert len(GPT_CONTEXTS) == N_KINDS and CONTEXT_REACH >= LONGEST


class ContextTable:
    """Rows (2**context_bits, D) float32, zero at first. What `learn` finds is written by `commit`, when nobody reads."""

    def __init__(self, config: GPTConfig, ops: ModuleType) -> None:
        self.kinds = np.array([GPT_CONTEXTS.index(name) for name in config.contexts], np.int64)
        n_rows = 1 << config.context_bits if config.contexts else 0
        self.rows = torch.zeros(n_rows, config.width)
        self.squares = torch.zeros(n_rows)  # of each row: the sum of its gradients' mean squares
        self._step_size, self._ops = config.context_step, ops
        self._pending: list[tuple[Tensor, Tensor]] = []

    def places(self, recent: Tensor) -> Tensor:
        """Rows (N, K) int64, on the host, of the contexts of N places whose last symbols are `recent` (N, C) int64."""
        rows = np.empty((len(recent), len(self.kinds)), np.int64)
        if rows.size:
            context_rows(recent.cpu().contiguous().numpy(), self.kinds, len(self.rows), rows)
        return torch.from_numpy(rows)

    def add_to(self, h: Tensor, recent: Tensor) -> Tensor:
        """h (N, D) plus the rows of each place's contexts, one after the other."""
        for column in self.places(recent).t():
            h = h + self.rows[column].to(h.device)
        return h

    def learn(self, gradient: "ContextGradient") -> None:
        """A step of the rows that the gradient touches, to be written by `commit`."""
        peak, touched = gradient.peaks(), gradient.places.unique()
        self.learn_from(touched, gradient.sums(touched, peak), peak)

    def learn_from(self, touched: Tensor, sums: Tensor, peak: Tensor) -> None:
        """The same from a gradient's sums (U, D) int32 at the rows `touched` (U,) and their peak (1,)."""
        ops, g = self._ops, sums.float() * (peak * (1.0 / SUM_LIMIT))
        levels, scale = ops.quantise_rows(g)
        mean_square = ops.row_squares(levels) * (scale * scale) * (1.0 / g.shape[1])
        mean_square[mean_square < TINY] = 0.0  # denormals are flushed on some machines
        squares = self.squares[touched] + mean_square
        factor = (ops.sqrt(squares) + 1e-8).reciprocal() * self._step_size
        self.squares[touched] = squares  # read by steps alone
        self._pending.append((touched, g * factor[:, None]))

    def commit(self) -> None:
        """Writes what was learned."""
        self._write(self.rows)
        self._pending.clear()

    def committed(self) -> Tensor:
        """A copy of the rows as `commit` will leave them."""
        rows = self.rows.clone()
        self._write(rows)
        return rows

    def _write(self, rows: Tensor) -> None:
        for touched, change in self._pending:
            rows[touched] -= change

    def state(self) -> dict[str, Tensor]:
        """By name; empty without contexts. What waits for `commit` is not in it."""
        return {"contexts": self.rows, "contexts.squares": self.squares} if len(self.kinds) else {}


@dataclass(frozen=True)
class ContextGradient:
    """The gradient at a ContextTable, of the places at hand; of places that are held apart, `sums` at the same rows add up.

    g (N, D) float32: that of the residual stream's first values. places (N, K) int64: the rows they are made of.
    """

    g: Tensor
    places: Tensor

    def peaks(self) -> Tensor:
        """The largest magnitude of g, at least TINY: (1,) float32."""
        return peak_of(self.g)

    def sums(self, touched: Tensor, peak: Tensor) -> Tensor:
        """(U, D) int32 at the rows touched (U,) int64, ascending, all of `places` among them, for a peak that may be larger."""
        sums = torch.zeros(len(touched), self.g.shape[1], dtype=torch.int32)
        index = torch.searchsorted(touched, self.places)
        sum_by_row(self.g.contiguous().numpy(), np.float32(peak[0]), index.numpy(), sums.numpy())
        return sums
