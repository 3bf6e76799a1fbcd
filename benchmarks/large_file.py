"""Peak memory on a large file beside that on a small one: `compress`, `decompress` or `evaluate`, each in a fresh process.

    python benchmarks/large_file.py TEXT [--command compress] [--preset 1] [--large 1000000000] [--small 10000000]
                                         [--limit 60000000] [--seconds 720] [--seed 0]

makes both files from TEXT, a real text, by repeating and perturbing it (see `make`; the same bytes from the same seed anywhere),
compresses the small one to its end, begins with the large one and ends at --limit bytes or --seconds, whichever comes first.
Prints a JSON line for each and the quotient of their memory. Two figures of each process:

    peak_resident_bytes    the most it had resident (ru_maxrss). Pages of a mapped file count, which the system can take back
    peak_private_bytes     the most it had for itself: `Anonymous` of /proc/self/smaps_rollup (Linux), looked at 4 times a MB
Decompression needs whole archives: give it a --large that can be compressed. Evaluation is without baselines.
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
CHANGED = 1 / 50  # of the bytes
LOOK_BYTES = 1 << 18


class Enough(Exception):  # noqa: N818  # no error: the limit is reached
    """The prefix is coded."""


def make(path: Path, text: bytes, n_bytes: int, seed: int) -> None:
    """Writes n_bytes to `path`: blocks of 64 KiB of `text`, each from a place drawn anew, two in a hundred bytes of it replaced.

    Block number b has its own generator, numpy's Philox with key (seed, b): it draws the place, which bytes (0 to 2^64 - 1 each
    below 2^64 / 50), and for each a place in `text` of the byte to put there: all raw words modulo what there is.
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
    """What the process has for itself now; None where the system does not tell."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:")), None)


def measure(path: str, command: str, preset: int, limit_bytes: int, seconds: float) -> dict[str, Any]:
    """Runs the command on the file (decompress: on an archive) in this process, up to the limit; what it took."""
    import prequential
    from prequential.measure.machine import peak_memory_bytes

    start_s, next_look, peak_private, coded_bytes = time.monotonic(), 0, 0, 0

    def look(done: prequential.Progress, n_bytes: int) -> None:
        nonlocal next_look, peak_private, coded_bytes
        coded_bytes = done.n_bytes
        if done.n_bytes >= min(next_look, n_bytes):
            next_look = done.n_bytes + LOOK_BYTES
            peak_private = max(peak_private, anonymous_bytes() or 0)
            if done.n_bytes >= limit_bytes < n_bytes or time.monotonic() - start_s > seconds:
                raise Enough

    with tempfile.TemporaryDirectory(prefix="large-file-") as folder, suppress(Enough):
        output = Path(folder) / "output"
        if command == "compress":
            prequential.compress(path, output, preset=preset, on_progress=look)
        elif command == "decompress":
            prequential.decompress(path, output, on_progress=look)
        else:
            prequential.evaluate(path, preset=preset, limit_bytes=limit_bytes, baselines=(), on_progress=look)
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
    """What `measure` gives in a process of its own."""
    command = [sys.executable, __file__, "--child", *map(str, child)]
    result: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return result


def archive_of(path: Path, preset: int) -> Path:
    """The file's archive, beside it."""
    archive = path.with_name(path.name + ".pq")
    subprocess.run([sys.executable, "-m", "prequential", "compress", f"-{preset}", str(path)], check=True)
    return archive


def main() -> int:
    """Makes the files, measures, prints."""
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
            if not found:  # kernels that must be compiled first would count in the first process only
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
