"""Several GPTs that learn separately and regularly become their mean, for workers with slow connections between them.

After every `sync_every` steps, weights and optimiser state of all become their mean (local SGD: Stich, ICLR 2019). The number of
replicas is part of the configuration, so the bits do not depend on which process holds which replica.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch

from prequential.exact.backend import Backend
from prequential.exact.plain import TINY
from prequential.model.config import GPTConfig, ReplicaConfig
from prequential.model.gpt.gpt import GPT, NOT_LEARNED

Tensor = torch.Tensor


class Replicas(GPT):
    """The first GPT, which reads and learns, and the others, which only learn."""

    def __init__(self, replicas: ReplicaConfig, config: GPTConfig, seed: int, backend: Backend) -> None:
        super().__init__(config, seed, backend)
        self.sync_every: int = replicas.sync_every
        self.others: list[GPT] = [GPT(config, seed, backend) for _ in range(replicas.n_replicas - 1)]

    def update(self, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        """One step of each GPT on its share of the rows; then, after every `sync_every` steps, the mean."""
        for i, rows in enumerate(self.row_shares(len(inputs))):
            self.update_replica(i, inputs[rows], targets[rows], places[rows])
        if self.sync_is_due():
            self.average()

    def row_shares(self, n_rows: int) -> list[slice]:
        """The rows of each GPT. Some may be empty."""
        return split_range(n_rows, [1] * (1 + len(self.others)))

    def update_replica(self, i: int, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        """A step of GPT i. Without rows, the GPT only counts the step."""
        if not len(inputs):
            (self.others[i - 1] if i else self)._next_step_factor()
        elif i:
            self.others[i - 1].update(inputs, targets, places)
        else:
            super().update(inputs, targets, places)

    def sync_is_due(self) -> bool:
        """Whether all GPTs become their mean after the last step."""
        return self._n_updates % self.sync_every == 0

    def average(self) -> None:
        """Sets all GPTs to their mean: partial sums in the order of the GPTs, each rounded, times 1 / n, rounded."""
        first, others = self.learned_state(), [gpt.learned_state() for gpt in self.others]
        for name, tensor in first.items():
            for other in others:
                tensor.add_(other[name])
            tensor.mul_(1.0 / (1 + len(others)))
            tensor[tensor.abs() < TINY] = 0.0  # because some machines flush denormals
            for other in others:
                other[name].copy_(tensor)
        for gpt in (self, *self.others):
            gpt.quantise()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        super().load_state({name: t for name, t in tensors.items() if not name.startswith("replica.")})
        for i, gpt in enumerate(self.others, 1):
            own = {name: tensors[f"replica.{i}.{name}"] for name in gpt.learned_state()}
            rest = {name: t for name, t in gpt.state().items() if name.startswith(NOT_LEARNED)}
            gpt.load_state(rest | own | {"counters": torch.tensor([self._n_updates, 0])})

    def state(self) -> dict[str, Tensor]:
        others = {f"replica.{i}.{n}": t for i, gpt in enumerate(self.others, 1) for n, t in gpt.learned_state().items()}
        return super().state() | others


def split_range(n: int, shares: Sequence[int]) -> list[slice]:
    """range(n) cut into contiguous pieces, in proportion to the shares. Some may be empty."""
    total = sum(shares)
    stops = [(n * done + total // 2) // total for done in accumulate(shares)]
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
