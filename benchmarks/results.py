"""Writes the tables of docs/RESULTS.md from benchmarks/results.csv. No figure in them is entered by hand.

    python benchmarks/results.py FILE... [--levels 1 5 5-pure] [--unverified] [--baselines NAMES]   evaluates each at each level
    python benchmarks/results.py                                      writes the tables from the existing rows, and prints them

Runs follow each other, each in its own process, so that speed and peak memory are those of one run. At the end the script
appends a row for each run and each of its baselines; peers.py appends those of other programs. Files are identified by the digest
of their bytes (blake2b, its first 16 digits). The table has a line for each file, with the newest row of each level, and the two
other programs that matter. `level` is empty for learners that are no level; rows of a tree with changes ("-dirty") are left out.
Who changes the bits of a level deletes its rows. `config` is the digest of the learner's configuration.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rows import ROWS, Row, append, cpu, read

from prequential.evaluation.summary import format_report
from prequential.model.presets import DEVICE_PRESETS, PRESETS

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "docs" / "RESULTS.md"
BEGIN, END = "<!-- begin: benchmarks/results.py -->", "<!-- end: benchmarks/results.py -->"
SUMMARY_TITLES = ("file", "bytes", *(f"-{level}" for level in PRESETS), "xz -9e", "best other program")
SPEED_TITLES = ("level", "kB/s", "back, kB/s", "peak MiB", "machine", "commit")
NOT_DECODED = "†"
COMMON = "xz -9e"  # the program of the summary that most readers have; the other one is the best on the file
TIMED_FILE = "enwik6"  # whose runs give the speeds
LIBRARIES = {"zstd": "zstandard", "brotli": "brotli", "ppmd": "pyppmd"}


def main() -> int:
    """Runs the evaluations of the command line and writes the tables. Fails if any run fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="a corpus, as for `prequential evaluate`")
    parser.add_argument(
        "--levels", nargs="+", default=["5"], metavar="N", help="presets: N, N-pure or a name (default: 5)"
    )
    parser.add_argument("--unverified", action="store_true", help="do not decode the archives; takes half the time")
    parser.add_argument("--baselines", metavar="NAMES", help="baselines, as for `prequential evaluate`")
    args = parser.parse_args()
    more = [*([] if args.unverified else ["--verify"]), *(["--baselines", args.baselines] if args.baselines else [])]
    rows: list[Row] = []
    failed = []
    try:
        for name in args.files:
            for level in args.levels:
                if record := evaluated(name, level, more):
                    rows += rows_of(record, level)
                else:
                    failed.append(f"{name} -{level}")
    finally:  # not before, so that every run is of a tree without changes
        append(ROWS, rows)
    tables = summary(read(ROWS))
    write_between(RESULTS, BEGIN, tables, END)
    print(tables)
    for run in failed:
        print(f"failed: {run}", file=sys.stderr)
    return 1 if failed else 0


def evaluated(name: str, level: str, more: list[str]) -> dict[str, Any] | None:
    """The record of one evaluation, with more options; None if it failed."""
    words = ["evaluate", *options_of(level), *more, "--no-run", "--json", "--", name]
    print("+ prequential", *words, flush=True)
    done = subprocess.run([sys.executable, "-m", "prequential", *words], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return None
    record: dict[str, Any] = json.loads(done.stdout)
    print(format_report(record) + "\n", flush=True)
    return record


def options_of(level: str) -> list[str]:
    """The options of the command line for a level: N, N-pure, or the name of a preset."""
    if level in DEVICE_PRESETS:
        return ["--preset", level]
    number, _, pure = level.partition("-")
    return [f"-{number}", *([f"--{pure}"] if pure else [])]


def rows_of(record: Mapping[str, Any], level: str) -> list[Row]:
    """The rows of an evaluation: the learner's, and those of its baselines, whose decoded bytes it compared."""
    environment, corpus = record["environment"], record["corpus"]
    common = {"file": corpus["name"], "bytes": f"{corpus['n_bytes']}", "blake2b": corpus["blake2b"][:16]}
    common["date"], processor = record["time"][:16], cpu(environment["machine"])
    commit = environment["git_commit"] or "unknown"
    learner = Row(
        **common,
        program=" ".join(["prequential", *options_of(level)]),
        level=level if level.isdigit() else "",
        version=commit[:7] + ("-dirty" if commit.endswith("-dirty") else ""),
        machine=f"{processor}, {environment['threads']} threads",
        archive_bytes=f"{record['archive_bytes']}",
        code_bits=f"{record['code_bits']:.0f}",
        seconds=f"{record['wall_s']:.3f}",
        decode_seconds=f"{record['verify_wall_s']:.3f}" if record["verified"] else "",
        peak_bytes=f"{record['peak_memory_bytes']}",
        decoder_bytes=f"{record['decoder_bytes']}",
        decoded="yes" if record["verified"] else "no",
        config=digest(record["config"]),
    )
    baselines = [
        Row(
            **common,
            program=baseline["label"],
            version=version_of(baseline["name"], environment["versions"]),
            machine=processor,
            archive_bytes=f"{baseline['compressed_bytes']}",
            seconds=f"{baseline['wall_s']:.3f}",
            decoded="yes",
        )
        for baseline in record["baselines"]
    ]
    return [learner, *baselines]


def version_of(baseline: str, versions: Mapping[str, str]) -> str:
    library = LIBRARIES.get(baseline, "python")
    return f"{library} {versions.get(library, '')}".rstrip()


def digest(config: Mapping[str, Any]) -> str:
    """Tells configurations apart."""
    return hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=4).hexdigest()


def format_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is aligned left, the others right. No final newline."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))


def write_between(path: Path, begin: str, table: str, end: str) -> None:
    """Replaces the text between two markers of the file at `path`."""
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    assert found_begin and found_end, f"{path} has no markers for the table"
    path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def summary(rows: Iterable[Row]) -> str:
    """Two Markdown tables: bits/byte of each file that a level has read, and the speed of each level on TIMED_FILE."""
    files = [(levels, others) for levels, others in map(newest, by_file(rows)) if levels]
    tables = [format_markdown(SUMMARY_TITLES, [size_cells(*each) for each in files])]
    timed = [levels for levels, _ in files if next(iter(levels.values())).file == TIMED_FILE]
    if timed:
        tables.append(format_markdown(SPEED_TITLES, [speed_cells(row) for _, row in sorted(timed[0].items())]))
    return "\n\n".join(tables)


def by_file(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each file, in the order of their first rows."""
    files: dict[str, list[Row]] = {}
    for row in rows:
        files.setdefault(row.blake2b, []).append(row)
    return list(files.values())


def newest(rows: Iterable[Row]) -> tuple[dict[int, Row], list[Row]]:
    """The newest row of each level, and of each other program that restored the file, the smallest first. rows: of one file."""
    levels = {int(row.level): row for row in rows if row.level and not row.version.endswith("-dirty")}
    others = {row.program: row for row in rows if not row.config and row.decoded == "yes"}
    return levels, sorted(others.values(), key=lambda row: row.bits_per_byte)


def size_cells(levels: Mapping[int, Row], others: Sequence[Row]) -> list[str]:
    """The cells of a file, in the order of SUMMARY_TITLES."""
    row = next(iter(levels.values()))
    ours = [marked(levels[level]) if level in levels else "" for level in PRESETS]
    common = next((f"{other.bits_per_byte:.4f}" for other in others if other.program == COMMON), "")
    best = f"{others[0].bits_per_byte:.4f} {others[0].program}" if others else ""
    return [row.file, f"{int(row.bytes):,}", *ours, common, best]


def marked(row: Row) -> str:
    """Bits per byte of a level, with the mark of an archive that was not decoded."""
    return f"{row.bits_per_byte:.4f}{'' if row.decoded == 'yes' else NOT_DECODED}"


def speed_cells(row: Row) -> list[str]:
    """The cells of a level, in the order of SPEED_TITLES."""
    n_bytes = int(row.bytes)
    back = speed(n_bytes, row.decode_seconds) if row.decode_seconds else ""
    memory = f"{int(row.peak_bytes) / 2**20:,.0f}" if row.peak_bytes else ""
    return [f"-{row.level}", speed(n_bytes, row.seconds), back, memory, row.machine, row.version]


def speed(n_bytes: int, seconds: str) -> str:
    """The speed in kB/s, as text."""
    kb_per_s = n_bytes / max(float(seconds), 1e-6) / 1e3
    return f"{kb_per_s:.2f}" if kb_per_s < 100 else f"{kb_per_s:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
