"""What a newcomer meets in the first hour: a list of commands, each with its time, its exit status and what it prints.

    python benchmarks/first_hour.py                       # of this checkout
    python benchmarks/first_hour.py --source ../older     # of another one, with the packages of this Python

The commands run in a new folder, with a text of the package's samples. It takes some five minutes on two cores, and the times
are those of a first hour only if nothing else runs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COMMANDS = """
prequential | head -1
prequential --help | wc -l
prequential comprss carol.txt
prequential compress nothing.txt
prequential compress carol.txt -1 -v
prequential compress carol.txt -1
prequential list carol.txt.pq
prequential list - < carol.txt.pq
prequential test carol.txt.pq -v
prequential decompress -o copy.txt carol.txt.pq && cmp carol.txt copy.txt
prequential estimate carol.txt
prequential estimate -9 carol.txt
timeout -s INT 12 prequential compress -5 -o long.pq carol.txt
prequential compress -5 -o long.pq --resume carol.txt
prequential compress -1 -o folder.pq folder
prequential decompress -o unpacked folder.pq && ls -A unpacked
prequential evaluate -1 carol.txt
prequential evaluate -1 carol.txt --seed 1 --baselines none --json | wc -l
prequential runs list
prequential runs show latest | wc -l
prequential runs show carol
prequential compare runs/carol*
prequential report runs/carol* -o page.html
prequential decompose -5 carol.txt
prequential train -1 --output model folder && du -sk model
"""
WIDTH, MAX_LINES = 110, 12


def main() -> None:
    """Prints the transcript as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=PROJECT, help="the checkout whose program is run")
    source = parser.parse_args().source.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder, environment = prepared(Path(name), source)
        for command in COMMANDS.strip().split("\n"):
            print(transcript(command, folder, environment), flush=True)


def prepared(folder: Path, source: Path) -> tuple[Path, dict[str, str]]:
    """The folder with the texts, and an environment in which `prequential` is the program of `source`."""
    program = folder / "bin" / "prequential"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m prequential "$@"\n', "utf-8")
    program.chmod(0o755)
    work = folder / "work"
    (work / "folder" / "empty").mkdir(parents=True)
    sample = PROJECT / "corpora" / "samples" / "christmas_carol.txt"
    shutil.copyfile(sample, work / "carol.txt")
    (work / "folder" / "part.txt").write_bytes(sample.read_bytes()[:40_000])
    (work / "folder" / "link").symlink_to("part.txt")
    path = f"{program.parent}:{os.environ['PATH']}"
    return work, {**os.environ, "PATH": path, "PYTHONPATH": str(source), "COLUMNS": "100"}


def transcript(command: str, folder: Path, environment: dict[str, str]) -> str:
    """The command, its time and exit status, and the first lines that it printed, cut to WIDTH."""
    started = time.perf_counter()
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    wall_s = time.perf_counter() - started
    lines = (done.stdout + done.stderr).replace(str(folder), ".").splitlines()
    more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    shown = [line[:WIDTH] for line in lines[:MAX_LINES]] + more
    return "\n".join(
        [f"    $ {command}    # {wall_s:.2f} s, exit {done.returncode}", *(f"    {line}" for line in shown)]
    )


if __name__ == "__main__":
    main()
