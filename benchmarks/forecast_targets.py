"""Four forecasts on texts that nobody tuned on: registered first, and then their targets run.

    python benchmarks/forecast_targets.py WORK CORPORA PYTHON_LIB freeze    # proxies, ladders, forecasts: 12 minutes on two cores
    git add benchmarks/forecasts && git commit -m "Four forecasts, registered before their targets run"
    python benchmarks/forecast_targets.py WORK CORPORA PYTHON_LIB run       # targets and scores: 13 minutes
    python benchmarks/forecasts.py                                          # the table of docs/STUDIES.md

    python-lib   source tree: the packages of Python 3.13.0's standard library (PYTHON_LIB), in the order of their paths
    languages    Arabic, Chinese and English prose, in pieces of some 30 kB, in random order
    world192     the CIA World Factbook of 1992, its beginning
    zipcodes     a table of American places, its beginning

The recipe, the program and the ladder's sizes are those of docs/STUDIES.md. Both steps continue where they were interrupted.
"""

import random
import subprocess
import sys
from pathlib import Path

import zstandard

FOLDER = Path(__file__).parent / "forecasts"
MIXED = ("multilingual/arabic-nights.txt", "multilingual/chinese-digong.txt", "text/dickens")
DICKENS_START = 6_000_000  # its first 860,000 bytes were used for earlier forecasts
PIECE_BYTES, N_PIECES = 30_000, 15  # of each language
LEFT_OUT = {"__pycache__", "encodings", "site-packages", "test", "tests", "idle_test"}
SIZES, SEVERAL_SEEDS = "24x2,32x2,40x2,48x2,64x2", "32x2,48x2,64x2"
TARGET_BYTES = {"python-lib": 1_350_000, "languages": 1_350_000, "world192": 1_100_000, "zipcodes": 1_100_000}
DATA_RATIO = 2.75  # of the target's bytes to the ladder's: with 128x2 after 64x2, 10 times the operations


def source_tree(folder: Path) -> bytes:
    """The text files of the packages in the folder, each after a line with its path."""
    parts = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not LEFT_OUT & set(inside.parts) and len(inside.parts) > 1 and not _is_built(inside):
            data = path.read_bytes()
            try:
                data.decode()
            except UnicodeDecodeError:
                continue
            parts.append(f"==> {inside.as_posix()} <==\n".encode() + data)
    return b"\n".join(parts)


def _is_built(inside: Path) -> bool:
    """Whether the file depends on the machine that built Python."""
    return inside.parts[0].startswith("config-")


def mixture(corpora: Path) -> bytes:
    """Pieces of several languages, cut after lines."""
    pieces = []
    for name in MIXED:
        data = (corpora / name).read_bytes()
        start = DICKENS_START if name == "text/dickens" else 0
        for _ in range(N_PIECES):
            end = data.index(b"\n", start + PIECE_BYTES) + 1
            pieces.append(data[start:end])
            start = end
    random.Random(0).shuffle(pieces)
    return b"".join(pieces)


def corpus(name: str, work: Path, corpora: Path, python_lib: Path) -> Path:
    """The file of a corpus, made if it is not there."""
    path = work / name
    if not path.exists():
        make = {
            "python-lib": lambda: source_tree(python_lib),
            "languages": lambda: mixture(corpora),
            "world192": lambda: (corpora / "text/world192.txt").read_bytes(),
            "zipcodes": lambda: (corpora / "data/zipcodes.csv").read_bytes(),
        }
        data = make[name]()[: TARGET_BYTES[name]]
        if len(data) < TARGET_BYTES[name]:
            raise SystemExit(f"{name} has {len(data):,} bytes, fewer than {TARGET_BYTES[name]:,}")
        path.write_bytes(data)
    return path


def prequential(*args: object) -> None:
    """Runs a command of the program."""
    subprocess.run([sys.executable, "-m", "prequential", *map(str, args)], check=True)


def freeze(name: str, text: Path, runs: Path) -> None:
    """The proxy, the ladder and the forecast."""
    n_bytes, forecast = TARGET_BYTES[name], FOLDER / name / "forecast.json"
    if forecast.exists():
        return
    forecast.parent.mkdir(exist_ok=True)
    proxies = runs.with_name(f"{runs.name}-proxy")
    if not list(proxies.glob("*/record.jsonl")):
        prequential("evaluate", text, "-2", "--baselines", "none", "--runs", proxies, "-q")
    (proxy,) = (path.parent for path in proxies.glob("*/record.jsonl"))
    limit = ("--limit", round(n_bytes / DATA_RATIO))
    seeds = ("--seeds", "0,1", "--seeded", SEVERAL_SEEDS)
    prequential("sweep", "--ladder", text, "--pure", *limit, "--sizes", SIZES, *seeds, "--runs", runs, "-q")
    target = ("--target-width", 128, "--target-bytes", n_bytes, "--corpus", text)
    prequential("forecast", runs, *target, "--proxy", proxy, "-o", forecast)


def run(name: str, text: Path, runs: Path) -> None:
    """The target's run, its score, and all runs in one file beside the forecast."""
    folder = FOLDER / name
    if not (runs / "scores.jsonl").exists():
        prequential("forecast", runs, "--score", folder / "forecast.json", "--corpus", text)
    for proxy in runs.with_name(f"{runs.name}-proxy").glob("*/record.jsonl"):
        proxy.parent.rename(runs / proxy.parent.name)
    packed = runs.with_suffix(".jsonl")
    prequential("runs", "pack", runs, "-f", "-o", packed)
    (folder / "ladder.jsonl.zst").write_bytes(zstandard.compress(packed.read_bytes(), 19))
    (folder / "scores.jsonl").write_bytes((runs / "scores.jsonl").read_bytes())


def main() -> None:
    work, corpora, python_lib = map(Path, sys.argv[1:4])
    work.mkdir(exist_ok=True)
    step = {"freeze": freeze, "run": run}[sys.argv[4]]
    for name in TARGET_BYTES:
        step(name, corpus(name, work, corpora, python_lib), work / f"{name}-runs")


if __name__ == "__main__":
    main()
