"""Embeddings of contexts: additional inputs of the GPT, each for several of the last symbols together.

Contexts by name: `2` .. `6` are the last 2 .. 6 symbols, `word` is the current word so far, and `word2` is the current word and
the word before it. The others say what followed a context before (recall.py). A context is hashed to a row of one table, which
all contexts share.

Rows hold integers of 16 bits, in units of 2**-12: half the memory of float32, and their sum at a position is exact.

A step changes only the rows of its own contexts, so its cost does not depend on the size of the table. The optimiser is Adagrad
(Duchi et al. 2011) with one step size per row: the gradient is divided by the root of the sum of the row's mean squares so far.
So rows of rare contexts take large steps.

Letters as in weights.py; K contexts, U distinct rows that a step touches.
"""

from dataclasses import dataclass

import numpy as np
import torch

from prequential.exact.backend import Primitives
from prequential.exact.plain import peak_of
from prequential.model.config import GPT_CONTEXTS, GPTConfig
from prequential.model.gpt.context_kernels import SUM_LIMIT, context_rows, subtract_rows, sum_by_row, sum_of_rows

Tensor = torch.Tensor

UNITS = 4096.0  # of a row's numbers in 1
MAX_LEVEL = (1 << 15) - 1


class ContextTable:
    """Rows (2**context_bits, D) int16 in units of 1 / UNITS, initially zero.

    `stage_update` computes a step and `commit` writes it, after the segment has ended and nothing reads the rows.
    """

    def __init__(self, config: GPTConfig, ops: Primitives) -> None:
        self.kinds = np.array([GPT_CONTEXTS.index(name) for name in config.contexts], np.int64)
        self.n_rows = 1 << config.context_bits if config.contexts else 0
        self.rows = torch.zeros(self.n_rows, config.width, dtype=torch.int16)
        self.squares = torch.zeros(self.n_rows)  # for each row, the sum of the mean squares of its gradients
        self._step_size, self._ops = config.context_step, ops
        # Staged updates: rows (U,), and what is subtracted from them (U, D).
        self.pending: list[tuple[Tensor, Tensor]] = []

    def on_host(self) -> "ContextTable":
        """This table, or a copy on the host without staged updates."""
        return self

    def row_indices(self, recent: Tensor) -> Tensor:
        """The row of each context, (N, K) int64, at N positions described by `recent` (N, C) int64, on the host."""
        rows = np.empty((len(recent), len(self.kinds)), np.int64)
        if rows.size:
            context_rows(recent.contiguous().numpy(), self.kinds, self.n_rows, rows)
        return torch.from_numpy(rows)

    def add_to(self, h: Tensor, rows: Tensor) -> Tensor:
        """h (N, D) plus the sum of the rows (N, K) at each position."""
        if not len(self.kinds):
            return h
        sums = torch.empty(h.shape, dtype=torch.int32)
        sum_of_rows(self.rows.numpy(), rows.cpu().contiguous().numpy(), sums.numpy())
        return h + self.scaled(sums.to(h.device))

    def scaled(self, sums: Tensor) -> Tensor:
        """Sums (N, D) int32 of rows as float32. They lie below 2**15 * 2**8, so they are exact."""
        return sums.float() * (1.0 / UNITS)

    def stage_update(self, gradient: "ContextGradient") -> None:
        """Computes a step for the rows that the gradient touches. `commit` writes it."""
        touched, peak = gradient.rows.cpu().unique(), gradient.peaks().cpu()
        self.stage_update_from_sums(touched, gradient.sums(touched, peak), peak)

    def stage_update_from_sums(self, touched: Tensor, sums: Tensor, peak: Tensor) -> None:
        """The same from the sums (U, D) int32 of a gradient at the rows `touched` (U,), and its peak (1,)."""
        squares, change = self._ops.adagrad_change(
            sums, peak * (1.0 / SUM_LIMIT), self.squares[touched], self._step_size, UNITS, 2.0 * MAX_LEVEL
        )
        self.squares[touched] = squares  # only steps read the squares
        self.pending.append((touched, change))

    def commit(self) -> None:
        """Writes the staged updates."""
        self._write(self.rows)
        self.pending.clear()

    def committed(self) -> Tensor:
        """A copy of the rows with the staged updates."""
        rows = self.rows.clone()
        self._write(rows)
        return rows

    def _write(self, rows: Tensor) -> None:
        for touched, change in self.pending:
            subtract_rows(rows.numpy(), touched.numpy(), change.numpy(), MAX_LEVEL)

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, without staged updates; empty if there are no contexts."""
        return {"contexts": self.rows, "contexts.squares": self.squares} if len(self.kinds) else {}


@dataclass(frozen=True)
class ContextGradient:
    """The gradient of a ContextTable. If several processes share the rows of a step, their `sums` can be added (gradients.py).

    g (N, D) float32: the gradient at the input h. rows (N, K) int64: the table rows that were added to h.
    """

    g: Tensor
    rows: Tensor

    def peaks(self) -> Tensor:
        """The largest magnitude of g, at least TINY: (1,) float32."""
        return peak_of(self.g)

    def sums(self, touched: Tensor, peak: Tensor) -> Tensor:
        """The sums (U, D) int32 at the rows `touched` (U,) int64, which ascend and include all of `rows`. On the host.

        peak (1,): at least that of g.
        """
        sums = torch.zeros(len(touched), self.g.shape[1], dtype=torch.int32)
        places = torch.searchsorted(touched, self.rows.cpu().contiguous())
        sum_by_row(self.g.cpu().contiguous().numpy(), np.float32(peak[0]), places.numpy(), sums.numpy())
        return sums
