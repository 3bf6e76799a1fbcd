"""Makes the tables of docs/RESULTS.md: runs `prequential evaluate` and writes what its records say, nothing by hand.

    python benchmarks/results.py FILE... [--presets 1 5]     evaluate --verify each file with each preset
    python benchmarks/results.py --all FOLDER [--presets 5]  compress and restore every file, against gzip -9 and xz -9e
    python benchmarks/results.py                             the tables again from the records there are

Each run is a process of its own, one after another, so that speed and peak memory are its own. Records are appended to
benchmarks/results.jsonl, and the latest record of a corpus, configuration and kind is the one shown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prequential.codecs import measure
from prequential.measure.record import append_record
from prequential.measure.report import COLUMNS, comparison_rows, model_summary
from prequential.measure.table import format_markdown

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
RESULTS = PROJECT / "docs" / "RESULTS.md"
BEGIN, END = "<!-- begin: benchmarks/results.py -->", "<!-- end: benchmarks/results.py -->"
CORPUS_COLUMNS = ("file", "preset", "bytes", "archive", "bits/byte", "gzip -9", "xz -9e", "kB/s", "restored")

Record = dict[str, Any]


def main() -> int:
    """Runs what the command line asks for and renews the tables; fails if any run did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="corpus to evaluate, as `prequential evaluate` names it"
    )
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="restore every file under FOLDER instead")
    parser.add_argument("--presets", type=int, nargs="+", default=[5], metavar="N", help="default: 5")
    args = parser.parse_args()
    if args.all and not args.all.is_dir():
        parser.error(f"{str(args.all)!r} is no folder")
    corpora = [path for path in sorted(args.all.rglob("*")) if path.is_file()] if args.all else []
    failed = [name for name in args.files for level in args.presets if not evaluate(name, level)]
    failed += [str(path) for path in corpora for level in args.presets if not restore(path, args.all, level)]
    write_tables(latest(RECORDS))
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def evaluate(name: str, level: int) -> bool:
    """Appends the record of one verified evaluation; whether it succeeded."""
    return prequential("evaluate", f"-{level}", "--verify", "--output", str(RECORDS), name) == 0


def restore(path: Path, folder: Path, level: int) -> bool:
    """Appends the record of a round trip through files; whether every byte came back."""
    with tempfile.TemporaryDirectory() as work:
        archive, copy = Path(work) / "archive.pq", Path(work) / "copy"
        start_s = time.perf_counter()
        coded = prequential("compress", f"-{level}", "-o", str(archive), str(path)) == 0
        wall_s = time.perf_counter() - start_s
        decoded = coded and prequential("decompress", "-o", str(copy), str(archive)) == 0
        data = path.read_bytes()
        restored = decoded and copy.read_bytes() == data
        record = {
            "schema": 1,
            "kind": "round-trip",
            "corpus": {"name": path.relative_to(folder).as_posix(), "n_bytes": len(data)},
            "preset": level,
            "restored": restored,
            "archive_bytes": archive.stat().st_size if coded else None,
            "wall_s": wall_s,
            "baselines": {name: measure(name, data).compressed_bytes for name in ("gzip", "xz")},
        }
    append_record(RECORDS, record)
    return restored


def prequential(*args: str) -> int:
    """Exit code of the program, run with this interpreter."""
    command = [sys.executable, "-m", "prequential", *args]
    print("+ prequential", *args, flush=True)
    return subprocess.run(command, check=False).returncode


def latest(path: Path) -> list[Record]:
    """The last record of each kind, corpus and configuration, in the order of their first appearance."""
    records: dict[str, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        record = json.loads(line)
        configuration = record.get("config", record.get("preset"))
        identity = [record["kind"], record["corpus"]["name"], record["corpus"]["n_bytes"], configuration]
        records[json.dumps(identity, sort_keys=True)] = record
    return list(records.values())


def write_tables(records: Iterable[Record]) -> None:
    """Replaces what stands between the markers of docs/RESULTS.md, or appends a section if there are none."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Results\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n\n".join(sections(list(records)))
    RESULTS.write_text(f"{before.rstrip()}\n\n{BEGIN}\n\n{body}\n\n{END}\n{after.lstrip()}", encoding="utf-8")


def sections(records: list[Record]) -> Iterable[str]:
    """Markdown: where the figures come from, one section for each evaluation, one table of all round trips."""
    yield (
        "Generated from [benchmarks/results.jsonl](../benchmarks/results.jsonl) by `python benchmarks/results.py`. "
        "Sizes in bytes; kB/s of the original, compression."
    )
    for record in records:
        if record["kind"] == "evaluation":
            yield evaluation_section(record)
    trips = [corpus_row(record) for record in records if record["kind"] == "round-trip"]
    if trips:
        yield f"### Every file, compressed and restored\n\n{format_markdown(CORPUS_COLUMNS, trips)}"


def evaluation_section(record: Record) -> str:
    """One evaluation: what was measured, how, and the comparison."""
    environment = record["environment"]
    head = f"### {record['corpus']['name']}, {record['corpus']['n_bytes']:,} bytes: {model_summary(record['config'])}"
    verified = (
        f"decoded and compared at {record['verify_bytes_per_s'] / 1e3:.1f} kB/s"
        if record["verified"]
        else "not verified"
    )
    facts = (
        f"{record['archive_bits']:,} bits, {record['bits_per_byte']:.4f} bits/byte; ideal code length "
        f"{record['code_bits_per_byte']:.4f} bits/byte; coder overhead {record['coder_overhead_ppm']:.1f} ppm; "
        f"{verified}; peak memory {record['peak_memory_bytes'] / 2**20:,.0f} MiB; {environment['machine']['cpu']}, "
        f"{environment['threads']} threads, {environment['backend']} matmul, {environment['kernels']} kernels; "
        f"commit {(environment['git_commit'] or 'unknown')[:12]}, {record['time'][:10]}."
    )
    return "\n\n".join([head, facts, format_markdown(("compressor", *COLUMNS[1:]), comparison_rows(record))])


def corpus_row(record: Record) -> list[str]:
    """One row under CORPUS_COLUMNS."""
    n_bytes, archive_bytes = record["corpus"]["n_bytes"], record["archive_bytes"]
    sizes = ["-", "-"]
    if archive_bytes is not None:
        sizes = [f"{archive_bytes:,}", f"{8 * archive_bytes / max(n_bytes, 1):.4f}"]
    return [
        record["corpus"]["name"],
        str(record["preset"]),
        f"{n_bytes:,}",
        *sizes,
        *(f"{record['baselines'][name]:,}" for name in ("gzip", "xz")),
        f"{n_bytes / record['wall_s'] / 1e3:.1f}",
        "yes" if record["restored"] else "NO",
    ]


if __name__ == "__main__":
    sys.exit(main())
