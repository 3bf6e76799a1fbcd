"""The context table of a GPT on a device. Its bits are those of a ContextTable on the host.

No shape depends on the values, so that a step can be captured as a graph (device.py).
"""

from copy import copy

import torch

from prequential.exact.backend import Primitives
from prequential.model.gpt.context_kernels import SUM_LIMIT
from prequential.model.gpt.context_table import MAX_LEVEL, TENSORS, ContextGradient, ContextTable, StagedStep

Tensor = torch.Tensor


class DeviceContextTable(ContextTable):
    """A copy of a table on a device. One more row and one more place take what a step does not need."""

    def __init__(self, table: ContextTable, device: torch.device, ops: Primitives) -> None:
        """table: on the host, without staged updates. ops: the primitives of the device."""
        self.__dict__.update(table.__dict__)
        self._ops = ops
        self._empty, self.pending = copy(table), []
        for name in TENSORS:
            tensor: Tensor = getattr(table, name)
            setattr(self._empty, name, tensor[:0].clone())
            setattr(self, name, torch.cat((tensor, tensor.new_zeros(1, *tensor.shape[1:]))).to(device))

    def on_host(self) -> ContextTable:
        table = copy(self._empty)
        table.pending = []
        for name in TENSORS:
            setattr(table, name, getattr(self, name)[:-1].cpu())
        return table

    def sums(self, rows: Tensor) -> Tensor:
        return self.rows[rows].sum(1, dtype=torch.int32)

    def _with_memory(self, sums: Tensor, places: Tensor) -> Tensor:
        found = places.clamp_min(0)
        kept = self.levels[found].to(torch.int32) << self.shifts[found, None].to(torch.int32)
        return torch.where(places[:, None] < 0, sums, kept)

    def gradient(self, g: Tensor, rows: Tensor) -> ContextGradient:
        places, spare = rows[:, -1], len(self.levels) - 1
        is_new = places < 0
        rows = torch.where(is_new[:, None], rows[:, :-1], self.n_rows)
        return ContextGradient(torch.where(is_new[:, None], g, 0.0), rows, torch.where(is_new, places, ~spare))

    def stage_update(self, gradient: ContextGradient) -> None:
        touched, places = distinct(gradient.rows, self.n_rows)
        peak = gradient.peaks()
        levels = (gradient.g * (peak.reciprocal() * float(SUM_LIMIT))).round().to(torch.int32)
        sums = levels.new_zeros(len(touched), levels.shape[1])
        for column in places.t():
            sums.index_add_(0, column, levels)
        self.stage_update_from_sums(touched, sums, peak, gradient.rows, gradient.places)

    def _subtract(self, step: StagedStep) -> None:
        self.rows[step.rows] = (self.rows[step.rows] - step.change).clamp(-MAX_LEVEL, MAX_LEVEL).to(torch.int16)

    def state(self) -> dict[str, Tensor]:
        return {name: tensor[:-1] for name, tensor in super().state().items()}


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
