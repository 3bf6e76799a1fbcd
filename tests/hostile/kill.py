"""Kills runs at random moments with SIGKILL, resumes them, and compares every byte.

    python tests/hostile/kill.py [--count 100] [--seed 0]

A trial forks a process that runs the library on a text, and kills it at a random moment, uniform over the duration of a complete
run. It does so up to three times, and each process resumes the run of the one before. A last process then completes the run.
Checkpoints are written far more often than by default, so that kills occur before,
between and within them. Prints one JSON object. Exits with 1 unless every trial gives the bytes of an uninterrupted run.
"""

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from prequential_corpora.sources import sample_path
from programs import snapshot

import prequential
from prequential.online import checkpoint

RUNTIME = prequential.Runtime(threads=1)
CONFIG = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=prequential.MixerConfig(contexts=("1", "2", "4", "match"), table_bits=12, match_bits=12),
    schedule=prequential.ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=6, history_bits=15, block_symbols=4096
    ),
)
N_BYTES = 12_000
MAX_KILLS = 3  # of one run


def compress(folder: Path) -> None:
    prequential.compress(folder / "a", folder / "a.pq", config=CONFIG, runtime=RUNTIME, resume=True)


def decompress(folder: Path) -> None:
    prequential.decompress(folder / "complete.pq", folder / "out", runtime=RUNTIME, resume=True)


def started(work: Callable[[Path], None], folder: Path) -> int:
    """Forks a process that does the work, with checkpoints from the start, for up to half of the time. Returns its id."""
    child = os.fork()
    if child:
        return child
    checkpoint.FIRST_AFTER_S, checkpoint.COST, checkpoint.BYTES_PER_S = 0.0, 1.0, float("inf")
    logging.getLogger(checkpoint.__name__).setLevel(
        logging.ERROR
    )  # a run that was killed early says that it starts anew
    status = 1
    try:
        work(folder)
        status = 0
    finally:
        os._exit(status)


def status_of(child: int) -> int:
    """The exit code of the process, 0 or 1; negative if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(work: Callable[[Path], None], folder: Path, run_s: float, draw: random.Random, counts: Counter[str]) -> None:
    """One run with its kills, completed by a last process."""
    for i in range(draw.randint(1, MAX_KILLS)):
        child = started(work, folder)
        time.sleep(draw.uniform(0.0, run_s / (i + 1)))  # the remaining part gets shorter
        os.kill(child, signal.SIGKILL)
        if (status := status_of(child)) >= 0:
            counts["done before the kill"] += 1
            counts["failed"] += status
            return
        counts["kills"] += 1
        counts["kills after a checkpoint"] += any(folder.glob(".*/run.checkpoint"))
    counts["failed"] += status_of(started(work, folder))


def trials(work: Callable[[Path], None], name: str, data: bytes, count: int, draw: random.Random) -> dict[str, int]:
    """Counts over `count` runs in folders with the file `name`. "identical": with the files of an uninterrupted run."""
    counts, expected, run_s = Counter(trials=count), dict[str, bytes | None](), 0.0
    for number in range(-1, count):  # -1: an uninterrupted run
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / name).write_bytes(data)
            if number < 0:
                before = time.monotonic()
                status_of(started(work, folder))
                expected, run_s = snapshot(folder), time.monotonic() - before
            else:
                done_before = counts["done before the kill"]
                killed(work, folder, run_s, draw, counts)
                counts["identical"] += snapshot(folder) == expected
                if counts["done before the kill"] > done_before:  # the machine has become faster since the first run
                    run_s *= 0.8
    return dict(counts)


def run(count: int, seed: int) -> dict[str, dict[str, int]]:
    """The counts of `trials` for each direction."""
    draw, text = random.Random(seed), sample_path("christmas_carol").read_bytes()[:N_BYTES]
    archive = prequential.compress(
        text, config=CONFIG, runtime=RUNTIME
    )  # compiles the kernels and loads all modules once
    assert prequential.decompress(archive, runtime=RUNTIME) == text
    return {
        "compress": trials(compress, "a", text, count, draw),
        "decompress": trials(decompress, "complete.pq", archive, count, draw),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, metavar="N", help="trials of each direction")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args()
    report = run(args.count, args.seed)
    print(json.dumps(report, indent=2))
    return 0 if all(c.get("identical") == args.count and not c.get("failed") for c in report.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
