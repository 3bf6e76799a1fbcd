"""Writes the tables of docs/RESULTS.md from records of `prequential evaluate`. No figure in them is entered by hand.

    python benchmarks/results.py FILE... [--levels 1 5 5-pure] [--unverified] [--baselines NAMES]   evaluates each at each level
    python benchmarks/results.py                                    writes the tables from the existing records

Runs follow each other, each in its own process, so that speed and peak memory are those of one run. At the end the script
appends their records, with the options of the run, to benchmarks/results.jsonl. Files are identified by the digest of their
bytes. The table of a file shows the newest record of each preset and of each baseline, and from benchmarks/peers.jsonl the
programs that are not among the baselines. If other programs ran beside a run (SLOWED), its times are those of the record
before. Records of a preset that has changed since, and those of a tree with changes, are left out. A record without options
belongs to the preset that now has its configuration; otherwise it is named by the shape of its model.
"""

import argparse
import functools
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_table import format_markdown

from prequential.errors import ConfigError
from prequential.evaluation.summary import format_report, model_summary
from prequential.machine.facts import NO_BACKEND
from prequential.model.config import Config
from prequential.model.presets import DEVICE_PRESETS, PRESETS, PURE, preset
from prequential.records.record import append_record
from prequential.sweeps.sweep import pareto_front

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
PEERS = PROJECT / "benchmarks" / "peers.jsonl"
RESULTS = PROJECT / "docs" / "RESULTS.md"
BEGIN, END = "<!-- begin: benchmarks/results.py -->", "<!-- end: benchmarks/results.py -->"
COLUMNS = (
    "compressor", "version", "bytes", "bits/byte", "with decoder", "decoded", "compress s", "decompress s", "kB/s", "peak MiB",
)  # fmt: skip
# a convention: how many configurations were tried for the presets was not counted; dev/LOG.md lists hundreds
N_TRIED = 1024
NOT_DECODED = " †"
REFERENCES = ("gzip", "xz", "ppmd", "bzip3", "zpaq")  # columns next to the presets in the table of all files
MIN_FRONT_PRESETS = 4  # a file with fewer measured presets has no row in the table of Pareto fronts
# Commits at whose runs other programs ran, on another machine: their records give sizes, and no times.
SLOWED = {"7f99ac0", "4056d96", "729a46a", "ceac7f9"}
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
    """One compressor on one file. None: not measured. name: of a baseline or peer, or the label of a preset.

    total_bytes: of archive, zipped decoder and choice of the configuration; None if they are not known. is_decoded: whether the
    archive was decoded and every byte compared.
    """

    name: str
    label: str
    version: str
    compressed_bytes: int
    wall_s: float
    is_decoded: bool
    total_bytes: int | None = None
    decompress_wall_s: float | None = None
    peak_memory_bytes: int | None = None


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
    done: list[Record] = []
    failed = []
    try:
        for name in args.files:
            for level in args.levels:
                if record := evaluate(name, level, more):
                    done.append(record)
                else:
                    failed.append(f"{name} -{level}")
    finally:  # not before, so that every run is of a tree without changes
        for record in done:
            append_record(RECORDS, record)
    write_tables(RESULTS, read(RECORDS), read(PEERS))
    for run in failed:
        print(f"failed: {run}", file=sys.stderr)
    return 1 if failed else 0


def evaluate(name: str, level: str, more: list[str]) -> Record | None:
    """The record of one evaluation, with more options; None if it failed."""
    options = options_of(level)
    command = ["prequential", "evaluate", *options, "--estimate", *more]
    print("+", *command, name, flush=True)
    command = [sys.executable, "-m", *command, "--no-run", "--json", "--", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return None
    record: Record = {**json.loads(done.stdout), "options": options}
    record.pop("passages", None)  # parts of the corpus, which are not ours to publish
    print(format_report(record) + "\n", flush=True)
    return record


def options_of(level: str) -> list[str]:
    """The options of the command line for a level: N, N-pure, or the name of a preset."""
    if level in DEVICE_PRESETS:
        return ["--preset", level]
    number, _, pure = level.partition("-")
    return [f"-{number}", *([f"--{pure}"] if pure else [])]


def read(path: Path) -> list[Record]:
    """The records of a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def write_tables(path: Path, records: list[Record], peers: list[Record]) -> None:
    """Replaces the text between the markers of the file at `path`, or appends a section if there are none."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Results\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n\n".join(sections(records, peers))
    path.write_text(f"{before.rstrip()}\n\n{BEGIN}\n\n{body}\n\n{END}\n{after.lstrip()}", encoding="utf-8")


def sections(records: list[Record], peers: list[Record]) -> Iterator[str]:
    """Markdown: the origin of the figures, one table of all files if there are several, and a section for each file."""
    files: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "evaluation":
            files.setdefault(record["corpus"]["blake2b"], []).append(record)
    rows = {digest: file_rows(of_file, peers) for digest, of_file in files.items()}
    yield (
        "Generated by `make bench` from [results.jsonl](../benchmarks/results.jsonl) and, for programs run by their "
        "command line, [peers.jsonl](../benchmarks/peers.jsonl). Every run of prequential is of a commit without changes. "
        "*decoded*: every byte was decoded and compared; † marks sizes of archives that were not. *with decoder*: archive, "
        f"zipped source of the decoder at that commit, and log2({N_TRIED:,}) bits for the choice of the preset, by "
        "convention: how many were tried was not counted, and [LOG.md](../dev/LOG.md) lists several hundred. Python, torch, "
        "numpy and numba are not in it. prequential ran with the threads that its line states, all other programs with one. kB/s "
        "and peak memory are of compression; `-` is not measured, or, of memory, less than the measuring process has (some "
        "30 MiB)."
    )
    if len(files) > 1:
        yield f"### All files, bits/byte\n\n{overview([(files[d][-1]['corpus'], rows[d]) for d in files])}"
    several = [
        (of_file[-1]["corpus"], front)
        for of_file in files.values()
        if len(front := mixed(of_file)) >= MIN_FRONT_PRESETS
    ]
    if several:
        yield f"### Presets: bits against time\n\n{fronts(several)}"
    for digest, of_file in files.items():
        yield file_section(of_file, rows[digest], [peer for peer in peers if peer["corpus"]["blake2b"] == digest])


def overview(files: Iterable[tuple[dict[str, Any], list[Row]]]) -> str:
    """Markdown table of bits/byte: a row for each file, and columns for the references and the presets."""
    by_name = [(corpus, {row.name: row for row in rows}) for corpus, rows in files]
    known = {name: row.label for _, rows in by_name for name, row in rows.items()}
    names = [name for name in (*REFERENCES, *presets()) if name in known]
    lines = [
        [corpus["name"], f"{corpus['n_bytes']:,}"]
        + [
            bits_per_byte(rows[name].compressed_bytes, corpus["n_bytes"])
            + ("" if rows[name].is_decoded else NOT_DECODED)
            if name in rows
            else "-"
            for name in names
        ]
        for corpus, rows in by_name
    ]
    return format_markdown(("file", "bytes", *(known[name] for name in names)), lines)


def mixed(records: Iterable[Record]) -> dict[str, Record]:
    """The newest record of each preset without --pure, by its name."""
    return {name: record for record in newest(records) if (name := learner(record)) in presets() and "pure" not in name}


def fronts(files: Iterable[tuple[dict[str, Any], dict[str, Record]]]) -> str:
    """Markdown table: a row for each file, bits/byte (kB/s) of each preset as columns; `*` marks the file's Pareto front."""
    rows: list[tuple[str, str, dict[str, str]]] = []
    for corpus, by_name in sorted(files, key=lambda file: file[0]["n_bytes"]):
        on_front = pareto_front([(record["wall_s"], record["archive_bytes"]) for record in by_name.values()])
        shown = {
            name: f"{bits_per_byte(record['archive_bytes'], corpus['n_bytes'])} "
            f"({speed(corpus['n_bytes'], record['wall_s'])}){' *' if best else ''}"
            for (name, record), best in zip(by_name.items(), on_front, strict=True)
        }
        rows.append((corpus["name"], f"{corpus['n_bytes']:,}", shown))
    named = [name for name in presets() if any(name in shown for *_, shown in rows)]
    titles = ["bits/byte (kB/s)", "bytes", *(name.removeprefix("prequential ") for name in named)]
    table = format_markdown(titles, [[file, n, *(shown.get(name, "-") for name in named)] for file, n, shown in rows])
    note = "`*`: no other preset measured there is both faster and smaller; the speeds of a row may be of two machines (above)."
    return f"{table}\n\n{note}"


def file_section(records: list[Record], rows: list[Row], peers: list[Record]) -> str:
    """The section of one file: all compressors, smallest first, and the facts of each evaluation."""
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
    """The rows of one file, smallest first, from all its records and from the peers that measured it."""
    last = records[-1]
    peers_of_file = [peer for peer in peers if peer["corpus"]["blake2b"] == last["corpus"]["blake2b"]]
    rows = [learner_row(record) for record in newest(records)]
    baselines = {b["name"]: (b, record["environment"]["versions"]) for record in records for b in record["baselines"]}
    rows += [baseline_row(baseline, versions) for baseline, versions in baselines.values()]
    measured = {row.name for row in rows}
    rows += [peer_row(peer) for peer in newest(peers_of_file) if peer["restored"] and peer["name"] not in measured]
    return sorted(rows, key=lambda row: row.compressed_bytes)


def newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each name, with its times or older ones. Left out are records that `is_current` refuses.

    records: of one file.
    """
    found: dict[str, Record] = {}
    for record in records:
        if is_current(record):
            name = record.get("name") or learner(record)
            found[name] = timed_before(record, found.get(name))
    return list(found.values())


def timed_before(record: Record, before: Record | None) -> Record:
    """The record; with the times of the record `before` it, and their commit, if its own say nothing (SLOWED)."""
    if before is None or "config" not in record or commit(record) not in SLOWED:
        return record
    times = {name: before[name] for name in ("wall_s", "verify_wall_s")}
    return {**record, **times, "times_of": before.get("times_of", commit(before))}


def is_current(record: Record) -> bool:
    """Whether the record is of a program, or of a preset as it is today, at a commit without changes."""
    if "config" not in record:
        return True
    config = completed(record["config"])
    return config == presets().get(learner(record), config) and not commit(record).endswith("-dirty")


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a record, with the names that have been added since, if it can be read."""
    try:
        return json.loads(json.dumps(Config.from_record(config).to_dict()))
    except ConfigError:
        return config


def learner(record: Record) -> str:
    """The learner's name in tables: from the options of the evaluation, otherwise from its configuration."""
    if "options" in record:
        return "prequential " + " ".join(record["options"])
    named = [name for name, config in presets().items() if config == completed(record["config"])]
    return named[0] if named else f"prequential, {model_summary(record['config'])}"


@functools.cache
def presets() -> dict[str, Any]:
    """The configuration of every preset, as in a record, by the name that `learner` gives it."""
    configs = {f"prequential -{level}": config for level, config in PRESETS.items()}
    configs |= {f"prequential --preset {name}": config for name, config in DEVICE_PRESETS.items()}
    configs |= {f"prequential -{n} --pure": preset(n, pure=True) for n in PURE}
    return {name: json.loads(json.dumps(config.to_dict())) for name, config in configs.items()}


def learner_row(record: Record) -> Row:
    """The row of the learner of an evaluation."""
    return Row(
        name=learner(record),
        label=f"**{learner(record)}**",
        version=commit(record),
        compressed_bytes=record["archive_bytes"],
        wall_s=record["wall_s"],
        is_decoded=record["verified"],
        total_bytes=total_bytes(record),
        decompress_wall_s=record["verify_wall_s"],
        peak_memory_bytes=record["peak_memory_bytes"],
    )


def total_bytes(record: Record) -> int | None:
    """Archive, zipped decoder and the bits of the choice, in whole bytes; None in records that lack the decoder."""
    decoder_bytes = record.get("decoder_bytes")
    return decoder_bytes and record["archive_bytes"] + decoder_bytes + math.ceil(math.log2(N_TRIED) / 8)


def baseline_row(baseline: Record, versions: dict[str, str]) -> Row:
    """The row of a baseline of an evaluation. The evaluation compares its decoded bytes, but does not time decoding."""
    library = LIBRARIES.get(baseline["name"], "python")
    return Row(
        name=baseline["name"],
        label=baseline["label"],
        version=f"{library} {versions.get(library, '')}".rstrip(),
        compressed_bytes=baseline["compressed_bytes"],
        wall_s=baseline["wall_s"],
        is_decoded=True,  # or the evaluation would have failed
    )


def peer_row(peer: Record) -> Row:
    """The row of a program that peers.py measured."""
    return Row(
        name=peer["name"],
        label=peer["label"],
        version=peer["version"] or "",
        compressed_bytes=peer["compressed_bytes"],
        wall_s=peer["wall_s"],
        is_decoded=peer["restored"],
        decompress_wall_s=peer["decompress_wall_s"],
        peak_memory_bytes=peer["peak_memory_bytes"],
    )


def cells(row: Row, n_bytes: int) -> list[str]:
    """The cells of a row, in the order of COLUMNS."""
    return [
        row.label,
        row.version,
        f"{row.compressed_bytes:,}",
        bits_per_byte(row.compressed_bytes, n_bytes),
        "-" if row.total_bytes is None else f"{row.total_bytes:,}",
        "yes" if row.is_decoded else "no",
        f"{row.wall_s:.2f}",
        "-" if row.decompress_wall_s is None else f"{row.decompress_wall_s:.2f}",
        speed(n_bytes, row.wall_s),
        "-" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:,.0f}",
    ]


def speed(n_bytes: int, wall_s: float) -> str:
    """The speed in kB/s, as text."""
    kb_per_s = n_bytes / max(wall_s, 1e-6) / 1e3
    return f"{kb_per_s:.2f}" if kb_per_s < 100 else f"{kb_per_s:,.0f}"


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> str:
    """Bits per byte as text, with four decimals."""
    return f"{8 * compressed_bytes / n_bytes:.4f}"


def facts(record: Record) -> str:
    """Model, sizes, machine, commit and date of one evaluation, in a line."""
    environment = record["environment"]
    times = f"; times of commit {record['times_of']}" if "times_of" in record else ""
    matmul = "" if environment["backend"] == NO_BACKEND else f"{environment['backend']} matmul, "
    return (
        f"{model_summary(record['config'])}; {record['archive_bits']:,} bits, ideal code length "
        f"{record['code_bits_per_byte']:.4f} bits/byte, coder overhead {record['coder_overhead_ppm']:.1f} ppm; "
        f"{'decoded and compared' if record['verified'] else 'not decoded'}; {environment['machine']['cpu']}, "
        f"{environment['threads']} threads, {matmul}{environment['kernels']} kernels; "
        f"commit {commit(record)}, {record['time'][:10]}{times}"
    )


def commit(record: Record) -> str:
    """The shortened commit of the record's checkout, with "-dirty" if its files differed from the commit."""
    full = record["environment"]["git_commit"] or "unknown"
    return full[:7] + ("-dirty" if full.endswith("-dirty") else "")


if __name__ == "__main__":
    sys.exit(main())
