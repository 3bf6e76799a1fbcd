"""The tables of where the bits went as text, from a record: a recorded run prints the same as a new one."""

from prequential.evaluation import breakdown
from prequential.evaluation.breakdown import Row, Table
from prequential.printable import format_table

EXPLANATIONS = {
    breakdown.POSITIONS: "By position in the corpus: each stretch is as long as all stretches before it.",
    breakdown.DOCUMENTS: "By document, the costliest first.",
    breakdown.EXTENSIONS: "By the extension of the document's name, the costliest first.",
    breakdown.CLASSES: "By the value of the byte.",
    breakdown.OCCURRENCES: "By occurrence: the byte ends the k-th occurrence of its trigram.",
    breakdown.LEARNING: f"The same for trigrams with {breakdown.COHORT} occurrences or more: every row has the same trigrams.",
    breakdown.WORDS: "By how common the byte's word is in the corpus: tenths of all occurrences, the most common words first.",
    breakdown.COPIES: "Copied: in a match of 32 bytes or more that begins earlier in the corpus. Novel: all other bytes.",
}
COUNTS = {"n_documents": "documents", "n_words": "words", "n_distinct": "distinct"}  # columns that only some rows have


def format_tables(tables: dict[str, Table]) -> str:
    """Each table below a line that explains it, with its quantiles, without a final newline.

    Columns: bytes, their share, the share of the first part's bits, and bits/byte of each part.
    """
    return "\n\n".join(
        "\n".join([text, _table(tables[name]), *_quantiles(tables[name]), *_notes(tables[name])])
        for name, text in EXPLANATIONS.items()
        if tables.get(name, {}).get("rows")
    )


def _table(table: Table) -> str:
    rows: list[Row] = table["rows"]
    parts = list(rows[0]["bits"])
    n_bytes, n_bits = sum(row["n_bytes"] for row in rows), sum(row["bits"][parts[0]] for row in rows)
    counts = {key: title for key, title in COUNTS.items() if any(key in row for row in rows)}
    lines = [
        [
            row["name"],
            *(f"{row[key]:,}" if key in row else "" for key in counts),
            f"{row['n_bytes']:,}",
            f"{row['n_bytes'] / n_bytes:.1%}",
            f"{row['bits'][parts[0]] / max(n_bits, 1e-9):.1%}",
            *(f"{row['bits'][part] / row['n_bytes']:.4f}" for part in parts),
        ]
        for row in rows
    ]
    return format_table(["", *counts.values(), "bytes", "of bytes", "of bits", *parts], lines)


def _quantiles(table: Table) -> list[str]:
    if "quantiles" not in table:
        return []
    of = [f"{100 * q:g}%" for q in table["quantiles"]["of"]]
    lines = [
        [part, *(f"{v:.4f}" for v in values)] for part, values in table["quantiles"]["bits_per_byte"].items() if values
    ]
    return [format_table([f"bits/byte, of {table['n_documents']:,} documents", *of], lines)] if lines else []


def _notes(table: Table) -> list[str]:
    notes = {
        "n_forgotten": "{:,} windows of 32 bytes were forgotten to save memory: some bytes that count as novel are copied",
        "n_untracked": "{:,} occurrences of words were not tracked to save memory: they count as words that occur once",
    }
    return [text.format(table[key]) for key, text in notes.items() if table.get(key)]
