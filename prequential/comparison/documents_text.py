"""A comparison of held-out or monorepo records as text: the records, the differences with their intervals, what these are for."""

from prequential.comparison.clusters import MIN_DOCUMENTS
from prequential.comparison.documents import DocumentComparison, LossDifference, label
from prequential.printable import printable
from prequential.records.table import format_table


def format_document_comparison(comparison: DocumentComparison) -> str:
    """The complete report, without a final newline."""
    test = comparison.records[0].test
    head = [f"test: {test['name'] or 'a corpus'}, {test['n_bytes']:,} bytes, BLAKE2b {test['blake2b'][:16]}"]
    head += [
        f"{label(i)}: {each.learner}, trained on {each.train} ({each.where})"
        for i, each in enumerate(comparison.records)
    ]
    differences = comparison.differences
    intervals = [difference.interval for difference in differences if difference.interval]
    level = f"{100 * intervals[0].confidence:g} % confidence" if intervals else "interval"
    titles = ("loss, bits/byte", "", "A", "other", "difference", level, "documents")
    parts = ["\n".join(map(printable, head)), format_table(titles, [_row(difference) for difference in differences])]
    if intervals:
        parts.append(
            "interval: the expected difference over documents like these, if they are independent; whole documents drawn "
            f"{intervals[0].n_resamples:,} times, seed {intervals[0].seed}"
        )
    if any(difference.interval is None for difference in differences):
        parts.append(
            f"no interval: it needs {MIN_DOCUMENTS} documents, not nearly all of the same difference in bits/byte"
        )
    return "\n\n".join([*parts, *map(printable, comparison.notes)])


def _row(difference: LossDifference) -> list[str]:
    found = difference.interval
    return [
        difference.loss,
        f"{difference.other} - A",
        f"{difference.reference_bits_per_byte:.4f}",
        f"{difference.other_bits_per_byte:.4f}",
        f"{difference.bits_per_byte:+.4f}",
        f"{found.low_bits_per_byte:+.4f} to {found.high_bits_per_byte:+.4f}" if found else "none",
        f"{difference.n_documents:,}",
    ]
