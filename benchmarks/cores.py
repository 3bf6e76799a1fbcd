"""How fast the mixer and the default level are on 1, 2, 4, 8, 16 threads, by turns; the bits are compared.

    python benchmarks/cores.py [FILE] [--levels 1 2 3 4 5] [--threads 1 2 4 8 16] [--bytes 60000] [--turns 2] [--busy 0]

One line of JSON for each measurement. --busy: so many other processes compute meanwhile. --auto: the program chooses how many
threads mix, at most as many as given; else it is exactly as many.
"""

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from prequential_codecs.archive_header import Header
from prequential_corpora.sources import sample_path

import prequential
from prequential.machine.compiled import Array, sharing_kernel
from prequential.machine.facts import machine
from prequential.model.mixer.exchange import BYTE, SUMS, new_board, publish, row_of, wait
from prequential.online import coding
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of


def measured(source: np.ndarray, level: int, threads: int, *, auto: bool) -> dict[str, object]:
    """Compresses the source (n,) uint8. The time is without compiling, and without the first touch of the memory."""
    config = prequential.preset(level)
    learner = Runtime(threads=threads).learner(config)
    most = learner.mixer.threads.most
    if not auto:
        learner.mixer.threads.fixed = most
    for array in learner.mixer.arrays[:-1]:
        array.reshape(-1).view(np.uint8)[::4096] |= 0
    header = Header(n_bytes=len(source), blake2b=digest_of(source), config=config.to_dict())
    archive, started, bits = io.BytesIO(), time.perf_counter(), 0.0
    for done in coding.compress(source, header, archive, learner):
        bits = done.code_bits
    seconds = time.perf_counter() - started
    return {
        "level": level, "threads": threads, "mixing": most, "auto": auto, "seconds": round(seconds, 3),
        "kilobytes_per_second": round(len(source) / seconds / 1000, 2), "bits_per_byte": round(bits / len(source), 5),
        "archive": hashlib.sha256(archive.getvalue()).hexdigest()[:12],
    }  # fmt: skip


@sharing_kernel
def handover(board: Array, thread: int, n_threads: int, first: int, last: int) -> None:
    """For each number, all other threads wait for the first one's, and it for theirs."""
    for i in range(first, last + 1):
        if thread == 0:
            publish(board, BYTE, i)
            for other in range(1, n_threads):
                wait(board, row_of(other, SUMS), i)
        else:
            wait(board, BYTE, i)
            publish(board, row_of(thread, SUMS), i)


def exchange_ns(n_threads: int = 2, n: int = 1000) -> float:
    """How long n_threads threads take to hand over a number to all and back, in nanoseconds: the least of several trials.

    Near processors take about 100; with 500, two threads mix hardly faster than one.
    """
    taken = []
    with ThreadPoolExecutor(n_threads - 1) as executor:
        for _ in range(9):
            board = new_board(n_threads)
            others = [executor.submit(handover, board, thread, n_threads, 1, n + 1) for thread in range(1, n_threads)]
            handover(board, 0, n_threads, 1, 1)  # all are awake after it
            started = time.perf_counter_ns()
            handover(board, 0, n_threads, 2, n + 1)
            taken.append((time.perf_counter_ns() - started) / n)
            for other in others:
                other.result()
    return min(taken)


def spin() -> None:
    while True:
        pass


def measurements(args: argparse.Namespace) -> Iterator[dict[str, object]]:
    source = np.fromfile(args.file or sample_path("christmas_carol"), np.uint8, args.bytes)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    exchanges = {n: round(exchange_ns(n)) for n in args.threads if 1 < n <= (cores or 1)}
    yield {"machine": machine(), "cores": cores, "exchange_ns": exchanges, "bytes": len(source), "busy": args.busy}
    for level in args.levels:
        for threads in args.threads:
            measured(source[:600], level, threads, auto=False)  # compiles
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(args.busy)]
    for other in others:
        other.start()
    for level in args.levels:
        for _ in range(args.turns):
            for threads in args.threads:
                yield measured(source, level, threads, auto=args.auto)
    for other in others:
        other.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--bytes", type=int, default=60000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--auto", action="store_true")
    found: dict[int, set[object]] = {}
    args = parser.parse_args()
    for line in measurements(args):
        print(json.dumps(line), flush=True)
        if "level" in line:
            found.setdefault(line["level"], set()).add(line["archive"])  # type: ignore[arg-type]
    if any(len(archives) > 1 for archives in found.values()):
        raise SystemExit("archives differ between numbers of threads")


if __name__ == "__main__":
    main()
