"""The losses of models over the same documents as text, side by side."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

from prequential.comparison.clusters import count_of
from prequential.comparison.documents import DocumentComparison, sentence
from prequential.comparison.intervals import letters
from prequential.heldout_loss.documents import DocumentSet
from prequential.heldout_loss.heldout_text import MAX_ROWS, bounds, expectation, extent, interval_note, rate
from prequential.heldout_loss.scored import Scored
from prequential.heldout_loss.summary import kind_of_name, languages_of
from prequential.printable import format_table, printable

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
    parts = [_head(documents, scored), _totals(losses) + interval_note(losses[0])]
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
        i = next(i for i in range(len(scored)) if letters(i) == difference.other)
        parts.append(printable(sentence(difference, _name(scored, 0), _name(scored, i))))
    if not comparison:
        parts.append(f"{expectation(losses[0])}; to choose a model, score two on these documents")
    parts += [printable(each.orders.sentence(_name(scored, i))) for i, each in enumerate(scored) if each.orders]
    return "\n\n".join(parts)


def _name(scored: Sequence[Scored], i: int) -> str:
    return f"{letters(i)} ({scored[i].name})" if len(scored) > 1 else scored[i].name


def _head(documents: DocumentSet, scored: Sequence[Scored]) -> str:
    test = documents.test
    lines = [f"test: {test.get('name', 'text')}, {extent(test)}, {count_of('document', len(documents.ids))} scored"]
    if documents.commits:
        until = f"{test['until'][:12]} ({test['until_date']})"
        since = f"after {test['since'][:12]}" if test["since"] else "from the first one on"
        left_out = f"; files left out: {test['n_excluded']:,}" if test["n_excluded"] else ""
        lines.append(f"window: {count_of('commit', test['n_commits'])} {since}, up to {until}{left_out}")
    for i, each in enumerate(scored):
        lines += [
            f"{_name(scored, i)}: {each.policy}",
            f"  {each.coding}; BLAKE2b of {DIGESTED[each.source]} {each.digest}",
        ]
    lines.append("overlap with what the models were trained on: not known here")
    return "\n".join(map(printable, lines))


def _totals(losses: Sequence[dict[str, Any]]) -> str:
    rows = []
    for i, loss in enumerate(losses):
        means = [rate(loss["macro_documents"]), rate(loss["macro_languages"])]
        nats = (loss["bits_per_byte"] or 0.0) * log(2)
        rates = [rate(loss["bits_per_byte"]), bounds(loss), *means, rate(nats)]
        rows.append([letters(i), f"{loss['documents']['bits']:,.0f}", *rates])
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
    letter = [letters(i) for i in range(len(scored))]
    titles = (title, "documents", "bytes", "bits (A)", *letter, *(f"{each} - A" for each in letter[1:]))
    more = f"\nand {len(names) - len(rows):,} more" if len(rows) < len(names) else ""
    return format_table(titles, rows) + more
