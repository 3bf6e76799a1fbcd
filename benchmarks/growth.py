"""How an evaluation grows with its corpus: a row for each tenth of FILE, with bits, speed, memory and the mixer's table.

    python benchmarks/growth.py FILE [--level 1] [--table-bits N] [--limit BYTES] [--threads 1] [--draft FOLDER]

Prints a JSON line at the end of each tenth. `kB_per_processor_s` varies less than `kB_per_s` on a machine that others use, too.
`buckets` and `deterministic`: shares of the mixer's two tables in use. With --draft, an interrupted evaluation is resumed there.
`growth.py make FILE FOLDER BYTES` joins the texts of FOLDER to a file of so many bytes, in the order of the digests of their
paths, so that each tenth is like the others.
"""

import argparse
import dataclasses
import gc
import hashlib
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import prequential
from prequential.machine.facts import peak_memory_bytes
from prequential.model.mixer.mixer import Mixer

N_PARTS = 10


def make(path: Path, folder: Path, n_bytes: int) -> None:
    """Writes the first n_bytes of the UTF-8 texts without zero bytes below `folder`, ordered by digests of their paths."""
    names = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    with path.open("wb") as file:
        for name in sorted(names, key=lambda name: hashlib.blake2b(name.encode(), digest_size=16).digest()):
            data = (folder / name).read_bytes()
            with suppress(UnicodeDecodeError):
                data.decode()
                if 0 not in data:
                    file.write(data[: n_bytes - file.tell()])


def private_bytes() -> int:
    """Memory of this process without pages of files, which the system can take back (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def table_use() -> dict[str, float]:
    """The shares of the buckets and of the entries for deterministic contexts that are in use."""
    arrays = next(each.arrays for each in gc.get_objects() if isinstance(each, Mixer))
    # a bucket's first number has a check that is not 0
    shares = {"buckets": np.count_nonzero(arrays.table[:, 0]) / len(arrays.table)}
    shares["deterministic"] = np.count_nonzero(arrays.deterministic) / len(arrays.deterministic)
    return {name: round(share, 4) for name, share in shares.items()}


class Tenths:
    """An `on_progress` that prints a row at the end of each tenth."""

    def __init__(self) -> None:
        self.before: tuple[int, float, float, float] | None = None
        self.part = 0

    def __call__(self, done: prequential.Progress, n_bytes: int) -> None:
        now = (done.n_bytes, done.code_bits, time.monotonic(), time.process_time())
        if self.before is None:  # the first call: at the beginning, or at a checkpoint
            self.before, self.part = now, done.n_bytes * N_PARTS // n_bytes
        if done.n_bytes * N_PARTS // n_bytes <= self.part or done.n_bytes == self.before[0]:
            return
        n, bits, wall_s, processor_s = (new - old for new, old in zip(now, self.before, strict=True))
        self.before, self.part = now, done.n_bytes * N_PARTS // n_bytes
        row: dict[str, Any] = {
            "MB": round(done.n_bytes / 1e6, 1),
            "bits_per_byte": round(bits / n, 5),
            "so_far": round(done.code_bits / done.n_bytes, 5),
            "kB_per_s": round(n / 1e3 / wall_s, 1),
            "kB_per_processor_s": round(n / 1e3 / processor_s, 1),
            "peak_MiB": peak_memory_bytes() >> 20,
            "private_MiB": private_bytes() >> 20,
        }
        print(json.dumps(row | table_use()), flush=True)


def main() -> int:
    """Makes a file, or evaluates one and prints its tenths."""
    if sys.argv[1:2] == ["make"]:
        path, folder, n_bytes = sys.argv[2:]
        make(Path(path), Path(folder), int(n_bytes))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--table-bits", type=int, metavar="N", help="2**N buckets of 64 bytes in the mixer's table")
    parser.add_argument("--limit", type=int, metavar="BYTES")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draft", type=Path, metavar="FOLDER", help="where an interrupted evaluation is resumed")
    args = parser.parse_args()
    config, draft = prequential.preset(args.level), None
    if args.table_bits and config.mixer:
        config = dataclasses.replace(config, mixer=dataclasses.replace(config.mixer, table_bits=args.table_bits))
    if args.draft:
        args.draft.mkdir(exist_ok=True)
        draft = prequential.DraftFolder(path=args.draft, keep=True, resume=any(args.draft.iterdir()))
    runtime = prequential.Runtime(threads=args.threads)
    result = prequential.evaluate(
        args.file, config=config, limit=args.limit, baselines=(), runtime=runtime, draft=draft, on_progress=Tenths()
    )
    print(json.dumps({"archive_bytes": result.archive_bytes, "bits_per_byte": result.bits_per_byte}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
