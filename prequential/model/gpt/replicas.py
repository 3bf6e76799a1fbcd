"""Several GPTs that learn apart and become their average now and then: what workers behind slow links can afford to send.

Each step's rows are shared out, a step on each share is taken by its own GPT, and after every `sync_every` steps all of them,
weights and optimiser state, become the mean of all (local SGD: Stich, ICLR 2019). The first one reads. How many there are is part
of the learner, so the bits do not depend on which process holds which.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from prequential.exact.plain import TINY
from prequential.model.config import GPTConfig, ReplicaConfig
from prequential.model.gpt.gpt import GPT, NOT_LEARNED

Tensor = torch.Tensor


class Replicas(GPT):
    """The first of config's GPTs, which reads, with the others, which only learn."""

    def __init__(self, replicas: ReplicaConfig, config: GPTConfig, *arguments: Any) -> None:
        """arguments: a GPT's."""
        super().__init__(config, *arguments)
        self.sync_every = replicas.sync_every
        self.others = [GPT(config, *arguments) for _ in range(replicas.n_replicas - 1)]

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        """One step of each GPT on its share of the rows; as a GPT's."""
        for i, rows in enumerate(self.shares(len(inputs))):
            self.learn(i, inputs[rows], targets[rows])
        if self.is_due():
            self.average()

    def shares(self, n_rows: int) -> list[slice]:
        """The rows of each GPT. Some may have none."""
        return parts(n_rows, [1] * (1 + len(self.others)))

    def learn(self, i: int, inputs: Tensor, targets: Tensor) -> None:
        """A step of the i-th GPT, which without rows only counts it."""
        if not len(inputs):
            (self.others[i - 1] if i else self)._next_factor()
        elif i:
            self.others[i - 1].update(inputs, targets)
        else:
            super().update(inputs, targets)

    def is_due(self) -> bool:
        """Whether the last step was one behind which all become their mean."""
        return self._n_updates % self.sync_every == 0

    def average(self) -> None:
        """All become their mean: sums in the order of the GPTs, each rounded, times 1 / n, rounded."""
        first, others = self.learned_state(), [gpt.learned_state() for gpt in self.others]
        for name, tensor in first.items():
            for other in others:
                tensor.add_(other[name])
            tensor.mul_(1.0 / (1 + len(others)))
            tensor[tensor.abs() < TINY] = 0.0  # denormals are flushed on some machines
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


def parts(n: int, shares: Sequence[int]) -> list[slice]:
    """range(n) cut into contiguous pieces, one for each share and about as large; some may be empty."""
    total = sum(shares)
    stops = [(n * done + total // 2) // total for done in accumulate(shares)]
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
