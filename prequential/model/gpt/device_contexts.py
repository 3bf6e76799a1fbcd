"""The context table of a GPT on a device. Its bits are those of a ContextTable on the host.

No shape depends on the values, so that a step can be captured as a graph (captured.py).
"""

from copy import copy

import torch

from prequential.exact.backend import Primitives
from prequential.model.gpt.context_kernels import SUM_LIMIT
from prequential.model.gpt.context_table import MAX_LEVEL, ContextGradient, ContextTable

Tensor = torch.Tensor


class DeviceContextTable(ContextTable):
    """A copy of a table on a device. One more row takes the place of rows that a step does not need."""

    def __init__(self, table: ContextTable, device: torch.device, ops: Primitives) -> None:
        """table: on the host, without staged updates. ops: the primitives of the device."""
        self.__dict__.update(table.__dict__)
        self._ops = ops
        self._empty = copy(table)
        self._empty.rows = self._empty.squares = table.squares[:0].clone()
        self.rows = torch.cat((table.rows, table.rows.new_zeros(1, table.rows.shape[1]))).to(device)
        self.squares = torch.cat((table.squares, table.squares.new_zeros(1))).to(device)
        self.pending = []

    def on_host(self) -> ContextTable:
        table = copy(self._empty)
        table.rows, table.squares = (x[: self.n_rows].cpu() for x in (self.rows, self.squares))
        table.pending = []
        return table

    def add_to(self, h: Tensor, rows: Tensor) -> Tensor:
        return h + self.scaled(self.rows[rows].sum(1, dtype=torch.int32))

    def stage_update(self, gradient: ContextGradient) -> None:
        touched, places = distinct(gradient.rows, self.n_rows)
        peak = gradient.peaks()
        levels = (gradient.g * (peak.reciprocal() * float(SUM_LIMIT))).round().to(torch.int32)
        sums = levels.new_zeros(len(touched), levels.shape[1])
        for column in places.t():
            sums.index_add_(0, column, levels)
        self.stage_update_from_sums(touched, sums, peak)

    def _write(self, rows: Tensor) -> None:
        for touched, change in self.pending:
            rows[touched] = (rows[touched] - change).clamp(-MAX_LEVEL, MAX_LEVEL).to(torch.int16)

    def state(self) -> dict[str, Tensor]:
        return {name: tensor[: self.n_rows] for name, tensor in super().state().items()}


def distinct(rows: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """The distinct rows among `rows` (N, K), ascending, (N * K,), and the place of each of `rows` in them, (N, K).

    n_rows fills the end, so that the shape does not depend on the values.
    """
    ordered, order = rows.flatten().sort()
    is_new = torch.cat((ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(torch.int64)))
    number = is_new.cumsum(0)
    places = torch.empty_like(number).scatter_(0, order, number)
    found = torch.full_like(ordered, n_rows).scatter_(0, number, ordered)  # equal rows write the same value
    return found, places.view_as(rows)
