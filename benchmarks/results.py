"""Makes the tables of docs/RESULTS.md: runs `prequential evaluate` and writes what the records say, nothing by hand.

    python benchmarks/results.py FILE... [--levels 1 5 5-pure] [--unverified] [--baselines NAMES]   evaluate each at each level
    python benchmarks/results.py                                    the tables again from the records there are

Each run is a process of its own, one after another, so that speed and peak memory are its own. Records are appended to
benchmarks/results.jsonl, with the options of the run. A table shows, for one file, by the digest of its bytes: the
newest record of each preset (a record without options is of the preset that has its configuration today, or goes by
the shape of its model) and of each baseline, and from benchmarks/peers.jsonl the programs that those lack.
"""

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prequential.measure.evaluation.summary import format_report, model_summary
from prequential.measure.record import append_record
from prequential.measure.study.sweep import pareto_front
from prequential.measure.table import format_markdown
from prequential.model.presets import PRESETS, preset

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
PEERS = PROJECT / "benchmarks" / "peers.jsonl"
RESULTS = PROJECT / "docs" / "RESULTS.md"
BEGIN, END = "<!-- begin: benchmarks/results.py -->", "<!-- end: benchmarks/results.py -->"
COLUMNS = ("compressor", "version", "bytes", "bits/byte", "compress s", "decompress s", "kB/s", "peak MiB")
MARKS = ("gzip", "xz", "ppmd", "bzip3", "zpaq")  # beside the presets in the table of all files
FRONT_PRESETS = 4  # a file that fewer were measured on shows no front
LIBRARIES = {
    "zstd": "zstandard",
    "brotli": "brotli",
    "ppmd": "pyppmd",
    "order0": "prequential",
    "order2": "prequential",
}

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One compressor on one file; None is not measured. name: of a baseline or peer, or the label of a preset."""

    name: str
    label: str
    version: str
    compressed_bytes: int
    wall_s: float
    decompress_wall_s: float | None = None
    peak_memory_bytes: int | None = None


def main() -> int:
    """Runs what the command line asks for and renews the tables; fails if any run did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="as `prequential evaluate` names it")
    parser.add_argument("--levels", nargs="+", default=["5"], metavar="N", help="presets, N or N-pure (default: 5)")
    parser.add_argument("--unverified", action="store_true", help="do not decode the archives: half the time")
    parser.add_argument("--baselines", metavar="NAMES", help="as `prequential evaluate` takes them")
    args = parser.parse_args()
    more = [*([] if args.unverified else ["--verify"]), *(["--baselines", args.baselines] if args.baselines else [])]
    failed = [f"{name} -{level}" for name in args.files for level in args.levels if not evaluate(name, level, more)]
    write_tables(RESULTS, read(RECORDS), read(PEERS))
    for run in failed:
        print(f"failed: {run}", file=sys.stderr)
    return 1 if failed else 0


def evaluate(name: str, level: str, more: list[str]) -> bool:
    """Appends the record of one evaluation with more options; whether it succeeded."""
    number, _, pure = level.partition("-")
    options = [f"-{number}", *([f"--{pure}"] if pure else [])]
    command = ["prequential", "evaluate", *options, "--estimate", *more]
    print("+", *command, name, flush=True)
    command = [sys.executable, "-m", *command, "--no-run", "--json", "--", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return False
    record = {**json.loads(done.stdout), "options": options}
    append_record(RECORDS, record)
    print(format_report(record) + "\n", flush=True)
    return True


def read(path: Path) -> list[Record]:
    """The records of a file of lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def write_tables(path: Path, records: list[Record], peers: list[Record]) -> None:
    """Replaces what stands between the markers of the file at `path`, or appends a section if there are none."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Results\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n\n".join(sections(records, peers))
    path.write_text(f"{before.rstrip()}\n\n{BEGIN}\n\n{body}\n\n{END}\n{after.lstrip()}", encoding="utf-8")


def sections(records: list[Record], peers: list[Record]) -> Iterator[str]:
    """Markdown: where the figures come from, one table of all files if there are several, one section for each file."""
    files: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "evaluation":
            files.setdefault(record["corpus"]["blake2b"], []).append(record)
    rows = {digest: file_rows(of_file, peers) for digest, of_file in files.items()}
    yield (
        "Generated by `make bench` from [results.jsonl](../benchmarks/results.jsonl) and, for programs run by their "
        "command line, [peers.jsonl](../benchmarks/peers.jsonl). Every archive was decoded and compared, except where "
        "prequential has no `decompress s`; kB/s and peak memory are of compression; `-` is not measured, or, of "
        "memory, less than the measuring process has (some 30 MiB)."
    )
    if len(files) > 1:
        yield f"### All files, bits/byte\n\n{overview([(files[d][-1]['corpus'], rows[d]) for d in files])}"
    several = [
        (of_file[-1]["corpus"], front) for of_file in files.values() if len(front := mixed(of_file)) >= FRONT_PRESETS
    ]
    if several:
        yield f"### Presets: bits against time\n\n{fronts(several)}"
    for digest, of_file in files.items():
        yield file_section(of_file, rows[digest], [peer for peer in peers if peer["corpus"]["blake2b"] == digest])


def overview(files: Iterable[tuple[dict[str, Any], list[Row]]]) -> str:
    """Markdown table of bits/byte: one row for each file, the marks and the presets as columns."""
    by_name = [(corpus, {row.name: row for row in rows}) for corpus, rows in files]
    known = {name: row.label for _, rows in by_name for name, row in rows.items()}
    names = [name for name in (*MARKS, *presets()) if name in known]
    lines = [
        [corpus["name"], f"{corpus['n_bytes']:,}"]
        + [bits_per_byte(rows[name].compressed_bytes, corpus["n_bytes"]) if name in rows else "-" for name in names]
        for corpus, rows in by_name
    ]
    return format_markdown(("file", "bytes", *(known[name] for name in names)), lines)


def mixed(records: Iterable[Record]) -> dict[str, Record]:
    """The newest record of each preset that is not --pure, by its name."""
    return {name: record for record in newest(records) if (name := learner(record)) in presets() and "pure" not in name}


def fronts(files: Iterable[tuple[dict[str, Any], dict[str, Record]]]) -> str:
    """Markdown table: a row for each preset, bits/byte and kB/s of each file as columns; `*` is on that file's Pareto front."""
    titles, columns = ["preset"], []
    for corpus, by_name in sorted(files, key=lambda file: file[0]["n_bytes"]):
        titles += [f"{corpus['name']}, {corpus['n_bytes']:,} bytes", "kB/s"]
        on_front = pareto_front([(record["wall_s"], record["archive_bytes"]) for record in by_name.values()])
        columns.append(
            {
                name: (
                    f"{bits_per_byte(record['archive_bytes'], corpus['n_bytes'])}{' *' if best else ''}",
                    speed(corpus["n_bytes"], record["wall_s"]),
                )
                for (name, record), best in zip(by_name.items(), on_front, strict=True)
            }
        )
    named = [name for name in presets() if any(name in column for column in columns)]
    rows = [[name, *(cell for column in columns for cell in column.get(name, ("-", "-")))] for name in named]
    return f"{format_markdown(titles, rows)}\n\n`*`: no other preset measured there is both faster and smaller."


def file_section(records: list[Record], rows: list[Row], peers: list[Record]) -> str:
    """One file: every compressor, smallest first, and how the learner's figures were made."""
    corpus = records[-1]["corpus"]
    parts = [
        f"### {corpus['name']}, {corpus['n_bytes']:,} bytes",
        format_markdown(COLUMNS, [cells(row, corpus["n_bytes"]) for row in rows]),
        "\n".join(f"- {learner(record)}: {facts(record)}" for record in newest(records)),
    ]
    broken = [f"{peer['label']} ({peer['version']})" for peer in newest(peers) if not peer["restored"]]
    if broken:
        parts.append(f"Did not restore the file: {', '.join(broken)}.")
    return "\n\n".join(parts)


def file_rows(records: list[Record], peers: list[Record]) -> list[Row]:
    """Rows of one file from all its records, and from those of `peers` that measured it; smallest first."""
    last = records[-1]
    here = [peer for peer in peers if peer["corpus"]["blake2b"] == last["corpus"]["blake2b"]]
    rows = [learner_row(record) for record in newest(records)]
    baselines = {b["name"]: (b, record["environment"]["versions"]) for record in records for b in record["baselines"]}
    rows += [baseline_row(baseline, versions) for baseline, versions in baselines.values()]
    measured = {row.name for row in rows}
    rows += [peer_row(peer) for peer in newest(here) if peer["restored"] and peer["name"] not in measured]
    return sorted(rows, key=lambda row: row.compressed_bytes)


def newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each name, of those of one file."""
    return list({record.get("name") or learner(record): record for record in records}.values())


def learner(record: Record) -> str:
    """What a table calls the learner of an evaluation: by its options, or else by its configuration."""
    if "options" in record:
        return "prequential " + " ".join(record["options"])
    named = [name for name, config in presets().items() if config == record["config"]]
    return named[0] if named else f"prequential, {model_summary(record['config'])}"


@functools.cache
def presets() -> dict[str, Any]:
    """Every preset as `learner` calls it, with its configuration as a record has it."""
    configs = {f"prequential -{level}": config for level, config in PRESETS.items()}
    configs |= {f"prequential -{n} --pure": preset(n, pure=True) for n, config in PRESETS.items() if config.gpt}
    return {name: json.loads(json.dumps(config.to_dict())) for name, config in configs.items()}


def learner_row(record: Record) -> Row:
    """The learner's own row of an evaluation."""
    return Row(
        name=learner(record),
        label=f"**{learner(record)}**",
        version=commit(record),
        compressed_bytes=record["archive_bytes"],
        wall_s=record["wall_s"],
        decompress_wall_s=record["verify_wall_s"],
        peak_memory_bytes=record["peak_memory_bytes"],
    )


def baseline_row(baseline: Record, versions: dict[str, str]) -> Row:
    """A baseline that ran in the process of an evaluation, which compares what it decodes but does not time that."""
    library = LIBRARIES.get(baseline["name"], "python")
    return Row(
        name=baseline["name"],
        label=baseline["label"],
        version=f"{library} {versions.get(library, '')}".rstrip(),
        compressed_bytes=baseline["compressed_bytes"],
        wall_s=baseline["wall_s"],
    )


def peer_row(peer: Record) -> Row:
    """A row of peers.py."""
    return Row(
        name=peer["name"],
        label=peer["label"],
        version=peer["version"] or "",
        compressed_bytes=peer["compressed_bytes"],
        wall_s=peer["wall_s"],
        decompress_wall_s=peer["decompress_wall_s"],
        peak_memory_bytes=peer["peak_memory_bytes"],
    )


def cells(row: Row, n_bytes: int) -> list[str]:
    """`row` under COLUMNS."""
    return [
        row.label,
        row.version,
        f"{row.compressed_bytes:,}",
        bits_per_byte(row.compressed_bytes, n_bytes),
        f"{row.wall_s:.2f}",
        "-" if row.decompress_wall_s is None else f"{row.decompress_wall_s:.2f}",
        speed(n_bytes, row.wall_s),
        "-" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:,.0f}",
    ]


def speed(n_bytes: int, wall_s: float) -> str:
    """In kB/s."""
    kb_per_s = n_bytes / max(wall_s, 1e-6) / 1e3
    return f"{kb_per_s:.2f}" if kb_per_s < 100 else f"{kb_per_s:,.0f}"


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> str:
    """As every table here prints it."""
    return f"{8 * compressed_bytes / n_bytes:.4f}"


def facts(record: Record) -> str:
    """How one evaluation was made, in a line."""
    environment = record["environment"]
    return (
        f"{model_summary(record['config'])}; {record['archive_bits']:,} bits, ideal code length "
        f"{record['code_bits_per_byte']:.4f} bits/byte, coder overhead {record['coder_overhead_ppm']:.1f} ppm; "
        f"{'decoded and compared' if record['verified'] else 'not decoded'}; {environment['machine']['cpu']}, "
        f"{environment['threads']} threads, {environment['backend']} matmul, {environment['kernels']} kernels; "
        f"commit {commit(record)}, {record['time'][:10]}"
    )


def commit(record: Record) -> str:
    """Of the checkout that made the record, shortened, and whether its files differed from the commit."""
    full = record["environment"]["git_commit"] or "unknown"
    return full[:7] + ("-dirty" if full.endswith("-dirty") else "")


if __name__ == "__main__":
    sys.exit(main())
