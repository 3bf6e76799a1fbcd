"""How long each command takes as a whole process, for docs/MACHINES.md: with no compiled kernels, and again with them.

    python benchmarks/first_runs.py [COMMAND ...]      # some of COMMANDS; default: all

Prints a row of the table for each: seconds, and those of processors, which vary less on a machine that others use, too.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import format_markdown

import prequential

N_BYTES = 20_000
TITLES = ("command", "first run, s / of processors", "later, s / of processors")
# In this order: a command may use what those before it have left.
COMMANDS = {
    "--help": "--help",
    "error": "compress missing",
    "compress -1": "compress -1 -f text -o one.pq",
    "decompress -1": "decompress -f one.pq -o back",
    "compress": "compress -f text -o text.pq",
    "decompress": "decompress -f text.pq -o back",
    "compress -5": "compress -5 -f text -o five.pq",
    "decompress -5": "decompress -f five.pq -o back",
    "list": "list text.pq",
    "evaluate -1": "evaluate -1 text",
    "evaluate": "evaluate text",
    "runs": "runs list",
    "compare": "compare runs/*",
    "report": "report -f latest -o page.html",
    "heldout": "heldout -1 --train text --test other",
    "train": "train -1 text -o model-$$",
    "doctor": "doctor",
}


def measured(command: str, folder: Path, cache: Path) -> str:
    """Seconds of a command with this folder of kernels, or its exit code if that is not the expected one."""
    started, before = time.monotonic(), os.times()
    line = f"{sys.executable} -m prequential {command} >out 2>&1"
    code = subprocess.call(line, shell=True, cwd=folder, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)})
    taken_s, after = time.monotonic() - started, os.times()
    processors_s = after.children_user + after.children_system - before.children_user - before.children_system
    return f"{taken_s:.1f} / {processors_s:.1f}" if code == (1 if "missing" in command else 0) else f"exit code {code}"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), []
        source = prequential.sample_path("christmas_carol").read_bytes()
        (folder / "text").write_bytes(source[:N_BYTES])
        (folder / "other").write_bytes(source[N_BYTES:])
        for i, command in enumerate(COMMANDS):
            if sys.argv[1:] and command not in sys.argv[1:]:
                continue
            cache = folder / f"cache-{i}"
            cache.mkdir(mode=0o700)
            rows.append((f"`{command}`", *(measured(COMMANDS[command], folder, cache) for _ in range(2))))
            print(*rows[-1], flush=True)
        print(format_markdown(TITLES, rows))


if __name__ == "__main__":
    main()
