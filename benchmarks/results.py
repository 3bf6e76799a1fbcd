"""Writes the table of docs/RESULTS.md from records of `prequential evaluate`. No figure in it is entered by hand.

    python benchmarks/results.py FILE... [--levels 1 5 5-pure] [--unverified] [--baselines NAMES]   evaluates each at each level
    python benchmarks/results.py                                    writes the table from the existing records, and prints it
    python benchmarks/results.py --every-row                        prints all figures of all compressors; writes nothing

Runs follow each other, each in its own process, so that speed and peak memory are those of one run. At the end the script
appends their records, with the options of the run, to benchmarks/results.jsonl. Files are identified by the digest of their
bytes. The table has a line for each file, with the newest record of each level and two of the other programs; --every-row shows
all of them: the newest of each baseline, and from benchmarks/peers.jsonl the programs that are not among the baselines. Records
of a preset that has changed since, and those of a tree with changes, are left out. A record without options belongs to the preset
that now has its configuration; otherwise it is named by the shape of its model.
"""

import argparse
import functools
import json
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_table import format_markdown

from prequential.errors import ConfigError
from prequential.evaluation.summary import format_report, model_summary
from prequential.model.config import Config
from prequential.model.presets import DEFAULT_PRESET, DEVICE_PRESETS, PRESETS, preset
from prequential.records import append_record

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "benchmarks" / "results.jsonl"
# Presets as they were until 2026-11-27: their rows are shown until a file is measured again.
FORMER = Path(__file__).with_name("former_presets.json")
PEERS = PROJECT / "benchmarks" / "peers.jsonl"
RESULTS = PROJECT / "docs" / "RESULTS.md"
BEGIN, END = "<!-- begin: benchmarks/results.py -->", "<!-- end: benchmarks/results.py -->"
SUMMARY_TITLES = ("file", "bytes", *(f"-{level}" for level in PRESETS), "xz -9e", "best other program")
SPEED_TITLES = ("level", "kB/s", "back, kB/s", "peak MiB", "machine", "commit")
TITLES = (
    "file", "file bytes", "compressor", "commit or version", "date", "bytes", "bits/byte", "with decoder", "decoded",
    "compress s", "decompress s", "kB/s", "peak MiB", "machine",
)  # fmt: skip
# a convention: how many configurations were tried for the presets was not counted; dev/LOG.md lists hundreds
N_TRIED = 1024
NOT_DECODED = "†"
FORMER_MIXER = "°"
MIXER_SINCE = "2026-11-27T21:30"  # UTC: since then, the mixer of all levels makes the same bits
COMMON = "xz"  # the program of the summary that most readers have; the other one is the best on the file
TIMED_FILE = "enwik6"  # whose runs give the speeds
LIBRARIES = {
    "zstd": "zstandard",
    "brotli": "brotli",
    "ppmd": "pyppmd",
    "order0": "prequential",
}

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One compressor on one file. None: not measured. name: of a baseline or peer, or the label of a preset.

    level: of a preset. is_former: made by a mixer before today's. total_bytes: of archive, zipped decoder and choice of the
    configuration; None if they are not known. is_decoded: whether the archive was decoded and every byte compared.
    """

    name: str
    label: str
    version: str
    machine: str
    date: str
    compressed_bytes: int
    wall_s: float
    is_decoded: bool
    is_ours: bool = False
    level: int | None = None
    is_former: bool = False
    total_bytes: int | None = None
    decompress_wall_s: float | None = None
    peak_memory_bytes: int | None = None


def main() -> int:
    """Runs the evaluations of the command line and writes the table. Fails if any run fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="a corpus, as for `prequential evaluate`")
    parser.add_argument(
        "--levels", nargs="+", default=["5"], metavar="N", help="presets: N, N-pure or a name (default: 5)"
    )
    parser.add_argument("--unverified", action="store_true", help="do not decode the archives; takes half the time")
    parser.add_argument("--baselines", metavar="NAMES", help="baselines, as for `prequential evaluate`")
    parser.add_argument(
        "--every-row", action="store_true", help="print all figures of the records, and do nothing else"
    )
    args = parser.parse_args()
    if args.every_row:
        print(every_row(read(RECORDS), read(PEERS)))
        return 0
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
    tables = summary(read(RECORDS), read(PEERS))
    write_between(RESULTS, BEGIN, tables, END)
    print(tables)
    for run in failed:
        print(f"failed: {run}", file=sys.stderr)
    return 1 if failed else 0


def evaluate(name: str, level: str, more: list[str]) -> Record | None:
    """The record of one evaluation, with more options; None if it failed."""
    options = options_of(level)
    found = record_of_command("evaluate", *options, *more, "--no-run", "--json", "--", name)
    if not found:
        return None
    record: Record = {**found, "options": options}
    record.pop("passages", None)  # parts of the corpus, which are not ours to publish
    print(format_report(record) + "\n", flush=True)
    return record


def record_of_command(*words: str) -> Record | None:
    """The record that the command prints; None if it failed."""
    print("+ prequential", *words, flush=True)
    done = subprocess.run([sys.executable, "-m", "prequential", *words], stdout=subprocess.PIPE, check=False)
    return None if done.returncode else json.loads(done.stdout)


def options_of(level: str) -> list[str]:
    """The options of the command line for a level: N, N-pure, or the name of a preset."""
    if level in DEVICE_PRESETS:
        return ["--preset", level]
    number, _, pure = level.partition("-")
    return [f"-{number}", *([f"--{pure}"] if pure else [])]


def read(path: Path) -> list[Record]:
    """The records of a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def write_between(path: Path, begin: str, table: str, end: str) -> None:
    """Replaces the text between two markers of the file at `path`."""
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    assert found_begin and found_end, f"{path} has no markers for the table"
    path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def summary(records: list[Record], peers: list[Record]) -> str:
    """Two Markdown tables: bits/byte of each file that a level has read, and the speed of each level on TIMED_FILE."""
    files = [
        (corpus, levels, [row for row in rows if not row.is_ours])
        for corpus, rows in rows_by_file(records, peers)
        if (levels := {row.level: row for row in reversed(rows) if row.level})
    ]
    sizes = [summary_cells(corpus, levels, others) for corpus, levels, others in files]
    timed = [levels[level] for corpus, levels, _ in files if corpus["name"] == TIMED_FILE for level in sorted(levels)]
    tables = [format_markdown(SUMMARY_TITLES, sizes)]
    if timed:
        n_bytes = next(corpus["n_bytes"] for corpus, *_ in files if corpus["name"] == TIMED_FILE)
        tables.append(format_markdown(SPEED_TITLES, [speed_cells(row, n_bytes) for row in timed]))
    return "\n\n".join(tables)


def every_row(records: list[Record], peers: list[Record]) -> str:
    """Markdown table of all files and compressors, and the programs that did not restore a file."""
    files = rows_by_file(records, peers)
    lost = [
        f"Did not restore {peer['corpus']['name']}: {peer['label']} ({peer['version']})."
        for corpus, _ in files
        for peer in newest(peers_of(peers, corpus))
        if not peer["restored"]
    ]
    table = format_markdown(TITLES, [cells(row, corpus) for corpus, rows in files for row in rows])
    return "\n\n".join([table, *lost])


def rows_by_file(records: list[Record], peers: list[Record]) -> list[tuple[Record, list[Row]]]:
    """The corpus and the rows of each file, in the order of their first records."""
    files: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "evaluation":
            files.setdefault(record["corpus"]["blake2b"], []).append(record)
    return [(of_file[-1]["corpus"], file_rows(of_file, peers)) for of_file in files.values()]


def file_rows(records: list[Record], peers: list[Record]) -> list[Row]:
    """The rows of one file, smallest first, from all its records and from the peers that measured it."""
    rows = [learner_row(record) for record in newest(records)]
    baselines = {baseline["name"]: (baseline, record) for record in records for baseline in record["baselines"]}
    rows += [baseline_row(baseline, record) for baseline, record in baselines.values()]
    measured = {row.name for row in rows}
    of_file = newest(peers_of(peers, records[-1]["corpus"]))
    rows += [peer_row(peer) for peer in of_file if peer["restored"] and peer["name"] not in measured]
    return sorted(rows, key=lambda row: row.compressed_bytes)


def peers_of(peers: list[Record], corpus: Record) -> list[Record]:
    """The records of programs that read the bytes of `corpus`."""
    return [peer for peer in peers if peer["corpus"]["blake2b"] == corpus["blake2b"]]


def newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each name. Left out are records that `is_current` refuses. records: of one file."""
    return list({record.get("name") or learner(record): record for record in records if is_current(record)}.values())


def is_current(record: Record) -> bool:
    """Whether the record is of a program, or of a preset as it is today or was before (FORMER), at a commit without changes."""
    if "config" not in record:
        return True
    config = completed(record["config"])
    return config in presets().get(learner(record), [config]) and not commit(record).endswith("-dirty")


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a record, with the names that have been added since, if it is of this program."""
    try:
        return json.loads(json.dumps(Config.from_record(config).to_dict()))
    except ConfigError:  # it may have a context that is no longer known
        known = json.loads(json.dumps(Config().to_dict()))
        parts = {
            name: {**known[name], **value}
            for name, value in config.items()
            if isinstance(known.get(name), dict) and value
        }
        return {**known, **config, **parts}


def learner(record: Record) -> str:
    """The learner's name in tables: from the options of the evaluation, otherwise from its configuration."""
    if "options" in record:
        return "prequential " + " ".join(record["options"])
    named = [name for name, configs in presets().items() if completed(record["config"]) in configs]
    return named[0] if named else f"prequential, {model_summary(record['config'])}"


def level_of(record: Record) -> int | None:
    """The level of a record by its configuration or, of a former one, by its name; None for other learners."""
    configs = presets()
    names = [f"prequential -{level}" for level in PRESETS]
    config = completed(record["config"])
    same = [name for name in names if configs[name][0] == config]
    name = same[0] if same else learner(record).replace("-9", f"-{max(PRESETS)}")  # as the last level was called
    return int(name.rpartition("-")[2]) if name in names else None


@functools.cache
def presets() -> dict[str, list[Any]]:
    """The configurations of every preset, as in a record, by the name that `learner` gives it: today's first."""
    configs = {f"prequential -{level}": config for level, config in PRESETS.items()}
    configs |= {f"prequential -{level}": PRESETS[max(PRESETS)] for level in (7, 8, 9)}  # names that it once had
    configs |= {f"prequential --preset {name}": config for name, config in DEVICE_PRESETS.items()}
    configs[f"prequential -{DEFAULT_PRESET} --pure"] = preset(pure=True)
    found = {name: [json.loads(json.dumps(config.to_dict()))] for name, config in configs.items()}
    for name, config in json.loads(FORMER.read_text("utf-8")).items():
        found.setdefault(name, []).append(config)
    return found


def learner_row(record: Record) -> Row:
    """The row of the learner of an evaluation."""
    environment = record["environment"]
    return Row(
        name=learner(record),
        label=learner(record),
        version=commit(record),
        machine=f"{cpu(environment['machine'])}, {environment['threads']} threads",
        date=record["time"][:10],
        compressed_bytes=record["archive_bytes"],
        wall_s=record["wall_s"],
        is_decoded=record["verified"],
        is_ours=True,
        level=level_of(record),
        is_former=record["time"] < MIXER_SINCE,
        total_bytes=total_bytes(record),
        decompress_wall_s=record["verify_wall_s"],
        peak_memory_bytes=record["peak_memory_bytes"],
    )


def total_bytes(record: Record) -> int | None:
    """Archive, zipped decoder and the bits of the choice, in whole bytes; None in records that lack the decoder."""
    decoder_bytes = record.get("decoder_bytes")
    return decoder_bytes and record["archive_bytes"] + decoder_bytes + math.ceil(math.log2(N_TRIED) / 8)


def baseline_row(baseline: Record, record: Record) -> Row:
    """The row of a baseline of an evaluation. The evaluation compares its decoded bytes, but does not time decoding."""
    environment = record["environment"]
    library = LIBRARIES.get(baseline["name"], "python")
    return Row(
        name=baseline["name"],
        label=baseline["label"],
        version=f"{library} {environment['versions'].get(library, '')}".rstrip(),
        machine=cpu(environment["machine"]),
        date=record["time"][:10],
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
        machine=cpu(peer["machine"]),
        date=peer["time"][:10],
        compressed_bytes=peer["compressed_bytes"],
        wall_s=peer["wall_s"],
        is_decoded=peer["restored"],
        decompress_wall_s=peer["decompress_wall_s"],
        peak_memory_bytes=peer["peak_memory_bytes"],
    )


def cpu(machine: Record) -> str:
    """The processor's name without its marks: "Intel Xeon"."""
    return str(machine["cpu"]).replace("(R)", "").removesuffix(" Processor")


def summary_cells(corpus: Record, levels: dict[int, Row], others: list[Row]) -> list[str]:
    """The cells of a file, in the order of SUMMARY_TITLES. others: rows of other programs, smallest first."""
    n_bytes = corpus["n_bytes"]
    ours = [marked(levels[level], n_bytes) if level in levels else "" for level in PRESETS]
    common = next((bits_per_byte(row.compressed_bytes, n_bytes) for row in others if row.name == COMMON), "")
    best = f"{bits_per_byte(others[0].compressed_bytes, n_bytes)} {others[0].label}" if others else ""
    return [corpus["name"], f"{n_bytes:,}", *ours, common, best]


def marked(row: Row, n_bytes: int) -> str:
    """Bits per byte, with the marks that the text explains."""
    marks = (FORMER_MIXER if row.is_former else "") + ("" if row.is_decoded else NOT_DECODED)
    return bits_per_byte(row.compressed_bytes, n_bytes) + marks


def speed_cells(row: Row, n_bytes: int) -> list[str]:
    """The cells of a level, in the order of SPEED_TITLES."""
    back = "" if row.decompress_wall_s is None else speed(n_bytes, row.decompress_wall_s)
    memory = "" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:,.0f}"
    return [f"-{row.level}", speed(n_bytes, row.wall_s), back, memory, row.machine, row.version]


def cells(row: Row, corpus: Record) -> list[str]:
    """The cells of a row, in the order of TITLES."""
    n_bytes = corpus["n_bytes"]
    return [
        corpus["name"],
        f"{n_bytes:,}",
        row.label,
        row.version,
        row.date,
        f"{row.compressed_bytes:,}",
        bits_per_byte(row.compressed_bytes, n_bytes),
        "-" if row.total_bytes is None else f"{row.total_bytes:,}",
        "yes" if row.is_decoded else "no",
        f"{row.wall_s:.2f}",
        "-" if row.decompress_wall_s is None else f"{row.decompress_wall_s:.2f}",
        speed(n_bytes, row.wall_s),
        "-" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:,.0f}",
        row.machine,
    ]


def speed(n_bytes: int, wall_s: float) -> str:
    """The speed in kB/s, as text."""
    kb_per_s = n_bytes / max(wall_s, 1e-6) / 1e3
    return f"{kb_per_s:.2f}" if kb_per_s < 100 else f"{kb_per_s:,.0f}"


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> str:
    """Bits per byte as text, with four decimals."""
    return f"{8 * compressed_bytes / n_bytes:.4f}"


def commit(record: Record) -> str:
    """The shortened commit of the record's checkout, with "-dirty" if its files differed from the commit."""
    full = record["environment"]["git_commit"] or "unknown"
    return full[:7] + ("-dirty" if full.endswith("-dirty") else "")


if __name__ == "__main__":
    sys.exit(main())
