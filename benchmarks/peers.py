"""Measures other compressors as their users run them: programs on PATH, each at its strongest usual setting.

    python benchmarks/peers.py [--again] CORPUS...      file, folder or sample:NAME, as for `prequential evaluate`

Each program runs alone in a temporary folder. It compresses and decompresses the corpus, and every byte is compared. The script
appends one row for each program and corpus to benchmarks/results.csv. A program that has a row with a restored corpus of the same
BLAKE2b is not run again without --again. A program that is not installed is named and skipped.
"""

import argparse
import filecmp
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from prequential_corpora.corpus import Corpus
from prequential_corpora.sources import open_corpus
from rows import ROWS, Row, append, cpu, read

from prequential.errors import PrequentialError
from prequential.online.source import digest_of

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
MAX_BZIP3_BLOCK_MIB = 511


class Peer(NamedTuple):
    """A program and its shell commands, which run in a folder with the file `original`.

    label: name and settings. package: the Debian package. version: prints a version. compress: writes one file `archive*`.
    decompress: restores `copy` from it. In both, {block_mib} is the length of the original in MiB.
    """

    label: str
    package: str
    version: str
    compress: str
    decompress: str

    @property
    def program(self) -> str:
        """The program that must be on PATH."""
        return self.compress.partition(" ")[0]


PEERS = {
    "gzip": Peer("gzip -9", "gzip", "gzip --version", "gzip -9 -n -c original >archive", "gzip -d -c <archive >copy"),
    "bzip2": Peer("bzip2 -9", "bzip2", "bzip2 --help", "bzip2 -9 -c original >archive", "bzip2 -d -c <archive >copy"),
    "xz": Peer("xz -9e", "xz-utils", "xz --version", "xz -9e -c original >archive", "xz -d -c <archive >copy"),
    "zstd": Peer(
        "zstd -22 --ultra --long=27", "zstd", "zstd --version", "zstd -22 --ultra --long=27 -q -o archive original",
        "zstd -d --long=27 -q -o copy archive",
    ),
    "brotli": Peer(
        "brotli -q 11", "brotli", "brotli --version", "brotli -q 11 --lgwin=24 -o archive original", "brotli -d -o copy archive"
    ),
    # A block as long as the corpus, and at least its default of 16 MiB. It needs 6 times as much memory.
    "bzip3": Peer(
        "bzip3", "bzip3", "bzip3 --version", "bzip3 -e -b {block_mib} original archive", "bzip3 -d archive copy"
    ),
    "zpaq": Peer(
        "zpaq -m5", "zpaq", "zpaq", "zpaq add archive.zpaq original -method 5", "zpaq extract archive.zpaq original -to copy"
    ),
    # Order 16 gave smaller archives than the order 32 of -mx=9 on every tested text and source tree.
    "7z": Peer(
        "7z PPMd, order 16", "p7zip-full", "7z", "7z a -bd -t7z -m0=PPMd:o=16:mem=256m archive.7z original",
        "7z x -bd -so archive.7z >copy",
    ),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the installed programs that have no row yet. Fails if a corpus cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="CORPUS", help="file, folder or sample:NAME")
    parser.add_argument("--again", action="store_true", help="also run programs that are already measured")
    args = parser.parse_args(argv)
    installed = {name: peer for name, peer in PEERS.items() if shutil.which(peer.program)}
    missing = [peer for name, peer in PEERS.items() if name not in installed]
    if missing:
        programs, packages = ", ".join(peer.program for peer in missing), " ".join(peer.package for peer in missing)
        print(f"skipped, not on PATH: {programs} (Debian: apt-get install {packages})", file=sys.stderr)
    failed = False
    for corpus_name in args.names:
        try:
            measure_all(corpus_name, installed, again=args.again)
        except PrequentialError as error:
            print(error, file=sys.stderr)
            failed = True
    return 1 if failed else 0


def measure_all(corpus_name: str, peers: dict[str, Peer], *, again: bool) -> None:
    """Appends one row to ROWS for each of `peers` and this corpus, one program after another."""
    corpus = open_corpus(corpus_name)
    done = {(row.blake2b, row.program) for row in read(ROWS) if row.decoded == "yes" and not again}
    for peer in peers.values():
        if (digest_of(corpus.bytes()).hex()[:16], peer.label) not in done:
            row = measure(peer, corpus)
            append(ROWS, [row])
            print(summary(row), flush=True)


def measure(peer: Peer, corpus: Corpus) -> Row:
    """The row of one program: bytes, seconds in both directions, peak memory, and whether every byte was restored."""
    block_mib = min(max(16, -(-corpus.n_bytes >> 20)), MAX_BZIP3_BLOCK_MIB)
    with tempfile.TemporaryDirectory(prefix="peers-") as work:
        folder = Path(work)
        (folder / "original").write_bytes(corpus.bytes())
        coded, wall_s, peak_bytes = run(peer.compress.format(block_mib=block_mib), folder)
        archives = list(folder.glob("archive*"))
        compressed_bytes = archives[0].stat().st_size if coded and len(archives) == 1 else None
        decoded, decode_s, _ = run(peer.decompress, folder) if compressed_bytes is not None else (False, None, None)
        restored = decoded and filecmp.cmp(folder / "original", folder / "copy", shallow=False)
    return Row(
        file=corpus.name or "",
        bytes=f"{corpus.n_bytes}",
        blake2b=digest_of(corpus.bytes()).hex()[:16],
        program=peer.label,
        version=version(peer) or "",
        date=datetime.now(UTC).isoformat()[:16],
        machine=cpu(machine()),
        archive_bytes="" if compressed_bytes is None else f"{compressed_bytes}",
        seconds=f"{wall_s:.3f}",
        decode_seconds="" if decode_s is None else f"{decode_s:.3f}",
        peak_bytes="" if peak_bytes is None else f"{peak_bytes}",
        decoded="yes" if restored else "no",
    )


def run(command: str, folder: Path) -> tuple[bool, float, int | None]:
    """Runs the command in `folder`. Returns whether it succeeded, its wall time in seconds, its peak resident memory in bytes.

    The memory is None if it is not larger than that of this process: before exec, the child shares this process's memory, and the
    kernel counts that. So this script loads only the corpora and the standard library.
    """
    own_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES
    with tempfile.TemporaryFile("w+", errors="replace") as messages:
        start_s = time.perf_counter()
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"], cwd=folder, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)  # otherwise its destructor would wait for it
        if process.returncode:
            messages.seek(0)
            print(f"{command}: exit code {process.returncode}\n{messages.read()[-1000:]}", file=sys.stderr)
    peak_bytes = usage.ru_maxrss * RSS_UNIT_BYTES
    return process.returncode == 0, wall_s, peak_bytes if peak_bytes > own_peak_bytes else None


@functools.cache
def version(peer: Peer) -> str | None:
    """The first dotted number in the output of the program's version command."""
    done = subprocess.run(
        peer.version.split(), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return number.group() if number else None


@functools.cache
def machine() -> dict[str, str | int]:
    """The machine as in the records of `evaluate`. A child process describes it, because that loads torch (see `run`)."""
    code = "import json; from prequential.machine.facts import machine; print(json.dumps(machine()))"
    found: dict[str, str | int] = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    return found


def summary(row: Row) -> str:
    """The row as one line of text."""
    name = f"{row.file}  {row.program} ({row.version}): "
    if row.decoded != "yes":
        return name + "NOT RESTORED"
    return f"{name}{int(row.archive_bytes):,} bytes, {row.seconds} s, {row.decode_seconds} s back"


if __name__ == "__main__":
    sys.exit(main())
