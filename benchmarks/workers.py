"""Compares workers with one process that has as many threads: equal archives, and the time of each.

    python benchmarks/workers.py FILE [--pairs 3] [--workers 2] [--machines 1] [--level 5] [--decompress] [--option=--WORD ...]

A pair consists of one process with `--threads N` and N workers with `--threads 1`. Complete programs are timed, including their
start. The order alternates from pair to pair. `--machines M` starts M agents of torchrun that connect over TCP, each with N / M
workers, as on M machines; here they share one machine. The script prints a JSON object: the seconds of each run, their ratios
(one process over workers: above 1, workers are faster) and the median ratio. It fails if two archives or two decoded files
differ.
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

Command = tuple[list[str], list[str]]  # the words of a command before and after those of the task


def main() -> int:
    """Runs the pairs and prints the result. Fails if outputs differ."""
    args = _arguments()
    seconds, n_results = measure(args)
    ratios = [a / b for a, b in zip(seconds["process"], seconds["workers"], strict=True)]
    result = {
        "task": "decompress" if args.decompress else "compress",
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
        "same": n_results == 1,
    }
    print(json.dumps(result))
    return 0 if n_results == 1 else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--pairs", type=int, default=3, metavar="N")
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="number of workers, and of threads of the one process"
    )
    parser.add_argument(
        "--machines", type=int, default=1, metavar="M", help="agents, each with an equal part of the workers"
    )
    parser.add_argument("--level", default="5", metavar="N", help="preset")
    parser.add_argument("--decompress", action="store_true", help="time decompression instead")
    parser.add_argument("--option", action="append", default=[], metavar="=--WORD", help="an option for all runs")
    args = parser.parse_args()
    if args.workers % args.machines:
        parser.error("the number of workers must be a multiple of the number of machines")
    return args


def measure(args: argparse.Namespace) -> tuple[dict[str, list[float]], int]:
    """Seconds of each run, and the number of different outputs."""
    seconds: dict[str, list[float]] = {"process": [], "workers": []}
    results = set()
    with tempfile.TemporaryDirectory() as folder:
        archive, output = Path(folder) / "archive.pq", Path(folder) / "out"
        task = ["compress", str(args.file), f"-{args.level}", *args.option]
        if args.decompress:
            _run(_process(1), [*task, "-o", str(archive)])
            task = ["decompress", str(archive)]
        for pair in range(args.pairs):
            for kind in sorted(seconds, reverse=bool(pair % 2)):
                commands = _process(args.workers) if kind == "process" else _workers(args.workers, args.machines)
                started = time.perf_counter()
                _run(commands, [*task, "-f", "-o", str(output)])
                seconds[kind].append(time.perf_counter() - started)
                results.add(hashlib.sha256(output.read_bytes()).hexdigest())
                print(f"{kind}: {seconds[kind][-1]:.1f} s", file=sys.stderr, flush=True)
    return seconds, len(results)


def _process(n_threads: int) -> list[Command]:
    return [([sys.executable, *PROGRAM], ["--threads", str(n_threads)])]


def _workers(n: int, n_machines: int) -> list[Command]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n // n_machines)]
    if n_machines == 1:
        return [([*torchrun, "--standalone", *PROGRAM], ["--threads", "1"])]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        endpoint = f"localhost:{free.getsockname()[1]}"
    rendezvous = ["--nnodes", str(n_machines), "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "1"]
    return [([*torchrun, *rendezvous, *PROGRAM], ["--threads", "1"])] * n_machines


def _run(commands: Sequence[Command], task: Sequence[str]) -> None:
    """Runs the commands at the same time, each with the words of the task."""
    # The "machines" are processes of this one.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    started = [subprocess.Popen([*before, *task, *after], env=environment) for before, after in commands]
    if any([process.wait() for process in started]):
        raise SystemExit("workers: a program failed")


if __name__ == "__main__":
    sys.exit(main())
