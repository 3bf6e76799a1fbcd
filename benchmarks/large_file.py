"""Compares the peak memory for a large file with that for a small one: `compress`, `decompress` or `evaluate`.

    python benchmarks/large_file.py TEXT [--command compress] [--preset 1] [--large 1000000000] [--small 10000000]
                                         [--limit 60000000] [--seconds 720] [--seed 0]

The script makes both files from TEXT, a real text, by repeating and perturbing it (see `make`). Equal seeds give equal bytes on
every machine. Each file is processed in a fresh process: the small one completely, the large one up to --limit bytes or
--seconds, whichever comes first. The script prints a JSON line for each and the ratio of their memory. Each process has two
figures:

    peak_resident_bytes    the largest resident set (ru_maxrss). It includes pages of mapped files, which the system can reclaim
    peak_private_bytes     the largest private memory: `Anonymous` of /proc/self/smaps_rollup (Linux), read 4 times a MB
Decompression needs complete archives: give a --large that can be compressed in time. Evaluation runs without baselines.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

BLOCK_BYTES = 1 << 16
CHANGED = 1 / 50  # share of the bytes
SAMPLE_EVERY_BYTES = 1 << 18  # between two readings of the memory


class LimitReached(Exception):  # noqa: N818  # not an error
    """The prefix is coded."""


def make(path: Path, text: bytes, n_bytes: int, seed: int) -> None:
    """Writes n_bytes to `path`: blocks of 64 KiB of `text`, each from a random position, with two in a hundred bytes replaced.

    Block number b has its own generator, numpy's Philox with key (seed, b). Its raw words give the position in `text` (modulo the
    number of positions), then a word for each byte (the byte is replaced if the word is below 2^64 / 50), then for each byte the
    position in `text` of its replacement (modulo the length).
    """
    source = np.frombuffer(text, np.uint8)
    if len(source) < BLOCK_BYTES:
        raise SystemExit(f"large_file: the text has {len(source)} bytes, fewer than a block of {BLOCK_BYTES}")
    with path.open("wb") as file:
        for number in range(-(-n_bytes // BLOCK_BYTES)):
            words = np.random.Philox(key=(seed << 64) | number).random_raw(1 + 2 * BLOCK_BYTES)
            start = int(words[0] % np.uint64(len(source) - BLOCK_BYTES + 1))
            block = source[start : start + BLOCK_BYTES].copy()
            changed = words[1 : 1 + BLOCK_BYTES] < np.uint64(2**64 * CHANGED)
            block[changed] = source[words[1 + BLOCK_BYTES :][changed] % np.uint64(len(source))]
            file.write(block[: n_bytes - number * BLOCK_BYTES].tobytes())


def anonymous_bytes() -> int | None:
    """Private memory of this process in bytes; None if the system does not report it."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:")), None)


def measure(path: str, command: str, preset: int, limit_bytes: int, seconds: float) -> dict[str, Any]:
    """The cost of the command on the file (for decompress: on an archive), in this process and up to the limit."""
    import prequential
    from prequential.machine.facts import peak_memory_bytes

    start_s, next_sample, peak_private, coded_bytes = time.monotonic(), 0, 0, 0
    config = prequential.preset(preset)

    def sample(done: prequential.Progress, n_bytes: int) -> None:
        nonlocal next_sample, peak_private, coded_bytes
        coded_bytes = done.n_bytes
        if done.n_bytes >= min(next_sample, n_bytes):
            next_sample = done.n_bytes + SAMPLE_EVERY_BYTES
            peak_private = max(peak_private, anonymous_bytes() or 0)
            if done.n_bytes >= limit_bytes < n_bytes or time.monotonic() - start_s > seconds:
                raise LimitReached

    with tempfile.TemporaryDirectory(prefix="large-file-") as folder, suppress(LimitReached):
        output = Path(folder) / "output"
        if command == "compress":
            prequential.compress(path, output, config=config, on_progress=sample)
        elif command == "decompress":
            prequential.decompress(path, output, on_progress=sample)
        else:
            prequential.evaluate(path, config=config, limit=limit_bytes, baselines=(), on_progress=sample)
            peak_private = max(peak_private, anonymous_bytes() or 0)
    return {
        "file_bytes": Path(path).stat().st_size,
        "command": command,
        "preset": preset,
        "coded_bytes": coded_bytes,
        "peak_resident_bytes": peak_memory_bytes(),
        "peak_private_bytes": peak_private or None,
        "wall_s": round(time.monotonic() - start_s, 1),
    }


def in_fresh_process(*child: str | int | float) -> dict[str, Any]:
    """The result of `measure` in a fresh process."""
    command = [sys.executable, __file__, "--child", *map(str, child)]
    result: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return result


def archive_of(path: Path, preset: int) -> Path:
    """Compresses the file to an archive next to it. Returns the archive's path."""
    archive = path.with_name(path.name + ".pq")
    subprocess.run([sys.executable, "-m", "prequential", "compress", f"-{preset}", str(path)], check=True)
    return archive


def main() -> int:
    """Makes both files, measures the command on each and prints the results."""
    if sys.argv[1:2] == ["--child"]:
        path, command, preset, limit_bytes, seconds = sys.argv[2:]
        print(json.dumps(measure(path, command, int(preset), int(limit_bytes), float(seconds))))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", metavar="TEXT", help="file to make both files from")
    parser.add_argument("--command", choices=("compress", "decompress", "evaluate"), default="compress")
    parser.add_argument("--preset", type=int, default=1)
    parser.add_argument("--large", type=int, default=1_000_000_000, metavar="BYTES")
    parser.add_argument("--small", type=int, default=10_000_000, metavar="BYTES")
    parser.add_argument("--limit", type=int, default=60_000_000, metavar="BYTES", help="of the large file")
    parser.add_argument("--seconds", type=float, default=720.0, help="at most, for each of the two")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    text, found = Path(args.text).read_bytes(), []
    with tempfile.TemporaryDirectory(prefix="large-file-") as folder:
        for n_bytes in (args.small, args.large):
            path = Path(folder) / str(n_bytes)
            make(path, text, n_bytes, args.seed)
            source = archive_of(path, args.preset) if args.command == "decompress" else path
            if not found:  # otherwise the compilation of kernels would count in the first process only
                in_fresh_process(source, args.command, args.preset, 1, args.seconds)
            found.append(in_fresh_process(source, args.command, args.preset, args.limit, args.seconds))
            print(json.dumps(found[-1]), flush=True)
    for name in ("peak_resident_bytes", "peak_private_bytes"):
        small, large = (record[name] for record in found)
        if small and large:
            print(f"{name}: {large / small:.4f} of the small file's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
