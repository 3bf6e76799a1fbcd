"""Several processes, started by torchrun, that share the runs of one plan: each takes the next run that none has claimed.

    torchrun --nproc-per-node 2 -m prequential sweep CORPUS --runs FOLDER ...

Every process goes through the complete plan in order. The processes agree only through torchrun's key-value store. The runs
themselves are in the folder, which all processes must share.
"""

import threading
import time
from collections.abc import Iterable
from itertools import count

import torch.distributed as dist

from prequential.exact.pool import available_threads
from prequential.online.workers.environment import launched, local_workers
from prequential.online.workers.team import meet

POLL_S = 0.2
HEARTBEAT_S = 5.0
LOST_S = 60.0  # without a heartbeat for so long, a process has ended or lost its network


class PlanWorker:
    """One of several processes that share the runs of a plan. is_first: whether it reports the outcomes of all."""

    def __init__(self, store: dist.Store, rank: int, n_workers: int) -> None:
        self._store, self._rank, self._n_workers = store, rank, n_workers
        self.is_first = rank == 0
        self._has_left = threading.Event()
        if not self.is_first:
            threading.Thread(target=self._send_heartbeats, daemon=True).start()

    @staticmethod
    def launched() -> "PlanWorker | None":
        """This process, if torchrun started several; None for a single process."""
        return PlanWorker(*meet()) if launched() else None

    @property
    def n_threads(self) -> int:
        """This process's share of the processors of its machine."""
        return available_threads(local_workers())

    def claim(self, key: str) -> bool:
        """Whether this process is the first to claim the run, and therefore makes it."""
        n_claims: int = self._store.add(f"claim {key}", 1)
        if n_claims == 1:
            self._store.set(f"by {key}", str(self._rank))
        return n_claims == 1

    def fail(self, key: str, reason: str) -> None:
        """Reports that a run which this process had claimed has failed."""
        self._store.set(f"failure {key}", reason)

    def leave(self) -> None:
        """Reports that this process claims no more runs."""
        self._has_left.set()
        self._store.set(f"left {self._rank}", "")

    def failures(self, keys: Iterable[str]) -> dict[str, str]:
        """Why runs of other processes failed, by key. Waits until all others have left or are lost. For the first process."""
        lost = {rank for rank in range(1, self._n_workers) if not self._wait_until_left(rank)}
        reasons = {}
        for key in keys:
            if reason := self._value(f"failure {key}"):
                reasons[key] = reason
            elif (rank := self._value(f"by {key}")) and int(rank) in lost:
                reasons[key] = f"worker {rank}, which had claimed it, has ended or does not answer"
        return reasons

    def _wait_until_left(self, rank: int) -> bool:
        """Whether the process left. False if it sent no heartbeat for LOST_S."""
        heartbeat, since = None, time.monotonic()
        while not self._is_set(f"left {rank}"):
            if (newest := self._value(f"beat {rank}")) != heartbeat:
                heartbeat, since = newest, time.monotonic()
            if time.monotonic() - since > LOST_S:
                return False
            time.sleep(POLL_S)
        return True

    def _is_set(self, name: str) -> bool:
        is_set: bool = self._store.check([name])
        return is_set

    def _value(self, name: str) -> str | None:
        return self._store.get(name).decode() if self._is_set(name) else None

    def _send_heartbeats(self) -> None:
        for n in count():
            try:
                self._store.set(f"beat {self._rank}", str(n))
            except RuntimeError:  # the store has ended, and with it the first process
                return
            if self._has_left.wait(HEARTBEAT_S):
                return
