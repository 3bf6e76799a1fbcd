"""Kills one of two workers at random moments with SIGKILL, lets torchrun's agent restart both, and compares the archives.

    python tests/hostile/kill_workers.py [--count 20] [--seed 0]

A trial starts two workers with the agent of `torchrun --max-restarts`, but as forks of this process, which has loaded all
modules. They run `compress --resume` on a text. A random one is killed at a random moment, uniform over the duration of a
complete run. The agent then ends the other and restarts both. Checkpoints are written far more often than by default. Prints one
JSON object. Exits with 1 unless every trial gives the bytes of one process.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

from kill import CONFIG, N_BYTES, RUNTIME, hurry
from prequential_corpora.bundled import sample_path
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import prequential
from prequential.cli.main import main as program
from prequential.files import checkpoint_path

N_WORKERS = 2
MAX_RESTARTS = 2


def work(folder: Path) -> None:
    """A worker: compresses folder/a."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork inherits the agent's handlers
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    number = folder / "workers" / f"{restart}.{rank}"
    number.with_suffix(".new").write_text(str(os.getpid()))
    number.with_suffix(".new").rename(f"{number}.pid")
    if restart == "1" and rank == "0" and checkpoint_path(folder / "a.pq").exists():
        (folder / "workers" / "resumed").touch()
    hurry()
    code = program(
        [
            "compress",
            f"{folder}/a",
            "-o",
            f"{folder}/a.pq",
            "--config",
            f"{folder}/config",
            "--threads",
            "1",
            "--resume",
        ]
    )
    sys.exit(code)


def launch(folder: Path) -> bool:
    """Two workers compress folder/a and are restarted when one ends. Returns whether they finished."""
    how = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=N_WORKERS, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", max_restarts=MAX_RESTARTS, monitor_interval=0.05, start_method="fork",
    )  # fmt: skip
    try:
        elastic_launch(how, work)(folder)
    except ChildFailedError:
        return False
    return True


def kill_later(folder: Path, rank: int, after_s: float, counts: Counter[str]) -> None:
    """Kills worker `rank` after_s seconds after both have started for the first time."""
    numbers = [folder / "workers" / f"0.{i}.pid" for i in range(N_WORKERS)]
    while not all(number.exists() for number in numbers):
        time.sleep(0.005)
    time.sleep(after_s)
    if not (folder / "a.pq").exists():
        os.kill(int(numbers[rank].read_text()), signal.SIGKILL)
        counts["kills"] += 1
        counts[f"kills of worker {rank}"] += 1


def trial(text: bytes, kill: tuple[int, float] | None, counts: Counter[str]) -> tuple[bytes, float]:
    """The archive and its time in seconds. kill: the worker to kill, and after how many seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workers").mkdir()
        (folder / "a").write_bytes(text)
        (folder / "config").write_text(json.dumps(CONFIG.to_dict()))
        before = time.monotonic()
        killer = threading.Thread(target=kill_later, args=(folder, *kill, counts)) if kill else None
        if killer:
            killer.start()
        counts["failed"] += not launch(folder)
        if killer:
            killer.join()
        counts["resumed from a checkpoint"] += (folder / "workers" / "resumed").exists()
        left = {path.name for path in folder.iterdir()} - {"workers", "a", "config", "a.pq"}
        counts["left other files"] += bool(left)
        archive = folder / "a.pq"
        return archive.read_bytes() if archive.exists() else b"", time.monotonic() - before


def run(count: int, seed: int) -> dict[str, int]:
    """Counts over `count` kills. "identical": archives with the bytes of one process."""
    draw, counts = random.Random(seed), Counter[str]()
    text = sample_path("christmas_carol").read_bytes()[:N_BYTES]
    with tempfile.TemporaryDirectory() as name:  # compiles the kernels and loads all modules once
        path = Path(name, "a")
        path.write_bytes(text)
        prequential.compress(path, path.with_suffix(".pq"), config=CONFIG, runtime=RUNTIME)
        expected = path.with_suffix(".pq").read_bytes()
    archive, run_s = trial(text, None, counts)
    assert archive == expected
    while counts["kills"] < count:
        kills = counts["kills"]
        archive, _ = trial(text, (draw.randrange(N_WORKERS), draw.uniform(0.0, run_s)), counts)
        if counts["kills"] > kills:
            counts["identical"] += archive == expected
        else:  # done before the kill: the machine has become faster since the first run
            run_s *= 0.8
    return dict(counts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, metavar="N", help="kills")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args()
    report = run(args.count, args.seed)
    print(json.dumps(report, indent=2))
    return 0 if report.get("identical") == args.count and not report["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
