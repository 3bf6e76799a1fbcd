"""An evaluation as text, from its record: a recorded run prints the same as a new one. The list of runs."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from prequential_codecs.archive_header import GIVEN, OTHER

from prequential.evaluation.curves import MODEL, Split
from prequential.files import PathLike
from prequential.model.presets import name_of
from prequential.online.health import Finding
from prequential.printable import format_table, printable
from prequential.records import CODED_HERE, IMPORTED, REPORTED, REPORTED_CODINGS, WITHOUT_ARCHIVE

Record = Mapping[str, Any]

COLUMNS = ("", "bytes", "bits/byte", "seconds", "kB/s")
LIST_TITLES = ("run", "bytes", "model", "bits/byte", "verified")
DIGEST = re.compile("-[0-9a-f]{8}(-[0-9]+)?$")  # at the end of the name of a run
SAME_ORDER = "the same rows, in the same order"
SAME_TEXT = "other rows of one declared text: bits per byte of what each scored"
OTHER_ORDER = "the same rows, in another order or in other steps"
DECLARED = "declared equal, not checked"
DIFFERENT_ROWS = {
    REPORTED: "the loops scored different rows, or rows of another tokenizer",
    IMPORTED: "the logs declare different data, or other lengths; --data of `prequential import` names the data",
}
LEFT_OUT = {
    "n_not_finite": "a loss is not finite",
    "n_negative": "is negative",
    "n_outside": "ids outside the vocabulary",
}
MAX_ARGUMENT, MAX_ARGUMENTS = 24, 4  # characters of one, and how many


# ---- what a record says


def is_coded(record: Record) -> bool:
    """Whether the run wrote an archive; if not, its size is its code length in whole bytes."""
    return record.get("coding") not in WITHOUT_ARCHIVE


def is_reported(record: Record) -> bool:
    """Whether somebody else's training loop, or its log, gave the figures."""
    return record.get("coding") in REPORTED_CODINGS


def proof(record: Record) -> str:
    """What a reported run says about itself."""
    return f"{record['coding']}; not proved"


def rows_known(records: Sequence[Record]) -> str:
    """What is known about the data of reported runs with equal digests of their rows."""
    if records[0]["coding"] == IMPORTED:
        return DECLARED
    if records[0]["corpus"].get("kind") == "text":
        texts = [record["reported"]["text"] for record in records]
        unknown = ", ".join(f"{text['n_unknown']} of {text['n_samples']}" for text in texts)
        return f"{SAME_TEXT}; {unknown} samples are not in it"
    return SAME_ORDER if len({record["reported"].get("order") for record in records}) == 1 else OTHER_ORDER


def seed_of(config: Record) -> int:
    """The seed, as learners/spec.py says: of a learner that is not of this program, its argument `seed`."""
    seed = (config[OTHER]["arguments"] if OTHER in config else config).get("seed", 0)
    return seed if type(seed) is int else 0  # a stranger's argument of this name may be anything


def verified_word(record: Record) -> str:
    """Whether every byte was decoded; of a reported run, which nobody can decode, where it comes from."""
    return str(record["coding"]).split()[0] if is_reported(record) else "yes" if record["verified"] else "no"


def recorded_findings(record: Record) -> list[Finding]:
    """The findings in the record."""
    return msgspec.convert(record.get("findings", []), list[Finding])


def learner_label(config: Record) -> str:
    """The preset of a configuration, name and arguments of another learner, or else the sizes of GPT and mixer."""
    if other := config.get(OTHER):
        return ", ".join([str(other["name"]), *_argument_texts(other.get("arguments") or {})])
    own = {name: value for name, value in config.items() if name != GIVEN}
    entry = config.get(GIVEN)
    n_given = entry.get("n_symbols") if isinstance(entry, dict) else None
    given = f", given {n_given:,} bytes" if type(n_given) is int else ", given" * (GIVEN in config)
    return (name_of(own) or _sizes(own)) + given


def _argument_texts(arguments: Record) -> list[str]:
    """`tok=8k`, also of a path that ends so. Not the seed, which differs within a group."""
    shown = [(n, value) for n, value in arguments.items() if n != "seed" and isinstance(value, str | int | float)]
    return [f"{n}={str(value).rstrip('/').rpartition('/')[2][-MAX_ARGUMENT:]}" for n, value in shown[:MAX_ARGUMENTS]]


def _sizes(config: Record) -> str:
    """A record of a stranger may lack any of these."""
    gpt, mixer, seed = config.get("gpt"), config.get("mixer"), config.get("seed")
    parts = [f"GPT {gpt.get('n_layers', '?')} x {gpt.get('width', '?')}"] if gpt else []
    contexts = mixer.get("contexts") if mixer else None
    parts += [f"{len(contexts) if isinstance(contexts, list | tuple) else '?'} contexts"] if mixer else []
    return (" + ".join(parts) or "a learner") + (f", seed {seed}" if seed else "")


def without_common_arguments(labels: Iterable[str]) -> list[str]:
    """The labels without the arguments that all of them have."""
    parts = [label.split(", ") for label in labels]
    common = set.intersection(*map(set, parts)) if len({*map(tuple, parts)}) > 1 else set()
    return [", ".join([name, *(each for each in arguments if each not in common)]) for name, *arguments in parts]


# ---- a report


def run_line(record: Record) -> str:
    """Corpus, learner and bits per byte in a line."""
    corpus, learner = record["corpus"], learner_label(record["config"])
    line = f"{corpus.get('name', 'bytes')}, {corpus['n_bytes']:,} bytes: {learner}, {record['bits_per_byte']:.4f} bits/byte"
    return line + (f", {record['coding']}" if is_reported(record) else "")


def format_report(record: Record, *parts: str, folder: PathLike = "") -> str:
    """One record: figures, these parts, notes and warnings; last the ranking and the main figure. folder: that of the run."""
    figures = report_figures(record) | ({"run": str(folder)} if folder else {})
    main = "code length" if is_reported(record) else "description length"
    last = format_figures({main: figures.pop(main)})
    ranking = [] if is_reported(record) else [format_table(COLUMNS, comparison_rows(record)), ""]
    warnings = [f"warning: {finding}" for finding in recorded_findings(record)]
    notes = "\n".join(map(printable, [*record["notes"], *warnings]))
    return "\n\n".join(filter(None, [format_figures(figures), *parts, notes, "\n".join([*ranking, last])]))


def format_figures(figures: Mapping[str, str]) -> str:
    """A line for each figure with its name."""
    return "\n".join(printable(f"{name:<20}{text}") for name, text in figures.items())


def comparison_rows(record: Record) -> list[list[str]]:
    """One row under COLUMNS for each compressor, the smallest size first. Our learner is called prequential."""
    rows = [list(row.values())[2:] for row in sizes(record)]
    return [[label, f"{n:,}", f"{rate:.4f}", f"{s:.2f}", f"{speed / 1e3:,.0f}"] for label, n, rate, s, speed in rows]


def sizes(record: Record, corpus: str = "") -> list[dict[str, Any]]:
    """The same with all digits, and with the name and the length of the corpus."""
    config, n_bytes = record["config"], record["corpus"]["n_bytes"]
    name = config[OTHER]["name"] if OTHER in config else "prequential"
    results = [
        (name, record["archive_bytes"], record["wall_s"]),
        *((b["label"], b["compressed_bytes"], b["wall_s"]) for b in record["baselines"]),
    ]
    titles = ("corpus", "n_bytes", "program", "compressed_bytes", "bits_per_byte", "wall_s", "bytes_per_s")
    ranked = sorted(results, key=lambda result: result[1])
    rows = [(label, n, 8 * n / n_bytes, wall_s, n_bytes / max(wall_s, 1e-6)) for label, n, wall_s in ranked]
    return [dict(zip(titles, (corpus, n_bytes, *row), strict=True)) for row in rows]


def report_figures(record: Record) -> dict[str, str]:
    """The figures of one evaluation, each as a line, by name."""
    if is_reported(record):
        return dict(_reported_figures(record))
    corpus, config, environment = record["corpus"], record["config"], record["environment"]
    n_bytes, alone = corpus["n_bytes"], {name: bits for name, bits in record.get("parts", {}).items() if name != MODEL}
    parts = [f"{name} {bits / n_bytes:.4f}" for name, bits in alone.items()]
    mixing, n_threads = environment.get("mixing", {}), environment["threads"]
    threads = f"{n_threads} thread{'s' * (n_threads != 1)}"
    threads += f" ({mixing['used_threads']} mixed)" if mixing and mixing["most_threads"] != 1 else ""
    sizes = f": {_sizes(config)}" if name_of(config) else ""
    rates = f"{record['code_bits_per_byte']:.4f} bits/byte, {record['code_nats_per_byte']:.4f} nats/byte"
    return {
        "corpus": f"{corpus.get('name', 'bytes')}, {corpus['n_bytes']:,} bytes",
        "model": learner_label(config) + sizes,
        "archive": _archive(record),
        "ideal code length": rates,
        **({"alone": f"{', '.join(parts)} bits/byte"} if parts else {}),
        "speed": f"{_speed(record)}, {record['peak_memory_bytes'] / 2**20:,.0f} MiB, {threads}",
        "verified": _verified(record),
        "description length": f"{record['archive_bits']:,} bits, {record['bits_per_byte']:.4f} bits/byte",
    }


def _archive(record: Record) -> str:
    if not is_coded(record):
        return f"none: {record['coding']}"
    parts = " + ".join(f"{part} {record[f'{part}_bytes']:,}" for part in ("header", "payload", "container"))
    return f"{record['archive_bytes']:,} bytes = {parts}"


def _speed(record: Record, of: str = "") -> str:
    return f"{record[f'{of}wall_s']:.2f} s, {record[f'{of}bytes_per_s'] / 1e3:,.2f} kB/s"


def _verified(record: Record) -> str:
    if not record["verified"]:
        return "no; --verify decodes the archive and compares every byte" if is_coded(record) else "not possible"
    here = " on this machine and these versions" if record.get("coding") == CODED_HERE else ""
    return f"every byte decoded and compared{here}: {_speed(record, 'verify_')}"


def format_total(record: Record) -> str:
    """The machine, and the total cost: what the archive costs with its decoder and the choice of the learner."""
    environment = record["environment"]
    machine = f"{environment['machine']['cpu']}, {environment['kernels']} kernels, {environment['backend']} matmul"
    rows = [[row["entry"], f"{row['bits']:,.1f}"] for row in record["ledger"] if row["bits"]]
    given = "what was given" * (GIVEN in record["config"])
    left_out = "the learner's own source" if OTHER in record["config"] else given
    total = f"{record['total_bits']:,.1f} bits" + (f"; {left_out} is not counted" if left_out else "")
    return f"{format_table(('', 'bits'), rows)}\n{format_figures({'total cost': total, 'machine': machine})}"


def _reported_figures(record: Record) -> Iterable[tuple[str, str]]:
    """(name, text) of each line about a training run: what its loop, or its log, said."""
    corpus, reported = record["corpus"], record["reported"]
    yield "data", f"{corpus.get('name', 'rows')}, {corpus['n_bytes']:,} bytes, {record['n_tokens']:,} tokens"
    yield "model", learner_label(record["config"])
    yield "proof", f"none: {proof(record)}"
    yield "code length", f"{record['code_bits']:,.0f} bits, {record['code_bits_per_byte']:.4f} bits/byte"
    yield "per token", f"{record['bits_per_token']:.4f} bits, {record['nats_per_token']:.4f} nats"
    if reported.get("repeated"):
        yield from _checked_figures(reported, len(record.get("findings", ())))


def _checked_figures(reported: Record, n_mistakes: int) -> Iterable[tuple[str, str]]:
    """What a training loop reported, and what was checked."""
    count = defaultdict[str, int](int, reported)
    rows = f"{reported['new']['n_rows']:,} in {count['n_steps']:,} steps"
    rows += ", told apart by their numbers" if reported.get("numbered") else ""
    if n_after := count["n_rows_after_last_step"]:
        rows += f"; {n_after:,} more, scored after the last step, do not count"
    yield "rows", rows + ("" if reported.get("all_rows_kept", True) else "; later ones were not remembered")
    repeated, counts = reported["repeated"], "counted, too" if reported.get("counts_repeats") else "not counted"
    yield "seen before", f"{repeated['n_rows']:,} rows, {repeated['code_bits']:,.0f} bits: {counts}"
    share = count["n_grams_seen"] / max(n_samples := count["n_grams"], 1)
    seen = f"{share:.1%} or more of the new targets, by {n_samples:,} samples of 32"
    yield "text seen before", seen if n_samples else "not checked: no 32 targets of a row were sampled"
    if wrong := [f"{count[name]:,} rows: {why}" for name, why in LEFT_OUT.items() if count[name]]:
        yield "left out", "; ".join(wrong)
    yield "order of rows", str(reported.get("order", ""))[:16]
    if text := reported.get("text"):
        scored = text["n_scored_bytes"] / max(1, text["n_bytes"])
        unknown = f"{text['n_unknown']:,} of {text['n_samples']:,}"
        size = f"{text['n_documents']:,} documents, {text['n_bytes']:,} bytes, {scored:.1%} scored"
        yield "text", f"{size}; not in it: {unknown} samples of what was scored"
    if rescored := reported.get("rescored"):
        known = "other rows, so no excess"
        if (excess := reported.get("excess_bits")) is not None:
            known = f"excess {excess:,.0f} bits, an upper bound of what was learned"
        yield "rescored", f"{rescored['code_bits']:,.0f} bits under the final weights: {known}"
    checked = f"compared with the scores in {count['n_checked_steps']:,} of {count['n_steps']:,} steps"
    yield "calls of the model", checked if count["n_checked_steps"] else "not checked"
    audits = [f"checked {count['n_audits']:,} times"] if count["n_audits"] else []
    audits += [f"not audited: {why}"] if (why := reported.get("not_audited")) else []
    yield "look ahead", "; ".join(audits) or "not checked"
    yield "mistakes", f"{n_mistakes:,}"


# ---- run folders


def run_figures(path: PathLike, record: Record) -> dict[str, Any]:
    """The figures of a run for the list of runs, as JSON values. Raises CorpusError if the record is incomplete."""
    corpus = record["corpus"]
    own = {name: record[name] for name in ("archive_bytes", "bits_per_byte", "bytes_per_s", "verified", "time")}
    own |= {"coding": record["coding"]} if is_reported(record) else {}
    of_corpus = {"corpus": corpus.get("name"), "n_bytes": corpus["n_bytes"], "blake2b": corpus["blake2b"]}
    return {"run": str(path), **of_corpus, "model": learner_label(record["config"]), **own}


def format_runs(records: Sequence[Record]) -> str:
    """A table of at most WIDTH columns of `run_figures`. A run is called by its name without the digest, where that is unique."""
    names = [Path(record["run"]).name for record in records]
    n_begin, rows = Counter(DIGEST.sub("", name) for name in names), []
    for name, record in zip(names, records, strict=True):
        begin, size, rate = DIGEST.sub("", name), f"{record['n_bytes']:,}", f"{record['bits_per_byte']:.4f}"
        rows.append([begin if n_begin[begin] == 1 else name, size, record["model"], rate, verified_word(record)])
    return format_table(LIST_TITLES, rows, cut=LIST_TITLES.index("model"), on_pipes=True)


def split_text(split: Split, n_bytes: int) -> str:
    """A code length in two parts, in a sentence."""
    rate, above = split
    bits = rate * n_bytes + above
    return f"{rate:.4f} bits/byte in the last tenth; {above:+,.0f} bits above this rate, {above / bits if bits else 0:.1%} of all"


def format_run(record: Record, folder: PathLike, split: Split) -> str:
    """The report of the evaluation, and from which byte on the model's archive stays below each baseline's size."""
    parts = [format_figures({"last tenth": split_text(split, record["corpus"]["n_bytes"])})]
    if groups := record.get("tables", {}).get("groups"):
        from prequential.evaluation.breakdown import format_tables  # it loads numba

        parts.append(format_tables({"groups": groups}))
    if not is_reported(record):
        labels = {baseline["name"]: baseline["label"] for baseline in record["baselines"]}
        crossings = record["crossings"].items()
        rows = [[labels.get(name, name), "never" if byte is None else f"{byte:,}"] for name, byte in crossings]
        parts.append(format_table(("the model is below", "from byte"), rows))
    return format_report(record, *parts, folder=folder)
