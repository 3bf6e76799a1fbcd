"""A held-out measurement as text, from its records."""

from collections.abc import Sequence
from typing import Any

from prequential.comparison.clusters import Clusters, count_of, label_of, reason_for_none
from prequential.comparison.documents import DocumentComparison, difference_of, sentence
from prequential.evaluation.summary import Record, learner_label
from prequential.heldout_loss.order_test import order_sentence
from prequential.printable import format_table, printable
from prequential.records import LOSSES

MAX_ROWS = 10
GROUPS = {"overlap": "", "language": "languages", "kind": "kinds", "commit": "commits", "document": "each"}
DIGESTED = {"static model": "the weights", "scores": "the scores"}


def format_heldout(record: Record) -> str:
    """All figures of a trained learner; of groups the MAX_ROWS costliest. At the end, whether the training helps."""
    losses = {name: record[name] for name in LOSSES if record[name]}
    parts = [_head(record), _totals(losses, record["baselines"])]
    parts += [_groups(title, losses) for title in GROUPS]
    return "\n\n".join([*filter(None, parts), verdict(record)])


def format_models(records: Sequence[Record], comparison: DocumentComparison | None = None) -> str:
    """All figures of models that learn nothing; of groups the costliest under the first one. At the end, which to take."""
    losses = {label_of(i): record["frozen"] for i, record in enumerate(records)}
    names = [record["config"]["learner"]["name"] for record in records]
    if len(names) > 1:
        names = [f"{label} ({name})" for label, name in zip(losses, names, strict=True)]
    lines = _test_lines(records[0])
    for name, record in zip(names, records, strict=True):
        digested = f"BLAKE2b of {DIGESTED[record['train']['source']]} {record['learner_digest']}"
        lines += [f"{name}: {record['policy']}", f"  {record['coding']}; {digested}"]
    lines.append("overlap with what the models were trained on: not known here")
    parts = ["\n".join(map(printable, lines)), _totals(losses)]
    parts += filter(None, [_groups(title, losses, differences=True) for title in GROUPS])
    for difference in comparison.differences if comparison else ():
        parts.append(printable(sentence(difference, names[0], names[list(losses).index(difference.other)])))
    if not comparison:
        parts.append(f"{_expectation(losses['A'])}; to choose a model, score two on these documents")
    tests = [(record["orders"], name) for record, name in zip(records, names, strict=True) if record["orders"]]
    return "\n\n".join([*parts, *(printable(order_sentence(orders, name)) for orders, name in tests)])


# ---- what was measured


def _head(record: Record) -> str:
    train = record["train"]
    n_bytes, n_all = train.get("n_bytes"), train.get("whole_bytes", train.get("n_bytes"))
    read = "an unknown number of bytes" if n_bytes is None else f"{n_bytes:,} bytes"
    tree = f", at {train['until'][:12]} ({train['until_date']})" if train.get("kind") == "git" else ""
    lines = [
        *_test_lines(record),
        f"train: {_name(train)}, {read}{'' if n_all == n_bytes else f' of {n_all:,}'} ({train['source']}){tree}",
        f"learner: {learner_label(record['config'])}; state {record['learner_digest']}",
        *([f"frozen, {record['policy']}"] if record["policy"] else []),
        "figures: ideal code lengths without model and program; the probabilities of the coded decisions sum to one",
    ]
    if outside := record["untrained"]["outside"]["n_bytes"]:
        lines.append(f"outside documents: {outside:,} bytes (list of files, ends of documents) are in no loss below")
    if overlap := record["overlap"]:
        share = 100 * overlap["train"]["byte_share"]
        lines.append(f"overlap: {share:.2f} % of the test bytes lie in copies of 50 bytes or more from training")
        lines += [f"WARNING: {overlap['warning']}"] if overlap["warning"] else []
    else:
        lines.append("overlap of test and training corpus: not measured")
    return "\n".join(map(printable, lines))


def _test_lines(record: Record) -> list[str]:
    test, loss = record["test"], record["untrained"] or record["frozen"]
    n_bytes, n_all = test["n_bytes"], test["whole_bytes"]
    extent = f"all {n_bytes:,} bytes" if n_bytes == n_all else f"the first {n_bytes:,} of {n_all:,} bytes"
    lines = [f"test: {_name(test)}, {extent}, {count_of('document', loss['documents']['n_documents'])}"]
    if test.get("read") != "window":
        return lines
    n_commits = len(loss["commits"] or [])
    return [*lines, window_line(test) + (f"; {n_commits} added text" if n_commits < test["n_commits"] else "")]


def window_line(test: Record) -> str:
    """The commits of a window, and the files that were left out."""
    since = f"after {test['since'][:12]}" if test["since"] else "from the first one on"
    until = f"{test['until'][:12]} ({test['until_date']})"
    left_out = f"; left out: {test['excluded']}" if test["excluded"] else ""
    return f"window: {count_of('commit', test['n_commits'])} {since}, up to {until}{left_out}"


def _name(corpus: Record) -> str:
    return str(corpus.get("name", "a corpus"))


# ---- tables


def _totals(losses: Record, baselines: Sequence[Record] = ()) -> str:
    rows = []
    for name, loss in losses.items():
        per_byte, documents = loss["bits_per_byte"], loss["documents"]
        means = [rate(loss["macro_documents"]), rate(loss["macro_languages"])]
        rows.append([name, f"{documents['bits']:,.0f}", rate(per_byte), bounds(loss), *means])
    for each in baselines:
        row = [each["label"], f"{8 * each['compressed_bytes']:,}", rate(each["bits_per_byte"])]
        rows.append([*row, "", "", ""])
    return format_table(("", "bits", "bits/byte", "95 % interval", "by document", "by language"), rows)


def _groups(title: str, losses: Record, *, differences: bool = False) -> str:
    """The costliest groups of the first loss, with their bits/byte under all losses; "" if there is only one."""
    if title == "overlap":
        names = ("documents", "clean", "dirty", "novel")
        members = [[loss[name] for name in names if loss[name]] for loss in losses.values()]
    else:
        members = [loss[GROUPS[title]] or [] for loss in losses.values()]
    groups = sorted(members[0], key=lambda group: -group["bits"])
    if len(groups) < 2:
        return ""
    rates = [{_identity(group): group["bits_per_byte"] for group in each} for each in members]
    rows = []
    for group in groups[:MAX_ROWS]:
        cells = [f"{group[count]:,.0f}" for count in ("n_documents", "n_bytes", "bits")]
        values = [of.get(_identity(group)) for of in rates]
        more = [f"{value - values[0]:+.4f}" if value and values[0] else "" for value in values[1:] if differences]
        rows.append([f"{group['name']} {(group.get('commit') or '')[:12]}".rstrip(), *cells, *map(rate, values), *more])
    labels = list(losses)
    titles = [title, "documents", "bytes", "bits", *labels, *(f"{each} - A" for each in labels[1:] if differences)]
    end = f"\nand {len(groups) - MAX_ROWS:,} more" if len(groups) > MAX_ROWS else ""
    return format_table(titles, rows) + end


def _identity(group: Record) -> Any:
    return group.get("number", group["name"])  # documents of a window may have equal names


def rate(value: float | None) -> str:
    """A rate of a table; "" for None."""
    return "" if value is None else f"{value:.4f}"


def bounds(loss: Record) -> str:
    """The interval of a loss; "" if it has none."""
    interval = loss["interval"]
    return f"{interval['low_bits_per_byte']:.4f} to {interval['high_bits_per_byte']:.4f}" if interval else ""


# ---- sentences


def verdict(record: Record) -> str:
    """What to expect of the learner on other such text, and whether it beats one that was not trained, if that is known."""
    loss, untrained = record["dynamic"] or record["frozen"], record["untrained"]
    if untrained is None:
        return printable(_expectation(loss))
    trained, other = f"the learner that read {_name(record['train'])}", "one that did not"
    if record["overlap"] and record["overlap"]["warning"]:
        return printable(f"{trained} has seen most of this text: measure it on text that is new to it")
    saved = sentence(difference_of("", "", _clusters_of(untrained), _clusters_of(loss)), other, trained)
    return printable("; ".join([*([_expectation(loss)] if loss["interval"] else []), saved]))


def _expectation(loss: Record) -> str:
    """What to expect of a loss on other text like this."""
    interval = loss.get("interval")
    if interval is None:
        return f"these figures say nothing about other text: {reason_for_none(_clusters_of(loss))}"
    n = count_of(interval["by"], interval["n_clusters"])
    level, mean = f"{100 * interval['confidence']:g} %", rate(loss["bits_per_byte"])
    return f"expect {mean} bits/byte on other text like this, {bounds(loss)} ({level}) over {n} that are independent"


def _clusters_of(loss: Record) -> Clusters:
    values = loss["clusters"]
    return Clusters(**{**values, "n_bytes": tuple(values["n_bytes"]), "bits": tuple(values["bits"])})
