"""A held-out measurement as text, from its record."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

from prequential.comparison.clusters import Clusters, count_of, label_of, plural, reason_for_none
from prequential.comparison.documents import DocumentComparison, difference_of, sentence
from prequential.evaluation.summary import learner_label
from prequential.heldout_loss.documents import DocumentSet
from prequential.heldout_loss.scored import Scored
from prequential.heldout_loss.summary import kind_of_name, languages_of
from prequential.printable import format_table, printable
from prequential.records import LOSSES

MAX_ROWS = 10
NAMES = {
    "frozen": "frozen",
    "dynamic": "dynamic, learning continues",
    "untrained": "untrained, from the first byte",
}

Record = dict[str, Any]


def format_heldout(record: Record) -> str:
    """All figures, except for documents and languages after the first MAX_ROWS; at the end, whether the training helps."""
    return "\n\n".join([*format_tables(record), verdict(record)])


def format_tables(record: Record) -> list[str]:
    """The parts of `format_heldout` before the verdict."""
    losses = {name: record[name] for name in LOSSES if record[name]}
    parts = [_head(record), _totals(record, losses), _averages(losses), _by_overlap(losses)]
    keys = {("language", "languages"): "name", ("document", "each"): "number", ("kind", "kinds"): "name"}
    parts += [_groups(title, field, key, losses) for (title, field), key in keys.items()]
    return [part for part in parts if part]


def verdict(record: Record) -> str:
    """What to expect of the trained learner on other such text, and whether it is better than one that was not trained."""
    loss, untrained = record["dynamic"] or record["frozen"], record["untrained"]
    trained, other = f"the learner that read {_name(record['train'])}", "one that did not"
    if record["overlap"] and record["overlap"]["warning"]:
        return printable(f"{trained} has seen most of this text: measure it on text that is new to it")
    found = sentence(difference_of("", "", clusters_of(untrained), clusters_of(loss)), other, trained)
    return printable("; ".join([*([expectation(loss)] if loss["interval"] else []), found]))


def clusters_of(loss: Record) -> Clusters:
    """The clusters of a loss in a record."""
    found = loss["clusters"]
    return Clusters(**{**found, "n_bytes": tuple(found["n_bytes"]), "bits": tuple(found["bits"])})


def expectation(loss: Record) -> str:
    """What to expect of a loss on other text like this."""
    found = loss["interval"]
    if found is None:
        return f"these figures say nothing about other text: {reason_for_none(clusters_of(loss))}"
    n = count_of(found["by"], found["n_clusters"])
    return f"expect {rate(loss['bits_per_byte'])} bits/byte on other text like this, {bounds(loss)} over {n}"


def _head(record: Record) -> str:
    test = record["test"]
    lines = [
        f"test: {_name(test)}, {extent(test)}, {count_of('document', record['untrained']['documents']['n_documents'])}",
        f"train: {_trained(record['train'])}",
        f"learner: {learner_label(record['config'])}; state {record['learner_digest']}",
        *([f"frozen, {record['policy']}"] if record["policy"] else []),
        "figures: ideal code lengths without model and program; the probabilities of the coded decisions sum to one",
    ]
    if outside := record["untrained"]["outside"]["n_bytes"]:
        lines.append(
            f"outside documents: {outside:,} bytes (list of files, ends of documents) are in no mean or loss below"
        )
    if overlap := record["overlap"]:
        share = 100 * overlap["train"]["byte_share"]
        lines.append(
            f"overlap: {share:.2f} % of the test bytes lie in copies of 50 bytes or more from the training corpus"
        )
        lines += [f"WARNING: {overlap['warning']}"] if overlap["warning"] else []
    else:
        lines.append("overlap of test and training corpus: not measured")
    return "\n".join(map(printable, lines))


def _name(corpus: Record) -> str:
    return str(corpus.get("name", "a corpus"))


def extent(test: Record) -> str:
    """How much of the test corpus was read."""
    n_bytes, n_all = test["n_bytes"], test["whole_bytes"]
    return f"all {n_bytes:,} bytes" if n_bytes == n_all else f"the first {n_bytes:,} of {n_all:,} bytes"


def _trained(train: Record) -> str:
    n_bytes, n_all = train.get("n_bytes"), train.get("whole_bytes", train.get("n_bytes"))
    read = "an unknown number of bytes" if n_bytes is None else f"{n_bytes:,} bytes"
    return f"{_name(train)}, {read}{'' if n_all == n_bytes else f' of {n_all:,}'} ({train['source']})"


def _totals(record: Record, losses: Record) -> str:
    rows = []
    for name, loss in losses.items():
        outside = loss["outside"]
        more = [bounds(loss), f"{outside['bits']:,.0f}" if outside["n_bytes"] else ""]
        rows.append([NAMES[name], f"{loss['documents']['bits']:,.0f}", rate(loss["bits_per_byte"]), *more])
    rows += [
        [f"{b['label']}, its file", f"{8 * b['compressed_bytes']:,}", rate(b["bits_per_byte"]), "", "within"]
        for b in record["baselines"]
    ]
    titles = ("loss", "bits", "bits/byte", "95 % interval", "outside")
    table = format_table(titles, rows) + interval_note(next(iter(losses.values()))) + _frozen_note(losses)
    if record["saved_bits"] is None:
        return table
    share = 100 * record["saved_bits"] / record["untrained"]["total"]["bits"]
    return f"{table}\n\nsaved by training: {record['saved_bits']:,.0f} bits, {share:.1f} % (untrained minus dynamic, all bytes)"


def bounds(loss: Record) -> str:
    """The interval of a loss; "" if it has none."""
    found = loss["interval"]
    return f"{found['low_bits_per_byte']:.4f} to {found['high_bits_per_byte']:.4f}" if found else ""


def interval_note(loss: Record) -> str:
    """What the intervals are for, or why there are none."""
    found = loss["interval"]
    if found is None:
        return f"\n\nno interval: {reason_for_none(clusters_of(loss))}"
    n = count_of(found["by"], found["n_clusters"])
    return (
        f"\n\n{100 * found['confidence']:g} % interval: the expected loss over {plural(found['by'])} of these sizes, if they "
        f"are independent of each other: {n}, Student's t with {found['freedom']:.1f} degrees of freedom"
    )


def _frozen_note(losses: Record) -> str:
    """What it means if the frozen learner is worse than one that has learned nothing."""
    frozen, untrained = losses.get("frozen"), losses["untrained"]
    if not frozen or frozen["bits_per_byte"] <= untrained["bits_per_byte"]:
        return ""
    return (
        "\n\nfrozen is worse than untrained: what was learned fits this text badly, and a frozen learner cannot adapt. See the "
        "dynamic loss"
    )


def _averages(losses: Record) -> str:
    if all(loss["documents"]["n_documents"] <= 1 for loss in losses.values()):
        return ""
    rows = [
        [name, rate(loss["bits_per_byte"]), rate(loss["macro_documents"]), rate(loss["macro_languages"])]
        for name, loss in losses.items()
    ]
    return format_table(("bits/byte", "by byte", "by document", "by language"), rows)


def _by_overlap(losses: Record) -> str:
    """The losses of all, clean and dirty documents, and of novel bytes; "" if the overlap was not measured."""
    first = next(iter(losses.values()))
    if first["clean"] is None:
        return ""
    rows = [
        [name, f"{first[key]['n_documents']:,}", f"{first[key]['n_bytes']:,}"]
        + [rate(loss[key]["bits_per_byte"]) for loss in losses.values()]
        for name, key in (("all", "documents"), ("clean", "clean"), ("dirty", "dirty"), ("novel bytes", "novel"))
    ]
    return format_table(("overlap", "documents", "bytes", *losses), rows)


def _groups(title: str, field: str, key: str, losses: Record) -> str:
    """The costliest groups of the first loss, with their bits/byte under all losses; "" if there is only one. key: is unique."""
    first = next(iter(losses.values())).get(field) or ()
    if len(first) < 2:
        return ""
    rates = [{group[key]: group["bits_per_byte"] for group in loss[field]} for loss in losses.values()]
    rows = [
        [f"{group['name']} {(group.get('commit') or '')[:12]}".rstrip()]
        + [f"{group[count]:,.0f}" for count in ("n_documents", "n_bytes", "bits")]
        + [rate(rates_by_key.get(group[key])) for rates_by_key in rates]
        for group in first[:MAX_ROWS]
    ]
    more = [f"and {len(first) - MAX_ROWS:,} more"] if len(first) > MAX_ROWS else []
    return "\n".join([format_table((title, "documents", "bytes", "bits", *losses), rows), *more])


def rate(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


# ---- scored models


MAX_COMMITS = 30  # in a table; of more, a row is a day
DIGESTED = {"static model": "the weights", "scores": "the scores"}


def format_models(
    documents: DocumentSet,
    scored: Sequence[Scored],
    losses: Sequence[dict[str, Any]],
    comparison: DocumentComparison | None = None,
) -> str:
    """All figures; of single documents, the MAX_ROWS costliest under the first model. At the end, which model to take.

    losses: of each model, as in records.
    """
    parts = [_scored_head(documents, scored), _scored_totals(losses) + interval_note(losses[0])]
    parts.append(_table("language", languages_of(documents.documents), documents, scored))
    if documents.commits:
        parts.append(_table("kind", [kind_of_name(d.name) for d in documents.documents], documents, scored))
        parts.append(_by_commit(documents, scored))
    if len(documents.ids) > 1:
        names = [f"{i}: {document.name}" for i, document in enumerate(documents.documents)]
        if documents.commits:
            names = [f"{name} {commit[:12]}" for name, (commit, _) in zip(names, documents.commits, strict=True)]
        parts.append(_table("document", names, documents, scored))
    for difference in comparison.differences if comparison else ():
        i = next(i for i in range(len(scored)) if label_of(i) == difference.other)
        parts.append(printable(sentence(difference, _scored_name(scored, 0), _scored_name(scored, i))))
    if not comparison:
        parts.append(f"{expectation(losses[0])}; to choose a model, score two on these documents")
    parts += [printable(each.orders.sentence(_scored_name(scored, i))) for i, each in enumerate(scored) if each.orders]
    return "\n\n".join(parts)


def _scored_name(scored: Sequence[Scored], i: int) -> str:
    return f"{label_of(i)} ({scored[i].name})" if len(scored) > 1 else scored[i].name


def _scored_head(documents: DocumentSet, scored: Sequence[Scored]) -> str:
    test = documents.test
    lines = [f"test: {test.get('name', 'text')}, {extent(test)}, {count_of('document', len(documents.ids))} scored"]
    if documents.commits:
        until = f"{test['until'][:12]} ({test['until_date']})"
        since = f"after {test['since'][:12]}" if test["since"] else "from the first one on"
        left_out = f"; files left out: {test['n_excluded']:,}" if test["n_excluded"] else ""
        lines.append(f"window: {count_of('commit', test['n_commits'])} {since}, up to {until}{left_out}")
    for i, each in enumerate(scored):
        lines += [
            f"{_scored_name(scored, i)}: {each.policy}",
            f"  {each.coding}; BLAKE2b of {DIGESTED[each.source]} {each.digest}",
        ]
    lines.append("overlap with what the models were trained on: not known here")
    return "\n".join(map(printable, lines))


def _scored_totals(losses: Sequence[dict[str, Any]]) -> str:
    rows = []
    for i, loss in enumerate(losses):
        means = [rate(loss["macro_documents"]), rate(loss["macro_languages"])]
        nats = (loss["bits_per_byte"] or 0.0) * log(2)
        rates = [rate(loss["bits_per_byte"]), bounds(loss), *means, rate(nats)]
        rows.append([label_of(i), f"{loss['documents']['bits']:,.0f}", *rates])
    titles = ("model", "bits", "bits/byte", "95 % interval", "by document", "by language", "nats/byte")
    return format_table(titles, rows)


def _by_commit(documents: DocumentSet, scored: Sequence[Scored]) -> str:
    """The commits in their order with their days; of many commits, only the days."""
    labels = [f"{date[:10]} {commit[:12]}" for commit, date in documents.commits]
    is_long = len(set(documents.commits)) > MAX_COMMITS
    return _table("commit", [label[:10] if is_long else label for label in labels], documents, scored, in_order=True)


def _table(
    title: str, labels: Sequence[str], documents: DocumentSet, scored: Sequence[Scored], *, in_order: bool = False
) -> str:
    """The documents of each label, the costliest MAX_ROWS under the first model; in_order: all, in the order of documents."""
    names = list(dict.fromkeys(labels))
    numbers = {name: i for i, name in enumerate(names)}
    places = np.array([numbers[label] for label in labels])
    n_bytes = np.bincount(places, [document.n_bytes for document in documents.documents])
    bits = [np.bincount(places, each.bits) for each in scored]
    order = range(len(names)) if in_order else np.argsort(-bits[0], kind="stable")[:MAX_ROWS].tolist()
    rows = []
    for i in order:
        rates = [float(each[i] / n_bytes[i]) for each in bits]
        cells = [names[i], f"{np.count_nonzero(places == i):,}", f"{n_bytes[i]:,.0f}", f"{bits[0][i]:,.0f}"]
        rows.append([*cells, *map(rate, rates), *(f"{each - rates[0]:+.4f}" for each in rates[1:])])
    letter = [label_of(i) for i in range(len(scored))]
    titles = (title, "documents", "bytes", "bits (A)", *letter, *(f"{each} - A" for each in letter[1:]))
    more = f"\nand {len(names) - len(rows):,} more" if len(rows) < len(names) else ""
    return format_table(titles, rows) + more
