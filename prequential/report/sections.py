"""The parts of a page about one run: conclusion, figures, sizes, curves, coloured text, breakdowns, ledger."""

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from prequential_codecs.baselines import BASELINES

from prequential.errors import CorpusError
from prequential.evaluation import breakdown, summary
from prequential.evaluation.curves import GPT, MIXER, MODEL, Curves, cost_columns
from prequential.evaluation.ledger import bits_per_byte
from prequential.evaluation.runs import Run
from prequential.printable import printable
from prequential.report.markup import Html, element, folded, html_table
from prequential.report.run_panels import LIGHT, Panel, full_name, learning, saved
from prequential.report.svg import html_figure

LEVELS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bits from which on a character has the next colour (h0 to h5 of page.css)
NEWLINE = "↵"  # so that the cost of an end of line can be seen; the line ends after the last of several
NOT_PROVED = "reported, not proved"

Record = Mapping[str, Any]


# ---- the conclusion


def corpus_name(run: Run) -> str:
    """The name of the run's corpus, for headings."""
    return str(run.record["corpus"].get("name") or "bytes")


def conclusion(run: Run, name: str) -> str:
    """What the run of the learner `name` shows, in one sentence: its rate, the best other compressor, and what the GPT is for."""
    record, parts = run.record, run.record.get("parts", {})
    rate = f"{record['bits_per_byte']:.2f} bits/byte on {corpus_name(run)}"
    sentence = f"{full_name(name, record['config'])} needs {rate}"
    if record["baselines"]:
        best = min(record["baselines"], key=lambda baseline: baseline["compressed_bytes"])
        less = 1 - record["archive_bytes"] / best["compressed_bytes"]
        sentence += f", {percent(abs(less))} {'less' if less >= 0 else 'more'} than {best['name']}"
        sentence += f" ({NOT_PROVED})" * _is_static(best)
    if {GPT, MIXER} <= set(parts):
        more = parts[MIXER] / parts[MODEL] - 1
        sentence += f"; without its GPT {percent(more)} more" if more > 0 else "; its GPT saves nothing"
    return sentence if summary.is_coded(record) else f"{sentence} ({summary.proof(record)})"


def _is_static(baseline: Record) -> bool:
    """Whether it is a trained model, whose code length no decoder confirms."""
    return baseline["name"] not in BASELINES


def percent(share: float) -> str:
    """The share in percent with about two significant digits."""
    value = float(f"{100 * share:.6g}")
    return f"{value:,.{0 if value >= 10 else 1 if value >= 1 else 2}f} %"


def origin(run: Run) -> str:
    """What was read by which model, when."""
    record = run.record
    corpus, time = record["corpus"], datetime.fromisoformat(record["time"]).astimezone(UTC)
    date = f"{time.day} {time:%B %Y, %H:%M} UTC"
    facts = (f"{corpus_name(run)}, {corpus['n_bytes']:,} bytes", summary.learner_label(record["config"]), date)
    return f"{'. '.join(facts)}. Run {run.path.resolve().name}"


def figures(record: Record) -> Html:
    """The figures of the text report, but for those that stand above the table."""
    above = ("corpus", "data", "model", "proof")
    shown = summary.report_figures(record).items()
    rows = [{"figure": title, "value": text} for title, text in shown if title not in above]
    return html_table("Figures", rows)


def sizes(record: Record, name: str) -> list[Html]:
    """The size of the archive of the learner `name` and those of the baselines, smallest first."""
    size, n_bytes = record["archive_bytes"], record["corpus"]["n_bytes"]
    own = {"label": full_name(name, record["config"]), "compressed_bytes": size, "wall_s": record["wall_s"]}
    results = sorted([own, *record["baselines"]], key=lambda row: row["compressed_bytes"])
    first_bytes = {other: f"{byte:,}" for other, byte in record["crossings"].items() if byte is not None}
    rows = [
        {
            "compressor": row["label"] + f" ({NOT_PROVED})" * (row is not own and _is_static(row)),
            "bits/byte": bits_per_byte(row["compressed_bytes"], n_bytes),
            "seconds": f"{row['wall_s']:,.2f}",
            "bytes": row["compressed_bytes"],
            f"{name} saves": None if row is own else percent(1 - size / row["compressed_bytes"]),
            f"{name} ahead from byte": None if row is own else first_bytes.get(row["name"], "never"),
        }
        for row in results
    ]
    caption = "Compressed sizes of all bytes. Each result of a compressor was decoded and compared."
    notes = (element("p", note) for note in record["notes"])
    return [html_table("Sizes", rows, caption, results.index(own)), *notes]


def findings(record: Record) -> list[Html]:
    """What the health watch found during the run, if anything."""
    items = [element("li", f"Warning: {finding}") for finding in summary.recorded_findings(record)]
    return [element("ul", *items)] if items else []


def curves(run: Run, labels: Mapping[str, str]) -> list[Html]:
    """The bits saved and the learning curves, with an explanation."""
    text = f"Code length: {summary.split_text(run.split(), run.record['corpus']['n_bytes'])}. "
    if not summary.is_reported(run.record):
        text += "This run and its parts: ideal code length. Other compressors: sizes of prefixes, each compressed separately."
    return [curve_figures(run.curves, labels), element("p", text)]


def curve_figures(curves: Curves, labels: Mapping[str, str] = {}, *others: Panel) -> Html:
    """The bits saved, and below them the learning curves, over the same bytes at the same places; and other panels."""
    panels = (saved(curves, labels), learning(curves, labels), *others)
    return element("div", *(html_figure(panel) for panel in panels if panel.series), class_="plots")


# ---- where the bits went


def breakdowns(tables: Mapping[str, Any]) -> Iterator[Html]:
    """Every table of evaluation/breakdown.py below what it shows: its rows, and the costliest of them."""
    for name, table in tables.items():
        title, rows = name.replace("_", " ").capitalize(), table["rows"]
        if rows and all(row.get("n_bytes") and row.get("bits") for row in rows):
            columns = {column or title: values for column, values in cost_columns(table).items()}
            costs = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            shown = html_table(title, costs, " ".join(breakdown.notes(table)))
            yield folded(f"{breakdown.EXPLANATIONS.get(name, f'{title}.')}{_costliest(rows)}", shown)


def _costliest(rows: Sequence[Record]) -> str:
    """The row with the most bits, other than that of the rest."""
    part = next(iter(rows[0]["bits"]))
    named = [row for row in rows if row["name"] != "all others"]
    if len(named) < 2:
        return ""
    most, total = max(named, key=lambda row: row["bits"][part]), math.fsum(row["bits"][part] for row in rows)
    return f" Most bits: {most['name']}, {most['bits'][part] / (total or 1.0):.0%}."


def ledger(record: Record) -> Html:
    """The entries of the total cost."""
    entries = [*record["ledger"], {"entry": "total cost", "bits": record["total_bits"]}]
    n_bytes = record["corpus"]["n_bytes"]
    rows = [{"entry": row["entry"], "bits": row["bits"], "bits/byte": row["bits"] / n_bytes} for row in entries]
    return folded("Total cost, with the decoder", html_table("Ledger", rows, strong=-1))


# ---- passages


def passages(given: Sequence[Record]) -> list[Html]:
    """Passages of a record, coloured by bits, with the scale. Raises CorpusError unless each byte has its bits."""
    if not given:
        return []
    names = [f"{low:g}-{high:g}" for low, high in pairwise((0, *LEVELS))] + [f"{LEVELS[-1]:g} or more"]
    scale = (element("span", name, class_=f"h{level}") for level, name in enumerate(names))
    title = element("p", "Bits of each character when the model first read it: ", *scale, class_="scale")
    return [title, element("div", *map(_passage, given), class_="passages")]


class ColouredText:
    """Passages for a notebook: HTML with the colours in it, or as text a line for each passage."""

    def __init__(self, passages: Sequence[Record]) -> None:
        self.passages: list[Record] = list(passages)

    def _repr_html_(self) -> str:
        rules = [f".pq .h{i} {{background: {LIGHT[f'h{i}']}; color: #16181d}}" for i in range(len(LEVELS) + 1)]
        style = element("style", "".join(rules) + ".pq pre {white-space: pre-wrap; line-height: 1.6}")
        return element("div", style, *passages(self.passages), class_="pq")

    def __repr__(self) -> str:
        return "\n".join(_title(passage) for passage in self.passages)


def _title(passage: Record) -> str:
    first, bits = passage["position"], passage["bits"]
    mean = sum(bits) / len(bits)
    return f"{passage['name'].capitalize()}: bytes {first:,}-{first + len(bits):,}, {mean:.2f} bits/byte"


def _characters(passage: Record) -> list[tuple[str, float]]:
    """Each character of UTF-8 text, or byte that is none, as it is shown; with the sum of the bits of its bytes."""
    data, bits = base64.b64decode(passage["text"]), passage["bits"]
    if len(data) != len(bits):
        raise CorpusError(f"a passage has {len(data)} bytes and {len(bits)} costs")
    letters, start, text = [], 0, data.decode("utf-8", "surrogateescape")
    for letter, following in zip(text, [*text[1:], ""], strict=True):
        raw = letter.encode("utf-8", "surrogateescape")
        shown = f"\\x{raw[0]:02x}" if "\udc80" <= letter <= "\udcff" else printable(letter, multiline=True)
        if letter == "\n":
            shown = NEWLINE + "\n" * (following != "\n")
        letters.append((shown, sum(bits[start : start + len(raw)])))
        start += len(raw)
    return letters


def _passage(passage: Record) -> Html:
    characters = _characters(passage)
    levels = groupby(characters, lambda letter: int(np.searchsorted(LEVELS, letter[1], side="right")))
    bits = " ".join(f"{value:.2f}" for shown, value in characters for _ in shown)  # of each letter, for page.js
    spans = [element("span", *(shown for shown, _ in group), class_=f"h{level}") for level, group in levels]
    text = element("pre", *spans, class_="passage", data_bits=bits)
    return element("figure", element("figcaption", _title(passage)), text)
