"""Kills compressions and decompressions at random moments with SIGKILL, lets them go on, and compares every byte.

    python tests/hostile/kill.py [--count 100] [--seed 0]

A trial forks a process that runs the library on a text, kills it at a moment drawn uniformly from the length of a whole run, and
does so again, up to three times, always going on from what the last one left. Then a last process ends the run undisturbed.
Checkpoints are written far more often than by default, so that kills fall before, between and within them. Prints one
JSON object; exits 1 unless every trial ended in the bytes of a run that nobody disturbed.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import prequential
from prequential.corpora.bundled import sample_path
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


def hurry() -> None:
    """Checkpoints from the first moment on, for up to half of the time."""
    checkpoint.FIRST_AFTER_S, checkpoint.COST, checkpoint.BYTES_PER_S = 0.0, 1.0, float("inf")


def compress(folder: Path) -> None:
    prequential.compress(folder / "a", folder / "a.pq", config=CONFIG, runtime=RUNTIME, resume=True)


def decompress(folder: Path) -> None:
    prequential.decompress(folder / "whole.pq", folder / "out", runtime=RUNTIME, resume=True)


def start(work: Callable[[Path], None], folder: Path) -> int:
    """A process that does the work; its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        hurry()
        work(folder)
        status = 0
    finally:
        os._exit(status)


def status_of(child: int) -> int | None:
    """0 or 1 if the process ended by itself, None if it was killed."""
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def trial(
    work: Callable[[Path], None], folder: Path, whole_s: float, draw: random.Random, counts: Counter[str]
) -> None:
    """One run with its kills, the last process undisturbed."""
    for i in range(draw.randint(1, MAX_KILLS)):
        child = start(work, folder)
        time.sleep(draw.uniform(0.0, whole_s / (i + 1)))  # what is left gets shorter
        os.kill(child, signal.SIGKILL)
        if (status := status_of(child)) is not None:
            counts["done before the kill"] += 1
            counts["failed"] += status
            return
        counts["kills"] += 1
        counts["kills behind a checkpoint"] += any(folder.glob("*.checkpoint"))
    counts["failed"] += status_of(start(work, folder)) or 0


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in the folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def trials(work: Callable[[Path], None], given: dict[str, bytes], count: int, draw: random.Random) -> dict[str, int]:
    """What came of `count` runs in folders with the given files; "identical": they end with the files of an undisturbed run."""
    counts: Counter[str] = Counter(trials=count)
    expected, whole_s = {}, 0.0
    for number in range(-1, count):  # before the first, a run that nobody disturbs
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, data in given.items():
                (folder / file).write_bytes(data)
            if number < 0:
                before = time.monotonic()
                status_of(start(work, folder))
                expected, whole_s = contents(folder), time.monotonic() - before
            else:
                done_before = counts["done before the kill"]
                trial(work, folder, whole_s, draw, counts)
                counts["identical"] += contents(folder) == expected
                if counts["done before the kill"] > done_before:  # the machine has become faster since that first run
                    whole_s *= 0.8
    return dict(counts)


def run(count: int, seed: int) -> dict[str, dict[str, int]]:
    """Of each direction what `trials` counts."""
    draw = random.Random(seed)
    text = sample_path("christmas_carol").read_bytes()[:N_BYTES]
    whole = prequential.compress(text, config=CONFIG, runtime=RUNTIME)  # compiles and loads everything, once
    assert prequential.decompress(whole, runtime=RUNTIME) == text
    return {
        "compress": trials(compress, {"a": text}, count, draw),
        "decompress": trials(decompress, {"whole.pq": whole}, count, draw),
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
