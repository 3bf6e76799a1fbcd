"""Runs of a plan spread over the processes that torchrun started: each takes the next run that none has taken yet.

    torchrun --nproc-per-node 2 -m prequential sweep CORPUS --runs FOLDER ...

Every process walks the whole plan in its order. They agree through torchrun's key-value store alone; the runs themselves
pass through the folder, which all must see.
"""

import os
import time
from collections.abc import Iterable

import torch.distributed as dist

from prequential.exact.pool import available_threads
from prequential.online.workers import meet

POLL_S = 0.2


class Spread:
    """One of several processes that make runs of one plan. first: whether it is the one that speaks for all."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self.first = rank == 0

    @staticmethod
    def launched() -> "Spread | None":
        """This process's part, where torchrun started several; None of a process alone."""
        return Spread(*meet()) if dist.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1 else None

    @property
    def n_threads(self) -> int:
        """This process's part of its machine's processors."""
        return max(1, available_threads() // int(os.environ["LOCAL_WORLD_SIZE"]))

    def claim(self, key: str) -> bool:
        """Whether the run is this process's: it is the first to ask."""
        taken: int = self._store.add(f"claim {key}", 1)
        return taken == 1

    def fail(self, key: str, reason: str) -> None:
        """What became of a run that this process had claimed."""
        self._store.set(f"failure {key}", reason)

    def leave(self) -> None:
        """After the last run that this process could claim."""
        self._store.set(f"left {self._rank}", "")

    def failures(self, keys: Iterable[str]) -> dict[str, str]:
        """Why runs of other processes failed, by key, once all have left. The first process calls it, the last of all."""
        while not self._store.check([f"left {rank}" for rank in range(1, self._size)]):
            time.sleep(POLL_S)
        names = {key: f"failure {key}" for key in keys}
        return {key: self._store.get(name).decode() for key, name in names.items() if self._store.check([name])}
