"""Workers beside one process of as many threads: the same archive, and how long each takes, in turns.

    python benchmarks/workers.py FILE [--pairs 3] [--workers 2] [--machines 1] [--level 5] [--decompress] [--option=--WORD ...]

A pair is one process with `--threads N` and then N workers with `--threads 1`, whole programs with their start; the order changes
from pair to pair. `--machines M` starts as many agents of torchrun that meet over TCP, each with N / M workers, as M machines
would; here they share one. Prints a JSON object: seconds of each, their quotients (one process over workers: above 1, workers are
faster) and the median of these. Fails where two archives, or a copy, differ.
"""

import argparse
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAM = ["-m", "prequential"]


def main() -> int:
    """Runs the pairs that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--pairs", type=int, default=3, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="and threads of the one process")
    parser.add_argument("--machines", type=int, default=1, metavar="M", help="agents that share the workers")
    parser.add_argument("--level", default="5", metavar="N", help="the preset")
    parser.add_argument("--decompress", action="store_true", help="time decompression instead")
    parser.add_argument("--option", action="append", default=[], metavar="=--WORD", help="for the program, in both")
    args = parser.parse_args()
    if args.workers % args.machines:
        parser.error("each machine needs as many workers as the others")
    seconds: dict[str, list[float]] = {"process": [], "workers": []}
    results = set()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "archive.pq"
        if args.decompress:
            _run(_process(1), ["compress", str(args.file), f"-{args.level}", "-o", str(made), *args.option])
            task = ["decompress", str(made)]
        else:
            task = ["compress", str(args.file), f"-{args.level}", *args.option]
        for pair in range(args.pairs):
            for who in sorted(seconds, reverse=bool(pair % 2)):
                out = Path(folder) / "out"
                commands = _process(args.workers) if who == "process" else _workers(args.workers, args.machines)
                started = time.perf_counter()
                _run(commands, [*task, "-f", "-o", str(out)])
                seconds[who].append(time.perf_counter() - started)
                results.add(hashlib.sha256(out.read_bytes()).hexdigest())
                print(f"{who}: {seconds[who][-1]:.1f} s", file=sys.stderr, flush=True)
    ratios = [a / b for a, b in zip(seconds["process"], seconds["workers"], strict=True)]
    same = len(results) == 1
    print(
        json.dumps(
            {
                "task": task[0],
                "file": args.file.name,
                "n_bytes": args.file.stat().st_size,
                "level": args.level,
                "options": args.option,
                "workers": args.workers,
                "machines": args.machines,
                "process_s": seconds["process"],
                "workers_s": seconds["workers"],
                "process_over_workers": ratios,
                "median": statistics.median(ratios),
                "same": same,
            }
        )
    )
    return 0 if same else 1


def _process(n_threads: int) -> list[tuple[list[str], list[str]]]:
    """What to start, before the program's own words and behind them."""
    return [([sys.executable, *PROGRAM], ["--threads", str(n_threads)])]


def _workers(n: int, n_machines: int) -> list[tuple[list[str], list[str]]]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n // n_machines)]
    if n_machines == 1:
        return [([*torchrun, "--standalone", *PROGRAM], ["--threads", "1"])]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    meeting = [
        "--nnodes",
        str(n_machines),
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        f"localhost:{port}",
        "--rdzv-id",
        "1",
    ]
    return [([*torchrun, *meeting, *PROGRAM], ["--threads", "1"])] * n_machines


def _run(commands: Sequence[tuple[list[str], list[str]]], words: Sequence[str]) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen([*before, *words, *behind], env=environment) for before, behind in commands]
    if any([process.wait() for process in started]):
        raise SystemExit("workers: a program failed")


if __name__ == "__main__":
    sys.exit(main())
