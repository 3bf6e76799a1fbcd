"""A held-out measurement as text, from its record: what was measured and how first, then the figures."""

from typing import Any

from prequential.measure.table import format_table, printable

MAX_ROWS = 10
LOSSES = ("frozen", "dynamic", "untrained")

Record = dict[str, Any]


def format_heldout(record: Record) -> str:
    """Everything that the record has, but for the rarer documents and languages."""
    losses = {name: record[name] for name in LOSSES if record[name]}
    parts = [_head(record), _totals(record, losses), _averages(losses), _seen(losses)]
    parts += [_groups("language", "languages", losses), _groups("document", "each", losses)]
    return "\n\n".join(part for part in parts if part)


def _head(record: Record) -> str:
    test, config = record["test"], record["config"]
    n_bytes, whole = test["n_bytes"], test["whole_bytes"]
    extent = f"all {n_bytes:,} bytes" if n_bytes == whole else f"the first {n_bytes:,} of {whole:,} bytes"
    n_documents = record["untrained"]["documents"]["n_documents"]
    parts = " and ".join(name for name, key in (("GPT", "gpt"), ("context mixer", "mixer")) if config[key])
    lines = [
        f"test: {_name(test)}, {extent}, {n_documents:,} document{'s' * (n_documents != 1)}",
        f"train: {_trained(record['train'])}",
        f"learner: {parts}, seed {config['seed']}; state {record['learner_digest']}",
        *([f"frozen, {record['policy']}"] if record["policy"] else []),
        "figures: ideal code lengths of bytes, of coded decisions that sum to one; neither model nor program is counted",
    ]
    if outside := record["untrained"]["outside"]["n_bytes"]:
        lines.append(
            f"outside documents: {outside:,} bytes (list of files, ends of documents), in no mean or loss below"
        )
    overlap = record["overlap"]
    if overlap is None:
        lines.append("overlap of test and training corpus: not measured")
    else:
        share = 100 * overlap["train"]["byte_share"]
        lines.append(
            f"overlap: {share:.2f} % of the test bytes lie in copies of 50 bytes or more from the training corpus"
        )
        lines += [f"WARNING: {overlap['warning']}"] if overlap["warning"] else []
    return "\n".join(lines)


def _name(corpus: Record) -> str:
    return printable(str(corpus.get("name", "a corpus")))


def _trained(train: Record) -> str:
    read = f"{train['n_bytes']:,} bytes" if isinstance(train.get("n_bytes"), int) else "an unknown number of bytes"
    of = (
        f" of {train['whole_bytes']:,}"
        if train.get("whole_bytes", train.get("n_bytes")) != train.get("n_bytes")
        else ""
    )
    return f"{_name(train)}, {read}{of} ({train['source']})"


def _totals(record: Record, losses: Record) -> str:
    names = {
        "frozen": "frozen",
        "dynamic": "dynamic, learning goes on",
        "untrained": "untrained, learning from the first byte",
    }
    rows = [
        [names[name], f"{loss['documents']['bits']:,.0f}", _rate(loss["bits_per_byte"]), _bits(loss["outside"])]
        for name, loss in losses.items()
    ]
    rows += [
        [f"{b['label']}, its file", f"{8 * b['compressed_bytes']:,}", _rate(b["bits_per_byte"]), "within"]
        for b in record["baselines"]
    ]
    table = format_table(("loss", "bits", "bits/byte", "outside"), rows)
    if record["saved_bits"] is None:
        return table
    share = 100 * record["saved_bits"] / record["untrained"]["total"]["bits"]
    return f"{table}\n\nsaved by training: {record['saved_bits']:,.0f} bits, {share:.1f} % (untrained less dynamic, all bytes)"


def _averages(losses: Record) -> str:
    of = next(iter(losses.values()))["quantiles"]["of"]
    rows = [
        [name, _rate(loss["bits_per_byte"]), _rate(loss["macro_documents"]), _rate(loss["macro_languages"])]
        + [_rate(value) for value in loss["quantiles"]["bits_per_byte"]]
        for name, loss in losses.items()
    ]
    if all(loss["documents"]["n_documents"] <= 1 for loss in losses.values()):
        return ""
    quantiles = [f"{100 * q:g} %" for q in of] if len(rows[0]) > 4 else []
    return format_table(("bits/byte", "by byte", "by document", "by language", *quantiles), rows)


def _seen(losses: Record) -> str:
    """All, clean, dirty documents and novel bytes."""
    first = next(iter(losses.values()))
    if first["clean"] is None:
        return ""
    rows = [
        [name, f"{first[key]['n_documents']:,}", f"{first[key]['n_bytes']:,}"]
        + [_rate(loss[key]["bits_per_byte"]) for loss in losses.values()]
        for name, key in (("all", "documents"), ("clean", "clean"), ("dirty", "dirty"), ("novel bytes", "novel"))
    ]
    return format_table(("overlap", "documents", "bytes", *losses), rows)


def _groups(title: str, key: str, losses: Record) -> str:
    """The costliest groups of the first loss, beside the same under the others; none of a single one."""
    first = next(iter(losses.values()))[key]
    if len(first) < 2:
        return ""
    rates = [{group["name"]: group["bits_per_byte"] for group in loss[key]} for loss in losses.values()]
    rows = [
        [group["name"], f"{group['n_documents']:,}", f"{group['n_bytes']:,}", f"{group['bits']:,.0f}"]
        + [_rate(of.get(group["name"])) for of in rates]
        for group in first[:MAX_ROWS]
    ]
    more = [f"and {len(first) - MAX_ROWS:,} more"] if len(first) > MAX_ROWS else []
    return "\n".join([format_table((title, "documents", "bytes", "bits", *losses), rows), *more])


def _bits(group: Record) -> str:
    return f"{group['bits']:,.0f}" if group["n_bytes"] else ""


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
