"""Where the bits went: tables of costs by position, document, kind of byte, copies, and how common a word is.

Each byte of the corpus is in exactly one row of each table, so the bits of the rows add up exactly to the ideal code length in
the ledger. Rows without bytes are left out. docs/MEASURES.md explains the tables.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from posixpath import splitext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_corpora.corpus import Document
from prequential_corpora.overlap import repeated_bytes

from prequential.evaluation.curves import cost_columns
from prequential.evaluation.trace import Trace
from prequential.printable import format_table, printable
from prequential.records import Passage

Row = dict[str, Any]
Table = dict[str, Any]

POSITIONS, DOCUMENTS, EXTENSIONS, CLASSES = "positions", "documents", "extensions", "byte_classes"
WORDS, COPIES = "words", "copies"

CHUNK_BYTES = 1 << 20
FIRST_STRETCH = 1 << 10  # bytes; each later stretch ends at twice the position
MAX_DOCUMENTS, MAX_EXTENSIONS = 50, 20  # rows; all others are summed in one row
MAX_EACH = 1000  # documents whose costs are kept for comparisons; of more, none
PASSAGE_BYTES = 600
WORD = re.compile(rb"[A-Za-z\x80-\xff]+")
MAX_WORDS = 1 << 21  # some 300 MB; further words count as words that occur once
N_DECILES = 10
MAX_COPIES_MEMORY_BYTES = 1 << 28

# Classes of bytes by their value alone. The names are right for ASCII and UTF-8.
BYTE_CLASSES: dict[str, Sequence[int]] = {
    "lower-case letters": range(0x61, 0x7B),
    "upper-case letters": range(0x41, 0x5B),
    "digits": range(0x30, 0x3A),
    "spaces, tabs": (0x20, 0x09),
    "ends of lines": (0x0A, 0x0D),
    "punctuation": (*range(0x21, 0x30), *range(0x3A, 0x41), *range(0x5B, 0x61), *range(0x7B, 0x7F)),
    "NUL": (0x00,),
    "other control": (*range(0x01, 0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F),
    "UTF-8 lead": range(0xC2, 0xF5),
    "UTF-8 continuation": range(0x80, 0xC0),
    "never in UTF-8": (0xC0, 0xC1, *range(0xF5, 0x100)),
}


def breakdown(source: NDArray[np.uint8], trace: Trace, documents: Sequence[Document]) -> dict[str, Table]:
    """All tables, as JSON values. source: (n,) uint8, may be memory-mapped. documents: in stream order.

    A table is {"rows": [...]}. A row is {"name", "n_bytes", "bits": {part: bits}} with further fields. Takes about 0.7 s per MB
    and 5 us per document, and at most about 350 MiB, as many bytes as the corpus has, and 100 bytes per document.
    """
    tables = {POSITIONS: _by_position(trace)} | (_by_document(trace, documents) if len(documents) > 1 else {})
    by_byte = _sums(trace, 256, source)
    tables[CLASSES] = {"rows": [by_byte.row(name, list(members)) for name, members in BYTE_CLASSES.items()]}
    is_copied, n_forgotten = repeated_bytes(source, MAX_COPIES_MEMORY_BYTES)
    by_copy = _sums(trace, 2, is_copied.view(np.uint8))
    tables[WORDS] = _by_word(source, trace)
    tables[COPIES] = {"rows": [by_copy.row("novel", 0), by_copy.row("copied", 1)], "n_forgotten": n_forgotten}
    return {name: table | {"rows": [row for row in table["rows"] if row["n_bytes"]]} for name, table in tables.items()}


def passages(source: NDArray[np.uint8], trace: Trace) -> list[Passage]:
    """The beginning, the middle, the end and the costliest other stretch of the corpus, with the bits of each byte.

    Of stretches of PASSAGE_BYTES from the beginning on; the bits are of the first part. All take less than 30 kB as JSON.
    """
    length, part = min(PASSAGE_BYTES, trace.n_bytes), trace.parts[0]
    n_stretches = trace.n_bytes // length
    bits = np.diff(trace.sums(part, length * np.arange(1, n_stretches + 1)), prepend=0.0)
    places = {0: "the beginning"}
    for place, name in ((n_stretches - 1, "the end"), (n_stretches // 2, "the middle")):
        places.setdefault(place, name)
    if n_stretches > len(places):
        bits[list(places)] = -1
        places[int(bits.argmax())] = "the costliest other passage"
    shown = []
    for i in sorted(places):
        where = slice(i * length, (i + 1) * length)
        text, costs = base64.b64encode(source[where].tobytes()).decode(), trace.bits(part, where).round(2).tolist()
        shown.append(Passage(name=places[i], position=where.start, text=text, bits=costs))
    return shown


class _Sums(NamedTuple):
    """For each of R labels: n_bytes (R,) int64, and bits (R, P) float64 under each of P parts."""

    parts: tuple[str, ...]
    n_bytes: NDArray[np.int64]
    bits: NDArray[np.float64]

    def row(self, name: str, of: Any, **more: Any) -> Row:
        """The row of the label or labels in `of`, which is any index into R labels. more: further fields."""
        bits = self.bits[of].reshape(-1, len(self.parts)).sum(0).tolist()
        n_bytes = int(self.n_bytes[of].sum())
        return {"name": name, "n_bytes": n_bytes, "bits": dict(zip(self.parts, bits, strict=True)), **more}


def _sums(trace: Trace, n_labels: int, labels: NDArray[np.uint8]) -> _Sums:
    """Sums by the label of each byte, (n,), below n_labels."""
    n_bytes, bits = np.zeros(n_labels, np.int64), np.zeros((n_labels, len(trace.parts)))
    for start in range(0, trace.n_bytes, CHUNK_BYTES):
        where = slice(start, min(start + CHUNK_BYTES, trace.n_bytes))
        n_bytes += np.bincount(labels[where], minlength=n_labels)
        for p, part in enumerate(trace.parts):
            bits[:, p] += np.bincount(labels[where], trace.bits(part, where), n_labels)
    return _Sums(trace.parts, n_bytes, bits)


def _sums_between(trace: Trace, edges: NDArray[np.int64]) -> _Sums:
    """Sums of the R stretches between neighbouring `edges` (R + 1,), which ascend from 0 to n_bytes. Stretches may be empty."""
    bits = [np.diff(trace.sums(part, edges)) for part in trace.parts]
    return _Sums(trace.parts, np.diff(edges), np.stack(bits, axis=1))


def _by_position(trace: Trace) -> Table:
    n_octaves = max(0, (trace.n_bytes - 1) // FIRST_STRETCH).bit_length()
    edges = np.unique([0, *(FIRST_STRETCH << octave for octave in range(n_octaves)), trace.n_bytes])
    sums = _sums_between(trace, edges)
    pairs = enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return {"rows": [sums.row(f"{a:,}-{b:,}", i, from_byte=a, to_byte=b) for i, (a, b) in pairs]}


def _by_document(trace: Trace, documents: Sequence[Document]) -> dict[str, Table]:
    """Documents and their extensions, the costliest first. Both tables have one row for all bytes between documents."""
    n = len(documents)
    edges = np.fromiter((edge for d in documents for edge in (d.offset, d.offset + d.n_bytes)), np.int64, 2 * n)
    sums = _sums_between(trace, np.concatenate(([0], edges, [trace.n_bytes])))  # gap, document, gap, document, ..., gap
    inside, between = _Sums(sums.parts, sums.n_bytes[1::2], sums.bits[1::2]), slice(0, None, 2)
    gaps = [sums.row("between documents", between, n_documents=0)]
    first = np.argsort(-inside.bits[:, 0], kind="stable")[:MAX_DOCUMENTS].tolist()
    rows = _costliest(inside, ((printable(documents[i].name), [i]) for i in first), n) + gaps
    extensions: dict[str, list[int]] = {}
    for i, document in enumerate(documents):
        extensions.setdefault(printable(splitext(document.name)[1].lower()) or "none", []).append(i)
    kinds = sorted(extensions.items(), key=lambda kind: -inside.bits[kind[1], 0].sum())
    tables: dict[str, Table] = {DOCUMENTS: {"rows": rows, "n_documents": n}}
    if n <= MAX_EACH:
        full = inside.n_bytes > 0
        tables[DOCUMENTS]["each"] = {"n_bytes": inside.n_bytes[full].tolist(), "bits": inside.bits[full, 0].tolist()}
    if len(kinds) > 1:
        tables[EXTENSIONS] = {"rows": _costliest(inside, kinds[:MAX_EXTENSIONS], n) + gaps}
    return tables


def _costliest(sums: _Sums, groups: Iterable[tuple[str, list[int]]], n: int) -> list[Row]:
    """A row for each named group of documents, and a row for the rest of the n documents."""
    rest, rows = np.ones(n, np.bool_), []
    for name, members in groups:
        rows.append(sums.row(name, members, n_documents=len(members)))
        rest[members] = False
    return [*rows, sums.row("all others", rest, n_documents=int(rest.sum()))] if rest.any() else rows


class Words:
    """How common the word of each byte of `source` (n,) uint8 is.

    All occurrences, the most common words first, are cut into ten equal parts. Those that occur equally often are in the part of
    the middle of their occurrences, 0 for the most common words. labels (n,): the part of each byte's word, or N_DECILES outside
    words. n_distinct: number of words by their times of occurrence, the highest first; deciles: the part of each of them.
    n_untracked: occurrences of words beyond the first max_words different ones; they count as words that occur once.
    """

    def __init__(self, source: NDArray[np.uint8], max_words: int = MAX_WORDS) -> None:
        text = np.ascontiguousarray(source).data
        counts, self.n_untracked = Counter[bytes](), 0
        for match in WORD.finditer(text):
            if match[0] in counts or len(counts) < max_words:
                counts[match[0]] += 1
            else:
                self.n_untracked += 1
        classes = Counter(counts.values()) + Counter({1: self.n_untracked})
        n = sum(times * n_distinct for times, n_distinct in classes.items())
        self.n_distinct, self.deciles, more_common = dict(sorted(classes.items(), reverse=True)), dict[int, int](), 0
        for times, n_distinct in self.n_distinct.items():
            n_words = times * n_distinct
            self.deciles[times] = N_DECILES * (2 * more_common + n_words) // (2 * n)
            more_common += n_words
        self.labels = np.full(len(source), N_DECILES, np.uint8)
        for match in WORD.finditer(text):
            self.labels[match.start() : match.end()] = self.deciles[counts.get(match[0], 1)]


def _by_word(source: NDArray[np.uint8], trace: Trace) -> Table:
    """Deciles of the occurrences of words, the most common words first."""
    words = Words(source)
    sums, rows = _sums(trace, N_DECILES + 1, words.labels), []
    for decile in sorted(set(words.deciles.values())):
        times = [each for each, of in words.deciles.items() if of == decile]
        few, many, n_distinct = times[-1], times[0], sum(words.n_distinct[each] for each in times)
        n_words = sum(each * words.n_distinct[each] for each in times)
        span = f"{few:,}" if few == many else f"{few:,}-{many:,}"
        more = {"from_times": few, "to_times": many, "n_words": n_words, "n_distinct": n_distinct}
        rows.append(sums.row(f"decile {decile + 1}: {span} time{'s' * (many != 1)}", decile, **more))
    rows.append(sums.row("outside words", N_DECILES, n_words=0, n_distinct=0))
    return {"rows": rows, "n_untracked": words.n_untracked}


# ---- as text, from a record: a recorded run prints the same as a new one

EXPLANATIONS = {
    POSITIONS: "By position in the corpus: each stretch is as long as all stretches before it.",
    DOCUMENTS: "By document, the costliest first.",
    EXTENSIONS: "By the extension of the document's name, the costliest first.",
    CLASSES: "By the value of the byte.",
    WORDS: "By how common the byte's word is in the corpus: tenths of all occurrences, the most common words first.",
    "groups": "By the source of the rows, as the training loop named it.",
    COPIES: "Copied: in a match of 50 bytes or more that begins earlier in the corpus. Novel: all other bytes.",
}


def format_tables(tables: dict[str, Table]) -> str:
    """Each table below a line that explains it: shares are of the bits of the first part; the last columns are bits/byte."""
    return "\n\n".join(
        "\n".join([text, _table(tables[name]), *notes(tables[name])])
        for name, text in EXPLANATIONS.items()
        if tables.get(name, {}).get("rows")
    )


def _table(table: Table) -> str:
    columns = cost_columns(table)
    rows = [[_shown(value) for value in row] for row in zip(*columns.values(), strict=True)]
    return format_table([title.removeprefix("bits/byte, ") for title in columns], rows)


def _shown(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value or ""


def notes(table: Table) -> list[str]:
    """What the reader of a table must know: bytes or words that were counted elsewhere."""
    texts = {
        "n_forgotten": "{:,} windows of bytes were forgotten to save memory: some bytes that count as novel are copied",
        "n_untracked": "{:,} occurrences of words were not tracked to save memory: they count as words that occur once",
    }
    return [text.format(table[key]) for key, text in texts.items() if table.get(key)]
