"""The sections of a page about one run: headline, curves, sizes, passages, breakdowns, ledger, findings, configuration."""

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prequential.evaluation import breakdown
from prequential.evaluation.breakdown import COUNTS, EXPLANATIONS, MAX_PASSAGES, PASSAGE_BYTES
from prequential.evaluation.curves import MODEL
from prequential.evaluation.ledger import bits_per_byte
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import (
    is_coded,
    is_reported,
    model_summary,
    proof,
    recorded_findings,
    reported_figures,
)
from prequential.records.forms import IMPORTED
from prequential.report import run_panels
from prequential.report.markup import Html, element, first_byte, flattened, folded, html_table, value_table, words
from prequential.report.panels import LIGHT, Table
from prequential.report.run_panels import Look
from prequential.report.svg import html_figure

LEVELS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bits from which on a character has the next colour (h0 to h5 of panels.py)
NEWLINE = "↵\n"  # so that the cost of an end of line can be seen
ALL = "all"  # the name of a row of sums
FOLDED_ROWS = 24  # a longer breakdown is shown only when the reader opens it
ROW_NAMES = {
    breakdown.POSITIONS: "bytes from-to", breakdown.DOCUMENTS: "document", breakdown.EXTENSIONS: "extension",
    breakdown.CLASSES: "kind of byte", breakdown.OCCURRENCES: "occurrence k", breakdown.LEARNING: "occurrence k",
    breakdown.WORDS: "how common", breakdown.COPIES: "bytes that are",
}  # fmt: skip
OTHER_NAMES = {
    "n_forgotten": "windows of 32 bytes that were forgotten to save memory",
    "n_untracked": "occurrences of words that were not tracked to save memory",
}

Record = Mapping[str, Any]


def _proof(record: Record) -> str:
    return "archive" if is_coded(record) else "code length"


def corpus_name(run: Run) -> str:
    """The name of the run's corpus, for headings."""
    return str(run.record["corpus"].get("name") or "bytes")


def headline(run: Run, name: str, heading_id: str) -> list[Html]:
    """The heading of a run of the learner `name`, its main figures, and what they mean."""
    record = run.record
    n_bytes, size = record["corpus"]["n_bytes"], record["archive_bytes"]
    included = ", header and container included" if is_coded(record) else ""
    meaning = (
        f"The model coded each byte after it had learned only from the bytes before it. The {_proof(record)} of these "
        f"{n_bytes:,} bytes takes {size:,} bytes{included}: {size / n_bytes:.1%} of the original. {_best_baseline(record)}"
    )
    if is_reported(record):
        meaning = f"This code length is {proof(record)}. No decoder has confirmed it."
    origin = f"{model_summary(record['config'])}; {record['time']}; run {run.path.resolve().name}"
    figures = (element("li", element("strong", value), element("span", text)) for value, text in _figures(record))
    return [
        element("h2", f"{name} on {corpus_name(run)}: {record['bits_per_byte']:.4f} bits/byte", id=heading_id),
        element("p", origin),
        element("ul", *figures, class_="figures"),
        element("p", meaning),
    ]


def _figures(record: Record) -> Iterator[tuple[str, str]]:
    yield f"{record['bits_per_byte']:.4f}", f"bits/byte of the complete {_proof(record)}"
    yield f"{record['archive_bytes']:,}", f"bytes of {_proof(record)} for {record['corpus']['n_bytes']:,}"
    if is_reported(record):
        yield "not proved", record["coding"]
    elif not is_coded(record):
        yield "no proof", "no archive was written: only the code length was computed"
    elif record["verified"]:
        yield "verified", f"decoded again in {record['verify_wall_s']:,.1f} s, every byte compared"
    else:
        yield "not verified", "this run did not decode the archive"
    if record.get("coding") == IMPORTED:
        return
    cpu = record["environment"]["machine"]["cpu"]
    yield f"{record['bytes_per_s'] / 1e3:,.2f} kB/s", f"{record['wall_s']:,.1f} s on {cpu}"


def _best_baseline(record: Record) -> str:
    if not record["baselines"]:
        return "No other compressor was measured."
    best = min(record["baselines"], key=lambda baseline: baseline["compressed_bytes"])
    more = best["compressed_bytes"] / record["archive_bytes"] - 1
    return (
        f"The best of the {len(record['baselines'])} other compressors, {best['label']}, needs "
        f"{best['bits_per_byte']:.4f} bits/byte, {abs(more):.1%} {'more' if more >= 0 else 'less'}."
    )


def curves(run: Run, look: Look) -> list[Html]:
    """The learning curves and the bits saved, with an explanation."""
    makers = (run_panels.learning, run_panels.saved, run_panels.intervals)
    figures = [html_figure(panel) for panel in (make(run.curves, look) for make in makers) if panel.series]
    own = f"The thick line is this run, {look.label(MODEL)}"
    text = (
        f"{own}. Its line and those of its parts show ideal code length, known at the "
        "end of each segment. The lines of other compressors show real sizes of log-spaced prefixes, each compressed "
        "separately. The best have colours. Bits saved above 0: this run needs fewer bits than the other."
    )
    if is_reported(run.record):
        text = f"{own}: {proof(run.record)}."
    return [element("div", *figures, class_="plots"), element("p", text)]


def reported(record: Record) -> Html:
    """What a training loop, or its log, said."""
    titles, values = zip(*reported_figures(record), strict=True)
    return html_table(Table("Reported", {"figure": titles, "value": values}, f"{proof(record)}.".capitalize()))


def sizes(record: Record, name: str) -> list[Html]:
    """The size of the archive of the learner `name` and those of the baselines, smallest first."""
    size, n_bytes = record["archive_bytes"], record["corpus"]["n_bytes"]
    own = {"label": run_panels.full_name(name, record), "compressed_bytes": size, "wall_s": record["wall_s"]}
    rows = sorted([own, *record["baselines"]], key=lambda row: row["compressed_bytes"])
    places = [place for place, row in enumerate(rows) if row is own]
    columns = {
        "compressor": [row["label"] for row in rows],
        "bytes": [row["compressed_bytes"] for row in rows],
        "bits/byte": [bits_per_byte(row["compressed_bytes"], n_bytes) for row in rows],
        f"against the {_proof(record)}": [
            None if row is own else f"{row['compressed_bytes'] / size - 1:+.1%}" for row in rows
        ],
        "model ahead from byte": [
            None if row is own else first_byte(record["crossings"].get(row["name"])) for row in rows
        ],
        "seconds": [float(row["wall_s"]) for row in rows],
    }
    caption = (
        "Compressed sizes of all bytes. Each result of a compressor was decoded and compared. From the given byte to the end, "
        f"the model's {_proof(record)} is smaller than the other's file (of a static model: the ideal code length)."
    )
    return [html_table(Table("Sizes", columns, caption, places)), *(element("p", note) for note in record["notes"])]


def ledger(record: Record) -> Html:
    """The entries of the total cost, and whether they sum to it."""
    n_bytes, total = record["corpus"]["n_bytes"], record["total_bits"]
    missing = total - math.fsum(entry["bits"] for entry in record["ledger"])
    if abs(missing) > 1e-6:
        check = f"The entries of this record do not sum to the total cost: {missing:,.6f} bits are missing."
    else:
        check = f"The entries sum to the total cost, {total:,.2f} bits."
    caption = (
        f"{check} The {_proof(record)} alone takes {record['archive_bits']:,} bits. "
        f"The coder's overhead is {record['coder_overhead_ppm']:.1f} millionths of the ideal code length."
    )
    rows = [*record["ledger"], {"entry": "total cost", "bits": total}]
    columns = {
        "entry": [row["entry"] for row in rows],
        "bits": [f"{row['bits']:,.2f}" for row in rows],
        "bits/byte": [f"{row['bits'] / n_bytes:.4f}" for row in rows],
        "share": [f"{row['bits'] / total:.2%}" for row in rows],
    }
    return html_table(Table("Ledger", columns, caption, [len(rows) - 1]))


def findings(record: Record) -> Html:
    """What the health watch found during the run."""
    found = [str(finding) for finding in recorded_findings(record)]
    if not found:
        return element("p", "Nothing unusual was found while the run was watched.")
    return element("ul", *(element("li", finding) for finding in found))


def configuration(record: Record) -> Html:
    """The configuration as JSON, folded."""
    text = json.dumps(record["config"], indent=2, ensure_ascii=False)
    return folded("JSON for --config", element("pre", element("code", text)))


# ---- where the bits went


def breakdowns(tables: Mapping[str, Any], look: Look) -> Iterator[Html]:
    """Every table of evaluation/breakdown.py: its rows, its plot if the rows follow occurrences, and its other values."""
    for name, table in tables.items():
        title, rows = words(name).capitalize(), table["rows"]
        if rows and all(row.get("n_bytes") and row.get("bits") for row in rows):
            rows = _costs(rows, ROW_NAMES.get(name, "name"), look)
        else:
            rows = [dict(flattened(row)) for row in rows]
        yield _breakdown(title, rows, EXPLANATIONS.get(name, ""))
        panel = run_panels.tail(table, f"{title}: bits per byte at the k-th", look)
        if panel.series:
            yield element("div", html_figure(panel), class_="plots")
        rest = {OTHER_NAMES.get(key, key): value for key, value in table.items() if key != "rows" and value}
        if rest:
            yield value_table(f"{title}: other values", rest)


def _breakdown(title: str, rows: Sequence[Record], caption: str) -> Html:
    """Rows with named values: one column for each name."""
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    strong = [place for place, row in enumerate(rows) if next(iter(row.values()), None) == ALL]
    table = html_table(Table(title, columns, caption, strong))
    return table if len(rows) <= FOLDED_ROWS else folded(f"{title}: {len(rows):,} rows", table)


def _costs(rows: Sequence[Record], name: str, look: Look) -> list[dict[str, object]]:
    """Rows with the same columns as on the command line, and the bits of the first part. Several rows have a row of sums."""
    parts = list(rows[0]["bits"])
    bits = {part: math.fsum(row["bits"][part] for row in rows) for part in parts}
    total = {"name": ALL, "n_bytes": sum(row["n_bytes"] for row in rows), "bits": bits}
    counts = {key: text for key, text in COUNTS.items() if any(key in row for row in rows)}
    return [
        {
            name: row["name"],
            "bytes": row["n_bytes"],
            "bits": row["bits"][parts[0]],
            "of bytes": f"{row['n_bytes'] / total['n_bytes']:.1%}",
            "of bits": f"{row['bits'][parts[0]] / (bits[parts[0]] or 1.0):.1%}",
            **{f"bits/byte, {look.label(part)}": row["bits"][part] / row["n_bytes"] for part in parts},
            **{text: row.get(key) for key, text in counts.items()},
        }
        for row in ([*rows, total] if len(rows) > 1 else rows)
    ]


# ---- passages


def passages(record: Record) -> list[Html]:
    """The passages of a record, coloured by bits, with the scale. Raises ValueError unless each byte has its bits."""
    found = record.get("passages", [])[:MAX_PASSAGES]
    if not found:
        return []
    text = (
        "Each character has the colour of the bits that its bytes cost when the model first read them. With a mouse, its title "
        "shows them. In print, costly characters are underlined. \\x and two digits are a byte that is not UTF-8."
    )
    edges = (0, *LEVELS)
    names = [f"{low:g}-{high:g}" for low, high in zip(edges, LEVELS, strict=False)] + [f"{LEVELS[-1]:g} or more"]
    scale = (element("span", name, class_=f"h{level}") for level, name in enumerate(names))
    return [element("p", text), element("p", "Bits: ", *scale, class_="scale"), *map(_passage, found)]


class ColouredText:
    """Passages for a notebook: HTML with the colours in it, or as text a line for each passage."""

    def __init__(self, passages: Sequence[Record]) -> None:
        self.passages: list[Record] = list(passages)

    def _repr_html_(self) -> str:
        rules = [f".pq .h{i} {{background: {LIGHT[f'h{i}']}; color: #16181d}}" for i in range(len(LEVELS) + 1)]
        style = element("style", "".join(rules) + ".pq pre {white-space: pre-wrap; line-height: 1.6}")
        return element("div", style, *passages({"passages": self.passages}), class_="pq")

    def __repr__(self) -> str:
        return "\n".join(_title(passage) for passage in self.passages)


def _title(passage: Record) -> str:
    first, bits = passage["position"], passage["bits"]
    mean = sum(bits) / len(bits)
    return f"{passage['name'].capitalize()}: bytes {first:,}-{first + len(bits):,}, {mean:.2f} bits/byte"


def _passage(passage: Record) -> Html:
    data = base64.b64decode(passage["text"], validate=True)[:PASSAGE_BYTES]
    bits = passage["bits"][:PASSAGE_BYTES]
    if not data or len(data) != len(bits):
        raise ValueError(f"a passage has {len(data)} bytes and {len(bits)} costs")
    caption = element("figcaption", _title({**passage, "bits": bits}))
    return element("figure", caption, element("pre", *_characters(data, bits), class_="passage"))


def _characters(data: bytes, bits: Sequence[float]) -> Iterator[Html]:
    """Each character of UTF-8 text, or byte that is none, with the sum of the bits of its bytes."""
    start = 0
    for letter in data.decode("utf-8", "surrogateescape"):
        raw = letter.encode("utf-8", "surrogateescape")
        shown = NEWLINE if letter == "\n" else f"\\x{raw[0]:02x}" if "\udc80" <= letter <= "\udcff" else letter
        cost = sum(bits[start : start + len(raw)])
        level = int(np.searchsorted(LEVELS, cost, side="right"))
        yield element("span", shown, class_=f"h{level}", title=f"{cost:.2f} bits")
        start += len(raw)
