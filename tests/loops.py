"""A training run over rows of bytes, for tests of the recorder."""

from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

import prequential

V, COLUMNS = 256, 24


class Bigrams(torch.nn.Module):
    """Predicts the next byte from the last one. reach: bytes of the future that it sees."""

    def __init__(self, reach: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.table, self.reach = torch.nn.Embedding(V, V), reach
        self.dropout = torch.nn.Dropout(dropout)
        torch.nn.init.zeros_(self.table.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.table(torch.roll(x, -self.reach, 1)))


class Loop:
    """A training run over rows of bytes."""

    def __init__(
        self, folder: Path, *, model: torch.nn.Module | None = None, seen: object = None, **options: object
    ) -> None:
        self.model = model or Bigrams()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        options = {
            "units": "bytes",
            "model": self.model if seen is None else seen,
            "optimizer": self.optimizer,
            "strict": True,
        } | options
        self.rec = prequential.Recorder(folder, name="bigrams", **options)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x, y = rows[:, :-1], rows[:, 1:]
        return x, y, self.model(x)

    def learn(self, logits: torch.Tensor, y: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        self.optimizer.step()

    def take(self, x: torch.Tensor, y: torch.Tensor, **scored: object) -> None:
        """A step: it scores and learns the targets y of the inputs x. scored: more that is scored, such as nll instead."""
        logits = self.model(x)
        self.rec.score(**({"targets": y, "inputs": x} | ({} if "nll" in scored else {"logits": logits}) | scored))
        self.learn(logits, y)

    def run(self, batches: list[torch.Tensor]) -> "Loop":
        for rows in batches:
            self.take(rows[:, :-1], rows[:, 1:])
        return self


def batches(n: int, n_rows: int = 4, seed: int = 0) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randint(0, V, (n, n_rows, COLUMNS + 1), generator=draw))


def few_letters(n: int) -> list[torch.Tensor]:
    """Batches that a model of bigrams soon learns something about."""
    return [rows % 4 for rows in batches(n)]
