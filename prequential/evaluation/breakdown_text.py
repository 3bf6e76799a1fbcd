"""The tables of where the bits went as text, from a record: a recorded run prints the same as a new one."""

from collections.abc import Mapping
from typing import Any

from prequential.evaluation import breakdown
from prequential.evaluation.breakdown import Row, Table
from prequential.evaluation.power_laws import CLOSE, LEVEL, LOGNORMAL, MIN_ROWS, MIN_TAIL, POWER_LAW, UNDECIDED
from prequential.printable import printable
from prequential.records.table import format_table

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
RANK = "rank"
FITS = {breakdown.WORDS: ("times", RANK), **dict.fromkeys((breakdown.OCCURRENCES, breakdown.LEARNING), ("bits", "k"))}
TAIL_FIELDS = {"alpha", "alpha_se", "xmin", "n_tail", "n_draws", "ks", "z", "p", "verdict"}
BETTER = {UNDECIDED: "neither is better", POWER_LAW: "the power law is better", LOGNORMAL: "the lognormal is better"}
RELATION_FIELDS = {"bend", "bend_p", "close_share", "worst_x", "worst_ratio"}


def format_tables(tables: dict[str, Table]) -> str:
    """Each table below a line that explains it, with its fits and quantiles, without a final newline.

    Columns: bytes, their share, the share of the first part's bits, and bits/byte of each part.
    """
    return "\n\n".join(
        "\n".join(
            [text, _table(tables[name]), *_quantiles(tables[name]), *_fits(name, tables[name]), *_notes(tables[name])]
        )
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
    """The quantiles of bits/byte over documents, as a table."""
    if "quantiles" not in table:
        return []
    of = [f"{100 * q:g}%" for q in table["quantiles"]["of"]]
    lines = [
        [part, *(f"{v:.4f}" for v in values)] for part, values in table["quantiles"]["bits_per_byte"].items() if values
    ]
    return [format_table([f"bits/byte, of {table['n_documents']:,} documents", *of], lines)] if lines else []


def _fits(name: str, table: Table) -> list[str]:
    y, x = FITS.get(name, ("y", "x"))
    return [printable(f"{part}: {fit_text(fit, y, x)}") for part, fit in table.get("fits", {}).items()]


def fit_text(fit: Mapping[str, Any] | None, y: str, x: str) -> str:
    """A power law y = factor * x**exponent with its standard error, and how well it holds; or why there is none."""
    if fit is None:
        few = f"fewer than {MIN_TAIL} words" if x == RANK else f"fewer than {MIN_ROWS} rows"
        return f"no power law: {few}, or no maximum of the likelihood"
    error = f"exponent +- {fit['exponent_se']:.3f}" if "exponent_se" in fit else "by least squares"
    how_well = [
        text(fit, x) for names, text in ((TAIL_FIELDS, _tail), (RELATION_FIELDS, _relation)) if names <= fit.keys()
    ]
    return "; ".join([f"{y} = {fit['factor']:.4g} {x}^{fit['exponent']:.3f}, {error}", *how_well])


def _tail(fit: Mapping[str, Any], x: str) -> str:
    """How many draws follow a power law of a distribution, and which distribution is better."""
    if fit["verdict"] == LOGNORMAL and fit["p"] > LEVEL:
        best = "neither is better there, but a lognormal fits all words"
    else:
        best = BETTER.get(fit["verdict"], fit["verdict"])
    return (
        f"alpha {fit['alpha']:.3f} +- {fit['alpha_se']:.3f} for the {fit['n_tail']:,} of {fit['n_draws']:,} words that occur "
        f"{fit['xmin']:,} times or more (KS {fit['ks']:.4f}); against a lognormal z {fit['z']:.2f}, p {fit['p']:.2g}: {best}"
    )


def _relation(fit: Mapping[str, Any], x: str) -> str:
    """Whether the points bend away from a power law, and where it holds least."""
    return (
        f"bend {fit['bend']:.3f}, p {fit['bend_p']:.2g}; {fit['close_share']:.1%} within a factor {CLOSE}, "
        f"{fit['worst_ratio']:.2f} times the fit at {x} = {fit['worst_x']:,.0f}"
    )


def _notes(table: Table) -> list[str]:
    """Notes on what the limits on memory left out."""
    notes = {
        "n_forgotten": "{:,} windows of 32 bytes were forgotten to save memory: some bytes that count as novel are copied",
        "n_untracked": "{:,} occurrences of words were not tracked to save memory: they count as words that occur once",
    }
    return [text.format(table[key]) for key, text in notes.items() if table.get(key)]
