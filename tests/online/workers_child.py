"""A child process of test_workers: prints one JSON line with the results of several workers.

Torchrun's agent starts the workers as forks of this process, which has loaded all modules. A worker that takes longer than
WORKER_S prints where each of its threads is, and dies; so does this process after ALL_S.
"""

import faulthandler
import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from interruption import InterruptionError, stopping_at
from prequential_corpora.bundled import sample_path
from simulated_cuda import is_on_device, simulated_cuda
from small import DEEPER as MIXED
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import prequential
from prequential.errors import ConfigError, PrequentialError
from prequential.exact import plain
from prequential.files import checkpoint_path
from prequential.model.config import ReplicaConfig
from prequential.online import accelerators, checkpoint
from prequential.online.runtime import Runtime
from prequential.online.workers import shared as workers
from prequential.online.workers.serving import run_by_all

assert MIXED.gpt
APART = replace(MIXED, gpt=replace(MIXED.gpt, contexts=()), replicas=ReplicaConfig(n_replicas=3, sync_every=5))
CONFIGS = {"mixed": MIXED, "pure": replace(MIXED, mixer=None), "mixer": replace(MIXED, gpt=None), "apart": APART}
TEXT = sample_path("christmas_carol").read_bytes()[:600]
ONE = Runtime(threads=1)
WORKER_S, ALL_S = 150, 280  # on an idle machine the slowest needs 5, and all 30


def by_workers(n: int, work: Callable[..., Any], *arguments: Any, entry: Callable[..., Any] | None = None) -> Any:
    """What work(runtime, *arguments) returns with n workers, each of which calls entry (`worker`)."""
    how = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=n, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", local_addr="localhost", max_restarts=0, monitor_interval=0.02, start_method="fork",
    )  # fmt: skip
    return elastic_launch(how, entry or worker)(work, *arguments)[0]


def with_a_device(work: Callable[..., Any], *arguments: Any) -> Any:
    """`worker` with a simulated device; also returns how many steps were shared on it."""
    step, n_steps = workers.SharedDeviceGPT.step, [0]

    def counted(self: Any, *rows: Any) -> None:
        n_steps[0] += is_on_device(self._weights.embedding)
        step(self, *rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "TEST_COLUMNS", 40)
        patch.setattr(workers.SharedDeviceGPT, "step", counted)
        with simulated_cuda(patch):
            return worker(work, *arguments, runtime=Runtime(threads=1, device="cuda")), n_steps[0]


def worker(work: Callable[..., Any], *arguments: Any, runtime: Runtime | None = None) -> Any:
    signal.alarm(WORKER_S)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    results: list[Any] = [None]

    def run(runtime: Runtime) -> int:
        try:
            results[0] = work(runtime, *arguments)
        except PrequentialError as error:
            results[0] = f"{type(error).__name__}: {error}"
        return 0

    run_by_all(runtime or ONE, run)
    return results[0]


def archive(runtime: Runtime, name: str) -> str:
    return hashlib.sha256(prequential.compress(TEXT, config=CONFIGS[name], runtime=runtime)).hexdigest()


def archives(runtime: Runtime) -> dict[str, str]:
    return {name: archive(runtime, name) for name in CONFIGS}


def archive_and_copy(runtime: Runtime, name: str) -> str:
    made = prequential.compress(TEXT, config=CONFIGS[name], runtime=runtime)
    assert prequential.decompress(made, runtime=runtime) == TEXT
    return hashlib.sha256(made).hexdigest()


def with_an_inexact_device(work: Callable[..., Any], *arguments: Any) -> Any:
    """`with_a_device`, where the device of worker 1 rounds differently."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ["RANK"] == "1":
            patch.setattr(plain, "row_squares", lambda q: plain.sqrt(q.float().square().sum(-1)))
        return with_a_device(work, *arguments)[0]


def archive_with_share(runtime: Runtime, share: int) -> str:
    """The archive with a constant first_share."""
    workers.SharedGPT.first_share = property(lambda self: share, lambda self, value: None)  # type: ignore[assignment]
    return archive(runtime, "mixed")


def decodes(runtime: Runtime) -> list[bool]:
    made = [prequential.compress(TEXT, config=CONFIGS[name], runtime=ONE) for name in ("mixed", "pure", "apart")]
    return [prequential.decompress(data, runtime=runtime) == TEXT for data in made]


def interrupted(runtime: Runtime, folder: Path, name: str) -> str:
    # a checkpoint after every segment
    checkpoint.FIRST_AFTER_S, checkpoint.COST, checkpoint.BYTES_PER_S = 0.0, float("inf"), float("inf")
    try:
        prequential.compress(TEXT, folder / "a.pq", config=CONFIGS[name], runtime=runtime, on_progress=stopping_at(12))
    except InterruptionError:
        return str(checkpoint_path(folder / "a.pq").exists())
    return "not interrupted"


def resumed(runtime: Runtime, folder: Path, name: str) -> str:
    prequential.compress(TEXT, folder / "a.pq", config=CONFIGS[name], runtime=runtime, resume=True)
    return hashlib.sha256((folder / "a.pq").read_bytes()).hexdigest()


def interrupted_and_resumed(n: int, m: int, name: str = "mixed") -> str:
    """The digest of a run on n workers that is interrupted and resumed on m workers; 1: without torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        runs, rest = [(interrupted, n), (resumed, m)], (Path(folder), name)
        results = [work(ONE, *rest) if k == 1 else by_workers(k, work, *rest) for work, k in runs]
    return results[1] if results[0] == "True" else results[0]


def in_worker_1(owner: type, name: str, spoil: Callable[[Any], object], config: str) -> str:
    """The outcome where worker 1 spoils its state after calls of a method. The fault stays in this process: call it last."""
    method = getattr(owner, name)

    def faulty(self: Any, *arguments: Any) -> None:
        method(self, *arguments)
        if os.environ["RANK"] == "1":
            spoil(self, *arguments)

    setattr(owner, name, faulty)
    return by_workers(2, archive, config)


def flip_head(self: Any, *_: Any) -> None:
    self._weights.head.weight[0, 0] += 2.0**-10


def diverge(self: Any, i: int, *_: Any) -> None:
    """Replica 1, computed by worker 1, in its third step."""
    self.n_steps = getattr(self, "n_steps", 0) + (i == 1)
    if i == 1 and self.n_steps == 3:
        raise ConfigError("the GPT has diverged")


def flip_head_once(self: Any, *_: Any) -> None:
    """In the third step."""
    self.n_steps = getattr(self, "n_steps", 0) + 1
    if self.n_steps == 3:
        flip_head(self)


def main() -> None:
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(ALL_S)
    # The agent asks for this machine's full name dozens of times. A name service that does not answer takes seconds each time.
    socket.getfqdn = lambda name="": "localhost"
    print(
        json.dumps(
            {
                "alone": archives(ONE),
                "shared": {n: by_workers(n, archives) for n in (2, 4)},
                "shares": {share: by_workers(2, archive_with_share, share) for share in (0, 13)},
                "on devices": by_workers(2, archive_and_copy, "mixed", entry=with_a_device),
                "with an inexact device": by_workers(2, archive, "pure", entry=with_an_inexact_device),
                "decoded": by_workers(3, decodes),
                "resumed apart": {f"{n} {m}": interrupted_and_resumed(n, m, "apart") for n, m in ((2, 1), (1, 3))},
                "resumed": {f"{n} {m}": interrupted_and_resumed(n, m) for n, m in ((2, 3), (2, 1), (1, 2))},
                "with a faulty mean": in_worker_1(workers.SharedReplicas, "average", flip_head, "apart"),
                "with a diverged replica": in_worker_1(workers.SharedReplicas, "update_replica", diverge, "apart"),
                "with a fault": in_worker_1(workers.SharedGPT, "step", flip_head_once, "mixed"),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
