"""Runs of a plan spread over the processes that torchrun started: each takes the next run that none has taken yet.

    torchrun --nproc-per-node 2 -m prequential sweep CORPUS --runs FOLDER ...

Every process walks the whole plan in its order. They agree through torchrun's key-value store alone; the runs themselves
pass through the folder, which all must see.
"""

import os
import threading
import time
from collections.abc import Iterable
from itertools import count

import torch.distributed as dist

from prequential.exact.pool import available_threads
from prequential.online.workers.team import launched, meet

POLL_S = 0.2
BEAT_S = 5.0
LOST_S = 60.0  # a process that has not shown itself for so long has ended or lost its network


class Spread:
    """One of several processes that make runs of one plan. first: whether it is the one that speaks for all."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self.first = rank == 0
        self._left = threading.Event()
        if not self.first:
            threading.Thread(target=self._beat, daemon=True).start()

    @staticmethod
    def launched() -> "Spread | None":
        """This process's part, where torchrun started several; None of a process alone."""
        return Spread(*meet()) if launched() else None

    @property
    def n_threads(self) -> int:
        """This process's part of its machine's processors."""
        return available_threads(int(os.environ["LOCAL_WORLD_SIZE"]))

    def claim(self, key: str) -> bool:
        """Whether the run is this process's: it is the first to ask."""
        taken: int = self._store.add(f"claim {key}", 1)
        if taken == 1:
            self._store.set(f"by {key}", str(self._rank))
        return taken == 1

    def fail(self, key: str, reason: str) -> None:
        """What became of a run that this process had claimed."""
        self._store.set(f"failure {key}", reason)

    def leave(self) -> None:
        """After the last run that this process could claim."""
        self._left.set()
        self._store.set(f"left {self._rank}", "")

    def failures(self, keys: Iterable[str]) -> dict[str, str]:
        """Why runs of other processes failed, by key, once all have left or are lost. The first process calls it, at the end."""
        lost = {rank for rank in range(1, self._size) if not self._leaves(rank)}
        found = {}
        for key in keys:
            if reason := self._said(f"failure {key}"):
                found[key] = reason
            elif (taker := self._said(f"by {key}")) and int(taker) in lost:
                found[key] = f"worker {taker}, which had taken it, has ended or does not answer"
        return found

    def _leaves(self, rank: int) -> bool:
        """Waits until the process has left, True, or has not shown itself for LOST_S."""
        beat, since = None, time.monotonic()
        while not self._said_at_all(f"left {rank}"):
            if (now := self._said(f"beat {rank}")) != beat:
                beat, since = now, time.monotonic()
            if time.monotonic() - since > LOST_S:
                return False
            time.sleep(POLL_S)
        return True

    def _said_at_all(self, name: str) -> bool:
        found: bool = self._store.check([name])
        return found

    def _said(self, name: str) -> str | None:
        return self._store.get(name).decode() if self._said_at_all(name) else None

    def _beat(self) -> None:
        for n in count():
            try:
                self._store.set(f"beat {self._rank}", str(n))
            except RuntimeError:  # the store has gone, and with it whoever would listen
                return
            if self._left.wait(BEAT_S):
                return
